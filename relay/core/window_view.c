/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions to the window that change nothing. */
#include <assert.h>

#include "relay/core/digest.h"
#include "relay/core/window_state.h"

static const struct window_slot *slot_at(const struct window *w, row_slot s)
{
    assert(s < w->rows_max && window_slots(w)[s].state != WINDOW_FREE);
    return window_slots(w) + s;
}

static const struct window_lane *lane_at(const struct window *w, uint32_t lane)
{
    assert(lane < w->lanes_max);
    return window_lanes(w) + lane;
}

uint32_t window_rows(const struct window *w)
{
    return w->rows_max - w->free.n;
}

uint64_t window_bytes(const struct window *w)
{
    return w->bytes;
}

uint32_t window_room_rows(const struct window *w)
{
    return w->free.n;
}

uint64_t window_room_bytes(const struct window *w)
{
    return w->bytes < w->bytes_max ? w->bytes_max - w->bytes : 0;
}

uint32_t window_handed(const struct window *w)
{
    return w->handed[false] + w->handed[true];
}

uint32_t window_handed_of(const struct window *w, bool probe)
{
    return w->handed[probe];
}

uint32_t window_unacked_of(const struct window *w, bool probe)
{
    return w->queued[probe] + w->handed[probe];
}

uint32_t window_acked(const struct window *w)
{
    return w->acked.n;
}

bool window_lane_empty(const struct window *w, uint32_t lane)
{
    return lane_at(w, lane)->rows == 0;
}

uint32_t window_lane_queued(const struct window *w, uint32_t lane)
{
    return lane_at(w, lane)->queued;
}

uint64_t window_lane_waited_ms(const struct window *w, uint64_t now_ms, uint32_t lane)
{
    return now_ms - lane_at(w, lane)->moved_ms;
}

uint32_t window_lane_handed(const struct window *w, uint32_t lane)
{
    return lane_at(w, lane)->handed;
}

uint32_t window_lane_unacked(const struct window *w, uint32_t lane)
{
    return lane_at(w, lane)->queued + lane_at(w, lane)->handed;
}

bool window_lane_alone(const struct window *w, uint32_t lane)
{
    return lane_at(w, lane)->flight == 1;
}

uint32_t window_lane_share(const struct window *w, uint32_t lane)
{
    return lane_at(w, lane)->share;
}

bool window_lane_silent(const struct window *w, uint64_t now_ms, uint32_t lane)
{
    return lane_at(w, lane)->handed > 0 && now_ms - lane_at(w, lane)->moved_ms >= w->idle_cold_ms;
}

bool window_lane_stuck(const struct window *w, uint32_t lane)
{
    return lane_at(w, lane)->stuck;
}

bool window_unsettled(const struct window *w, row_slot s)
{
    const struct window_slot *slot = window_slots(w) + s;

    assert(s < w->rows_max);
    return slot->state >= WINDOW_QUEUED && slot->state <= WINDOW_MARKING;
}

void window_firsts(const struct window *w, int64_t *firsts, uint32_t lanes_n)
{
    const struct window_slot *slots = window_slots(w);

    for (uint32_t lane = 0; lane < lanes_n; lane++)
        firsts[lane] = INT64_MAX;
    for (row_slot s = 0; s < w->rows_max; s++) {
        bool unsettled = window_unsettled(w, s);

        assert(!unsettled || slots[s].lane < lanes_n);
        if (unsettled && slots[s].id < firsts[slots[s].lane])
            firsts[slots[s].lane] = slots[s].id;
    }
}

uint32_t window_unacked_of_key(const struct window *w, uint64_t key_hash)
{
    uint32_t n = 0;

    for (row_slot s = 0; s < w->rows_max; s++)
        n += window_unsettled(w, s) && window_slots(w)[s].state <= WINDOW_HANDED && window_keys(w)[s] == key_hash;
    return n;
}

int64_t window_id(const struct window *w, row_slot slot)
{
    return slot_at(w, slot)->id;
}

struct row_event_id window_event_id(const struct window *w, row_slot slot)
{
    return slot_at(w, slot)->event_id;
}

uint32_t window_lane(const struct window *w, row_slot slot)
{
    return slot_at(w, slot)->lane;
}

int32_t window_wish(const struct window *w, row_slot slot)
{
    return slot_at(w, slot)->wish;
}

uint32_t window_spread(const struct window *w, row_slot slot)
{
    return slot_at(w, slot)->spread;
}

uint64_t window_key(const struct window *w, row_slot slot)
{
    assert(slot < w->rows_max);
    return window_keys(w)[slot];
}

/* Slot numbers do not count, the rows do: they are added up in any order. */
uint64_t window_digest(const struct window *w, uint64_t now_ms)
{
    uint64_t digest = digest_add(digest_add(1, w->bytes), w->stuck_rows), sum = 0;

    for (row_slot s = 0; s < w->rows_max; s++) {
        const struct window_slot *slot = window_slots(w) + s;
        uint64_t d = digest_add(2, (uint64_t)slot->id);

        if (slot->state == WINDOW_FREE)
            continue;
        for (unsigned i = 0; i < sizeof slot->event_id.bytes; i++)
            d = digest_add(d, slot->event_id.bytes[i]);
        d = digest_add(digest_add(digest_add(d, window_keys(w)[s]), slot->lane), slot->state);
        sum += digest_add(d, slot->state == WINDOW_QUEUED && slot->lsn > w->flushed_lsn ? slot->lsn : 0);
    }
    digest = digest_add(digest_add(digest, sum), w->flushed_lsn);
    digest = digest_add(digest, window_waits_for_flush(w) ? w->waiting_lsn : 0);
    for (uint32_t lane = 0; lane < w->lanes_top; lane++) {
        const struct window_lane *l = window_lanes(w) + lane;

        digest = digest_add(digest, (uint64_t)l->queued << 32 | l->handed);
        digest = digest_add(digest, (uint64_t)(l->warm * 4 + l->stuck * 2 + l->watched));
        if (l->probe)
            digest = digest_add(digest, (uint64_t)l->share << 32 | (l->handed > 0 ? l->flight : 0));
        if (l->watched)
            digest = digest_add(digest, now_ms - l->moved_ms);
        else if (l->warm)
            digest = digest_add(digest, now_ms - l->moved_ms < w->idle_cold_ms ? now_ms - l->moved_ms : w->idle_cold_ms);
    }
    return digest;
}
