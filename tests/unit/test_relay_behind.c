/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: lanes and topics that cannot be written to hold up nothing else, and catch up. */
#include "relay/core/relay.h"

#include <stdio.h>

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct stage *stage_impatient(void)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.stuck_ms = 1000;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    return s;
}

/* The topic is asked about, and the test answers. */
static struct stage *stage_curious(void)
{
    struct stage *s = stage_impatient();

    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    return s;
}

static struct relay_view view(const struct stage *s)
{
    return relay_view(s->relay);
}

TEST(relay_lane_that_does_not_move_goes_behind_and_catches_up)
{
    struct stage *s = stage_impatient();

    stage_fetch(s, "1/1 2 3/1");
    stage_deliver(s, "2");
    stage_idle_for(s, 1000);
    CHECK(stage_told(s, RELAY_NOTE_LANE_BEHIND));
    CHECK_STR(stage_dropped(s), "3");
    stage_await(s, RELAY_FETCH, 100);
    stage_fetch(s, "4/1 5");
    CHECK_STR(stage_published(s), "1 2 5"); /* 4 is not admitted */
    CHECK(!s->asked[RELAY_CATCH_UP]);
    stage_idle(s, RELAY_SAVE, 1000);
    CHECK_STR(stage_saving(s), "floor 3 0/1:1");
    stage_save(s);
    stage_deliver(s, "1");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK(s->action[RELAY_CATCH_UP].from == 3 && s->action[RELAY_CATCH_UP].upto == 5);
    stage_page(s, "3/1 4/1");
    CHECK_STR(stage_published(s), "3 4");
    stage_fetch(s, "");
    CHECK(stage_told(s, RELAY_NOTE_LANE_LIVE) && view(s).behind_lanes == 0);
}

TEST(relay_record_that_has_caught_up_is_deleted)
{
    struct stage *s = stage_impatient();

    s->answered |= STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1/1 2");
    stage_deliver(s, "2");
    stage_idle_for(s, 3000);
    CHECK_EQ(view(s).behind_lanes, 1);
    CHECK_EQ(view(s).floor, 2);
    s->answered &= ~STAGE_ANSWERS(RELAY_SAVE);
    stage_deliver(s, "1");
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_STR(stage_saving(s), "floor 2 0/1:0");
    stage_save(s);
    stage_pass(s, 3000);
    CHECK(!s->asked[RELAY_SAVE]);
}

/* Live again, and not settled yet: the floor has passed it, so the record stays until it is. */
TEST(relay_saves_the_first_unsettled_id_and_not_from)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.stuck_ms = 1000;
    limits.save_ms = 200;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1/1 2/1 3");
    stage_deliver(s, "3");
    stage_idle_for(s, 1000);
    stage_deliver(s, "1");
    stage_idle(s, RELAY_CATCH_UP, 100);
    s->answered &= ~STAGE_ANSWERS(RELAY_SAVE);
    stage_page(s, "2/1");
    stage_idle(s, RELAY_SAVE, 300);
    CHECK_EQ(view(s).behind_lanes, 0);
    CHECK_STR(stage_saving(s), "floor 3 0/1:2");
}

TEST(relay_refused_row_puts_its_lane_behind_and_is_tried_alone)
{
    struct stage *s = stage_impatient();
    uint64_t refused_ms;

    stage_fetch(s, "1 2 3/1 4 5");
    stage_deliver(s, "1");
    stage_refuse(s, "2", RELAY_FAULT_ROW);
    CHECK(stage_told(s, RELAY_NOTE_SESSION_BROKEN) && stage_told(s, RELAY_NOTE_LANE_BEHIND));
    CHECK(s->asked[RELAY_SESSION_CLOSE]);
    stage_close(s); /* 3 comes back: nobody blames it */
    refused_ms = s->now_ms;
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK(s->now_ms > refused_ms);
    (void)stage_published(s);
    stage_page(s, "2 4 5");
    stage_pass(s, 200);
    CHECK_STR(stage_published(s), "3 2"); /* 4 waits for 2 */
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 4);
}

TEST(relay_session_that_broke_is_closed_and_opened_anew_cold)
{
    struct stage *s = stage_impatient();

    stage_fetch(s, "1 2 3");
    stage_deliver(s, "1");
    CHECK_STR(stage_published(s), "1 2 3");
    s->answered &= ~STAGE_ANSWERS(RELAY_SESSION_OPEN);
    relay_on_session_broken(s->relay, s->now_ms, RELAY_FAULT_SESSION);
    relay_on_session_broken(s->relay, s->now_ms, RELAY_FAULT_SESSION);
    stage_run(s);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_SESSION_BROKEN), 1);
    CHECK(!view(s).session_open);
    stage_refuse(s, "3", RELAY_FAULT_SESSION);
    stage_deliver(s, "2"); /* a good report may come until it is closed */
    CHECK_STR(stage_published(s), "");
    stage_close(s);
    stage_await(s, RELAY_SESSION_OPEN, 1000);
    s->asked[RELAY_SESSION_OPEN] = false;
    relay_on_session_failed(s->relay, s->now_ms);
    stage_run(s);
    stage_await(s, RELAY_SESSION_OPEN, 1000);
    relay_on_session_open(s->relay, s->now_ms);
    stage_fetch(s, "4");
    CHECK_STR(stage_published(s), "3"); /* cold: one row */
}

TEST(relay_unpublished_row_does_not_end_the_session)
{
    struct stage *s = stage_impatient();

    stage_fetch(s, "1 2/1 3");
    stage_unpublish(s, "1", RELAY_FAULT_SIZE);
    CHECK(view(s).session_open && view(s).behind_lanes == 1);
    CHECK_STR(stage_dropped(s), "1 3");
    stage_unpublish(s, "2", RELAY_FAULT_PASSING);
    CHECK(s->asked[RELAY_SESSION_CLOSE]); /* the client itself is in trouble */
}

/* --- topics ------------------------------------------------------------------------------------------------------- */

TEST(relay_rows_wait_until_their_topic_is_known)
{
    struct stage *s = stage_curious();

    stage_fetch(s, "1/1 2 3@1");
    CHECK_STR(stage_published(s), "");
    CHECK_EQ(s->action[RELAY_TOPIC].topic, 0);
    stage_topic(s, 4, 4, 0);
    CHECK_STR(stage_published(s), "1 2");
    CHECK(stage_told(s, RELAY_NOTE_TOPIC_OPEN));
    CHECK_EQ(s->action[RELAY_TOPIC].topic, 1); /* one question at a time */
}

TEST(relay_missing_topic_goes_behind_and_comes_back)
{
    struct stage *s = stage_curious();

    stage_fetch(s, "1@1 2");
    stage_topic(s, 4, 4, 0);
    stage_topic(s, 0, 0, 0);
    CHECK(stage_told(s, RELAY_NOTE_TOPIC_CLOSED) && stage_told(s, RELAY_NOTE_TOPIC_BEHIND));
    CHECK_STR(stage_dropped(s), "1@1");
    CHECK_EQ(view(s).behind_topics, 1);
    stage_fetch(s, "3@1 4/1");
    CHECK_STR(stage_published(s), "2 4");
    stage_drain(s);
    stage_idle(s, RELAY_TOPIC, 1000);
    CHECK_EQ(s->action[RELAY_TOPIC].topic, 1);
    stage_idle(s, RELAY_SAVE, 1000);
    CHECK_STR(stage_saving(s), "floor 4 1/all:1");
    stage_topic(s, 1, 1, 0);
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK(s->action[RELAY_CATCH_UP].topic == 1 && s->action[RELAY_CATCH_UP].from == 1 && s->action[RELAY_CATCH_UP].upto == 4);
    stage_page(s, "1@1 3@1");
    CHECK_STR(stage_published(s), "1@1");
    stage_deliver(s, "1@1");
    CHECK_STR(stage_published(s), "3@1");
    stage_fetch(s, "");
    CHECK(stage_told(s, RELAY_NOTE_TOPIC_LIVE) && view(s).behind_topics == 0);
}

TEST(relay_topic_that_is_asked_about_for_long_goes_behind)
{
    struct stage *s = stage_curious();

    stage_fetch(s, "1@1");
    stage_idle(s, RELAY_SAVE, 3000);
    stage_pass(s, 1000);
    CHECK_EQ(view(s).behind_topics, 1);
    CHECK_EQ(view(s).window_rows, 0);
    CHECK(s->asked[RELAY_TOPIC]);
}

TEST(relay_topic_with_fewer_partitions_than_pinned_is_closed)
{
    struct stage *s = stage_curious();

    stage_fetch(s, "1");
    stage_topic(s, 4, 3, 0);
    CHECK(stage_told(s, RELAY_NOTE_TOPIC_CLOSED));
    CHECK_STR(stage_published(s), "");
}

TEST(relay_topic_that_a_report_calls_missing_is_closed)
{
    struct stage *s = stage_impatient();

    stage_fetch(s, "1 2");
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_refuse(s, "1", RELAY_FAULT_TOPIC);
    CHECK(stage_told(s, RELAY_NOTE_TOPIC_CLOSED) && view(s).behind_topics == 1);
    CHECK_STR(stage_dropped(s), "1 2");
    stage_idle(s, RELAY_TOPIC, 1000);
}

/* Its partition may be made later: it is not poison, and the lanes that exist go on. */
TEST(relay_row_for_a_partition_that_does_not_exist_waits)
{
    struct stage *s = stage_curious();

    stage_fetch(s, "1");
    stage_topic(s, 4, 4, 0);
    stage_fetch(s, "2/9 3 4/1");
    CHECK_STR(stage_published(s), "1 4");
    CHECK_EQ(view(s).behind_lanes, 1);
    CHECK_STR(stage_dropped(s), "2");
    stage_drain(s);
    stage_drain(s);
    CHECK_STR(stage_published(s), "3");
    stage_idle(s, RELAY_SAVE, 3000);
    CHECK_STR(stage_saving(s), "floor 4 0/-2:2");
    stage_idle(s, RELAY_TOPIC, 3000);
    stage_topic(s, 4, 10, 0);
    stage_idle(s, RELAY_CATCH_UP, 3000);
    stage_page(s, "2/9");
    CHECK_STR(stage_published(s), "2");
    CHECK_EQ(s->action[RELAY_PUBLISH].partition, 9);
}

/* Finding 13: a batch above the topic's limit would be refused for ever. */
TEST(relay_session_keeps_its_batches_below_the_smallest_limit)
{
    struct stage *s = stage_curious();

    CHECK_EQ(s->action[RELAY_SESSION_OPEN].bytes, s->limits.batch_bytes);
    stage_fetch(s, "1");
    stage_topic(s, 4, 4, 5000);
    CHECK(s->asked[RELAY_SESSION_CLOSE]);
    CHECK_STR(stage_published(s), "");
    stage_close(s);
    stage_pass(s, 200);
    CHECK_EQ(s->action[RELAY_SESSION_OPEN].bytes, 5000);
    CHECK_STR(stage_published(s), "1");
}

/* Lowered while we run, each batch would be refused for ever; raised for a row that waits, nobody would notice. */
TEST(relay_topic_is_asked_for_its_limit_again_when_it_refuses_a_size)
{
    struct stage *s = stage_curious();

    stage_fetch(s, "1");
    stage_topic(s, 4, 4, 9000);
    stage_close(s);
    stage_pass(s, 200);
    CHECK_STR(stage_published(s), "1");
    CHECK(!s->asked[RELAY_TOPIC]);
    stage_refuse(s, "1", RELAY_FAULT_SIZE);
    stage_close(s);
    stage_idle(s, RELAY_TOPIC, 1);
    stage_topic(s, 4, 4, 5000);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1");
    stage_pass(s, 500);
    CHECK_EQ(s->action[RELAY_SESSION_OPEN].bytes, 5000);
    stage_unpublish(s, "1", RELAY_FAULT_SIZE); /* larger than that itself */
    stage_idle(s, RELAY_TOPIC, 1);
    stage_topic(s, 4, 4, 9000);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1");
    stage_deliver(s, "1");
}

TEST(relay_topic_question_dies_with_the_connection)
{
    struct stage *s = stage_curious();

    stage_fetch(s, "1");
    CHECK(s->asked[RELAY_TOPIC]);
    stage_lose(s);
    stage_await(s, RELAY_TOPIC, 2000);
    stage_fail(s, RELAY_TOPIC);
    stage_await(s, RELAY_TOPIC, 2000);
}

/* With few numbers, topics and lanes that are not used any more give theirs away. */
TEST(relay_numbers_are_used_again)
{
    const char *const rows[] = {"1", "2/1 3/2", "4/3", "5@1", "6@2", "7@3"};
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.topics_max = 4;
    limits.lanes_max = 3;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        stage_fetch(s, rows[i]);
        stage_drain(s);
        stage_fetch(s, "");
    }
    CHECK_STR(stage_published(s), "1 2 3 4 5@1 6@2 7@3");
    CHECK_EQ(s->action[RELAY_FORGET].type, RELAY_FORGET);
}

/* Rows that pass by each other, some in their lanes and some beside them, would swap. */
TEST(relay_topic_without_enough_numbers_goes_behind)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = 3;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "1 2/1 3/2 4");
    CHECK_EQ(view(s).behind_topics, 1);
    CHECK_STR(stage_published(s), "");
    CHECK_EQ(view(s).window_rows, 0);
    stage_page(s, "1 2/1 3/2 4");
    CHECK_STR(stage_published(s), "1 2 3");
}

/* --- catching up --------------------------------------------------------------------------------------------------- */

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
    stage_page_upto(s, "3 4/1", 4); /* cut */
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
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 7);
    stage_refuse(s, "5", RELAY_FAULT_ROW);
    stage_page(s, "7/1 8/1");
    CHECK_EQ(view(s).window_rows, 2); /* 4 and 6, which are handed */
    stage_close(s);
    CHECK_EQ(view(s).window_rows, 0);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 4);
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
