/* SPDX-License-Identifier: BSD-2-Clause */
/* How rows leave the window: marked, or dropped. */
#include <assert.h>

#include "relay/core/window_state.h"

static struct window_slot *slot_at(const struct window *w, row_slot s)
{
    assert(s < w->rows_max);
    return window_slots(w) + s;
}

static struct window_lane *lane_at(const struct window *w, uint32_t lane)
{
    assert(lane < w->lanes_max);
    return window_lanes(w) + lane;
}

static void known_remove(struct window *w, row_slot s)
{
    struct window_slot *slots = window_slots(w);
    uint32_t *at = window_bucket(w, slots[s].id);

    while (*at != s) {
        assert(*at != ROW_NO_SLOT);
        at = &slots[*at].known_next;
    }
    *at = slots[s].known_next;
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

static void slot_free(struct window *w, row_slot s)
{
    struct window_lane *l = lane_at(w, slot_at(w, s)->lane);

    assert(l->rows > 0);
    l->rows--;
    window_slots(w)[s].state = WINDOW_FREE;
    window_list_push(w, &w->free, s);
}

row_slot window_next(const struct window *w)
{
    uint32_t lane = w->turns[false][WINDOW_TURN_READY];

    return lane != WINDOW_NO_LANE ? lane_at(w, lane)->head : ROW_NO_SLOT;
}

row_slot window_later(const struct window *w)
{
    uint32_t lane = w->turns[false][WINDOW_TURN_READY], later;

    if (lane == WINDOW_NO_LANE)
        return ROW_NO_SLOT;
    later = lane_at(w, lane)->link[WINDOW_LINK_TURN].next;
    return later != lane ? lane_at(w, later)->head : window_slots(w)[lane_at(w, lane)->head].next;
}

void window_expect(const struct window *w, row_slot s)
{
    __builtin_prefetch(window_slots(w) + s, 1);
}

bool window_mark(struct window *w, row_slot *ret_slot)
{
    row_slot s = window_list_pop(w, &w->acked);

    if (s == ROW_NO_SLOT)
        return false;
    window_slots(w)[s].state = WINDOW_MARKING;
    *ret_slot = s;
    return true;
}

void window_marked(struct window *w, row_slot s, bool remember)
{
    assert(slot_at(w, s)->state == WINDOW_MARKING);
    if (remember) {
        window_slots(w)[s].state = WINDOW_REMEMBERED;
        window_list_push(w, &w->remembered, s);
        return;
    }
    known_remove(w, s);
    slot_free(w, s);
}

void window_unmarked(struct window *w, row_slot s)
{
    assert(slot_at(w, s)->state == WINDOW_MARKING);
    window_slots(w)[s].state = WINDOW_ACKED;
    window_list_push(w, &w->acked, s);
}

void window_forget(struct window *w)
{
    row_slot s;

    while ((s = window_list_pop(w, &w->remembered)) != ROW_NO_SLOT) {
        known_remove(w, s);
        slot_free(w, s);
    }
}

static void slot_drop(struct window *w, row_slot s)
{
    w->bytes -= window_slots(w)[s].bytes;
    window_slots(w)[s].state = WINDOW_DROPPED;
    known_remove(w, s);
    window_list_push(w, &w->dropped, s);
}

void window_abandon(struct window *w, row_slot s)
{
    window_slot_come_back(w, s);
    slot_drop(w, s);
    window_lane_settle(w, slot_at(w, s)->lane);
}

int64_t window_take(struct window *w, uint32_t lane)
{
    struct window_lane *l = lane_at(w, lane);
    int64_t first = INT64_MAX;

    while (l->head != ROW_NO_SLOT) {
        row_slot s = window_lane_shift(w, l);

        if (window_slots(w)[s].id < first)
            first = window_slots(w)[s].id;
        slot_drop(w, s);
    }
    window_lane_settle(w, lane);
    return first;
}

int64_t window_take_key(struct window *w, uint32_t lane, uint64_t key_hash)
{
    struct window_lane *l = lane_at(w, lane);
    int64_t first = INT64_MAX;
    row_slot next;

    for (row_slot s = l->head; s != ROW_NO_SLOT; s = next) {
        next = window_slots(w)[s].next;
        if (window_keys(w)[s] != key_hash)
            continue;
        if (first == INT64_MAX)
            first = window_slots(w)[s].id;
        window_lane_unlink(w, l, s);
        slot_drop(w, s);
    }
    window_lane_settle(w, lane);
    return first;
}

void window_start_over(struct window *w)
{
#ifdef MUTANT_KEEP_WAITING
    w->flushed_lsn = 0;
    for (uint32_t lane = 0; lane < w->lanes_top; lane++)
        window_lane_settle(w, lane);
#else
    for (uint32_t lane = 0; lane < w->lanes_top; lane++)
        (void)window_take(w, lane);
    w->flushed_lsn = w->waiting_lsn = 0;
#endif
}

bool window_drop(struct window *w, row_slot *ret_slot)
{
    row_slot s = window_list_pop(w, &w->dropped);

    if (s == ROW_NO_SLOT)
        return false;
    slot_free(w, s);
    *ret_slot = s;
    return true;
}

void window_lane_pause(struct window *w, uint32_t lane, bool paused)
{
    lane_at(w, lane)->paused = paused;
    window_lane_settle(w, lane);
}

row_slot window_lane_first(const struct window *w, uint32_t lane)
{
    return lane_at(w, lane)->head;
}

row_slot window_lane_after(const struct window *w, row_slot s)
{
    assert(slot_at(w, s)->state == WINDOW_QUEUED);
    return window_slots(w)[s].next;
}

void window_move(struct window *w, row_slot s, uint32_t lane)
{
    uint32_t from = slot_at(w, s)->lane;

    assert(slot_at(w, s)->state == WINDOW_QUEUED && lane != from);
    window_lane_unlink(w, lane_at(w, from), s);
    lane_at(w, from)->rows--;
    window_lane_settle(w, from);
    lane_at(w, lane)->rows++;
    window_lane_insert(w, lane, s);
}
