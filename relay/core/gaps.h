/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids that were drawn but have not been seen: a transaction still open, or one that rolled back.
 *
 *     seen   1 2 3 . 5 6 . . . 10        '.' is a gap; 10 is the highest id seen
 *
 * A reader that only goes forward loses 4 when it commits after 10 was read. A reader that waits for the oldest transaction of the cluster
 * stalls behind strangers and swaps the rows of a key. So each gap is asked for again with every read, until it shows, or until
 *
 *   1. the sequence was read at or above it, in a question that began after the gap showed,
 *   2. then it was asked who holds a write lock on the table,
 *   3. all of those have ended that may have drawn an id of it (see holders.h for those who stay and draw none),
 *   4. and one more whole read, begun after that answer arrived, still lacks it; this even where nobody held the lock.
 *
 * All gaps that are open when a question begins go through this together, as one round; younger ones wait for the next round.
 */
#ifndef RELAY_CORE_GAPS_H
#define RELAY_CORE_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gaps;
struct relay_writer;

size_t gaps_size(uint32_t ranges_max, uint32_t writers_max);
/* Lies in `memory` of gaps_size() bytes, kept. Knows nothing above `floor`. */
struct gaps *gaps_init(void *memory, uint32_t ranges_max, uint32_t writers_max, int64_t floor);
/* Forget everything, start at `floor`. */
void gaps_reset(struct gaps *g, int64_t floor);

/* --- reads -------------------------------------------------------------------------------------------------------- */

/* A read begins: it will carry every range, lent here (ascending, both ends included) until the next call that is not const. */
void gaps_read_begin(struct gaps *g);
uint32_t gaps_ranges(const struct gaps *g, const int64_t **ret_firsts, const int64_t **ret_lasts);

/* Its answer, id by id, ascending: returns false when there is no room to note the gap that `id` would leave; then the read counts as whole
 * up to the id before only. */
bool gaps_read_see(struct gaps *g, uint64_t now_ms, int64_t id);
/* The answer was whole up to `upto` (INT64_MAX: to its end). Closes what is due. */
void gaps_read_end(struct gaps *g, int64_t upto);
/* There was no answer: the read did not happen. */
void gaps_read_fail(struct gaps *g);

/* No room for the ranges that a read of `rows` ids may leave: it should ask for the gaps only. (Ranges are never joined over seen ids: those
 * would come back.) */
bool gaps_full(const struct gaps *g, uint32_t rows);

/* --- closing ------------------------------------------------------------------------------------------------------ */

/* Is there a gap open for `age_ms` or more that a question could bring forward? */
bool gaps_wants_writers(const struct gaps *g, uint64_t now_ms, uint32_t age_ms);
uint64_t gaps_wants_writers_due_ms(const struct gaps *g, uint32_t age_ms); /* UINT64_MAX: not before something else happens */
/* The question is sent. */
void gaps_writers_begin(struct gaps *g);
/* Its answer: the sequence stood at `last_id`; after that, `writers_n` transactions (borrowed) could still use ids up to it. */
void gaps_writers_end(struct gaps *g, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n);
/* No answer, or not a whole one. */
void gaps_writers_fail(struct gaps *g);
/* Does a round only wait for one more read? */
bool gaps_wants_read(const struct gaps *g);

/* --- to know ------------------------------------------------------------------------------------------------------ */

bool gaps_open_at(const struct gaps *g, int64_t id); /* is `id` in an open gap? */
uint32_t gaps_n(const struct gaps *g);               /* ranges */
int64_t gaps_highest(const struct gaps *g);          /* the highest id seen */
int64_t gaps_closed_upto(const struct gaps *g);      /* every id up to it was seen or is closed */
uint64_t gaps_oldest_ms(const struct gaps *g);       /* since when the lowest gap is open; 0: none is */

uint64_t gaps_digest(const struct gaps *g, uint64_t now_ms);

#endif
