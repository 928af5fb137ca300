/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the window, for window*.c only: one block of memory, arrays found by their place in it, so that a copy of
 * the bytes is a copy of the window. */
#ifndef RELAY_CORE_WINDOW_STATE_H
#define RELAY_CORE_WINDOW_STATE_H

#include <assert.h>

#include "relay/core/window.h"

enum window_row_state {
    WINDOW_FREE,
    WINDOW_QUEUED,
    WINDOW_HANDED,
    WINDOW_ACKED,
    WINDOW_MARKING,
    WINDOW_REMEMBERED,
    WINDOW_DROPPED
};

/* One cache line. */
struct window_slot {
    int64_t id;
    struct row_event_id event_id;
    uint64_t lsn;        /* ready when the flush has passed it */
    uint32_t lane;       /* its lane; kept until the slot is free */
    uint32_t next, prev; /* in the lane's queue, by id */
    uint32_t known_next; /* in its bucket */
    uint32_t spread;
    int32_t wish;
    uint32_t bytes;
    enum window_row_state state;
};

enum window_turn {
    WINDOW_TURN_NONE,
    WINDOW_TURN_READY,
    WINDOW_TURN_WAITING
};
enum window_link {
    WINDOW_LINK_TURN,
    WINDOW_LINK_WATCH
};

struct window_lane {
    row_slot head, tail; /* queued rows, ids ascending */
    row_slot finger;     /* the queued row that was inserted last */
    uint32_t queued, handed;
    uint32_t flight; /* handed since nothing was */
    uint32_t share;  /* of a probe lane: rows in flight at most; doubles with each flight that is acknowledged whole */
    uint64_t handed_bytes;
    uint32_t rows; /* slots that name this lane */
    struct {
        uint32_t next, prev;
    } link[2];
    enum window_turn turn;
    bool warm;         /* acknowledged in this session */
    bool single;       /* one row in flight, warm or not: its rows go to different partitions */
    bool probe;        /* of the probe session */
    bool paused;       /* hand nothing */
    bool stuck;        /* handed, and not acknowledged for too long: nothing more is handed */
    bool watched;      /* on the list of lanes that wait for acknowledgements */
    uint64_t moved_ms; /* last acknowledgement, or first row handed after none was */
};

struct window_list {
    uint32_t number, first, n; /* in ring `number`, from `first` on */
};
#define WINDOW_LISTS 4

struct window {
    uint32_t rows_max, lanes_max, lane_rows_max, buckets_mask;
    uint32_t lanes_top;            /* lanes at or above it were never open */
    uint32_t queued[2], handed[2]; /* by session: probe lanes have their own */
    uint32_t stuck_rows;
    uint32_t idle_cold_ms; /* a lane silent for so long is cold again */
    uint64_t bytes, bytes_max, stuck_bytes;
    uint64_t flushed_lsn, waiting_lsn;                   /* waiting: the highest of any admitted row */
    struct window_list free, acked, remembered, dropped; /* WINDOW_LISTS of them, each with a ring of rows_max behind the buckets */
    uint32_t turns[2][3];                                /* rings of lanes by session and enum window_turn */
    uint32_t watched;                                    /* ring of lanes, the one that waits longest first */
};

static inline struct window_slot *window_slots(const struct window *w)
{
    return (struct window_slot *)((uintptr_t)w + ((sizeof *w + 63) & ~(size_t)63));
}

static inline struct window_lane *window_lanes(const struct window *w)
{
    return (struct window_lane *)(window_slots(w) + w->rows_max);
}

/* The key of each slot's row. Beside the slots: it is looked at only while keys wait. */
static inline uint64_t *window_keys(const struct window *w)
{
    return (uint64_t *)(window_lanes(w) + w->lanes_max);
}

static inline uint32_t *window_buckets(const struct window *w)
{
    return (uint32_t *)(window_keys(w) + w->rows_max);
}

static inline row_slot *window_ring(const struct window *w, const struct window_list *list)
{
    return window_buckets(w) + w->buckets_mask + 1 + (size_t)list->number * w->rows_max;
}

/* --- lists of slots --- */

/* Each list is a ring of slot numbers, not a chain through the slots: what comes soon is known, and is fetched ahead. Without that, nearly
 * every look at a slot waits for memory: thousands of rows come in between. */
enum {
    WINDOW_AHEAD = 16
};

static inline uint32_t window_ring_place(const struct window *w, const struct window_list *list, uint32_t i)
{
    uint32_t at = list->first + i;

    return at < w->rows_max ? at : at - w->rows_max;
}

static inline void window_list_push(struct window *w, struct window_list *list, row_slot s)
{
    assert(list->n < w->rows_max);
    window_ring(w, list)[window_ring_place(w, list, list->n++)] = s;
}

static inline row_slot window_list_pop(struct window *w, struct window_list *list)
{
    const row_slot *ring = window_ring(w, list);
    row_slot s;

    if (list->n == 0)
        return ROW_NO_SLOT;
    if (list->n > WINDOW_AHEAD)
        __builtin_prefetch(window_slots(w) + ring[window_ring_place(w, list, WINDOW_AHEAD)], 1);
    s = ring[list->first];
    list->first = window_ring_place(w, list, 1);
    list->n--;
    return s;
}

/* The one that was pushed last. For free slots: the processor has it at hand still. */
static inline row_slot window_list_pop_last(struct window *w, struct window_list *list)
{
    const row_slot *ring = window_ring(w, list);

    if (list->n == 0)
        return ROW_NO_SLOT;
    if (list->n > WINDOW_AHEAD)
        __builtin_prefetch(window_slots(w) + ring[window_ring_place(w, list, list->n - 1 - WINDOW_AHEAD)], 1);
    return ring[window_ring_place(w, list, --list->n)];
}

static inline uint32_t *window_bucket(const struct window *w, int64_t id)
{
    return window_buckets(w) + ((uint64_t)id & w->buckets_mask);
}

/* A handed slot is not with the producer any more; the caller says where it goes. */
void window_slot_come_back(struct window *w, row_slot s);

/* --- window_lane.c ------------------------------------------------------------------------------------------------ */

/* Put the lane on the list that its first row and its share call for. After every change of either. */
void window_lane_settle(struct window *w, uint32_t lane);
/* Something was acknowledged, or handed after nothing was: the lane is the last to be found stuck. */
void window_lane_moved(struct window *w, uint32_t lane, uint64_t now_ms);
/* Queue `s` in the lane, at its place by id. */
void window_lane_insert(struct window *w, uint32_t lane, row_slot s);
/* Take the first queued row off the lane; there must be one (asserted). */
row_slot window_lane_shift(struct window *w, struct window_lane *l);
void window_lane_unlink(struct window *w, struct window_lane *l, row_slot s); /* take a queued row off its lane */

#endif
