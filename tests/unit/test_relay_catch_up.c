/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: pages that bring what is behind. */
#include "relay/core/relay.h"

#include <stdio.h>

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct relay_view view(const struct stage *s)
{
    return relay_view(s->relay);
}

/* A relay that starts with lane 1 behind from 3 and the floor at 20. */
static struct stage *stage_behind(const struct relay_limits *limits, const char *records)
{
    struct stage *s = stage_set(limits);

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_grant(s, 20, records);
    return s;
}

TEST(relay_starts_with_what_was_saved_behind)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_behind(&limits, "0/1:3");

    stage_fetch(s, "21/1 22");
    CHECK_STR(stage_published(s), "22");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK(s->action[RELAY_CATCH_UP].from == 3 && s->action[RELAY_CATCH_UP].upto == 22);
    stage_page(s, "3/1 21/1");
    CHECK_STR(stage_published(s), "3"); /* one row, until one is acknowledged */
    stage_deliver(s, "3");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 21);
}

TEST(relay_page_spans_few_ids_and_the_next_goes_on)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.page_ids = 10;
    s = stage_behind(&limits, "0/all:3");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK(s->action[RELAY_CATCH_UP].from == 3 && s->action[RELAY_CATCH_UP].upto == 12);
    stage_page(s, "3 4/1"); /* nobody knows what is wrong with the topic: one row is probed */
    stage_deliver(s, "3");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK(s->action[RELAY_CATCH_UP].from == 4 && s->action[RELAY_CATCH_UP].upto == 13);
    stage_page_upto(s, "4/1", 4); /* cut */
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK(s->action[RELAY_CATCH_UP].from == 5 && s->action[RELAY_CATCH_UP].upto == 14);
    stage_page(s, "6/2");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK(s->action[RELAY_CATCH_UP].from == 15 && s->action[RELAY_CATCH_UP].upto == 20);
    stage_page(s, "");
    CHECK_STR(stage_published(s), "3 4 6");
    stage_drain(s);
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_EQ(view(s).behind_topics, 0);
    CHECK_STR(stage_saving(s), "floor 20 0/all:0");
}

TEST(relay_pages_and_fetches_alternate)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_behind(&limits, "0/all:3");

    for (int64_t id = 3; id < 8; id++) {
        char row[20];

        snprintf(row, sizeof row, "%d@1", (int)id + 18);
        stage_fetch_upto(s, row, id + 18); /* there is more of both */
        stage_drain(s);
        CHECK(s->asked[RELAY_CATCH_UP]);
        stage_page_upto(s, "", id);
        CHECK(s->asked[RELAY_FETCH]);
    }
}

/* Finding 38: a refusal moved `from` back while the page was on its way. */
TEST(relay_page_is_discarded_when_its_record_went_back)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_behind(&limits, "0/1:3");

    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page(s, "3/1 4/1 5/1 6/1");
    stage_deliver(s, "3");
    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page_upto(s, "4/1 5/1 6/1", 6);
    stage_deliver(s, "4");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 7);
    stage_refuse(s, "5", RELAY_FAULT_ROW);
    stage_page(s, "7/1 8/1");
    CHECK_EQ(view(s).handed_rows, 1); /* 6 */
    stage_close(s);
    CHECK_EQ(view(s).window_rows, 0);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 5);
}

/* A statement that fails is not asked again at once. */
TEST(relay_page_that_fails_backs_off)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_behind(&limits, "0/all:3");
    uint64_t begun_ms = s->now_ms;

    for (unsigned i = 0; i < 20; i++) {
        stage_idle(s, RELAY_CATCH_UP, limits.backoff_max_ms);
        stage_fail(s, RELAY_CATCH_UP);
    }
    CHECK(s->now_ms > begun_ms + 500);
}

TEST(relay_pages_of_topics_take_turns)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_behind(&limits, "0/all:3 1/all:3");
    uint32_t last = UINT32_MAX;

    stage_fetch(s, "");
    for (int64_t id = 3; id < 9; id++) {
        stage_idle(s, RELAY_CATCH_UP, 1000);
        CHECK(s->action[RELAY_CATCH_UP].topic != last);
        last = s->action[RELAY_CATCH_UP].topic;
        stage_page_upto(s, "", s->action[RELAY_CATCH_UP].from);
    }
}

/* Suspects take one row each: a page for them alone need not be large. */
TEST(relay_page_of_suspects_is_small)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.window_rows = limits.fetch_rows = 250;
    limits.ranges_max = 300;
    s = stage_behind(&limits, "0/1:3");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].rows, 200);
}

/* What waits in the window already is enough for a while. */
TEST(relay_lane_with_rows_enough_gets_no_page)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_behind(&limits, "0/1:3");

    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page(s, "3/1 4/1");
    stage_deliver(s, "3");
    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page_upto(s, "4/1 5/1 6/1 7/1 8/1 9/1", 9); /* as many are queued as may be handed */
    stage_idle_for(s, 100);
    CHECK(!s->asked[RELAY_CATCH_UP]);
    stage_deliver(s, "4");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 10);
}

/* No number is left for a lane: the read counts up to the row before. */
TEST(relay_fetch_ends_before_a_row_without_a_lane)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = 2;
    s = stage_set(&limits);
    stage_fetch(s, "1");
    stage_drain(s);
    stage_fetch(s, "");
    stage_fetch(s, "2/1 3/2 4 5/1");
    CHECK_EQ(view(s).highest, 3);
    stage_await(s, RELAY_FETCH, 100);
    CHECK_EQ(s->action[RELAY_FETCH].from, 3);
    CHECK_STR(stage_gaps(s), "");
}

/* A page may bring more than the window has bytes for. */
TEST(relay_page_ends_where_the_window_is_full)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.fetch_rows = 12;
    limits.window_rows = 48;
    limits.window_bytes = 100;
    s = stage_set(&limits);
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1 2/1 3 4/1 5 6/1");
    stage_idle_for(s, limits.stuck_ms + 100); /* its topic is not known for too long */
    CHECK_EQ(view(s).behind_topics, 1);
    stage_fetch(s, "7 8/1 9 10/1 11 12/1");
    stage_topic(s, 4, 4, 0);
    CHECK(s->asked[RELAY_CATCH_UP]); /* as soon as it is known */
    stage_page(s, "1 2/1 3 4/1 5 6/1 7 8/1 9 10/1 11 12/1");
    CHECK_EQ(view(s).window_bytes, limits.window_bytes);
    stage_drain(s);
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 11);
}

/* Saved records for which there are no numbers are covered by their topics: no suspects, those. */
TEST(relay_that_starts_with_too_few_numbers_puts_topics_behind)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = 2;
    s = stage_behind(&limits, "0/0:5 0/1:6 0/2:4");
    CHECK(view(s).behind_topics == 1 && view(s).behind_lanes == 2);
    for (unsigned i = 0; i < 5; i++) {
        stage_idle_for(s, 200);
        if (s->asked[RELAY_CATCH_UP])
            stage_page(s, "");
    }
    CHECK(view(s).behind_topics == 0 && view(s).behind_lanes == 0);
    limits.keys_max = 1;
    s = stage_behind(&limits, "0/k1:5+1 0/k2:3+2");
    CHECK(view(s).behind_topics == 1 && view(s).behind_keys == 1);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 3);
}

/* A page of a topic brings rows of its other lanes, too: they are known. */
TEST(relay_page_goes_on_past_a_row_that_is_in_the_window)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.stuck_ms = 1000;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "1/1");
    stage_deliver(s, "1");
    stage_fetch(s, "2/1");
    stage_idle_for(s, 1000); /* and does not move */
    CHECK_EQ(view(s).behind_lanes, 1);
    stage_fetch(s, "3/1 4 5/1");
    stage_deliver(s, "2");
    (void)stage_published(s);
    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page(s, "3/1 4 5/1");
    CHECK_STR(stage_published(s), "3 5");
}

/* Nor does a page count beyond a row for whose lane no number is left. */
TEST(relay_page_ends_before_a_row_without_a_lane)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = 3;
    s = stage_set(&limits);
    stage_fetch(s, "1 2/1 3/2 4/3 5");
    CHECK_EQ(view(s).behind_topics, 1);
    stage_page(s, "1 2/1 3/2 4/3 5");
    CHECK_STR(stage_published(s), "1 2 3");
    CHECK_EQ(view(s).window_rows, 3);
}
