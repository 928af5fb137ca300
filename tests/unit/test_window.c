/* SPDX-License-Identifier: BSD-2-Clause */
/* The window, one promise of its header a test: rows, bytes, what is known and what is given back. */
#include "tests/lib/test.h"
#include "tests/unit/window_rig.h"

/* A broker that does not know the producer would accept the second row after refusing the first. */
/* The rows of a single lane go to different partitions: being warm says nothing about the next. */
TEST(window_rows_wait_for_their_flush_in_every_lane)
{
    struct window *w = rig_window();
    struct row a = rig_row(1), b = rig_row(2), c = rig_row(3);

    (void)window_admit(w, &a, 0, 70);
    (void)window_admit(w, &b, 1, 70);
    window_lane_open(w, 2, false, false);
    (void)window_admit(w, &c, 2, 71);
    window_flushed(w, 69);
    CHECK_EQ(rig_hand(w), 0);
    window_flushed(w, 70);
    CHECK_EQ(rig_hand(w), 1);
    CHECK_EQ(rig_hand(w), 2);
    CHECK_EQ(rig_hand(w), 0);
    CHECK(window_waits_for_flush(w));
    window_flushed(w, 71);
    CHECK(!window_waits_for_flush(w));
    CHECK_EQ(rig_hand(w), 3);
}

/* A flush that is told late says less than one that was told before. */
TEST(window_flush_never_goes_back)
{
    struct window *w = rig_window();
    struct row a = rig_row(1);

    window_flushed(w, 70);
    window_flushed(w, 60);
    (void)window_admit(w, &a, 0, 65);
    CHECK(!window_waits_for_flush(w));
    CHECK_EQ(rig_hand(w), 1);
}

/* The lane's first row decides: a later one that is flushed does not overtake it. */
TEST(window_ready_rows_wait_behind_one_that_is_not)
{
    struct window *w = rig_window();
    struct row a = rig_row(2), b = rig_row(1);

    (void)window_admit(w, &a, 0, 10);
    window_flushed(w, 10);
    (void)window_admit(w, &b, 0, 20);
    CHECK_EQ(rig_hand(w), 0);
    window_flushed(w, 20);
    CHECK_EQ(rig_hand(w), 1);
}

TEST(window_returned_rows_go_before_newer_ones_and_need_no_flush_again)
{
    struct window *w = rig_window();
    struct row a = rig_row(1);
    row_slot s = window_admit(w, &a, 0, 50);

    window_flushed(w, 50);
    CHECK_EQ(rig_hand(w), 1);
    (void)rig_admit(w, 0, 2);
    window_return(w, s);
    window_start_over(w); /* drops both, and forgets the flush */
    s = rig_admit(w, 0, 3);
    CHECK_EQ(rig_hand(w), 3);
    (void)rig_admit(w, 0, 4);
    window_return(w, s);
    CHECK_EQ(rig_hand(w), 3);
    CHECK_EQ(window_lane_queued(w, 0), 1);
}

/* A row that passed the barrier once was durable, also where nobody knows how far the flush is by now. */
TEST(window_returned_row_is_ready_after_a_start_over)
{
    struct window *w = rig_window();
    struct row a = rig_row(1);
    row_slot s = window_admit(w, &a, 0, 50);

    window_flushed(w, 50);
    CHECK_EQ(rig_hand(w), 1);
    window_start_over(w);
    window_return(w, s);
    CHECK_EQ(rig_hand(w), 1);
}

TEST(window_bytes_end_at_delivery_or_when_dropped)
{
    struct window *w = rig_window();
    row_slot s = rig_admit(w, 0, 1);

    (void)rig_admit(w, 0, 2);
    CHECK_EQ(window_bytes(w), 20);
    CHECK_EQ(rig_hand(w), 1);
    CHECK_EQ(window_bytes(w), 20);
    window_return(w, s);
    CHECK_EQ(window_bytes(w), 20);
    CHECK_EQ(rig_hand(w), 1);
    window_ack(w, 0, s);
    CHECK_EQ(window_bytes(w), 10);
    CHECK_EQ(window_take(w, 0), 2);
    CHECK_EQ(window_bytes(w), 0);
    CHECK_EQ(window_room_bytes(w), RIG_BYTES);
}

/* One row may go over: what is left then is nothing, not a huge number. */
TEST(window_has_no_bytes_left_when_it_is_over_full)
{
    struct window *w = rig_window();
    struct row big = rig_row(1);

    big.bytes = RIG_BYTES + 1;
    (void)window_admit(w, &big, 0, 0);
    CHECK_EQ(window_room_bytes(w), 0);
}

TEST(window_slots_live_until_marked_or_given_back)
{
    struct window *w = rig_window();
    row_slot s = rig_admit(w, 0, 1), got;

    (void)rig_admit(w, 0, 2);
    CHECK_EQ(window_room_rows(w), RIG_ROWS - 2);
    CHECK_EQ(rig_hand(w), 1);
    window_ack(w, 0, s);
    CHECK_EQ(window_acked(w), 1);
    CHECK(window_mark(w, &got) && got == s && window_acked(w) == 0);
    CHECK_EQ(window_rows(w), 2);
    window_marked(w, s, false);
    CHECK_EQ(window_rows(w), 1);
    (void)window_take(w, 0);
    CHECK_EQ(window_rows(w), 1); /* its bytes are not given back yet */
    CHECK(window_drop(w, &got) && !window_drop(w, &got));
    CHECK_EQ(window_rows(w), 0);
    CHECK(window_lane_empty(w, 0));
}

TEST(window_can_be_filled_again_and_again)
{
    struct window *w = rig_window();
    row_slot s;

    for (int64_t id = 1; id <= 5 * RIG_ROWS; id++) {
        (void)rig_admit(w, 0, id);
        if (window_room_rows(w) > 0)
            continue;
        CHECK_EQ(window_take(w, 0), id - RIG_ROWS + 1);
        while (window_drop(w, &s))
            continue;
        CHECK_EQ(window_room_rows(w), RIG_ROWS);
    }
}

/* The id alone names nothing: a crash gives it to another event. */
TEST(window_knows_a_row_by_id_and_event)
{
    struct window *w = rig_window();
    struct row other = rig_row(1);

    other.event_id.bytes[15] = 9;
    (void)rig_admit(w, 0, 1);
    CHECK(rig_knows(w, 1) && !rig_knows(w, 2) && !window_knows(w, &other));
    (void)window_admit(w, &other, 0, 0);
    CHECK(rig_knows(w, 1) && window_knows(w, &other));
    (void)window_take(w, 0);
    CHECK(!rig_knows(w, 1) && !window_knows(w, &other));
}

TEST(window_knows_rows_whose_ids_share_a_bucket)
{
    struct window *w = rig_window();

    for (int64_t i = 0; i < 4; i++)
        (void)rig_admit(w, i == 1, 7 + i * 64);
    CHECK_EQ(window_take(w, 1), 71);
    CHECK(rig_knows(w, 7) && !rig_knows(w, 71) && rig_knows(w, 135) && rig_knows(w, 199));
}

/* Finding 37: a read whose snapshot is older than the mark still brings the row. */
TEST(window_remembers_what_is_marked_while_a_read_is_on_its_way)
{
    struct window *w = rig_window();
    row_slot s = rig_admit(w, 0, 1);

    CHECK_EQ(rig_hand(w), 1);
    window_ack(w, 0, s);
    CHECK(window_mark(w, &s) && rig_knows(w, 1));
    window_marked(w, s, true);
    CHECK(rig_knows(w, 1));
    window_forget(w);
    CHECK(!rig_knows(w, 1));
    CHECK_EQ(window_rows(w), 0);
}

TEST(window_unmarked_rows_are_marked_again)
{
    struct window *w = rig_window();
    row_slot s = rig_admit(w, 0, 1), got;

    CHECK_EQ(rig_hand(w), 1);
    window_ack(w, 0, s);
    CHECK(window_mark(w, &got));
    window_unmarked(w, got);
    CHECK_EQ(window_acked(w), 1);
    CHECK(rig_knows(w, 1) && window_mark(w, &got) && got == s);
}

TEST(window_take_leaves_what_is_handed)
{
    struct window *w = rig_window();
    row_slot s;

    CHECK_EQ(window_take(w, 0), INT64_MAX);
    (void)rig_admit(w, 0, 1);
    CHECK_EQ(rig_hand(w), 1);
    (void)rig_admit(w, 0, 3);
    (void)rig_admit(w, 0, 2);
    (void)rig_admit(w, 1, 4);
    CHECK_EQ(window_take(w, 0), 2);
    CHECK(rig_knows(w, 1) && rig_knows(w, 4) && !rig_knows(w, 2) && !rig_knows(w, 3));
    CHECK(window_drop(w, &s) && window_drop(w, &s) && !window_drop(w, &s));
    CHECK_EQ(window_lane_handed(w, 0), 1);
    CHECK_EQ(window_lane_queued(w, 0), 0);
}

TEST(window_abandons_a_row_that_came_back)
{
    struct window *w = rig_window();
    row_slot s = rig_admit(w, 0, 1), got;

    CHECK_EQ(rig_hand(w), 1);
    window_stick(w, 0);
    window_abandon(w, s);
    CHECK(!rig_knows(w, 1) && window_bytes(w) == 0 && window_handed(w) == 0);
    CHECK_EQ(window_stuck_due_ms(w, 50), UINT64_MAX);
    CHECK(window_drop(w, &got) && got == s && window_lane_empty(w, 0));
}

/* Finding 35: what waits for the barrier may have been lost by a crash. */
TEST(window_start_over_drops_what_waits_and_forgets_the_flush)
{
    struct window *w = rig_window();
    struct row late = rig_row(5), waits = rig_row(2);
    row_slot s = rig_admit(w, 0, 1), got;

    window_flushed(w, 100);
    CHECK_EQ(rig_hand(w), 1);
    (void)window_admit(w, &waits, 0, 200);
    (void)rig_admit(w, 1, 3);
    window_start_over(w);
    CHECK(window_drop(w, &got) && window_drop(w, &got) && !window_drop(w, &got));
    CHECK(!window_waits_for_flush(w));
    (void)window_admit(w, &late, 1, 50);
    CHECK_EQ(rig_hand(w), 0);
    window_ack(w, 0, s);
    CHECK_EQ(window_acked(w), 1);
}

/* A lane that is slow but moves is not stuck: the time runs from its last acknowledgement. */
/* What a dead partition holds does not count any more when it is acknowledged after all, or comes back. */
TEST(window_tells_what_a_row_was)
{
    struct window *w = rig_window();
    struct row row = rig_row(7);
    row_slot s;

    row.partition = 5;
    row.spread = 77;
    s = window_admit(w, &row, 1, 0);
    CHECK_EQ(window_id(w, s), 7);
    CHECK_EQ(window_lane(w, s), 1);
    CHECK_EQ(window_wish(w, s), 5);
    CHECK_EQ(window_spread(w, s), 77);
    CHECK_EQ(window_event_id(w, s).bytes[0], 7);
    CHECK_EQ(rig_hand(w), 7);
    CHECK_EQ(window_handed(w), 1);
    CHECK_EQ(window_lane_handed(w, 1), 1);
}

/* For saves: what is neither in the database's marks nor given up is unsettled. */
TEST(window_firsts_are_the_smallest_unsettled_ids)
{
    struct window *w = rig_window();
    int64_t firsts[2];
    row_slot s[5], got;

    for (unsigned i = 0; i < 5; i++)
        s[i] = rig_admit(w, 0, i + 1);
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(rig_hand(w), i + 1);
        window_firsts(w, firsts, 2);
        CHECK_EQ(firsts[0], i < 2 ? i + 1 : 2); /* queued and handed count */
        window_ack(w, 0, s[i]);
        window_firsts(w, firsts, 2);
        CHECK_EQ(firsts[0], i == 0 ? 1 : 2); /* so do acknowledged and marking ones */
        if (i == 0 && window_mark(w, &got))
            window_marked(w, got, true);
        if (i == 1)
            CHECK(window_mark(w, &got));
    }
    window_marked(w, s[1], false);
    window_firsts(w, firsts, 2);
    CHECK_EQ(firsts[0], 3);
    CHECK_EQ(firsts[1], INT64_MAX);
    for (unsigned i = 2; i < 4; i++) {
        CHECK(window_mark(w, &got));
        window_marked(w, got, false);
    }
    CHECK_EQ(window_take(w, 0), 5);
    window_firsts(w, firsts, 2);
    CHECK_EQ(firsts[0], INT64_MAX); /* remembered and dropped ones do not */
}

TEST(window_digest_counts_rows_and_not_slots_or_dates)
{
    struct window *a = rig_window(), *b = rig_window();
    row_slot s;

    (void)rig_admit(a, 0, 1);
    (void)rig_admit(a, 1, 2);
    (void)rig_admit(b, 1, 2);
    (void)rig_admit(b, 0, 1);
    CHECK(window_digest(a, 0) == window_digest(b, 0));
    CHECK(window_hand(a, 100, false, &s));
    CHECK(window_digest(a, 100) != window_digest(b, 100));
    while (window_id(b, s) != 1 || window_lane_handed(b, 0) == 0)
        CHECK(window_hand(b, 500, false, &s));
    while (window_handed(a) < window_handed(b))
        CHECK(window_hand(a, 100, false, &s));
    CHECK(window_digest(a, 100) == window_digest(b, 500));
    CHECK(window_digest(a, 101) != window_digest(b, 500));
}
