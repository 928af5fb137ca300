/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/window_rig.h"

#include <string.h>

#include "tests/lib/test.h"

struct window *rig_window(void)
{
    struct window *w = window_init(memset(test_allocate(window_size(RIG_ROWS, RIG_LANES)), 0xa5, window_size(RIG_ROWS, RIG_LANES)),
                                   RIG_ROWS, RIG_BYTES, RIG_LANES, RIG_SHARE);

    window_lane_open(w, 0, false, false);
    window_lane_open(w, 1, false, false);
    return w;
}

struct row rig_row(int64_t id)
{
    struct row row = {.id = id, .bytes = 10, .partition = -1};

    memcpy(row.event_id.bytes, &id, sizeof id);
    return row;
}

row_slot rig_admit(struct window *w, uint32_t lane, int64_t id)
{
    struct row row = rig_row(id);

    return window_admit(w, &row, lane, 0);
}

bool rig_knows(const struct window *w, int64_t id)
{
    struct row row = rig_row(id);

    return window_knows(w, &row);
}

int64_t rig_hand(struct window *w)
{
    row_slot s;

    return window_hand(w, 0, false, &s) ? window_id(w, s) : 0;
}

void rig_warm(struct window *w, uint32_t lane)
{
    row_slot s = rig_admit(w, lane, 1000 + lane), got;

    CHECK(window_hand(w, 0, false, &got) && got == s);
    window_ack(w, 0, s);
    CHECK(window_mark(w, &got) && got == s);
    window_marked(w, s, false);
}
