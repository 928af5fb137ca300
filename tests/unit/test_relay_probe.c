/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: two sessions know no order, so nothing goes through the main one while earlier rows are probed. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct stage *stage_probing(const struct relay_limits *limits)
{
    struct stage *s = stage_set(limits);

    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    return s;
}

TEST(relay_lane_is_probed_until_all_of_its_rows_have_their_reports)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_probing(&limits);

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2 4#3");
    stage_refuse(s, "2 3", RELAY_FAULT_ROW);
    stage_close(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "2#1 3#2 4#3");
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "3#2 4#3");
    CHECK_STR(stage_probed(s), "2 3 4");
    (void)stage_published(s);
    stage_deliver(s, "3"); /* the last that may have been at fault */
    stage_idle_for(s, 100);
    stage_fetch(s, "5#3");
    CHECK_STR(stage_published(s), "");
    stage_deliver(s, "4");
    stage_idle_for(s, 100);
    CHECK(stage_told(s, RELAY_NOTE_LANE_LIVE) || s->asked[RELAY_CATCH_UP]);
}

/* A key of another lane comes with the same page, though one before it gives way. */
TEST(relay_page_goes_on_past_a_key_that_gives_way)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_probing(&limits);

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2 4#3 5/1#9");
    stage_unpublish(s, "2 5/1", RELAY_FAULT_ROW);
    stage_idle_for(s, 500);
    stage_fail(s, RELAY_CATCH_UP);
    stage_idle(s, RELAY_CATCH_UP, 1000); /* both keys are due now */
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 2);
    stage_refuse(s, "3 4", RELAY_FAULT_ROW);
    stage_page(s, "2#1 3#2 4#3 5/1#9");
    CHECK_STR(stage_probed(s), "5");
}

/* Its key is passed by where its lane waits for something else: it goes no further than that. */
TEST(relay_key_goes_no_further_than_its_lane)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.stuck_ms = 1000;
    s = stage_probing(&limits);
    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    stage_pass(s, 1000);
    CHECK_EQ(relay_view(s->relay).behind_lanes, 1); /* 3 does not move */
    stage_fetch(s, "4#1");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "2#1 4#1");
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 4);
    stage_page(s, "4#1");
    stage_idle_for(s, 100);
    CHECK_STR(stage_probed(s), "2");
}

/* The lane that is probed may have the first of all numbers. */
TEST(relay_rows_of_the_first_lane_that_are_probed_are_not_passed_after_a_start_over)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = 2;
    s = stage_probing(&limits);
    stage_fetch(s, "1"); /* without a lane of its own first: its number is free again */
    stage_drain(s);
    stage_fetch(s, "2#1");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "2#1");
    CHECK_STR(stage_probed(s), "2");
    stage_lose(s);
    stage_idle_for(s, 500);
    (void)stage_published(s);
    stage_fetch(s, "1 2#1 3#1");
    CHECK_STR(stage_published(s), "");
}

/* Nothing that may have been at fault is left, though nothing of it was acknowledged: somebody else settled it. */
TEST(relay_lane_is_probed_no_more_when_its_suspects_are_gone)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_probing(&limits);

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2 4#3 5#4");
    stage_refuse(s, "2 3", RELAY_FAULT_ROW);
    stage_close(s);
    (void)stage_published(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page_upto(s, "", 3);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "4#3 5#4");
    stage_idle_for(s, 200);
    CHECK_STR(stage_published(s), "4");
    CHECK_STR(stage_probed(s), "");
}

/* Its row was about to be probed when the whole topic had to wait: nothing of it is under way any more. */
TEST(relay_key_is_tried_again_after_its_topic)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_probing(&limits);

    stage_fetch(s, "1#1 2/1#2");
    stage_unpublish(s, "1", RELAY_FAULT_ROW);
    s->answered &= ~(STAGE_ANSWERS(RELAY_SESSION_OPEN) | STAGE_ANSWERS(RELAY_TOPIC));
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1#1");
    CHECK_EQ(s->action[RELAY_SESSION_OPEN].session, RELAY_PROBE);
    stage_unpublish(s, "2", RELAY_FAULT_TOPIC);
    CHECK_EQ(relay_view(s->relay).behind_topics, 1);
    s->asked[RELAY_SESSION_OPEN] = false;
    relay_on_session_open(s->relay, s->now_ms, RELAY_PROBE);
    stage_run(s);
    stage_idle(s, RELAY_TOPIC, 1000);
    stage_topic(s, 4, 4, 0);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 1);
    stage_page(s, "1#1 2/1#2");
    CHECK_STR(stage_probed(s), "2"); /* the topic goes first */
    stage_drain(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 1);
    stage_page(s, "1#1");
    CHECK_STR(stage_probed(s), "1");
}

/* A lane that takes one row only does not end the page for the others. */
TEST(relay_page_brings_a_row_of_each_lane_that_is_probed)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_probing(&limits);

    stage_fetch(s, "1#1 2/1#3");
    stage_deliver(s, "1 2");
    stage_fetch(s, "3#1 4#2 5/1#3 6/1#4");
    stage_refuse(s, "3 4 5 6", RELAY_FAULT_ROW);
    stage_close(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "3#1 4#2 5/1#3 6/1#4");
    CHECK_STR(stage_probed(s), "3 5");
}

/* Where numbers run short, a topic keeps its own as long as one of its keys waits. */
TEST(relay_topic_of_a_key_that_waits_is_not_forgotten)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.topics_max = 4;
    s = stage_probing(&limits);
    stage_fetch(s, "1#1 2@1 3@2 4@3");
    stage_unpublish(s, "1", RELAY_FAULT_ROW);
    for (unsigned i = 0; i < 10; i++) /* each has its turn */
        stage_run(s);
    CHECK_STR(stage_dropped(s), "1");
    CHECK(s->action[RELAY_FORGET].type != RELAY_FORGET);
}

/* The rows of its key behind it are taken out of the probe lane, too. */
TEST(relay_row_that_fails_alone_is_not_passed_by_its_key)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_probing(&limits);

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2 4#2");
    stage_refuse(s, "2 3 4", RELAY_FAULT_ROW);
    stage_close(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "2#1 3#2 4#2");
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "3#2 4#2");
    stage_refuse(s, "3 4", RELAY_FAULT_ROW); /* not alone: both go again, one after the other */
    stage_close(s);
    stage_idle_for(s, 200);
    CHECK_STR(stage_probed(s), "2 3 4 3");
    stage_refuse(s, "3", RELAY_FAULT_ROW);
    stage_close(s);
    CHECK_EQ(relay_view(s->relay).behind_keys, 1);
    CHECK_EQ(relay_view(s->relay).window_rows, 0);
}

/* The topic was closed, and one of its rows is with the probe session: that goes first. */
TEST(relay_topic_waits_for_its_rows_that_are_probed)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_probing(&limits);

    stage_fetch(s, "1#1 2/1#2");
    stage_unpublish(s, "1", RELAY_FAULT_ROW);
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1#1");
    CHECK_STR(stage_probed(s), "1");
    stage_unpublish(s, "2", RELAY_FAULT_SIZE);
    stage_topic(s, 4, 2, 0); /* two are missing */
    stage_idle(s, RELAY_TOPIC, 1000);
    stage_topic(s, 4, 4, 0);
    stage_idle_for(s, 200);
    CHECK(!s->asked[RELAY_CATCH_UP]);
    stage_deliver(s, "1");
    stage_idle(s, RELAY_CATCH_UP, 1000);
}

/* It was broken once, but ended in an orderly way: the next one opens at once. */
TEST(relay_probe_session_that_rested_opens_at_once)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.probe_rest_ms = 5000;
    s = stage_probing(&limits);
    stage_fetch(s, "1#1");
    stage_unpublish(s, "1", RELAY_FAULT_ROW);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1#1");
    stage_refuse(s, "1", RELAY_FAULT_SESSION);
    stage_close(s);
    stage_idle_for(s, 500);
    stage_deliver(s, "1");
    stage_idle_for(s, 500);
    stage_fetch(s, "2#2");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    stage_idle(s, RELAY_CATCH_UP, 1000); /* no fetch wakes it: the page is on its way */
    stage_await(s, RELAY_SESSION_CLOSE, 4500);
    CHECK_EQ(s->action[RELAY_SESSION_CLOSE].session, RELAY_PROBE);
    stage_close(s);
    (void)stage_published(s);
    stage_page(s, "2#2");
    CHECK_STR(stage_published(s), "2");
}
