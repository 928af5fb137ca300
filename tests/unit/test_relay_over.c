/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: starting over, losing the lease, losing the database, and the end. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

/* The lease is granted by hand. */
static struct stage *stage_leased(const struct relay_limits *limits, int64_t floor, const char *records)
{
    struct stage *s = stage_set(limits);

    s->answered &= ~(STAGE_ANSWERS(RELAY_LEASE_TAKE) | STAGE_ANSWERS(RELAY_LEASE_BEAT));
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_forget_notes(s);
    stage_grant(s, floor, records);
    return s;
}

static bool started_over(const struct stage *s)
{
    return stage_told_n(s, RELAY_NOTE_START_OVER) == 1 && s->asked[RELAY_LEASE_TAKE] && !relay_view(s->relay).lease_held;
}

/* A connection through a pooler survives a crash of the server: only the token tells. */
TEST(relay_starts_over_when_a_fetch_shows_another_token)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    s->token = 2;
    stage_fetch(s, "2/1");
    CHECK(started_over(s));
    CHECK_STR(stage_published(s), "1");
    CHECK_EQ(relay_view(s->relay).highest, 0);
}

TEST(relay_starts_over_when_a_page_shows_another_token)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 5, "0/1:3");

    stage_idle(s, RELAY_CATCH_UP, 100);
    s->token = 2;
    stage_page(s, "3/1");
    CHECK(started_over(s));
    CHECK_STR(stage_published(s), "");
}

TEST(relay_starts_over_when_the_barrier_shows_another_token)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    s->insert_lsn = 100;
    stage_fetch(s, "1");
    s->token = 2;
    stage_flush(s, 5000);
    CHECK(started_over(s));
    CHECK_STR(stage_published(s), "");
    CHECK_STR(stage_dropped(s), "1");
}

TEST(relay_starts_over_when_a_beat_shows_another_token)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_await(s, RELAY_LEASE_BEAT, limits.lease_ttl_ms);
    s->token = 2;
    stage_beat(s);
    CHECK(started_over(s));
}

/* Rows that other relays took meanwhile are theirs. */
TEST(relay_loses_the_lease_when_the_row_has_another_token)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_await(s, RELAY_LEASE_BEAT, limits.lease_ttl_ms);
    s->asked[RELAY_LEASE_BEAT] = false;
    relay_on_beaten(s->relay, s->now_ms, s->now_ms, false, stage_token(1), 100);
    stage_run(s);
    CHECK(stage_told(s, RELAY_NOTE_LEASE_LOST) && s->asked[RELAY_LEASE_TAKE]);
}

TEST(relay_loses_the_lease_when_a_save_is_fenced)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    stage_drain(s);
    stage_await(s, RELAY_SAVE, limits.save_ms);
    s->asked[RELAY_SAVE] = false;
    relay_on_saved(s->relay, s->now_ms, true);
    stage_run(s);
    CHECK(stage_told(s, RELAY_NOTE_LEASE_LOST) && s->asked[RELAY_LEASE_TAKE]);
    CHECK_EQ(relay_view(s->relay).floor, 0);
}

/* Finding 20: our clock stops us before the database's lets another relay in. */
TEST(relay_hands_nothing_after_the_deadline)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.stuck_ms = 100000;
    s = stage_leased(&limits, 0, "");
    stage_fetch(s, "1 2");
    CHECK_STR(stage_published(s), "1");
    stage_await(s, RELAY_LEASE_BEAT, limits.lease_ttl_ms);
    s->now_ms = STAGE_START_MS + limits.lease_ttl_ms; /* the beat is not answered */
    stage_deliver(s, "1");
    CHECK_STR(stage_published(s), "");
    CHECK(stage_told(s, RELAY_NOTE_LEASE_LOST));
    CHECK_STR(stage_dropped(s), "2");
    CHECK(!s->asked[RELAY_LEASE_TAKE]); /* one question at a time */
    stage_beat(s);                      /* too late: it keeps nothing */
    CHECK(s->asked[RELAY_LEASE_TAKE] && !relay_view(s->relay).lease_held);
}

TEST(relay_ignores_answers_from_before_it_started_over)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    stage_await(s, RELAY_FETCH, 100);
    s->asked[RELAY_LEASE_BEAT] = false;
    stage_await(s, RELAY_LEASE_BEAT, limits.lease_ttl_ms);
    s->token = 2;
    stage_beat(s);
    CHECK(started_over(s));
    stage_grant(s, 0, "");
    stage_fetch(s, "2"); /* under the new token, but it was asked for under the old one */
    CHECK_EQ(relay_view(s->relay).highest, 0);
    CHECK(relay_view(s->relay).lease_held);
    stage_fetch(s, "2/1");
    CHECK_STR(stage_published(s), "1 2");
}

TEST(relay_ignores_a_save_from_before_it_started_over)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    stage_drain(s);
    stage_await(s, RELAY_SAVE, limits.save_ms);
    stage_idle(s, RELAY_LEASE_BEAT, limits.lease_ttl_ms);
    s->token = 2;
    stage_beat(s);
    stage_grant(s, 0, "");
    stage_save(s);
    CHECK_EQ(relay_view(s->relay).floor, 0);
}

TEST(relay_ignores_a_barrier_from_before_it_started_over)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    s->insert_lsn = 100;
    stage_fetch(s, "1");
    stage_idle(s, RELAY_LEASE_BEAT, limits.lease_ttl_ms);
    s->token = 2;
    stage_beat(s);
    stage_grant(s, 0, "");
    s->token = 1;
    stage_flush(s, 100); /* under the old token */
    CHECK(relay_view(s->relay).lease_held);
    s->token = 2;
    stage_fetch(s, "1");
    CHECK_STR(stage_published(s), "");
    stage_flush(s, 100); /* this one counts */
    CHECK_STR(stage_published(s), "1");
}

/* Rows are handed in runs: each of them looks at the clock. */
TEST(relay_hands_nothing_after_the_deadline_in_the_middle_of_a_run)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");
    struct relay_action a;

    s->insert_lsn = 100;
    stage_fetch(s, "1 2/1 3/2");
    relay_on_flushed(s->relay, s->now_ms, stage_token(1), 100);
    do
        a = relay_next(s->relay, s->now_ms);
    while (a.type != RELAY_PUBLISH && a.type != RELAY_WAIT);
    CHECK_EQ(a.type, RELAY_PUBLISH);
    do
        a = relay_next(s->relay, s->now_ms + limits.lease_ttl_ms);
    while (a.type != RELAY_PUBLISH && a.type != RELAY_WAIT);
    CHECK_EQ(a.type, RELAY_WAIT);
}

TEST(relay_tells_that_the_sequence_stood_below_the_floor)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");
    const struct relay_saved saved = {.token = stage_token(1), .floor_reset = true};

    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    CHECK(!stage_told(s, RELAY_NOTE_FLOOR_RESET));
    relay_on_lease(s->relay, s->now_ms, s->now_ms, &saved);
    stage_run(s);
    CHECK(stage_told(s, RELAY_NOTE_FLOOR_RESET));
}

/* What is with the producer stays, and is known when it is read again. */
TEST(relay_keeps_what_is_handed_when_it_starts_over)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1 2");
    stage_lose(s);
    CHECK_STR(stage_dropped(s), "2");
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_grant(s, 0, "");
    stage_fetch(s, "1 2");
    CHECK_STR(stage_published(s), "1");
    stage_deliver(s, "1");
    CHECK_STR(stage_published(s), "2");
}

/* It came back after the start over had dropped the rows before it: the next fetch brings them together. */
TEST(relay_row_that_comes_back_after_a_start_over_waits_for_the_rows_before_it)
{
    struct relay_limits limits = stage_limits();

    for (int late = 0; late < 2; late++) {
        struct stage *s = stage_leased(&limits, 0, "");

        stage_fetch(s, "1");
        stage_drain(s);
        stage_fetch(s, "2 3");
        stage_refuse(s, "2", RELAY_FAULT_PASSING);
        stage_lose(s); /* 2 is dropped */
        if (late)
            stage_unpublish(s, "3", RELAY_FAULT_PASSING);
        else
            stage_refuse(s, "3", RELAY_FAULT_PASSING);
        stage_close(s);
        stage_await(s, RELAY_LEASE_TAKE, 1000);
        stage_grant(s, 1, "");
        stage_pass(s, 1000);
        (void)stage_published(s);
        stage_fetch(s, "2 3");
        CHECK_STR(stage_published(s), "2");
    }
}

/* The server crashed and gave the id to another event: both are rows. */
TEST(relay_publishes_another_event_of_the_same_id)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_grant(s, 0, "");
    stage_fetch(s, "1'/1");
    CHECK_STR(stage_published(s), "1 1'");
    stage_deliver(s, "1' 1");
    stage_await(s, RELAY_MARK, 100);
    CHECK_STR(stage_marks(s), "1' 1");
}

TEST(relay_marks_what_is_acknowledged_before_it_reads_again)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    stage_lose(s);
    stage_deliver(s, "1");
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_grant(s, 0, "");
    CHECK(s->asked[RELAY_MARK] && !s->asked[RELAY_FETCH]);
    stage_mark(s, 0);
    CHECK(s->asked[RELAY_FETCH]);
}

TEST(relay_repeats_a_mark_that_was_lost_with_its_connection)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    stage_deliver(s, "1");
    stage_await(s, RELAY_MARK, 100);
    stage_lose(s);
    stage_await(s, RELAY_MARK, 1000);
    CHECK_STR(stage_marks(s), "1");
    CHECK(s->action[RELAY_MARK].force);
    stage_mark(s, 0);
}

TEST(relay_connects_again_after_a_backoff)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_bare(&limits, 0, STAGE_START_MS);

    for (unsigned i = 0; i < 30; i++) {
        CHECK(s->asked[RELAY_CONNECT]);
        stage_lose(s);
        stage_await(s, RELAY_CONNECT, limits.backoff_max_ms);
    }
    CHECK(s->now_ms > STAGE_START_MS + 60000);
    CHECK_EQ(s->noted_n, 0); /* who has nothing loses nothing */
}

/* A partition that died while the lease was another's must not fill the window when it is ours again. */
TEST(relay_lane_that_stuck_without_the_lease_goes_behind_with_it)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1/1");
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_pass(s, limits.stuck_ms + 1);
    stage_grant(s, 0, "");
    CHECK_EQ(relay_view(s->relay).behind_lanes, 1);
    stage_fetch(s, "1/1 2/1 3");
    CHECK_STR(stage_published(s), "1 3");
    CHECK_EQ(relay_view(s->relay).window_rows, 2);
    stage_deliver(s, "1");
    CHECK(s->asked[RELAY_CATCH_UP]); /* at once */
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

TEST(relay_stops_in_order)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1 2 3/1");
    stage_await(s, RELAY_FETCH, 100);
    relay_on_stop(s->relay, s->now_ms);
    stage_run(s);
    CHECK(relay_view(s->relay).stopping);
    stage_fetch(s, "4/2"); /* too late */
    CHECK_EQ(relay_view(s->relay).highest, 3);
    stage_deliver(s, "1");
    stage_deliver(s, "3");
    CHECK_STR(stage_published(s), "1 3"); /* 2 stays for the next */
    CHECK(s->asked[RELAY_SESSION_CLOSE]); /* nothing is in it any more */
    stage_close(s);
    CHECK(s->asked[RELAY_MARK] && !s->asked[RELAY_SAVE]);
    stage_mark(s, 0);
    CHECK_STR(stage_marks(s), "3");
    stage_mark(s, 0);
    CHECK_STR(stage_saving(s), "floor 1");
    CHECK(!s->asked[RELAY_LEASE_RELEASE]);
    stage_save(s);
    CHECK(s->asked[RELAY_LEASE_RELEASE] && !s->asked[RELAY_EXIT]);
    s->asked[RELAY_LEASE_RELEASE] = false;
    relay_on_released(s->relay, s->now_ms);
    stage_run(s);
    CHECK(s->asked[RELAY_EXIT]);
    CHECK_EQ(s->action[RELAY_EXIT].rows, 0);
    CHECK_EQ(s->wait_ms, UINT64_MAX);
}

TEST(relay_does_not_end_before_its_session)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    relay_on_stop(s->relay, s->now_ms);
    stage_deliver(s, "1");
    stage_mark(s, 0);
    stage_save(s);
    CHECK(!s->asked[RELAY_LEASE_RELEASE]);
    stage_close(s);
    CHECK(s->asked[RELAY_LEASE_RELEASE]);
}

TEST(relay_stops_when_time_is_over_and_says_what_is_left)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1 2/1 3/2");
    stage_deliver(s, "1");
    stage_deliver(s, "3");
    relay_on_stop(s->relay, s->now_ms);
    relay_on_stop(s->relay, s->now_ms + 5000); /* once is enough */
    stage_run(s);
    stage_pass(s, limits.shutdown_ms - 1);
    CHECK(!s->asked[RELAY_EXIT]);
    stage_pass(s, 1);
    CHECK(s->asked[RELAY_EXIT]);
    CHECK_EQ(s->action[RELAY_EXIT].rows, 3); /* 1 is in a mark, 3 is acknowledged */
}

TEST(relay_stops_at_once_when_it_has_nothing)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_bare(&limits, 0, STAGE_START_MS);

    relay_on_stop(s->relay, s->now_ms);
    stage_run(s);
    CHECK(s->asked[RELAY_EXIT] && !s->asked[RELAY_LEASE_TAKE]);
}

TEST(relay_tries_the_last_save_three_times)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    relay_on_stop(s->relay, s->now_ms);
    stage_deliver(s, "1");
    stage_close(s);
    stage_mark(s, 0);
    for (unsigned i = 0; i < 3; i++) {
        stage_await(s, RELAY_SAVE, 1000);
        CHECK(!s->asked[RELAY_LEASE_RELEASE]);
        stage_fail(s, RELAY_SAVE);
    }
    CHECK(s->asked[RELAY_LEASE_RELEASE]);
    stage_fail(s, RELAY_LEASE_RELEASE); /* it runs out by itself */
    CHECK(s->asked[RELAY_EXIT]);
}

/* Marks need no lease: what was acknowledged is marked before the end. */
TEST(relay_marks_what_is_left_after_the_lease_is_lost)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_leased(&limits, 0, "");

    stage_fetch(s, "1");
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    relay_on_stop(s->relay, s->now_ms);
    s->asked[RELAY_LEASE_TAKE] = false;
    relay_on_lease(s->relay, s->now_ms, s->now_ms, NULL);
    stage_deliver(s, "1");
    stage_close(s);
    CHECK(!s->asked[RELAY_EXIT]);
    stage_mark(s, 0);
    CHECK(s->asked[RELAY_EXIT]);
}
