/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: what must not be left over from before a start over, a save, an end. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct relay_view view(const struct stage *s)
{
    return relay_view(s->relay);
}

static struct stage *stage_plain(void)
{
    struct relay_limits limits = stage_limits();

    return stage_set(&limits);
}

/* The lease is lost by a beat, the connection stays. */
static void lose_lease(struct stage *s)
{
    s->answered &= ~(STAGE_ANSWERS(RELAY_LEASE_TAKE) | STAGE_ANSWERS(RELAY_LEASE_BEAT));
    stage_await(s, RELAY_LEASE_BEAT, s->limits.lease_ttl_ms);
    s->asked[RELAY_LEASE_BEAT] = false;
    relay_on_beaten(s->relay, s->now_ms, s->now_ms, false, stage_token(1), INT64_MAX);
    stage_run(s);
}

/* The database went back to before a mark that was answered while the read was on its way: the row is published once more. */
TEST(relay_does_not_know_what_was_marked_before_it_started_over)
{
    struct stage *s = stage_plain();

    stage_fetch(s, "1");
    stage_await(s, RELAY_FETCH, 100);
    stage_deliver(s, "1");
    stage_await(s, RELAY_MARK, 100);
    stage_mark(s, 0);
    CHECK_EQ(view(s).window_rows, 1); /* the read may bring it */
    lose_lease(s);
    stage_fetch(s, "1"); /* says nothing any more */
    CHECK_EQ(view(s).window_rows, 0);
    stage_grant(s, 0, "");
    stage_fetch(s, "1");
    CHECK_STR(stage_published(s), "1 1");
}

TEST(relay_that_stops_forgets_what_was_marked_when_the_last_read_is_answered)
{
    struct stage *s = stage_plain();

    stage_fetch(s, "1");
    stage_await(s, RELAY_FETCH, 100);
    stage_deliver(s, "1");
    stage_await(s, RELAY_MARK, 100);
    stage_mark(s, 0);
    relay_on_stop(s->relay, s->now_ms);
    stage_fetch(s, "");
    CHECK_EQ(view(s).window_rows, 0);
}

TEST(relay_is_not_drained_before_it_has_read_again)
{
    struct stage *s = stage_plain();

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "");
    CHECK(view(s).drained);
    lose_lease(s);
    stage_grant(s, 0, "");
    CHECK(view(s).lease_held && !view(s).drained);
}

/* One is enough: the database's work at a start. */
TEST(relay_saves_nothing_at_once_when_it_has_started)
{
    struct stage *s = stage_plain();

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "1");
    stage_deliver(s, "1");
    stage_idle_for(s, s->limits.save_ms - 100);
    CHECK(!s->asked[RELAY_SAVE]);
    stage_idle_for(s, 100);
    CHECK(s->asked[RELAY_SAVE]);
}

/* Each of several records. */
TEST(relay_saves_a_record_once_while_it_stays_as_it_is)
{
    struct stage *s = stage_plain();

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "1 2/1 3/2 4/3");
    stage_idle_for(s, s->limits.stuck_ms + 500); /* none of them moves */
    CHECK_EQ(view(s).behind_lanes, 4);
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_STR(stage_saving(s), "floor 4 0/0:1 0/1:2 0/2:3 0/3:4");
    stage_save(s);
    for (unsigned i = 0; i < 5; i++) {
        stage_idle_for(s, s->limits.save_ms);
        CHECK(!s->asked[RELAY_SAVE]);
    }
}

TEST(relay_that_stops_waits_for_no_flush)
{
    struct stage *s = stage_plain();

    s->insert_lsn = 10;
    stage_fetch(s, "1");
    stage_fail(s, RELAY_FLUSH);
    relay_on_stop(s->relay, s->now_ms);
    stage_run(s);
    stage_pass(s, 1000);
    CHECK(!s->asked[RELAY_FLUSH]);
}

/* A lease that could be asked for makes the next outage a first one. */
TEST(relay_connects_again_soon_after_a_good_connection)
{
    struct stage *s = stage_plain();

    for (unsigned i = 0; i < 20; i++) {
        stage_lose(s);
        stage_pass(s, s->limits.backoff_min_ms);
        CHECK(view(s).lease_held);
    }
}

/* What is refused waits by itself, for longer each time: its session does not. */
TEST(relay_session_does_not_back_off_from_rows_that_are_refused)
{
    const char *const rows[] = {"2", "3/1", "4/2", "5/3", "6@1", "7/1@1", "8/2@1", "9/3@1"};
    struct stage *s = stage_plain();

    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1@2"); /* comes back with each end of a session, which is not why */
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (s->asked[RELAY_CATCH_UP])
            stage_page(s, "");
        stage_fetch(s, rows[i]);
        if (i > 3) /* the producer's error comes first, and does not say why */
            relay_on_session_broken(s->relay, s->now_ms, RELAY_MAIN, RELAY_FAULT_SESSION);
        stage_refuse(s, rows[i], i % 2 == 0 ? RELAY_FAULT_ROW : RELAY_FAULT_SIZE);
        stage_close(s);
        stage_pass(s, s->limits.backoff_min_ms);
        CHECK(view(s).session_open);
    }
}

/* Whatever was on its way is asked for again. */
TEST(relay_asks_again_for_what_was_lost_with_its_connection)
{
    struct stage *s = stage_plain();

    s->insert_lsn = 10;
    stage_fetch(s, "1");
    CHECK(s->asked[RELAY_FLUSH]);
    stage_lose(s);
    stage_fetch(s, "1");
    CHECK(s->asked[RELAY_FLUSH]);
    stage_flush(s, 10);
    stage_drain(s);
    stage_idle(s, RELAY_SAVE, 2000);
    stage_lose(s);
    stage_fetch(s, "1s 2");
    stage_flush(s, 10);
    stage_drain(s);
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_STR(stage_saving(s), "floor 2");
}

/* Came back with its session, and is a suspect: one row until that is acknowledged. */
TEST(relay_lane_that_was_stuck_is_tried_with_one_row)
{
    struct stage *s = stage_plain();

    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1/1 2/1 3/1");
    stage_idle_for(s, s->limits.stuck_ms + 100);
    CHECK_EQ(view(s).behind_lanes, 1);
    relay_on_session_broken(s->relay, s->now_ms, RELAY_MAIN, RELAY_FAULT_SESSION);
    stage_run(s);
    stage_close(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1/1 2/1 3/1");
    CHECK_EQ(view(s).window_rows, 1);
}

/* A question that fails is no answer: the gap's writer is still there. */
TEST(relay_gap_stays_open_when_the_writers_cannot_be_asked_for)
{
    struct stage *s = stage_plain();

    stage_fetch(s, "1 3/1");
    stage_idle(s, RELAY_WRITERS, 1000);
    stage_writers(s, 3, "71");
    stage_idle(s, RELAY_WRITERS, 1000);
    stage_fail(s, RELAY_WRITERS);
    stage_idle_for(s, 200);
    CHECK_EQ(view(s).open_gaps, 1);
    stage_idle(s, RELAY_WRITERS, 1000);
    stage_writers(s, 3, "72");
    stage_idle_for(s, 200);
    CHECK_EQ(view(s).open_gaps, 0);
}

TEST(relay_that_stops_takes_no_lease)
{
    struct stage *s = stage_plain();

    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_fetch(s, "1");
    relay_on_stop(s->relay, s->now_ms);
    stage_lose(s);
    stage_pass(s, s->limits.shutdown_ms / 2); /* connected again, and 1 has no report yet */
    CHECK(view(s).connected && view(s).handed_rows == 1);
    CHECK(!s->asked[RELAY_LEASE_TAKE]);
}

/* Even the lane with the first of all numbers. */
TEST(relay_first_lane_that_stuck_without_the_lease_goes_behind_with_it)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = 2;
    s = stage_set(&limits);
    stage_fetch(s, "1"); /* waits for its topic first, without a lane of its own */
    stage_drain(s);
    stage_fetch(s, "2/1"); /* the number of that */
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_pass(s, limits.stuck_ms + 1);
    stage_grant(s, 1, "");
    CHECK_EQ(view(s).behind_lanes, 1);
}
