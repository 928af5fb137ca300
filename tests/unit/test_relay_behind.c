/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: lanes and topics that cannot be written to hold up nothing else, and catch up. */
#include "relay/core/relay.h"

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

TEST(relay_refused_row_puts_its_lane_behind_and_is_probed)
{
    struct stage *s = stage_impatient();

    stage_fetch(s, "1 2 3/1 4 5");
    stage_deliver(s, "1");
    stage_refuse(s, "2", RELAY_FAULT_ROW);
    CHECK(stage_told(s, RELAY_NOTE_SESSION_BROKEN) && stage_told(s, RELAY_NOTE_LANE_BEHIND));
    CHECK(s->asked[RELAY_SESSION_CLOSE]);
    stage_close(s); /* 3 comes back: nobody blames it */
    stage_idle(s, RELAY_CATCH_UP, 1000);
    (void)stage_published(s);
    stage_page(s, "2 4 5");
    stage_pass(s, 200);
    CHECK_STR(stage_published(s), "2 3"); /* 4 waits for 2 */
    CHECK_STR(stage_probed(s), "2");
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
    relay_on_session_broken(s->relay, s->now_ms, RELAY_MAIN, RELAY_FAULT_SESSION);
    relay_on_session_broken(s->relay, s->now_ms, RELAY_MAIN, RELAY_FAULT_SESSION);
    stage_run(s);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_SESSION_BROKEN), 1);
    CHECK(!view(s).session_open);
    stage_refuse(s, "3", RELAY_FAULT_SESSION);
    stage_deliver(s, "2"); /* a good report may come until it is closed */
    CHECK_STR(stage_published(s), "");
    stage_close(s);
    stage_await(s, RELAY_SESSION_OPEN, 1000);
    s->asked[RELAY_SESSION_OPEN] = false;
    relay_on_session_failed(s->relay, s->now_ms, RELAY_MAIN);
    stage_run(s);
    stage_await(s, RELAY_SESSION_OPEN, 1000);
    relay_on_session_open(s->relay, s->now_ms, RELAY_MAIN);
    stage_fetch(s, "4");
    CHECK_STR(stage_published(s), "3"); /* cold: one row */
}

TEST(relay_unpublished_row_does_not_end_the_session)
{
    struct stage *s = stage_impatient();

    stage_fetch(s, "1 2/1 3");
    stage_unpublish(s, "1", RELAY_FAULT_SIZE);
    CHECK(view(s).session_open && view(s).behind_lanes == 0 && view(s).behind_keys == 1);
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
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_TOPIC_OPEN), 1); /* it always was */
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

/* Without one of its rows in the window, a lane is behind from the first id that was not seen. */
TEST(relay_lane_that_is_behind_admits_no_new_row)
{
    struct stage *s = stage_impatient();

    stage_fetch(s, "1/1 2");
    stage_deliver(s, "2");
    stage_idle_for(s, 1000);
    CHECK_EQ(view(s).behind_lanes, 1);
    stage_fetch(s, "3/1");
    CHECK_EQ(view(s).window_rows, 1);
}

TEST(relay_window_full_of_dead_partitions_ends_the_session)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.window_rows = limits.fetch_rows = 8;
    limits.stuck_ms = 1000;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "1");
    stage_deliver(s, "1");
    stage_fetch(s, "2 3 4 5 6");
    stage_idle_for(s, 1001);
    CHECK(stage_told(s, RELAY_NOTE_WINDOW_STUCK) && s->asked[RELAY_SESSION_CLOSE]);
}

TEST(relay_refused_batch_is_one_failure)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct relay_limits limits = stage_limits();
        struct stage *s;

        limits.seed = seed;
        s = stage_set(&limits);
        s->answered |= STAGE_ANSWERS(RELAY_MARK);
        stage_fetch(s, "1");
        stage_deliver(s, "1");
        stage_fetch(s, "2 3 4 5 6");
        stage_refuse(s, "2 3 4 5 6", RELAY_FAULT_ROW);
        stage_close(s);
        stage_idle(s, RELAY_CATCH_UP, limits.backoff_min_ms + 5);
    }
}

/* --- what a topic covers ------------------------------------------------------------------------------------------- */

TEST(relay_topic_that_goes_behind_takes_its_lanes_along)
{
    struct stage *s = stage_impatient();

    s->answered |= STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1 2/1 3/2");
    stage_deliver(s, "3 1");
    stage_idle_for(s, 3000); /* 2 gets no report */
    CHECK(view(s).behind_lanes == 1 && view(s).behind_topics == 0);
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "4");
    stage_unpublish(s, "4", RELAY_FAULT_TOPIC);
    CHECK(view(s).behind_lanes == 0 && view(s).behind_topics == 1);
    s->answered &= ~STAGE_ANSWERS(RELAY_SAVE);
    stage_idle(s, RELAY_SAVE, 1500);
    CHECK_STR(stage_saving(s), "floor 4 0/1:0 0/all:2");
}

TEST(relay_topic_that_goes_behind_is_saved_though_nothing_else_happens)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered |= STAGE_ANSWERS(RELAY_SAVE) | STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "1 2/1");
    stage_deliver(s, "1");
    stage_idle_for(s, 2500);
    s->answered &= ~(STAGE_ANSWERS(RELAY_TOPIC) | STAGE_ANSWERS(RELAY_SAVE));
    stage_refuse(s, "2", RELAY_FAULT_TOPIC);
    stage_close(s);
    CHECK_EQ(view(s).window_rows, 0); /* its rows are behind, those that come back too */
    stage_idle(s, RELAY_SAVE, 1500);
    CHECK_STR(stage_saving(s), "floor 2 0/all:2");
}

TEST(relay_rows_of_a_topic_that_come_back_are_behind_with_it)
{
    struct stage *s = stage_impatient();

    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1 2/1 3/2");
    stage_topic(s, 4, 4, 0);
    stage_refuse(s, "2", RELAY_FAULT_TOPIC);
    stage_close(s); /* 1 and 3 are not blamed */
    CHECK_EQ(view(s).window_rows, 0);
    stage_idle(s, RELAY_SAVE, 1500);
    CHECK_STR(stage_saving(s), "floor 3 0/all:1");
}

/* A row that is handed is not settled: the record says so, and the floor passes it. */
TEST(relay_floor_passes_what_the_record_of_a_topic_covers)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1 2/1");
    stage_topic(s, 4, 4, 0);
    stage_unpublish(s, "2", RELAY_FAULT_TOPIC);
    stage_idle(s, RELAY_SAVE, 1500);
    CHECK_STR(stage_saving(s), "floor 2 0/all:1");
}

/* The outcome may be told later: the second row must not wait in the window to overtake the first. */
TEST(relay_rows_that_could_not_be_handed_over_stay_in_order)
{
    struct stage *s = stage_impatient();

    stage_fetch(s, "1");
    stage_deliver(s, "1");
    stage_fetch(s, "2 3");
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    (void)stage_published(s);
    stage_forget_notes(s);
    stage_unpublish(s, "2", RELAY_FAULT_TOPIC);
    stage_unpublish(s, "3", RELAY_FAULT_TOPIC);
    stage_idle(s, RELAY_TOPIC, 1000);
    stage_topic(s, 4, 4, 0);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_STR(stage_published(s), "");
    stage_page(s, "2 3");
    CHECK_STR(stage_published(s), "2"); /* probed: the topic may be closed to us still */
    CHECK(!stage_told(s, RELAY_NOTE_TOPIC_OPEN));
    stage_deliver(s, "2");
    CHECK(stage_told(s, RELAY_NOTE_TOPIC_OPEN));
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "3");
    CHECK_STR(stage_published(s), "3");
    CHECK_STR(stage_probed(s), "2");
}

/* The lane's record was being saved when its topic took it over: it must be deleted. */
TEST(relay_record_that_is_dissolved_during_its_save_is_deleted)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.stuck_ms = 500;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "1 2/1");
    stage_deliver(s, "1");
    stage_pass(s, 900);
    stage_fetch(s, "3/2");
    stage_await(s, RELAY_SAVE, 100);
    CHECK_STR(stage_saving(s), "floor 2 0/1:2");
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_unpublish(s, "3", RELAY_FAULT_TOPIC);
    stage_save(s);
    stage_idle(s, RELAY_SAVE, 1500);
    CHECK_STR(stage_saving(s), "floor 3 0/1:0 0/all:2");
}
