/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: the way of a row, and what is saved of it. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct relay_view view(const struct stage *s)
{
    return relay_view(s->relay);
}

/* Finding 7: whoever fetches before it has read what was saved swaps rows. */
TEST(relay_reads_nothing_before_the_lease_is_granted)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_bare(&limits, 0, STAGE_START_MS);

    CHECK(s->asked[RELAY_CONNECT] && !s->asked[RELAY_LEASE_TAKE]);
    stage_connect(s);
    CHECK(s->asked[RELAY_LEASE_TAKE] && !s->asked[RELAY_FETCH] && !s->asked[RELAY_SESSION_OPEN]);
    s->last_id = 9;
    stage_grant(s, 5, "");
    CHECK(stage_told(s, RELAY_NOTE_LEASE_HELD) && view(s).lease_held);
    CHECK(s->asked[RELAY_FETCH] && s->asked[RELAY_SESSION_OPEN]);
    CHECK_EQ(s->action[RELAY_FETCH].from, 5);
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 9);
    CHECK_EQ(s->action[RELAY_FETCH].rows, limits.fetch_rows);
}

TEST(relay_waits_while_another_holds_the_lease)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_bare(&limits, STAGE_ANSWERS(RELAY_CONNECT), STAGE_START_MS);

    s->asked[RELAY_LEASE_TAKE] = false;
    relay_on_lease(s->relay, s->now_ms, s->now_ms, NULL);
    stage_run(s);
    CHECK(!s->asked[RELAY_LEASE_TAKE] && !s->asked[RELAY_FETCH]);
    stage_await(s, RELAY_LEASE_TAKE, limits.lease_ttl_ms / 10);
}

TEST(relay_takes_a_row_from_fetch_to_mark)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    stage_fetch(s, "1/2");
    CHECK_STR(stage_published(s), "1");
    CHECK_EQ(s->action[RELAY_PUBLISH].partition, 2);
    CHECK_EQ(view(s).handed_rows, 1);
    CHECK_EQ(view(s).window_bytes, 10);
    stage_pass(s, 500);
    CHECK(!s->asked[RELAY_MARK]); /* P6: a mark follows the report only */
    stage_deliver(s, "1");
    stage_await(s, RELAY_MARK, limits.mark_delay_ms);
    CHECK_STR(stage_marks(s), "1");
    CHECK_EQ(view(s).window_bytes, 0);
    CHECK_EQ(view(s).window_rows, 1);
    stage_mark(s, 0);
    CHECK_STR(stage_dropped(s), ""); /* its bytes ended at the delivery */
    CHECK_EQ(view(s).highest, 1);
    stage_fetch(s, "");
    CHECK(view(s).window_rows == 0 && view(s).drained);
}

TEST(relay_publishes_while_a_fetch_and_a_mark_are_on_their_way)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    stage_fetch(s, "1 2 3");
    stage_deliver(s, "1");
    stage_await(s, RELAY_MARK, 100);
    stage_await(s, RELAY_FETCH, 100);
    CHECK(s->asked[RELAY_MARK]);
    CHECK_STR(stage_published(s), "1 2 3");
    stage_fetch(s, "4 5");
    CHECK_STR(stage_published(s), "4 5");
    stage_deliver(s, "2 3");
    CHECK_STR(stage_marks(s), "1"); /* one mark at a time */
    stage_mark(s, 0);
    stage_await(s, RELAY_MARK, 100);
    CHECK_STR(stage_marks(s), "2 3");
}

TEST(relay_keeps_the_order_of_a_lane_and_lets_lanes_overtake)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    stage_fetch(s, "1 2 3/1 4 5/1");
    CHECK_STR(stage_published(s), "1 3");
    stage_deliver(s, "3");
    CHECK_STR(stage_published(s), "5");
    stage_deliver(s, "1");
    CHECK_STR(stage_published(s), "2 4");
}

TEST(relay_asks_for_no_more_rows_than_there_is_room_for)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.window_rows = 14;
    s = stage_set(&limits);
    CHECK_EQ(s->action[RELAY_FETCH].rows, 10);
    stage_fetch_upto(s, "1 2 3 4 5 6 7 8 9 10", 10);
    CHECK(s->asked[RELAY_FETCH]); /* at once: there is more */
    CHECK_EQ(s->action[RELAY_FETCH].rows, 4);
    stage_fetch_upto(s, "11 12", 12);
    stage_pass(s, 500);
    CHECK(!s->asked[RELAY_FETCH]); /* less than a quarter is free */
    stage_deliver(s, "1");
    stage_await(s, RELAY_MARK, 100);
    stage_mark(s, 0);
    stage_await(s, RELAY_FETCH, 100);
    CHECK_EQ(s->action[RELAY_FETCH].rows, 3);
    CHECK_EQ(s->action[RELAY_FETCH].from, 12);
}

TEST(relay_asks_for_no_more_bytes_than_there_is_room_for)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.window_bytes = 80;
    limits.fetch_bytes = 70;
    s = stage_set(&limits);
    CHECK_EQ(s->action[RELAY_FETCH].bytes, 70);
    stage_fetch(s, "1 2 3 4 5");
    stage_await(s, RELAY_FETCH, 100);
    CHECK_EQ(s->action[RELAY_FETCH].bytes, 30);
    stage_fetch(s, "6 7");
    stage_pass(s, 500);
    CHECK(!s->asked[RELAY_FETCH]);
    stage_deliver(s, "1");
    stage_await(s, RELAY_FETCH, 100);
    CHECK_EQ(s->action[RELAY_FETCH].bytes, 20);
}

TEST(relay_marks_when_there_are_enough_or_time_is_over)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.mark_rows_min = 3;
    limits.mark_rows = 4;
    s = stage_set(&limits);
    stage_fetch(s, "1 2/1 3/2 4/3 5/1 6/2 7/3");
    stage_deliver(s, "1");
    stage_pass(s, limits.mark_delay_ms - 1);
    CHECK(!s->asked[RELAY_MARK]);
    stage_pass(s, 1);
    CHECK(s->asked[RELAY_MARK]);
    stage_mark(s, 0);
    stage_deliver(s, "2 3");
    CHECK(!s->asked[RELAY_MARK]);
    stage_deliver(s, "4");
    CHECK_STR(stage_marks(s), "2 3 4");
    stage_deliver(s, "5 6 7");
    stage_mark(s, 0);
    CHECK_STR(stage_marks(s), "5 6 7");
}

TEST(relay_marks_no_more_at_once_than_allowed)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.mark_rows = 2;
    s = stage_set(&limits);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_BEAT);
    stage_fetch(s, "1 2/1 3/2");
    stage_deliver(s, "1");
    stage_deliver(s, "3 2");
    stage_mark(s, 0);
    CHECK_STR(stage_marks(s), "2 3");
}

/* Rows that were published and that the database has lost. */
TEST(relay_tells_of_marks_whose_pair_is_not_in_the_table)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    stage_fetch(s, "1 2");
    stage_deliver(s, "1");
    stage_await(s, RELAY_MARK, 100);
    stage_mark(s, 1);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_PHANTOM), 1);
}

/* Finding 31: a mark that is repeated may have been applied the first time; where marking deletes, its misses say nothing. */
TEST(relay_says_which_marks_are_repeated)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    stage_fetch(s, "1 2");
    stage_deliver(s, "1");
    stage_await(s, RELAY_MARK, 100);
    stage_fail(s, RELAY_MARK);
    stage_await(s, RELAY_MARK, 100);
    CHECK_STR(stage_marks(s), "1");
    CHECK(s->action[RELAY_MARK].force);
    stage_mark(s, 0);
    stage_deliver(s, "2");
    stage_await(s, RELAY_MARK, 100);
    CHECK(!s->action[RELAY_MARK].force);
}

TEST(relay_saves_the_floor_when_marks_are_answered)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    stage_fetch(s, "1 2 3 4");
    stage_deliver(s, "1");
    stage_pass(s, limits.save_ms);
    CHECK(s->asked[RELAY_MARK] && !s->asked[RELAY_SAVE]); /* the mark is on its way only */
    stage_mark(s, 0);
    stage_await(s, RELAY_SAVE, limits.save_ms);
    CHECK_STR(stage_saving(s), "floor 1");
    CHECK_EQ(view(s).floor, 0);
    stage_save(s);
    CHECK_EQ(view(s).floor, 1);
    stage_deliver(s, "2 3 4");
    stage_await(s, RELAY_MARK, 100);
    stage_mark(s, 0);
    CHECK(!s->asked[RELAY_SAVE]);
    stage_await(s, RELAY_SAVE, limits.save_ms);
    CHECK_STR(stage_saving(s), "floor 4");
    stage_save(s);
    stage_pass(s, 2 * limits.save_ms);
    CHECK(!s->asked[RELAY_SAVE]); /* nothing changed */
}

TEST(relay_saves_early_after_many_rows)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.save_ids = 3;
    s = stage_set(&limits);
    stage_fetch(s, "1 2/1 3/2");
    stage_deliver(s, "1 2 3");
    stage_await(s, RELAY_MARK, 100);
    stage_mark(s, 0);
    CHECK_STR(stage_saving(s), "floor 3");
    stage_save(s);
    stage_fetch(s, "4 5/1 6/2"); /* and again */
    stage_deliver(s, "4 5 6");
    stage_await(s, RELAY_MARK, 100);
    stage_mark(s, 0);
    CHECK_STR(stage_saving(s), "floor 6");
}

/* A save that failed is tried again, though nothing else happens. */
TEST(relay_saves_again_when_a_save_failed)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    stage_fetch(s, "1");
    stage_drain(s);
    stage_await(s, RELAY_SAVE, limits.save_ms);
    stage_fail(s, RELAY_SAVE);
    stage_await(s, RELAY_SAVE, limits.save_ms);
    CHECK_STR(stage_saving(s), "floor 1");
}

TEST(relay_floor_stays_below_what_is_open_or_unsettled)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered |= STAGE_ANSWERS(RELAY_SAVE) | STAGE_ANSWERS(RELAY_MARK);
    stage_fetch(s, "1 2/1 4");
    stage_drain(s);
    stage_pass(s, 2 * limits.save_ms);
    CHECK_EQ(view(s).floor, 2); /* 3 is a gap */
    CHECK_EQ(view(s).open_gaps, 1);
}

TEST(relay_closes_a_gap_when_its_writers_ended_and_one_more_read_lacks_it)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    uint64_t asked_ms;

    stage_fetch(s, "1 3");
    asked_ms = s->now_ms;
    CHECK_EQ(view(s).oldest_gap_ms, s->now_ms);
    stage_idle(s, RELAY_WRITERS, 10000);
    CHECK(s->now_ms >= asked_ms + limits.gap_age_ms);
    asked_ms = s->now_ms;
    stage_writers(s, 3, "71");
    stage_idle(s, RELAY_WRITERS, 10000);
    CHECK(s->now_ms >= asked_ms + limits.writers_min_ms);
    CHECK_EQ(view(s).open_gaps, 1);
    stage_writers(s, 3, "72");
    CHECK(s->asked[RELAY_FETCH]); /* at once: nothing else is missing */
    CHECK_STR(stage_gaps(s), "2");
    CHECK_EQ(view(s).open_gaps, 1);
    stage_fetch(s, "");
    CHECK_EQ(view(s).open_gaps, 0);
}

/* Such a question costs milliseconds in the database: it takes 1 % of the time, but after one stall gaps do not stay open for minutes. */
TEST(relay_asks_for_writers_in_measure)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    uint64_t asked_ms;

    limits.backoff_max_ms = 3000;
    s = stage_set(&limits);
    stage_fetch(s, "1 3");
    stage_idle(s, RELAY_WRITERS, 10000);
    stage_pass(s, 10);
    stage_writers(s, 3, "71");
    asked_ms = s->now_ms;
    stage_idle(s, RELAY_WRITERS, 10000);
    CHECK(s->now_ms >= asked_ms + 990 && s->now_ms <= asked_ms + 1100);
    stage_pass(s, 100);
    stage_writers(s, 3, "71");
    asked_ms = s->now_ms;
    stage_idle(s, RELAY_WRITERS, 10000);
    CHECK(s->now_ms >= asked_ms + 3000 && s->now_ms <= asked_ms + 3100);
}

TEST(relay_rows_wait_until_their_wal_is_flushed)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->insert_lsn = 100;
    s->flush_lsn = 50;
    stage_fetch(s, "1");
    CHECK_STR(stage_published(s), "");
    CHECK(s->asked[RELAY_FLUSH] && !s->action[RELAY_FLUSH].force);
    stage_flush(s, 60);
    CHECK(s->asked[RELAY_FLUSH] && s->action[RELAY_FLUSH].force); /* it did not do by itself */
    CHECK_STR(stage_published(s), "");
    stage_flush(s, 100);
    CHECK_STR(stage_published(s), "1");
    CHECK(!s->asked[RELAY_FLUSH]);
    s->insert_lsn = s->flush_lsn = 200;
    stage_fetch(s, "2/1");
    CHECK_STR(stage_published(s), "2"); /* the read itself said so */
}

/* In a drain our own marks are in the way of every flush; later they are not. */
TEST(relay_forces_the_flush_for_a_while_only)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->insert_lsn = 100;
    stage_fetch(s, "1");
    stage_flush(s, 60);
    stage_flush(s, 100);
    s->insert_lsn = 110;
    stage_fetch(s, "2/1");
    CHECK(s->action[RELAY_FLUSH].force);
    stage_flush(s, 110);
    stage_idle_for(s, 200);
    s->insert_lsn = 120;
    stage_fetch(s, "3/2");
    CHECK(s->asked[RELAY_FLUSH] && !s->action[RELAY_FLUSH].force);
}

TEST(relay_is_drained_when_nothing_is_left_anywhere)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    CHECK(!view(s).drained);
    stage_fetch(s, "1");
    stage_idle_for(s, 50);
    CHECK(!view(s).drained); /* 1 is with the producer */
    stage_deliver(s, "1");
    stage_idle_for(s, 100);
    CHECK(view(s).drained);
    stage_fetch(s, "3");
    stage_deliver(s, "3");
    stage_idle_for(s, 90);
    CHECK(view(s).window_rows == 0 && !view(s).drained); /* 2 may come */
}

TEST(relay_trusts_the_writers_without_a_barrier)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.durability = RELAY_DURABILITY_OFF;
    s = stage_set(&limits);
    s->insert_lsn = 100;
    stage_fetch(s, "1");
    CHECK_STR(stage_published(s), "1");
    CHECK(!s->asked[RELAY_FLUSH]);
}

/* What was settled before the start is read once, so that it makes no gaps, and goes nowhere. */
TEST(relay_reads_settled_rows_after_a_start_only)
{
    struct relay_limits limits = stage_limits();
    struct stage *s =
        stage_bare(&limits, STAGE_ANSWERS(RELAY_CONNECT) | STAGE_ANSWERS(RELAY_SESSION_OPEN) | STAGE_ANSWERS(RELAY_TOPIC), STAGE_START_MS);

    s->last_id = 5;
    stage_grant(s, 0, "");
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 5);
    stage_fetch_upto(s, "1s 2s 3", 3);
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 5);
    CHECK_EQ(s->action[RELAY_FETCH].from, 3);
    stage_fetch(s, "4s 5s 6");
    CHECK_STR(stage_published(s), "3");
    CHECK_EQ(view(s).open_gaps, 0);
    CHECK_EQ(view(s).window_rows, 2);
    stage_await(s, RELAY_FETCH, 100);
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 0);
}

/* A backlog that nobody has touched is read as cheaply after a start as at any other time. */
TEST(relay_asks_for_settled_rows_as_long_as_they_come)
{
    struct relay_limits limits = stage_limits();
    struct stage *s =
        stage_bare(&limits, STAGE_ANSWERS(RELAY_CONNECT) | STAGE_ANSWERS(RELAY_SESSION_OPEN) | STAGE_ANSWERS(RELAY_TOPIC), STAGE_START_MS);

    s->last_id = 1000;
    stage_grant(s, 0, "");
    stage_fetch_upto(s, "1s 2s 3s", 3);
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 1000);
    CHECK_EQ(s->action[RELAY_FETCH].rows, limits.settled_rows);
    stage_fetch_upto(s, "4", 4);
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 1000);
    CHECK_EQ(s->action[RELAY_FETCH].rows, limits.fetch_rows);
    stage_fetch_upto(s, "5", 5);
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 0);
    stage_fetch_upto(s, "6 8", 8);
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 0);
    stage_fetch_upto(s, "10 12 14", 14);
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 1000);
    CHECK_STR(stage_gaps(s), "7 9 11 13");
}

TEST(relay_tells_what_did_not_fit_among_its_notes)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = limits.window_rows = limits.fetch_rows = limits.keys_max = 100;
    limits.fetch_bytes = limits.window_bytes = 10000;
    limits.ranges_max = 200;
    s = stage_set(&limits);
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1");
    stage_topic(s, 100, 100, 0);
    stage_fetch(s,
                "2/2 3/3 4/4 5/5 6/6 7/7 8/8 9/9 10/10 11/11 12/12 13/13 14/14 15/15 16/16 17/17 18/18 19/19 20/20 21/21 22/22 23/23 "
                "24/24 25/25 26/26 27/27 28/28 29/29 30/30 31/31 32/32 33/33 34/34 35/35 36/36 37/37 38/38 39/39 40/40 41/41 42/42 43/43 "
                "44/44 45/45 46/46 47/47 48/48 49/49 50/50 51/51 52/52 53/53 54/54 55/55 56/56 57/57 58/58 59/59 60/60 61/61 62/62 63/63 "
                "64/64 65/65 66/66 67/67 68/68 69/69 70/70");
    stage_forget_notes(s);
    for (row_slot slot = 0; slot < limits.window_rows; slot++) {
        if (s->handed[slot])
            relay_on_unpublished(s->relay, s->now_ms, slot, RELAY_FAULT_SIZE);
        s->handed[slot] = false;
    }
    stage_run(s);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_KEY_BEHIND), 64);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_DROPPED), 1);
    CHECK_EQ(s->noted[s->noted_n - 1].rows, 6);
    CHECK_EQ(view(s).behind_keys, 70);
}
