/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tail passed by: a lane that is stuck or had a row refused, a whole topic that is missing or forbidden, a key one of whose rows was
 * refused alone. One record however many rows it covers: `from`, the first id that was not admitted to the window.
 *
 *   LIVE --go--> BEHIND --caught up with the highest id seen--> COVERED --its rows are above the floor--> LIVE
 *
 * The tail does not admit rows of a BEHIND record at or above `from`; a catch-up page brings them, and moves `from` on. Saved is not `from`
 * but the first id that is not settled; COVERED: it still has to be saved, because the floor may have passed rows of it that are in the
 * window. Records have numbers: that of a lane; after those the topics', after those the keys'.
 */
#ifndef RELAY_CORE_BEHIND_H
#define RELAY_CORE_BEHIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct behind;

#define BEHIND_NONE UINT32_MAX

size_t behind_size(uint32_t records_max);
/* Lies in `memory` of behind_size() bytes, kept. Every record is LIVE. */
struct behind *behind_init(void *memory, uint32_t records_max);
void behind_reset(struct behind *b);

/* --- state -------------------------------------------------------------------------------------------------------- */

bool behind_is(const struct behind *b, uint32_t record);                 /* BEHIND? */
bool behind_covers(const struct behind *b, uint32_t record);             /* BEHIND or COVERED: the floor ignores its rows */
bool behind_is_clear(const struct behind *b, uint32_t record);           /* LIVE, and nothing is saved of it */
bool behind_admits(const struct behind *b, uint32_t record, int64_t id); /* may the tail admit a row of it? */
int64_t behind_from(const struct behind *b, uint32_t record);

/* Goes behind at `from`, or further back if it is. Not caught up before `retry_ms`. `suspect`: one more attempt failed; one row at a time
 * until one is acknowledged.
 * Returns whether it was not behind before. */
bool behind_go(struct behind *b, uint32_t record, int64_t from, uint64_t retry_ms, bool suspect);
/* It is saved in the database with its first unsettled id (after a start): a suspect, and probed. */
void behind_load(struct behind *b, uint32_t record, int64_t first_id, uint32_t attempts);
/* Its rows go through the probe session: those up to `upto` may be refused (0: nobody knows which). */
void behind_probe(struct behind *b, uint32_t record, int64_t upto);
bool behind_probes(const struct behind *b, uint32_t record);
int64_t behind_probe_upto(const struct behind *b, uint32_t record);
/* Rows of it came back and were dropped: not admitted is what is at or above `from`, if that is further back. */
void behind_back(struct behind *b, uint32_t record, int64_t from);
/* Its rows are covered by another record now: LIVE, to be deleted with the next save. */
void behind_dissolve(struct behind *b, uint32_t record);
void behind_catch_up(struct behind *b, uint32_t record); /* BEHIND becomes COVERED */
void behind_wait(struct behind *b, uint32_t record, uint64_t retry_ms);

bool behind_suspect(const struct behind *b, uint32_t record);
uint32_t behind_attempts(const struct behind *b, uint32_t record); /* times it went behind as a suspect since the last acknowledgement */
void behind_acked(struct behind *b, uint32_t record);              /* what was suspected was acknowledged: no suspect, no attempts */
uint64_t behind_retry_ms(const struct behind *b, uint32_t record);

/* --- pages -------------------------------------------------------------------------------------------------------- */

/* The record takes part in the page that is asked for now, from its `from` on. */
void behind_page_join(struct behind *b, uint32_t record);
/* Does it take part, and did its `from` not move since? */
bool behind_page_has(const struct behind *b, uint32_t record);
/* Everything below `from` was admitted, or need not be. It takes no part any more. */
void behind_page_move(struct behind *b, uint32_t record, int64_t from);
void behind_page_leave(struct behind *b, uint32_t record);

/* --- saving ------------------------------------------------------------------------------------------------------- */

/* The records that are not clear, in the order in which they became so: first one, next one. BEHIND_NONE ends. */
uint32_t behind_first(const struct behind *b);
uint32_t behind_next(const struct behind *b, uint32_t record);
uint32_t behind_n(const struct behind *b); /* BEHIND ones */

/* What is to be saved of it, when its smallest id in the window is `first` (INT64_MAX: none) and `floor` is saved with it; 0: nothing. A
 * COVERED record whose rows are all above the floor becomes LIVE. */
int64_t behind_save(struct behind *b, uint32_t record, int64_t first, int64_t floor);
/* Is this what the database has of it? Not if a save of it was not answered. */
bool behind_is_saved(const struct behind *b, uint32_t record, int64_t first_id, uint32_t attempts);
/* This is saved of it, 0: nothing; BEHIND_UNKNOWN: a save is on its way. It may be clear now and off the list. */
void behind_on_saved(struct behind *b, uint32_t record, int64_t first_id, uint32_t attempts);
#define BEHIND_UNKNOWN (-1)

uint64_t behind_digest(const struct behind *b, uint64_t now_ms);

#endif
