/* SPDX-License-Identifier: BSD-2-Clause */
/* One lane of the window: its queue, whose turn it is, and how long it has waited for an acknowledgement. */
#include <assert.h>

#include "relay/core/window_state.h"

static struct window_lane *lane_at(const struct window *w, uint32_t lane)
{
    assert(lane < w->lanes_max);
    return window_lanes(w) + lane;
}

/* --- rings of lanes ----------------------------------------------------------------------------------------------- */

/* A ring member's neighbours are lanes; `ring` is the first of it. */
static void ring_remove(struct window *w, uint32_t *ring, uint32_t lane, enum window_link which)
{
    struct window_lane *lanes = window_lanes(w);
    uint32_t next = lanes[lane].link[which].next, prev = lanes[lane].link[which].prev;

    if (next == lane) {
        *ring = WINDOW_NO_LANE;
    } else {
        lanes[next].link[which].prev = prev;
        lanes[prev].link[which].next = next;
        if (*ring == lane)
            *ring = next;
    }
}

static void ring_append(struct window *w, uint32_t *ring, uint32_t lane, enum window_link which)
{
    struct window_lane *lanes = window_lanes(w);
    uint32_t last;

    if (*ring == WINDOW_NO_LANE) {
        *ring = lanes[lane].link[which].next = lanes[lane].link[which].prev = lane;
        return;
    }
    last = lanes[*ring].link[which].prev;
    lanes[lane].link[which].next = *ring;
    lanes[lane].link[which].prev = last;
    lanes[last].link[which].next = lane;
    lanes[*ring].link[which].prev = lane;
}

/* --- which lanes may hand ----------------------------------------------------------------------------------------- */

static enum window_turn lane_turn(const struct window *w, const struct window_lane *l)
{
    if (l->head == ROW_NO_SLOT || l->stuck || l->paused || l->handed >= w->lane_rows_max)
        return WINDOW_TURN_NONE;
    if (l->probe && l->handed > 0 && l->flight >= l->share)
        return WINDOW_TURN_NONE;
#ifndef MUTANT_NO_COLD_START
    if ((!l->warm || l->single) && l->handed > 0)
        return WINDOW_TURN_NONE;
#endif
    return window_slots(w)[l->head].lsn <= w->flushed_lsn ? WINDOW_TURN_READY : WINDOW_TURN_WAITING;
}

/* Put the lane on the list that its first row and its share call for. */
void window_lane_settle(struct window *w, uint32_t lane)
{
    struct window_lane *l = lane_at(w, lane);
    enum window_turn turn = lane_turn(w, l);

    if (turn == l->turn)
        return;
    if (l->turn != WINDOW_TURN_NONE)
        ring_remove(w, &w->turns[l->probe][l->turn], lane, WINDOW_LINK_TURN);
    l->turn = turn;
    if (turn != WINDOW_TURN_NONE)
        ring_append(w, &w->turns[l->probe][turn], lane, WINDOW_LINK_TURN);
}

/* The lane moved, or has something to wait for: it is the last to be found stuck. */
void window_lane_moved(struct window *w, uint32_t lane, uint64_t now_ms)
{
    struct window_lane *l = lane_at(w, lane);
    bool watch = l->handed > 0 && !l->stuck;

    if (watch && l->watched && l->moved_ms == now_ms)
        return;
    if (l->watched)
        ring_remove(w, &w->watched, lane, WINDOW_LINK_WATCH);
    l->watched = watch;
    l->moved_ms = now_ms;
    if (watch)
        ring_append(w, &w->watched, lane, WINDOW_LINK_WATCH);
}

/* --- the queue of a lane ------------------------------------------------------------------------------------------ */

/* The queued row after which `id` belongs. Rows come in ascending runs, so the place is mostly at the end, or after the last insertion. */
static row_slot lane_place_of(const struct window *w, const struct window_lane *l, int64_t id)
{
    const struct window_slot *slots = window_slots(w);
    row_slot at = l->tail;

    if (at == ROW_NO_SLOT || slots[at].id < id)
        return at;
    if (l->finger != ROW_NO_SLOT && slots[l->finger].id < id) {
        at = l->finger;
        while (slots[at].next != ROW_NO_SLOT && slots[slots[at].next].id < id)
            at = slots[at].next;
        return at;
    }
    at = l->head;
    if (slots[at].id >= id)
        return ROW_NO_SLOT;
    while (slots[slots[at].next].id < id)
        at = slots[at].next;
    return at;
}

void window_lane_insert(struct window *w, uint32_t lane, row_slot s)
{
    struct window_lane *l = lane_at(w, lane);
    struct window_slot *slots = window_slots(w);
#ifdef MUTANT_RETURN_BEHIND
    row_slot before = l->tail;
#else
    row_slot before = lane_place_of(w, l, slots[s].id);
#endif
    row_slot after = before == ROW_NO_SLOT ? l->head : slots[before].next;

    slots[s].prev = before;
    slots[s].next = after;
    if (before == ROW_NO_SLOT)
        l->head = s;
    else
        slots[before].next = s;
    if (after == ROW_NO_SLOT)
        l->tail = s;
    else
        slots[after].prev = s;
    l->finger = s;
    l->queued++;
    w->queued[l->probe]++;
    slots[s].lane = lane;
    slots[s].state = WINDOW_QUEUED;
    window_lane_settle(w, lane);
}

void window_lane_unlink(struct window *w, struct window_lane *l, row_slot s)
{
    struct window_slot *slots = window_slots(w);
    row_slot before = slots[s].prev, after = slots[s].next;

    if (before == ROW_NO_SLOT)
        l->head = after;
    else
        slots[before].next = after;
    if (after == ROW_NO_SLOT)
        l->tail = before;
    else
        slots[after].prev = before;
    if (l->finger == s)
        l->finger = ROW_NO_SLOT;
    l->queued--;
    w->queued[l->probe]--;
}

row_slot window_lane_shift(struct window *w, struct window_lane *l)
{
    row_slot s = l->head;

    assert(s != ROW_NO_SLOT);
    window_lane_unlink(w, l, s);
    return s;
}
