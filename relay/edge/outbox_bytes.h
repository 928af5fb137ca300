/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes of rows, by slot: results are lent until the last row of them is dropped, not copied. One row that stays would keep all of
 * its result, so when less than half of a result is live, its rows move together into a block of their own. A row whose bytes were
 * looked at is pinned: somebody may have kept a pointer, so nothing of its result moves until it is dropped. */
#ifndef RELAY_EDGE_OUTBOX_BYTES_H
#define RELAY_EDGE_OUTBOX_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "relay/edge/outbox.h"

struct bytes;
struct lent;
struct database_result;

/* Slots are below `slots_max`. NULL: out of memory. */
struct bytes *bytes_new(uint32_t slots_max);
void bytes_free(struct bytes *b); /* With all that it holds. NULL is allowed. */

/* Takes `result`, whose `rows_n` rows, held or not, count `whole_bytes` together. Then bytes_hold for each row to be held, then bytes_lent. Aborts
 * if out of memory. */
struct lent *bytes_lend(struct bytes *b, struct database_result *result, size_t whole_bytes, uint32_t rows_n);
/* `row` points into the result. Asserts that the slot holds nothing. */
void bytes_hold(struct bytes *b, struct lent *l, row_slot slot, const struct outbox_row *row);
void bytes_lent(struct bytes *b, struct lent *l);

/* Pins the row. Asserts that the slot holds one. */
void bytes_row(const struct bytes *b, row_slot slot, struct outbox_row *ret_row);
void bytes_expect(const struct bytes *b, row_slot slot);     /* bytes_row will be asked for it soon */
void bytes_expect_key(const struct bytes *b, row_slot slot); /* and sooner still: of a slot that was expected before, its key */
void bytes_drop(struct bytes *b, row_slot slot);

/* What results and blocks take in memory. */
size_t bytes_total(const struct bytes *b);

#endif
