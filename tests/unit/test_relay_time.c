/* SPDX-License-Identifier: BSD-2-Clause */
/* When the relay wakes: never in a busy loop, whatever is wrong. That no wait ends in the past is checked wherever a stage runs. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

/* How often it wakes in ten seconds while fetches bring nothing. */
static unsigned wakes(struct stage *s)
{
    unsigned before = s->waits;

    stage_idle_for(s, 10000);
    return s->waits - before;
}

static struct stage *stage_idle_relay(void)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered |= STAGE_ANSWERS(RELAY_SAVE) | STAGE_ANSWERS(RELAY_MARK);
    stage_idle_for(s, 5000);
    return s;
}

/* A wake to ask, a wake for the answer. */
TEST(relay_that_is_idle_polls_twenty_times_a_second)
{
    struct stage *s = stage_idle_relay();

    CHECK(wakes(s) <= 2 * 25 * 10);
}

TEST(relay_that_waits_for_an_answer_wakes_for_its_beat_only)
{
    struct stage *s = stage_idle_relay();
    unsigned before;

    stage_await(s, RELAY_FETCH, 100);
    before = s->waits;
    stage_pass(s, 10000);
    CHECK(s->waits - before <= 10);
}

TEST(relay_that_stands_by_wakes_rarely)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_bare(&limits, STAGE_ANSWERS(RELAY_CONNECT), STAGE_START_MS);

    for (unsigned i = 0; i < 10; i++) {
        s->asked[RELAY_LEASE_TAKE] = false;
        relay_on_lease(s->relay, s->now_ms, s->now_ms, NULL);
        stage_run(s);
        stage_await(s, RELAY_LEASE_TAKE, 1000);
    }
    CHECK(s->now_ms >= STAGE_START_MS + 1800 && s->waits <= 30);
}

TEST(relay_with_rows_it_cannot_hand_wakes_no_more_often)
{
    struct stage *s = stage_idle_relay();

    s->answered &= ~(STAGE_ANSWERS(RELAY_SESSION_OPEN) | STAGE_ANSWERS(RELAY_TOPIC));
    stage_fetch(s, "1 2/1 4@1 5/9"); /* a gap, a topic that is not known, a partition that does not exist */
    relay_on_session_broken(s->relay, s->now_ms, RELAY_MAIN, RELAY_FAULT_SESSION);
    stage_run(s);
    stage_idle(s, RELAY_WRITERS, 1000);
    stage_writers(s, 5, "71");
    CHECK(wakes(s) <= 2 * 30 * 10);
}

TEST(relay_without_a_database_wakes_no_more_often)
{
    struct stage *s = stage_idle_relay();

    stage_fetch(s, "1 2/1 4@1");
    s->answered &= ~STAGE_ANSWERS(RELAY_CONNECT);
    stage_lose(s);
    stage_deliver(s, "1");
    CHECK(wakes(s) <= 25 * 10);
}

TEST(relay_that_stops_wakes_no_more_often)
{
    struct stage *s = stage_idle_relay();
    unsigned before = s->waits;

    stage_fetch(s, "1 2/1");
    relay_on_stop(s->relay, s->now_ms);
    stage_run(s);
    stage_pass(s, 9000);
    CHECK(s->waits - before <= 25 * 10);
}

/* Each statement that fails is asked again, but not in a loop. */
static void fails_in_measure(struct stage *s, enum relay_action_type type, unsigned failures)
{
    uint64_t begun_ms = s->now_ms;

    for (unsigned i = 0; i < failures; i++) {
        if (type == RELAY_FETCH)
            stage_await(s, type, s->limits.backoff_max_ms);
        else
            stage_idle(s, type, s->limits.backoff_max_ms);
        stage_fail(s, type);
    }
    CHECK(s->now_ms >= begun_ms + failures * s->limits.backoff_min_ms / 4);
}

TEST(relay_backs_off_from_each_statement_that_fails)
{
    struct stage *s = stage_idle_relay();

    fails_in_measure(s, RELAY_FETCH, 10);
    s = stage_idle_relay();
    s->answered &= ~(STAGE_ANSWERS(RELAY_SAVE) | STAGE_ANSWERS(RELAY_MARK));
    s->insert_lsn = 10;
    stage_fetch(s, "1 3");
    fails_in_measure(s, RELAY_FLUSH, 8);
    fails_in_measure(s, RELAY_WRITERS, 10);
    stage_idle(s, RELAY_FLUSH, 10000);
    stage_flush(s, 10);
    stage_deliver(s, "1");
    fails_in_measure(s, RELAY_MARK, 8);
    fails_in_measure(s, RELAY_SAVE, 8);
}

TEST(relay_backs_off_from_a_lease_that_cannot_be_asked_for)
{
    struct relay_limits limits = stage_limits();

    fails_in_measure(stage_bare(&limits, STAGE_ANSWERS(RELAY_CONNECT), STAGE_START_MS), RELAY_LEASE_TAKE, 30);
}

TEST(relay_beats_again_soon_when_a_beat_failed)
{
    struct stage *s = stage_idle_relay();
    uint64_t failed_ms;

    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_BEAT);
    stage_idle(s, RELAY_LEASE_BEAT, 10000);
    failed_ms = s->now_ms;
    stage_fail(s, RELAY_LEASE_BEAT);
    CHECK(relay_view(s->relay).lease_held);
    stage_idle(s, RELAY_LEASE_BEAT, s->limits.backoff_min_ms);
    CHECK(s->now_ms <= failed_ms + s->limits.backoff_min_ms);
}

TEST(relay_backs_off_from_a_topic_that_cannot_be_learned)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1");
    fails_in_measure(s, RELAY_TOPIC, 20);
    for (unsigned i = 0; i < 20; i++) {
        stage_idle(s, RELAY_TOPIC, s->limits.backoff_max_ms);
        stage_topic(s, 0, 0, 0);
    }
    CHECK(s->now_ms > STAGE_START_MS + 30000);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_TOPIC_CLOSED), 1); /* once, not with every try */
}

TEST(relay_backs_off_from_a_session_that_breaks)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    for (unsigned i = 0; i < 20; i++) {
        relay_on_session_broken(s->relay, s->now_ms, RELAY_MAIN, RELAY_FAULT_SESSION);
        stage_run(s);
        s->answered &= ~STAGE_ANSWERS(RELAY_SESSION_OPEN);
        stage_close(s);
        stage_idle(s, RELAY_SESSION_OPEN, s->limits.backoff_max_ms);
        s->asked[RELAY_SESSION_OPEN] = false;
        relay_on_session_open(s->relay, s->now_ms, RELAY_MAIN);
    }
    CHECK(s->now_ms > STAGE_START_MS + 30000);
}

/* A session that delivered something was good: the next failure is the first. */
TEST(relay_session_backs_off_little_after_a_good_one)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    const char *const rows[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t closed_ms;

        stage_fetch(s, rows[i]);
        stage_deliver(s, rows[i]);
        relay_on_session_broken(s->relay, s->now_ms, RELAY_MAIN, RELAY_FAULT_SESSION);
        stage_run(s);
        stage_close(s);
        closed_ms = s->now_ms;
        while (!relay_view(s->relay).session_open)
            stage_idle_for(s, 1);
        CHECK(s->now_ms <= closed_ms + limits.backoff_min_ms + 1);
    }
}

/* So is a topic. */
TEST(relay_topic_backs_off_little_after_a_delivery)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1");
    for (unsigned i = 0; i < 10; i++) {
        stage_topic(s, 0, 0, 0);
        stage_idle(s, RELAY_TOPIC, 100000);
    }
    stage_topic(s, 4, 4, 0);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1");
    stage_deliver(s, "1");
    stage_fetch(s, "2");
    stage_unpublish(s, "2", RELAY_FAULT_TOPIC);
    stage_idle(s, RELAY_TOPIC, limits.backoff_min_ms + 2);
}

/* Each thing that only time brings about wakes the relay, with a fetch on its way that brings nothing. */
TEST(relay_wakes_for_a_topic_that_is_to_be_asked_about)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1");
    stage_await(s, RELAY_FETCH, 100);
    stage_topic(s, 0, 0, 0);
    stage_await(s, RELAY_TOPIC, limits.backoff_min_ms + 2);
}

TEST(relay_wakes_for_a_flush_that_failed)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->insert_lsn = 100;
    stage_fetch(s, "1");
    stage_await(s, RELAY_FETCH, 100);
    stage_fail(s, RELAY_FLUSH);
    stage_await(s, RELAY_FLUSH, limits.backoff_min_ms + 1);
}

TEST(relay_reads_once_more_as_soon_as_the_writers_have_ended)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.poll_min_ms = limits.poll_max_ms = 5000;
    s = stage_set(&limits);
    stage_fetch(s, "1 3");
    stage_await(s, RELAY_WRITERS, limits.gap_age_ms);
    stage_writers(s, 3, "");
    CHECK(s->asked[RELAY_FETCH]);
}

/* Nobody is asked again before the answer has rested, and it does not wake to find that out. */
TEST(relay_with_a_full_window_wakes_when_the_writers_may_be_asked_again)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    stage_fetch(s, "1 2 3 4 5 6 7 8 9 11");
    stage_fetch(s, "12 13 14 15 16 17 18 19 20 21");
    stage_fetch(s, "22 23 24 25 26 27 28 29 30 31");
    stage_fetch(s, "32 33 34 35 36 37 38 39 40 41");
    stage_await(s, RELAY_WRITERS, 200);
    stage_writers(s, 41, "71");
    CHECK_EQ(s->wait_ms, s->now_ms + limits.writers_min_ms);
}

/* What was acknowledged and what may be read is asked for before the next row is handed, though a run of rows was begun. */
TEST(relay_run_of_rows_ends_where_there_is_none)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    struct row row = {.id = 2, .bytes = 10, .key_hash = 100};
    struct relay_read read = {.token = stage_token(1), .rows = &row, .rows_n = 1, .upto = INT64_MAX};
    row_slot slot;

    stage_fetch(s, "1");
    stage_deliver(s, "1");
    CHECK(s->asked[RELAY_MARK]);
    stage_await(s, RELAY_FETCH, 100);
    s->asked[RELAY_FETCH] = s->asked[RELAY_MARK] = false;
    relay_on_failed(s->relay, s->now_ms, RELAY_MARK);
    s->now_ms += 1000;
    relay_on_fetched(s->relay, s->now_ms, &read, &slot);
    s->row[slot] = row;
    CHECK_EQ(relay_next(s->relay, s->now_ms).type, RELAY_MARK);
}

TEST(relay_topic_goes_behind_when_it_was_asked_about_for_so_long)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1");
    CHECK_EQ(s->now_ms, STAGE_START_MS);
    stage_pass(s, limits.stuck_ms - 1);
    CHECK_EQ(relay_view(s->relay).behind_topics, 0);
    stage_pass(s, 1);
    CHECK_EQ(relay_view(s->relay).behind_topics, 1);
}
