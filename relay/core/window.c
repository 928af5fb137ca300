/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/core/window.h"

#include <assert.h>
#include <string.h>

#include "relay/core/hash.h"
#include "relay/core/window_state.h"

/* --- lists of slots and lanes ------------------------------------------------------------------------------------- */

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

static void lane_unstick(struct window *w, struct window_lane *l)
{
    if (l->stuck) {
        w->stuck_rows -= l->handed;
        w->stuck_bytes -= l->handed_bytes;
    }
    l->stuck = false;
}

/* --- known rows --------------------------------------------------------------------------------------------------- */

static void known_add(struct window *w, row_slot s)
{
    uint32_t *bucket = window_bucket(w, window_slots(w)[s].id);

    window_slots(w)[s].known_next = *bucket;
    *bucket = s;
}

bool window_knows(const struct window *w, const struct row *row)
{
    const struct window_slot *slots = window_slots(w);

    for (row_slot s = *window_bucket(w, row->id); s != ROW_NO_SLOT; s = slots[s].known_next) {
        if (slots[s].id != row->id)
            continue;
#ifdef MUTANT_KNOWN_BY_ID
        return true;
#endif
        if (memcmp(&slots[s].event_id, &row->event_id, sizeof row->event_id) == 0)
            return true;
    }
    return false;
}

/* --- set up ------------------------------------------------------------------------------------------------------- */

static uint32_t buckets_of(uint32_t rows_max)
{
    uint32_t n = 64;

    while (n < rows_max && n < (1u << 30))
        n *= 2;
    return n;
}

size_t window_size(uint32_t rows_max, uint32_t lanes_max)
{
    return ((sizeof(struct window) + 63) & ~(size_t)63) + (size_t)rows_max * sizeof(struct window_slot) +
           (size_t)lanes_max * sizeof(struct window_lane) + (size_t)rows_max * sizeof(uint64_t) +
           (size_t)buckets_of(rows_max) * sizeof(uint32_t) + WINDOW_LISTS * (size_t)rows_max * sizeof(row_slot);
}

struct window *window_init(void *memory, uint32_t rows_max, uint64_t bytes_max, uint32_t lanes_max, uint32_t lane_rows_max)
{
    struct window *w = memory;

    assert(rows_max > 0 && lanes_max > 0 && lane_rows_max > 0);
    memset(memory, 0, window_size(rows_max, lanes_max));
    w->rows_max = rows_max;
    w->bytes_max = bytes_max;
    w->lanes_max = lanes_max;
    w->lane_rows_max = lane_rows_max;
    w->buckets_mask = buckets_of(rows_max) - 1;
    for (unsigned i = 0; i < WINDOW_LISTS; i++)
        (&w->free)[i] = (struct window_list){.number = i};
    w->idle_cold_ms = UINT32_MAX;
    memset(w->turns, 0xff, sizeof w->turns);
    w->watched = WINDOW_NO_LANE;
    memset(window_buckets(w), 0xff, ((size_t)w->buckets_mask + 1) * sizeof(uint32_t));
    for (row_slot s = 0; s < rows_max; s++)
        window_list_push(w, &w->free, rows_max - 1 - s);
    return w;
}

void window_set_idle_cold(struct window *w, uint32_t idle_cold_ms)
{
#ifdef MUTANT_NO_IDLE_COLD
    idle_cold_ms = UINT32_MAX;
#endif
    w->idle_cold_ms = idle_cold_ms;
}

void window_lane_open(struct window *w, uint32_t lane, bool single, bool probe)
{
    struct window_lane *l = lane_at(w, lane);

    assert(l->rows == 0 && l->turn == WINDOW_TURN_NONE && !l->watched);
    memset(l, 0, sizeof *l);
    l->head = l->tail = l->finger = ROW_NO_SLOT;
    l->single = single;
    l->probe = probe;
    l->share = 1;
    if (lane >= w->lanes_top)
        w->lanes_top = lane + 1;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

row_slot window_admit(struct window *w, const struct row *row, uint32_t lane, uint64_t lsn)
{
    row_slot s = window_list_pop_last(w, &w->free);
    struct window_slot *slot;

    assert(s != ROW_NO_SLOT);
    slot = slot_at(w, s);
    slot->id = row->id;
    slot->event_id = row->event_id;
    slot->lsn = lsn;
    slot->spread = row->spread;
    slot->wish = row->partition;
    slot->bytes = row->bytes;
    window_keys(w)[s] = row_key(row);
    w->bytes += row->bytes;
    if (lsn > w->waiting_lsn)
        w->waiting_lsn = lsn;
    known_add(w, s);
    lane_at(w, lane)->rows++;
    window_lane_insert(w, lane, s);
    return s;
}

static void lanes_flushed(struct window *w, uint32_t first)
{
    uint32_t n = 0, lane = first, next;

    if (lane == WINDOW_NO_LANE)
        return;
    do {
        n++;
        lane = window_lanes(w)[lane].link[WINDOW_LINK_TURN].next;
    } while (lane != first);
    for (; n > 0; n--, lane = next) {
        next = window_lanes(w)[lane].link[WINDOW_LINK_TURN].next;
        window_lane_settle(w, lane);
    }
}

void window_flushed(struct window *w, uint64_t lsn)
{
    if (lsn <= w->flushed_lsn)
        return;
    w->flushed_lsn = lsn;
    lanes_flushed(w, w->turns[false][WINDOW_TURN_WAITING]);
    lanes_flushed(w, w->turns[true][WINDOW_TURN_WAITING]);
}

bool window_waits_for_flush(const struct window *w)
{
    return w->waiting_lsn > w->flushed_lsn;
}

/* --- publish ------------------------------------------------------------------------------------------------------ */

/* The second row of a lane is looked at when the first one has been handed, a round of the lanes from now. */
static void second_expect(const struct window *w, const struct window_lane *l)
{
    if (l->head != ROW_NO_SLOT && window_slots(w)[l->head].next != ROW_NO_SLOT)
        window_expect(w, window_slots(w)[l->head].next);
}

bool window_hand(struct window *w, uint64_t now_ms, bool probe, row_slot *ret_slot)
{
    uint32_t lane = w->turns[probe][WINDOW_TURN_READY];
    struct window_lane *l;
    row_slot s;

    if (lane == WINDOW_NO_LANE)
        return false;
    l = lane_at(w, lane);
    s = window_lane_shift(w, l);
    window_slots(w)[s].state = WINDOW_HANDED;
    window_slots(w)[s].lsn = 0; /* it passed the barrier: if it comes back, it need not again */
    if (l->handed++ == 0) {
        /* The broker may have forgotten us: then it takes any first sequence number. */
        l->warm = l->warm && now_ms - l->moved_ms < w->idle_cold_ms;
        l->flight = 0;
        window_lane_moved(w, lane, now_ms);
    }
    l->flight++;
    w->handed[probe]++;
    l->handed_bytes += window_slots(w)[s].bytes;
    w->turns[probe][WINDOW_TURN_READY] = l->link[WINDOW_LINK_TURN].next; /* the next lane's turn */
    window_lane_settle(w, lane);
    second_expect(w, l);
    *ret_slot = s;
    return true;
}

static void slot_unhand(struct window *w, struct window_slot *slot)
{
    struct window_lane *l = lane_at(w, slot->lane);

    assert(slot->state == WINDOW_HANDED && l->handed > 0);
    l->handed--;
    l->handed_bytes -= slot->bytes;
    w->handed[l->probe]--;
}

void window_ack(struct window *w, uint64_t now_ms, row_slot s)
{
    struct window_slot *slot = slot_at(w, s);
    struct window_lane *l = lane_at(w, slot->lane);

    lane_unstick(w, l);
    slot_unhand(w, slot);
    l->warm = true;
    if (l->probe && l->handed == 0 && l->share < w->lane_rows_max)
        l->share *= 2;
    window_lane_moved(w, slot->lane, now_ms);
    window_lane_settle(w, slot->lane);
    w->bytes -= slot->bytes;
    slot->state = WINDOW_ACKED;
    window_list_push(w, &w->acked, s);
}

void window_slot_come_back(struct window *w, row_slot s)
{
    struct window_slot *slot = slot_at(w, s);
    struct window_lane *l = lane_at(w, slot->lane);

    if (l->stuck) {
        w->stuck_rows--;
        w->stuck_bytes -= slot->bytes;
    }
    slot_unhand(w, slot);
    l->share = 1;
    if (l->handed == 0)
        window_lane_moved(w, slot->lane, l->moved_ms);
}

void window_return(struct window *w, row_slot s)
{
    window_slot_come_back(w, s);
    window_lane_insert(w, slot_at(w, s)->lane, s);
}

void window_cold(struct window *w, bool probe)
{
    for (uint32_t lane = 0; lane < w->lanes_top; lane++) {
        struct window_lane *l = lane_at(w, lane);

        if (l->probe != probe)
            continue;
        l->warm = false;
        l->share = 1;
        if (l->handed == 0)
            l->stuck = false;
        if (l->head != ROW_NO_SLOT)
            window_lane_settle(w, lane);
    }
}

void window_lane_doubt(struct window *w, uint32_t lane)
{
    lane_at(w, lane)->share = 1;
    window_lane_settle(w, lane);
}

uint64_t window_stuck_due_ms(const struct window *w, uint64_t stuck_ms)
{
    return w->watched == WINDOW_NO_LANE ? UINT64_MAX : window_lanes(w)[w->watched].moved_ms + stuck_ms;
}

uint32_t window_find_stuck(const struct window *w, uint64_t now_ms, uint64_t stuck_ms)
{
    return now_ms >= window_stuck_due_ms(w, stuck_ms) ? w->watched : WINDOW_NO_LANE;
}

void window_stick(struct window *w, uint32_t lane)
{
    struct window_lane *l = lane_at(w, lane);

    assert(!l->stuck && l->handed > 0);
    l->stuck = true;
    w->stuck_rows += l->handed;
    w->stuck_bytes += l->handed_bytes;
    window_lane_moved(w, lane, l->moved_ms);
    window_lane_settle(w, lane);
}

bool window_is_mostly_stuck(const struct window *w)
{
    return w->stuck_rows > w->rows_max / 2 || w->stuck_bytes > w->bytes_max / 2;
}
