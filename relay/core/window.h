/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows between fetch and mark, in one lane per topic-partition.
 *
 *   admit -> queued -> handed -> acked -> marking -> gone
 *            ^    |       |
 *            |    '-------|---> dropped (taken behind, or started over): its bytes are given back, then the slot is free
 *            '- returned -'     the session ended before a good report: back to its place, by id, in its lane
 *
 * A queued row is ready when the WAL up to its `lsn` is known to be flushed. A lane is COLD until its first acknowledgement in a session:
 * one row at a time, because a broker that does not know a producer accepts any first sequence number, so that a refused first batch and an
 * accepted second one would swap (KAFKA-15591). Ready lanes are a list and take turns; nothing here scans, but the functions that say so.
 */
#ifndef RELAY_CORE_WINDOW_H
#define RELAY_CORE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/row.h"

struct window;

#define WINDOW_NO_LANE UINT32_MAX

size_t window_size(uint32_t rows_max, uint32_t lanes_max);
/* Lies in `memory` of window_size() bytes, kept. `lane_rows_max` limits what is handed of one lane. */
struct window *window_init(void *memory, uint32_t rows_max, uint64_t bytes_max, uint32_t lanes_max, uint32_t lane_rows_max);

uint32_t window_rows(const struct window *w);                   /* that are not free: dropped and forgotten-later ones too */
uint64_t window_bytes(const struct window *w);                  /* of rows queued or handed */
uint32_t window_handed(const struct window *w);                 /* with the producer */
uint32_t window_handed_of(const struct window *w, bool probe);  /* of these, with this session */
uint32_t window_unacked_of(const struct window *w, bool probe); /* queued for it or handed to it */
uint32_t window_room_rows(const struct window *w);              /* slots that are free */
uint64_t window_room_bytes(const struct window *w);             /* 0 when it is full */

/* --- in ----------------------------------------------------------------------------------------------------------- */

/* Is a row of this id and event_id in the window, or was it marked while the read that brought it was on its way? */
bool window_knows(const struct window *w, const struct row *row);
/* The row is queued in `lane`, by id. There must be a free slot (asserted). `lsn`: it is ready when the flush has passed this. */
row_slot window_admit(struct window *w, const struct row *row, uint32_t lane, uint64_t lsn);
/* The WAL is flushed up to `lsn`. */
void window_flushed(struct window *w, uint64_t lsn);
/* Is a row waiting for a flush that has not been told? */
bool window_waits_for_flush(const struct window *w);

/* --- publish ------------------------------------------------------------------------------------------------------ */

/* A lane that was silent for so long is cold again: the broker may have forgotten the producer. Not before it is called. */
void window_set_idle_cold(struct window *w, uint32_t idle_cold_ms);
/* The next row for the producer, from a probe lane or another, in id order within its lane. It counts as handed. Returns false if there is
 * none. */
bool window_hand(struct window *w, uint64_t now_ms, bool probe, row_slot *ret_slot);
/* The row of a lane that is no probe lane that will probably be handed next, and the one after it; ROW_NO_SLOT: none is ready. */
row_slot window_next(const struct window *w);
row_slot window_later(const struct window *w);
void window_expect(const struct window *w, row_slot s); /* it is about to be used: the processor may fetch it */
void window_ack(struct window *w, uint64_t now_ms,
                row_slot slot);                       /* its lane is warm now, and not stuck; its bytes do not count any more */
void window_return(struct window *w, row_slot slot);  /* queued again, at its place by id */
void window_abandon(struct window *w, row_slot slot); /* handed, came back, and is dropped */
void window_cold(struct window *w, bool probe);       /* a session ended: every lane of it is cold. Scans the lanes */

/* The lane that has waited longest for an acknowledgement, if for `stuck_ms`; WINDOW_NO_LANE if none has. */
uint32_t window_find_stuck(const struct window *w, uint64_t now_ms, uint64_t stuck_ms);
uint64_t window_stuck_due_ms(const struct window *w, uint64_t stuck_ms); /* when it should be asked next; UINT64_MAX: nothing is handed */
uint64_t window_lane_waited_ms(const struct window *w, uint64_t now_ms, uint32_t lane); /* for its next acknowledgement; rows are handed */
void window_stick(struct window *w, uint32_t lane);  /* hand nothing more of it until it has an acknowledgement */
bool window_is_mostly_stuck(const struct window *w); /* do handed rows of stuck lanes hold more than half of it? */

/* --- out ---------------------------------------------------------------------------------------------------------- */

uint32_t window_acked(const struct window *w); /* rows acknowledged, and not in a mark */
/* The next acknowledged row goes into a mark. Returns false if there is none. */
bool window_mark(struct window *w, row_slot *ret_slot);
/* It is marked. `remember`: a read is on its way whose snapshot may be older: the row stays known until window_forget. */
void window_marked(struct window *w, row_slot slot, bool remember);
void window_unmarked(struct window *w, row_slot slot); /* outcome unknown: acknowledged again */
void window_forget(struct window *w);                  /* the read was answered */

/* Drop the queued rows of `lane`; returns the smallest id among them, INT64_MAX if there are none. */
int64_t window_take(struct window *w, uint32_t lane);
/* Drop the queued rows of one key; returns the smallest id among them, INT64_MAX if there are none. Scans the lane's queue. */
int64_t window_take_key(struct window *w, uint32_t lane, uint64_t key_hash);
/* Start over: drop every queued row, and know no flush any more. Scans the lanes. */
void window_start_over(struct window *w);
/* A dropped row whose bytes must be given back. The slot is free afterwards. Returns false if there is none. */
bool window_drop(struct window *w, row_slot *ret_slot);

/* --- lanes -------------------------------------------------------------------------------------------------------- */

/* A lane number is used (again): cold and empty (asserted). `single`: never more than one row in flight, because its rows go to different
 * partitions. `probe`: it hands one row, and after each flight that was acknowledged whole twice as many; after a bad report one again. */
void window_lane_open(struct window *w, uint32_t lane, bool single, bool probe);
void window_lane_pause(struct window *w, uint32_t lane, bool paused); /* hand nothing of it; or hand again */
bool window_lane_empty(const struct window *w, uint32_t lane);        /* no slot belongs to it */
uint32_t window_lane_queued(const struct window *w, uint32_t lane);
uint32_t window_lane_handed(const struct window *w, uint32_t lane);
uint32_t window_lane_unacked(const struct window *w, uint32_t lane); /* queued or handed */
bool window_lane_alone(const struct window *w, uint32_t lane);       /* one row was handed since nothing was in flight */
void window_lane_doubt(struct window *w, uint32_t lane);             /* of a probe lane: one row at a time again */
uint32_t window_lane_share(const struct window *w, uint32_t lane);   /* of a probe lane: rows that it may have in flight */
bool window_lane_stuck(const struct window *w, uint32_t lane);
/* Rows were handed, and nothing was acknowledged for so long that the broker may have forgotten the producer. */
bool window_lane_silent(const struct window *w, uint64_t now_ms, uint32_t lane);
/* The queued rows of `lane` in id order: the first, and the one after `slot`. ROW_NO_SLOT ends. */
row_slot window_lane_first(const struct window *w, uint32_t lane);
row_slot window_lane_after(const struct window *w, row_slot slot);
void window_move(struct window *w, row_slot slot, uint32_t lane); /* a queued row, to its place by id in another lane */

/* Fill firsts[lane] with the smallest id in the window, neither marked nor dropped, of each lane below `lanes_n`; INT64_MAX where none is.
 * Scans the slots: for saves. */
bool window_unsettled(const struct window *w, row_slot slot); /* in the window, and not marked yet */
void window_firsts(const struct window *w, int64_t *firsts, uint32_t lanes_n);

/* How many rows of a key are queued or with the producer. Scans the slots. */
uint32_t window_unacked_of_key(const struct window *w, uint64_t key_hash);

/* --- of one row --------------------------------------------------------------------------------------------------- */

int64_t window_id(const struct window *w, row_slot slot);
struct row_event_id window_event_id(const struct window *w, row_slot slot);
uint32_t window_lane(const struct window *w, row_slot slot);
int32_t window_wish(const struct window *w, row_slot slot); /* the row's own partition, or -1 */
uint32_t window_spread(const struct window *w, row_slot slot);
uint64_t window_key(const struct window *w, row_slot slot);

uint64_t window_digest(const struct window *w, uint64_t now_ms);

#endif
