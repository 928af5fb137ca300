/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: the last marks are made again after a crash, and tell what the database has lost. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

/* Rows 1 to 3 are published and marked; then the server crashed, or not. */
static struct stage *stage_after(bool crash)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    struct relay_saved saved = {.incarnation_lost = crash, .last_id = 3};

    stage_fetch(s, "1 2/1 3/2@1");
    stage_drain(s);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    s->asked[RELAY_LEASE_TAKE] = false;
    saved.token = stage_token(s->token);
    relay_on_lease(s->relay, s->now_ms, s->asked_ms[RELAY_LEASE_TAKE], &saved);
    stage_run(s);
    return s;
}

TEST(relay_marks_again_after_a_crash_before_it_reads)
{
    struct stage *s = stage_after(true);

    CHECK(s->asked[RELAY_MARK] && !s->asked[RELAY_FETCH]);
    CHECK(s->action[RELAY_MARK].force);
    CHECK_STR(stage_marks(s), "1 2 3");
    stage_mark(s, 0);
    CHECK(s->asked[RELAY_FETCH]);
    CHECK(!stage_told(s, RELAY_NOTE_PHANTOM));
}

TEST(relay_tells_each_row_that_the_database_has_lost)
{
    struct stage *s = stage_after(true);
    struct row_event_id event_id = {{0}};

    stage_mark(s, 2);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_PHANTOM), 2);
    event_id.bytes[0] = 2;
    CHECK_EQ(s->noted[s->noted_n - 1].id, 2);
    CHECK_EQ(s->noted[s->noted_n - 1].event_id.bytes[0], event_id.bytes[0]);
}

TEST(relay_marks_again_once)
{
    struct stage *s = stage_after(true);

    stage_fail(s, RELAY_MARK);
    CHECK(!s->asked[RELAY_FETCH]);
    stage_await(s, RELAY_MARK, 1000);
    CHECK_STR(stage_marks(s), "1 2 3");
    stage_mark(s, 0);
    stage_fetch(s, "4");
    stage_deliver(s, "4");
    stage_await(s, RELAY_MARK, 100);
    CHECK_STR(stage_marks(s), "4");
}

TEST(relay_marks_nothing_again_without_a_crash)
{
    struct stage *s = stage_after(false);

    CHECK(!s->asked[RELAY_MARK] && s->asked[RELAY_FETCH]);
}

/* Longer each time, and not longer than that. */
TEST(relay_mark_that_fails_backs_off)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    uint64_t begun_ms;

    stage_fetch(s, "1");
    stage_deliver(s, "1");
    begun_ms = s->now_ms;
    for (unsigned i = 0; i < 12; i++) {
        stage_idle(s, RELAY_MARK, (uint64_t)limits.backoff_min_ms << i);
        stage_fail(s, RELAY_MARK);
    }
    CHECK(s->now_ms > begun_ms + 2000);
    stage_idle(s, RELAY_MARK, limits.backoff_max_ms);
    stage_mark(s, 0);
}

/* As many as are kept, each with its own event. */
TEST(relay_marks_again_as_many_as_it_keeps)
{
    struct relay_limits limits = stage_limits();
    struct relay_saved saved = {.incarnation_lost = true, .last_id = 20};
    const struct row_event_id *event_ids;
    const int64_t *ids;
    struct stage *s;

    limits.mark_rows = limits.mark_rows_min = limits.lane_rows = 4;
    limits.recent_rows = 6;
    s = stage_set(&limits);
    stage_fetch(s, "1/1");
    stage_drain(s);
    stage_fetch(s, "2/1 3/1 4/1 5/1");
    stage_drain(s);
    stage_fetch(s, "6/1 7/1 8/1 9/1");
    stage_drain(s);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    s->asked[RELAY_LEASE_TAKE] = false;
    saved.token = stage_token(s->token);
    relay_on_lease(s->relay, s->now_ms, s->asked_ms[RELAY_LEASE_TAKE], &saved);
    stage_run(s);
    for (int64_t first = 4; first <= 8; first += 4) {
        uint32_t n = relay_marks(s->relay, &ids, &event_ids);

        CHECK_EQ(n, first == 4 ? 4 : 2);
        for (uint32_t i = 0; i < n; i++) {
            CHECK_EQ(ids[i], first + i);
            CHECK_EQ(event_ids[i].bytes[0], first + i);
        }
        CHECK(!s->asked[RELAY_FETCH]);
        stage_mark(s, 0);
    }
    CHECK(s->asked[RELAY_FETCH]);
}

/* Whichever of them. */
TEST(relay_tells_the_last_row_that_the_database_has_lost)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    const int64_t missed[] = {2, 4};

    stage_fetch(s, "1/0 2/1 3/2 4@1");
    for (row_slot slot = 0; slot < limits.window_rows; slot++) {
        if (s->handed[slot])
            relay_on_delivered(s->relay, s->now_ms, slot);
    }
    stage_run(s);
    CHECK_STR(stage_marks(s), "1 2 3 4");
    s->asked[RELAY_MARK] = false;
    relay_on_marked(s->relay, s->now_ms, missed, 2);
    stage_forget_notes(s);
    stage_run(s);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_PHANTOM), 2);
    CHECK(s->noted[0].id == 2 && s->noted[0].event_id.bytes[0] == 2 && s->noted[0].topic == 0);
    CHECK(s->noted[1].id == 4 && s->noted[1].event_id.bytes[0] == 4 && s->noted[1].topic == 1);
}
