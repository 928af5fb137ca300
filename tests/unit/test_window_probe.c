/* SPDX-License-Identifier: BSD-2-Clause */
/* The probe lanes of the window: they belong to another session, and hand few rows at a time. */
#include "tests/lib/test.h"
#include "tests/unit/window_rig.h"

#define PROBE 2

/* With these rows waiting in lane PROBE. */
static struct window *window_with(int64_t rows)
{
    struct window *w = rig_window();

    window_lane_open(w, PROBE, false, true);
    for (int64_t id = 1; id <= rows; id++)
        (void)rig_admit(w, PROBE, id);
    return w;
}

static row_slot probe_hand(struct window *w)
{
    row_slot s;

    return window_hand(w, 0, true, &s) ? s : ROW_NO_SLOT;
}

/* A flight is what is handed until the last of it is acknowledged. */
TEST(window_probe_lane_doubles_its_flights)
{
    struct window *w = window_with(7);
    row_slot a = probe_hand(w), b, c;

    CHECK(a != ROW_NO_SLOT && window_lane_alone(w, PROBE) && window_lane_share(w, PROBE) == 1);
    CHECK_EQ(probe_hand(w), ROW_NO_SLOT);
    window_ack(w, 0, a);
    CHECK_EQ(window_lane_share(w, PROBE), 2);
    b = probe_hand(w);
    c = probe_hand(w);
    CHECK(b != ROW_NO_SLOT && c != ROW_NO_SLOT && !window_lane_alone(w, PROBE));
    CHECK_EQ(probe_hand(w), ROW_NO_SLOT);
    window_ack(w, 0, b);
    CHECK_EQ(window_lane_share(w, PROBE), 2);
    CHECK_EQ(probe_hand(w), ROW_NO_SLOT); /* not before the whole of it */
    window_ack(w, 0, c);
    CHECK_EQ(window_lane_share(w, PROBE), 4);
    for (unsigned i = 0; i < RIG_SHARE; i++)
        CHECK(probe_hand(w) != ROW_NO_SLOT);
    CHECK_EQ(probe_hand(w), ROW_NO_SLOT); /* nor more than of any lane */
}

TEST(window_probe_lane_does_not_double_what_is_enough)
{
    struct window *w = window_init(test_allocate(window_size(RIG_ROWS, RIG_LANES)), RIG_ROWS, RIG_BYTES, RIG_LANES, 4);

    window_lane_open(w, PROBE, false, true);
    for (int64_t id = 1; id <= 5; id++) {
        row_slot s = rig_admit(w, PROBE, id);

        CHECK_EQ(probe_hand(w), s);
        window_ack(w, 0, s);
    }
    CHECK_EQ(window_lane_share(w, PROBE), 4);
}

TEST(window_probe_lane_begins_anew_when_a_row_comes_back)
{
    struct window *w = window_with(4);
    row_slot s;

    window_ack(w, 0, probe_hand(w));
    s = probe_hand(w);
    CHECK(probe_hand(w) != ROW_NO_SLOT);
    window_return(w, s);
    CHECK_EQ(window_lane_share(w, PROBE), 1);
    CHECK_EQ(probe_hand(w), ROW_NO_SLOT);
}

TEST(window_probe_lane_begins_anew_with_its_session_or_in_doubt)
{
    struct window *w = window_with(4);

    window_ack(w, 0, probe_hand(w));
    window_cold(w, false); /* of another session */
    CHECK_EQ(window_lane_share(w, PROBE), 2);
    window_cold(w, true);
    CHECK_EQ(window_lane_share(w, PROBE), 1);
    window_ack(w, 0, probe_hand(w));
    CHECK_EQ(window_lane_share(w, PROBE), 2);
    window_lane_doubt(w, PROBE);
    CHECK(probe_hand(w) != ROW_NO_SLOT && window_lane_alone(w, PROBE));
    CHECK_EQ(probe_hand(w), ROW_NO_SLOT);
}

TEST(window_counts_the_rows_of_each_session)
{
    struct window *w = window_with(3);
    row_slot s;

    (void)rig_admit(w, 0, 10);
    (void)rig_admit(w, 1, 11);
    CHECK(window_unacked_of(w, true) == 3 && window_unacked_of(w, false) == 2);
    CHECK_EQ(rig_hand(w), 10); /* none of the probe lane */
    CHECK_EQ(rig_hand(w), 11);
    CHECK_EQ(rig_hand(w), 0);
    s = probe_hand(w);
    CHECK(window_handed_of(w, true) == 1 && window_handed_of(w, false) == 2 && window_handed(w) == 3);
    CHECK(window_unacked_of(w, true) == 3 && window_unacked_of(w, false) == 2);
    window_ack(w, 0, s);
    CHECK(window_handed_of(w, true) == 0 && window_unacked_of(w, true) == 2);
    CHECK_EQ(window_take(w, PROBE), 2);
    CHECK(window_unacked_of(w, true) == 0 && window_unacked_of(w, false) == 2);
}
