/* SPDX-License-Identifier: BSD-2-Clause */
/* The window, one promise of its header a test. */
#include "relay/core/window.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define ROWS      8
#define BYTES_MAX 100
#define LANES     4
#define SHARE     3

/* Lanes 0 and 1 are open; a lane hands 3 rows at once. */
static struct window *window_new(void)
{
    struct window *w = window_init(test_allocate(window_size(ROWS, LANES)), ROWS, BYTES_MAX, LANES, SHARE);

    window_lane_open(w, 0, false);
    window_lane_open(w, 1, false);
    return w;
}

static struct row row_of(int64_t id)
{
    struct row row = {.id = id, .bytes = 10, .partition = -1};

    memcpy(row.event_id.bytes, &id, sizeof id);
    return row;
}

static row_slot admit(struct window *w, uint32_t lane, int64_t id)
{
    struct row row = row_of(id);

    return window_admit(w, &row, lane, 0);
}

static bool knows(const struct window *w, int64_t id)
{
    struct row row = row_of(id);

    return window_knows(w, &row);
}

/* The id handed next, 0 if there is none. */
static int64_t hand(struct window *w)
{
    row_slot s;

    return window_hand(w, 0, &s) ? window_id(w, s) : 0;
}

/* One row of the lane was acknowledged: it hands its share. The row is gone. */
static void warm(struct window *w, uint32_t lane)
{
    row_slot s = admit(w, lane, 1000 + lane), got;

    CHECK(window_hand(w, 0, &got) && got == s);
    window_ack(w, 0, s);
    CHECK(window_mark(w, &got) && got == s);
    window_marked(w, s, false);
}

TEST(window_hands_a_lane_in_id_order_however_its_rows_came)
{
    struct window *w = window_new();
    const int64_t came[] = {5, 1, 3, 2, 4};

    warm(w, 0);
    for (unsigned i = 0; i < 5; i++)
        (void)admit(w, 0, came[i]);
    for (int64_t id = 1; id <= 3; id++)
        CHECK_EQ(hand(w), id);
    CHECK_EQ(hand(w), 0); /* its share is with the producer */
}

/* A broker that does not know the producer would accept the second row after refusing the first. */
TEST(window_hands_one_row_of_a_cold_lane)
{
    struct window *w = window_new();
    row_slot first = admit(w, 0, 1);

    (void)admit(w, 0, 2);
    (void)admit(w, 0, 3);
    CHECK_EQ(hand(w), 1);
    CHECK_EQ(hand(w), 0);
    window_ack(w, 0, first);
    CHECK_EQ(hand(w), 2);
    CHECK_EQ(hand(w), 3);
}

TEST(window_lanes_are_cold_in_a_new_session)
{
    struct window *w = window_new();

    warm(w, 0);
    (void)admit(w, 0, 1);
    (void)admit(w, 0, 2);
    window_cold(w);
    CHECK_EQ(hand(w), 1);
    CHECK_EQ(hand(w), 0);
}

/* The rows of a single lane go to different partitions: being warm says nothing about the next. */
TEST(window_hands_one_row_of_a_single_lane_though_it_is_warm)
{
    struct window *w = window_new();

    window_lane_open(w, 2, true);
    warm(w, 2);
    (void)admit(w, 2, 1);
    (void)admit(w, 2, 2);
    CHECK_EQ(hand(w), 1);
    CHECK_EQ(hand(w), 0);
}

TEST(window_lanes_take_turns)
{
    struct window *w = window_new();

    warm(w, 0);
    warm(w, 1);
    for (int64_t id = 1; id <= 6; id++)
        (void)admit(w, id > 3, id);
    CHECK_EQ(hand(w), 1);
    CHECK_EQ(hand(w), 4);
    CHECK_EQ(hand(w), 2);
    CHECK_EQ(hand(w), 5);
}

TEST(window_rows_wait_for_their_flush_in_every_lane)
{
    struct window *w = window_new();
    struct row a = row_of(1), b = row_of(2), c = row_of(3);

    (void)window_admit(w, &a, 0, 70);
    (void)window_admit(w, &b, 1, 70);
    window_lane_open(w, 2, false);
    (void)window_admit(w, &c, 2, 71);
    window_flushed(w, 69);
    CHECK_EQ(hand(w), 0);
    window_flushed(w, 70);
    CHECK_EQ(hand(w), 1);
    CHECK_EQ(hand(w), 2);
    CHECK_EQ(hand(w), 0);
    CHECK(window_waits_for_flush(w));
    window_flushed(w, 71);
    CHECK(!window_waits_for_flush(w));
    CHECK_EQ(hand(w), 3);
}

/* A flush that is told late says less than one that was told before. */
TEST(window_flush_never_goes_back)
{
    struct window *w = window_new();
    struct row a = row_of(1);

    window_flushed(w, 70);
    window_flushed(w, 60);
    (void)window_admit(w, &a, 0, 65);
    CHECK(!window_waits_for_flush(w));
    CHECK_EQ(hand(w), 1);
}

/* The lane's first row decides: a later one that is flushed does not overtake it. */
TEST(window_ready_rows_wait_behind_one_that_is_not)
{
    struct window *w = window_new();
    struct row a = row_of(2), b = row_of(1);

    (void)window_admit(w, &a, 0, 10);
    window_flushed(w, 10);
    (void)window_admit(w, &b, 0, 20);
    CHECK_EQ(hand(w), 0);
    window_flushed(w, 20);
    CHECK_EQ(hand(w), 1);
}

TEST(window_returned_rows_go_before_newer_ones_and_need_no_flush_again)
{
    struct window *w = window_new();
    struct row a = row_of(1);
    row_slot s = window_admit(w, &a, 0, 50);

    window_flushed(w, 50);
    CHECK_EQ(hand(w), 1);
    (void)admit(w, 0, 2);
    window_return(w, s);
    window_start_over(w); /* drops both, and forgets the flush */
    s = admit(w, 0, 3);
    CHECK_EQ(hand(w), 3);
    (void)admit(w, 0, 4);
    window_return(w, s);
    CHECK_EQ(hand(w), 3);
    CHECK_EQ(window_lane_queued(w, 0), 1);
}

/* A row that passed the barrier once was durable, also where nobody knows how far the flush is by now. */
TEST(window_returned_row_is_ready_after_a_start_over)
{
    struct window *w = window_new();
    struct row a = row_of(1);
    row_slot s = window_admit(w, &a, 0, 50);

    window_flushed(w, 50);
    CHECK_EQ(hand(w), 1);
    window_start_over(w);
    window_return(w, s);
    CHECK_EQ(hand(w), 1);
}

TEST(window_bytes_end_at_delivery_or_when_dropped)
{
    struct window *w = window_new();
    row_slot s = admit(w, 0, 1);

    (void)admit(w, 0, 2);
    CHECK_EQ(window_bytes(w), 20);
    CHECK_EQ(hand(w), 1);
    CHECK_EQ(window_bytes(w), 20);
    window_return(w, s);
    CHECK_EQ(window_bytes(w), 20);
    CHECK_EQ(hand(w), 1);
    window_ack(w, 0, s);
    CHECK_EQ(window_bytes(w), 10);
    CHECK_EQ(window_take(w, 0), 2);
    CHECK_EQ(window_bytes(w), 0);
    CHECK_EQ(window_room_bytes(w), BYTES_MAX);
}

/* One row may go over: what is left then is nothing, not a huge number. */
TEST(window_has_no_bytes_left_when_it_is_over_full)
{
    struct window *w = window_new();
    struct row big = row_of(1);

    big.bytes = BYTES_MAX + 1;
    (void)window_admit(w, &big, 0, 0);
    CHECK_EQ(window_room_bytes(w), 0);
}

TEST(window_slots_live_until_marked_or_given_back)
{
    struct window *w = window_new();
    row_slot s = admit(w, 0, 1), got;

    (void)admit(w, 0, 2);
    CHECK_EQ(window_room_rows(w), ROWS - 2);
    CHECK_EQ(hand(w), 1);
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
    struct window *w = window_new();
    row_slot s;

    for (int64_t id = 1; id <= 5 * ROWS; id++) {
        (void)admit(w, 0, id);
        if (window_room_rows(w) > 0)
            continue;
        CHECK_EQ(window_take(w, 0), id - ROWS + 1);
        while (window_drop(w, &s))
            continue;
        CHECK_EQ(window_room_rows(w), ROWS);
    }
}

/* The id alone names nothing: a crash gives it to another event. */
TEST(window_knows_a_row_by_id_and_event)
{
    struct window *w = window_new();
    struct row other = row_of(1);

    other.event_id.bytes[15] = 9;
    (void)admit(w, 0, 1);
    CHECK(knows(w, 1) && !knows(w, 2) && !window_knows(w, &other));
    (void)window_admit(w, &other, 0, 0);
    CHECK(knows(w, 1) && window_knows(w, &other));
    (void)window_take(w, 0);
    CHECK(!knows(w, 1) && !window_knows(w, &other));
}

TEST(window_knows_rows_whose_ids_share_a_bucket)
{
    struct window *w = window_new();

    for (int64_t i = 0; i < 4; i++)
        (void)admit(w, i == 1, 7 + i * 64);
    CHECK_EQ(window_take(w, 1), 71);
    CHECK(knows(w, 7) && !knows(w, 71) && knows(w, 135) && knows(w, 199));
}

/* Finding 37: a read whose snapshot is older than the mark still brings the row. */
TEST(window_remembers_what_is_marked_while_a_read_is_on_its_way)
{
    struct window *w = window_new();
    row_slot s = admit(w, 0, 1);

    CHECK_EQ(hand(w), 1);
    window_ack(w, 0, s);
    CHECK(window_mark(w, &s) && knows(w, 1));
    window_marked(w, s, true);
    CHECK(knows(w, 1));
    window_forget(w);
    CHECK(!knows(w, 1));
    CHECK_EQ(window_rows(w), 0);
}

TEST(window_unmarked_rows_are_marked_again)
{
    struct window *w = window_new();
    row_slot s = admit(w, 0, 1), got;

    CHECK_EQ(hand(w), 1);
    window_ack(w, 0, s);
    CHECK(window_mark(w, &got));
    window_unmarked(w, got);
    CHECK_EQ(window_acked(w), 1);
    CHECK(knows(w, 1) && window_mark(w, &got) && got == s);
}

TEST(window_take_leaves_what_is_handed)
{
    struct window *w = window_new();
    row_slot s;

    CHECK_EQ(window_take(w, 0), INT64_MAX);
    (void)admit(w, 0, 1);
    CHECK_EQ(hand(w), 1);
    (void)admit(w, 0, 3);
    (void)admit(w, 0, 2);
    (void)admit(w, 1, 4);
    CHECK_EQ(window_take(w, 0), 2);
    CHECK(knows(w, 1) && knows(w, 4) && !knows(w, 2) && !knows(w, 3));
    CHECK(window_drop(w, &s) && window_drop(w, &s) && !window_drop(w, &s));
    CHECK_EQ(window_lane_handed(w, 0), 1);
    CHECK_EQ(window_lane_queued(w, 0), 0);
}

/* Finding 35: what waits for the barrier may have been lost by a crash. */
TEST(window_start_over_drops_what_waits_and_forgets_the_flush)
{
    struct window *w = window_new();
    struct row late = row_of(5);
    row_slot s = admit(w, 0, 1), got;

    window_flushed(w, 100);
    CHECK_EQ(hand(w), 1);
    (void)admit(w, 0, 2);
    (void)admit(w, 1, 3);
    window_start_over(w);
    CHECK(window_drop(w, &got) && window_drop(w, &got) && !window_drop(w, &got));
    CHECK(!window_waits_for_flush(w));
    (void)window_admit(w, &late, 1, 50);
    CHECK_EQ(hand(w), 0);
    window_ack(w, 0, s);
    CHECK_EQ(window_acked(w), 1);
}

TEST(window_finds_the_lane_that_waits_longest)
{
    struct window *w = window_new();
    row_slot a = admit(w, 0, 1), b = admit(w, 1, 2), got;

    CHECK_EQ(window_stuck_due_ms(w, 50), UINT64_MAX);
    CHECK(window_hand(w, 100, &got) && window_hand(w, 120, &got));
    CHECK_EQ(window_stuck_due_ms(w, 50), 150);
    CHECK_EQ(window_find_stuck(w, 149, 50), WINDOW_NO_LANE);
    CHECK_EQ(window_find_stuck(w, 150, 50), 0);
    window_ack(w, 130, a);
    CHECK_EQ(window_find_stuck(w, 169, 50), WINDOW_NO_LANE);
    CHECK_EQ(window_find_stuck(w, 170, 50), 1);
    window_return(w, b);
    CHECK_EQ(window_stuck_due_ms(w, 50), UINT64_MAX);
}

/* A lane that is slow but moves is not stuck: the time runs from its last acknowledgement. */
TEST(window_lane_that_moves_is_not_stuck)
{
    struct window *w = window_new();
    row_slot a, b, got;

    warm(w, 0);
    a = admit(w, 0, 1);
    b = admit(w, 0, 2);
    (void)admit(w, 1, 3);
    CHECK(window_hand(w, 100, &got) && window_hand(w, 100, &got) && window_hand(w, 100, &got));
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
    struct window *w = window_new();
    row_slot a, got;

    warm(w, 0);
    a = admit(w, 0, 1);
    (void)admit(w, 0, 2);
    CHECK(window_hand(w, 100, &got));
    window_stick(w, 0);
    CHECK(window_lane_stuck(w, 0));
    CHECK_EQ(hand(w), 0);
    CHECK_EQ(window_stuck_due_ms(w, 50), UINT64_MAX); /* found once */
    window_ack(w, 200, a);
    CHECK(!window_lane_stuck(w, 0));
    CHECK_EQ(hand(w), 2);
}

/* What a dead partition holds does not count any more when it is acknowledged after all, or comes back. */
TEST(window_counts_the_rows_of_stuck_lanes)
{
    struct window *w = window_new();
    row_slot s[2 * SHARE];

    warm(w, 0);
    warm(w, 1);
    for (unsigned i = 0; i < 2 * SHARE; i++) {
        s[i] = admit(w, i >= SHARE, i + 1);
    }
    for (unsigned i = 0; i < 2 * SHARE; i++)
        CHECK(hand(w) > 0);
    window_stick(w, 0);
    CHECK(!window_is_mostly_stuck(w)); /* 3 of 8 */
    window_stick(w, 1);
    CHECK(window_is_mostly_stuck(w)); /* 6 */
    window_return(w, s[0]);
    CHECK(window_is_mostly_stuck(w)); /* 5 */
    window_return(w, s[SHARE]);
    CHECK(!window_is_mostly_stuck(w)); /* 4 */
    window_ack(w, 0, s[1]);            /* lane 0 is not stuck any more: 2 */
    window_return(w, s[2]);
    window_return(w, s[SHARE + 1]);
    window_return(w, s[SHARE + 2]);
    window_cold(w);
    CHECK(!window_is_mostly_stuck(w) && !window_lane_stuck(w, 1));
    CHECK(hand(w) > 0 && hand(w) > 0);
    window_stick(w, 0);
    window_stick(w, 1);
    CHECK(!window_is_mostly_stuck(w)); /* 2: counted anew */
}

TEST(window_counts_the_bytes_of_stuck_lanes)
{
    struct window *w = window_new();
    struct row big = row_of(1);
    row_slot s;

    big.bytes = BYTES_MAX / 2 + 1;
    s = window_admit(w, &big, 0, 0);
    CHECK_EQ(hand(w), 1);
    window_stick(w, 0);
    CHECK(window_is_mostly_stuck(w));
    window_return(w, s);
    CHECK(!window_is_mostly_stuck(w));
    window_cold(w);
    CHECK_EQ(hand(w), 1);
    window_stick(w, 0);
    CHECK(window_is_mostly_stuck(w));
    window_ack(w, 0, s);
    CHECK(!window_is_mostly_stuck(w));
}

TEST(window_paused_lane_hands_nothing)
{
    struct window *w = window_new();

    (void)admit(w, 0, 1);
    window_lane_pause(w, 0, true);
    CHECK_EQ(hand(w), 0);
    window_lane_pause(w, 0, false);
    CHECK_EQ(hand(w), 1);
}

TEST(window_lane_number_starts_cold_when_used_again)
{
    struct window *w = window_new();

    warm(w, 0);
    CHECK(window_lane_empty(w, 0));
    window_lane_pause(w, 0, true);
    window_lane_open(w, 0, false);
    (void)admit(w, 0, 1);
    (void)admit(w, 0, 2);
    CHECK(!window_lane_empty(w, 0));
    CHECK_EQ(hand(w), 1);
    CHECK_EQ(hand(w), 0);
}

TEST(window_moves_queued_rows_to_another_lane)
{
    struct window *w = window_new();
    row_slot s, next;

    for (int64_t id = 1; id <= 5; id++)
        (void)admit(w, id % 2 == 0, id);
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

TEST(window_tells_what_a_row_was)
{
    struct window *w = window_new();
    struct row row = row_of(7);
    row_slot s;

    row.partition = 5;
    row.spread = 77;
    s = window_admit(w, &row, 1, 0);
    CHECK_EQ(window_id(w, s), 7);
    CHECK_EQ(window_lane(w, s), 1);
    CHECK_EQ(window_wish(w, s), 5);
    CHECK_EQ(window_spread(w, s), 77);
    CHECK_EQ(window_event_id(w, s).bytes[0], 7);
    CHECK_EQ(hand(w), 7);
    CHECK_EQ(window_handed(w), 1);
    CHECK_EQ(window_lane_handed(w, 1), 1);
}

/* For saves: what is neither in the database's marks nor given up is unsettled. */
TEST(window_firsts_are_the_smallest_unsettled_ids)
{
    struct window *w = window_new();
    int64_t firsts[2];
    row_slot s[5], got;

    for (unsigned i = 0; i < 5; i++)
        s[i] = admit(w, 0, i + 1);
    for (unsigned i = 0; i < 4; i++) {
        CHECK_EQ(hand(w), i + 1);
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
    struct window *a = window_new(), *b = window_new();
    row_slot s;

    (void)admit(a, 0, 1);
    (void)admit(a, 1, 2);
    (void)admit(b, 1, 2);
    (void)admit(b, 0, 1);
    CHECK(window_digest(a, 0) == window_digest(b, 0));
    CHECK(window_hand(a, 100, &s));
    CHECK(window_digest(a, 100) != window_digest(b, 100));
    while (window_id(b, s) != 1 || window_lane_handed(b, 0) == 0)
        CHECK(window_hand(b, 500, &s));
    while (window_handed(a) < window_handed(b))
        CHECK(window_hand(a, 100, &s));
    CHECK(window_digest(a, 100) == window_digest(b, 500));
    CHECK(window_digest(a, 101) != window_digest(b, 500));
}
