/* SPDX-License-Identifier: BSD-2-Clause */
/* The lanes of the window: order, turns, shares, and lanes that are stuck. */
#include "tests/lib/test.h"
#include "tests/unit/window_rig.h"

TEST(window_hands_a_lane_in_id_order_however_its_rows_came)
{
    struct window *w = rig_window();
    const int64_t came[] = {5, 1, 3, 2, 4};

    rig_warm(w, 0);
    for (unsigned i = 0; i < 5; i++)
        (void)rig_admit(w, 0, came[i]);
    for (int64_t id = 1; id <= 3; id++)
        CHECK_EQ(rig_hand(w), id);
    CHECK_EQ(rig_hand(w), 0); /* its share is with the producer */
}

TEST(window_hands_one_row_of_a_cold_lane)
{
    struct window *w = rig_window();
    row_slot first = rig_admit(w, 0, 1);

    (void)rig_admit(w, 0, 2);
    (void)rig_admit(w, 0, 3);
    CHECK_EQ(rig_hand(w), 1);
    CHECK_EQ(rig_hand(w), 0);
    window_ack(w, 0, first);
    CHECK_EQ(rig_hand(w), 2);
    CHECK_EQ(rig_hand(w), 3);
}

TEST(window_lanes_are_cold_in_a_new_session)
{
    struct window *w = rig_window();

    rig_warm(w, 0);
    (void)rig_admit(w, 0, 1);
    (void)rig_admit(w, 0, 2);
    window_cold(w, false);
    CHECK_EQ(rig_hand(w), 1);
    CHECK_EQ(rig_hand(w), 0);
}

TEST(window_hands_one_row_of_a_single_lane_though_it_is_warm)
{
    struct window *w = rig_window();

    window_lane_open(w, 2, true, false);
    rig_warm(w, 2);
    (void)rig_admit(w, 2, 1);
    (void)rig_admit(w, 2, 2);
    CHECK_EQ(rig_hand(w), 1);
    CHECK_EQ(rig_hand(w), 0);
}

TEST(window_lanes_take_turns)
{
    struct window *w = rig_window();

    rig_warm(w, 0);
    rig_warm(w, 1);
    for (int64_t id = 1; id <= 6; id++)
        (void)rig_admit(w, id > 3, id);
    CHECK_EQ(rig_hand(w), 1);
    CHECK_EQ(rig_hand(w), 4);
    CHECK_EQ(rig_hand(w), 2);
    CHECK_EQ(rig_hand(w), 5);
}

/* What is about to be handed is fetched into the processor, by these two. */
TEST(window_says_which_two_rows_come_next)
{
    struct window *w = rig_window();

    CHECK_EQ(window_next(w), ROW_NO_SLOT);
    CHECK_EQ(window_later(w), ROW_NO_SLOT);
    rig_warm(w, 0);
    rig_warm(w, 1);
    rig_admit(w, 0, 1);
    CHECK_EQ(window_later(w), ROW_NO_SLOT);
    rig_admit(w, 0, 2);
    CHECK_EQ(window_id(w, window_next(w)), 1);
    CHECK_EQ(window_id(w, window_later(w)), 2); /* of the only lane, its second */
    rig_admit(w, 1, 3);
    CHECK_EQ(window_id(w, window_later(w)), 3); /* of two, the other's first */
    CHECK_EQ(rig_hand(w), 1);
    CHECK_EQ(window_id(w, window_next(w)), 3);
    CHECK_EQ(window_id(w, window_later(w)), 2);
    CHECK_EQ(rig_hand(w), 3);
    CHECK_EQ(rig_hand(w), 2);
}

TEST(window_finds_the_lane_that_waits_longest)
{
    struct window *w = rig_window();
    row_slot a = rig_admit(w, 0, 1), b = rig_admit(w, 1, 2), got;

    CHECK_EQ(window_stuck_due_ms(w, 50), UINT64_MAX);
    CHECK(window_hand(w, 100, false, &got) && window_hand(w, 120, false, &got));
    CHECK_EQ(window_stuck_due_ms(w, 50), 150);
    CHECK_EQ(window_find_stuck(w, 149, 50), WINDOW_NO_LANE);
    CHECK_EQ(window_find_stuck(w, 150, 50), 0);
    window_ack(w, 130, a);
    CHECK_EQ(window_find_stuck(w, 169, 50), WINDOW_NO_LANE);
    CHECK_EQ(window_find_stuck(w, 170, 50), 1);
    window_return(w, b);
    CHECK_EQ(window_stuck_due_ms(w, 50), UINT64_MAX);
}

TEST(window_lane_that_moves_is_not_stuck)
{
    struct window *w = rig_window();
    row_slot a, b, got;

    rig_warm(w, 0);
    a = rig_admit(w, 0, 1);
    b = rig_admit(w, 0, 2);
    (void)rig_admit(w, 1, 3);
    CHECK(window_hand(w, 100, false, &got) && window_hand(w, 100, false, &got) && window_hand(w, 100, false, &got));
    window_ack(w, 140, a);
    CHECK_EQ(window_find_stuck(w, 150, 50), 1);
    window_stick(w, 1);
    CHECK_EQ(window_find_stuck(w, 189, 50), WINDOW_NO_LANE);
    CHECK_EQ(window_find_stuck(w, 190, 50), 0);
    window_ack(w, 190, b);
    CHECK_EQ(window_stuck_due_ms(w, 50), UINT64_MAX);
}

TEST(window_stuck_lane_hands_nothing_until_acknowledged)
{
    struct window *w = rig_window();
    row_slot a, got;

    rig_warm(w, 0);
    a = rig_admit(w, 0, 1);
    (void)rig_admit(w, 0, 2);
    CHECK(window_hand(w, 100, false, &got));
    window_stick(w, 0);
    CHECK(window_lane_stuck(w, 0));
    CHECK_EQ(rig_hand(w), 0);
    CHECK_EQ(window_stuck_due_ms(w, 50), UINT64_MAX); /* found once */
    window_ack(w, 200, a);
    CHECK(!window_lane_stuck(w, 0));
    CHECK_EQ(rig_hand(w), 2);
}

TEST(window_counts_the_rows_of_stuck_lanes)
{
    struct window *w = rig_window();
    row_slot s[2 * RIG_SHARE];

    rig_warm(w, 0);
    rig_warm(w, 1);
    for (unsigned i = 0; i < 2 * RIG_SHARE; i++) {
        s[i] = rig_admit(w, i >= RIG_SHARE, i + 1);
    }
    for (unsigned i = 0; i < 2 * RIG_SHARE; i++)
        CHECK(rig_hand(w) > 0);
    window_stick(w, 0);
    CHECK(!window_is_mostly_stuck(w)); /* 3 of 8 */
    window_stick(w, 1);
    CHECK(window_is_mostly_stuck(w)); /* 6 */
    window_return(w, s[0]);
    CHECK(window_is_mostly_stuck(w)); /* 5 */
    window_return(w, s[RIG_SHARE]);
    CHECK(!window_is_mostly_stuck(w)); /* 4 */
    window_ack(w, 0, s[1]);            /* lane 0 is not stuck any more: 2 */
    window_return(w, s[2]);
    window_return(w, s[RIG_SHARE + 1]);
    window_return(w, s[RIG_SHARE + 2]);
    window_cold(w, false);
    CHECK(!window_is_mostly_stuck(w) && !window_lane_stuck(w, 1));
    CHECK(rig_hand(w) > 0 && rig_hand(w) > 0);
    window_stick(w, 0);
    window_stick(w, 1);
    CHECK(!window_is_mostly_stuck(w)); /* 2: counted anew */
}

TEST(window_counts_the_bytes_of_stuck_lanes)
{
    struct window *w = rig_window();
    struct row big = rig_row(1);
    row_slot s;

    big.bytes = RIG_BYTES / 2 + 1;
    s = window_admit(w, &big, 0, 0);
    CHECK_EQ(rig_hand(w), 1);
    window_stick(w, 0);
    CHECK(window_is_mostly_stuck(w));
    window_return(w, s);
    CHECK(!window_is_mostly_stuck(w));
    window_cold(w, false);
    CHECK_EQ(rig_hand(w), 1);
    window_stick(w, 0);
    CHECK(window_is_mostly_stuck(w));
    window_ack(w, 0, s);
    CHECK(!window_is_mostly_stuck(w));
}

TEST(window_paused_lane_hands_nothing)
{
    struct window *w = rig_window();

    (void)rig_admit(w, 0, 1);
    window_lane_pause(w, 0, true);
    CHECK_EQ(rig_hand(w), 0);
    window_lane_pause(w, 0, false);
    CHECK_EQ(rig_hand(w), 1);
}

TEST(window_lane_number_starts_cold_when_used_again)
{
    struct window *w = rig_window();

    rig_warm(w, 0);
    CHECK(window_lane_empty(w, 0));
    window_lane_pause(w, 0, true);
    window_lane_open(w, 0, false, false);
    (void)rig_admit(w, 0, 1);
    (void)rig_admit(w, 0, 2);
    CHECK(!window_lane_empty(w, 0));
    CHECK_EQ(rig_hand(w), 1);
    CHECK_EQ(rig_hand(w), 0);
}

TEST(window_moves_queued_rows_to_another_lane)
{
    struct window *w = rig_window();
    row_slot s, next;

    for (int64_t id = 5; id >= 1; id--)
        (void)rig_admit(w, id % 2 == 0, id);
    for (s = window_lane_first(w, 0); s != ROW_NO_SLOT; s = next) {
        next = window_lane_after(w, s);
        if (window_id(w, s) != 3)
            window_move(w, s, 1);
    }
    CHECK_EQ(window_lane_queued(w, 0), 1);
    CHECK_EQ(window_lane_queued(w, 1), 4);
    CHECK_EQ(window_bytes(w), 50);
    for (s = window_lane_first(w, 1); window_lane_after(w, s) != ROW_NO_SLOT; s = window_lane_after(w, s))
        CHECK(window_id(w, s) < window_id(w, window_lane_after(w, s)));
    CHECK_EQ(window_take(w, 0), 3);
    CHECK(window_drop(w, &s) && window_lane_empty(w, 0));
    CHECK_EQ(window_take(w, 1), 1);
}
