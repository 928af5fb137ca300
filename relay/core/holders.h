/* SPDX-License-Identifier: BSD-2-Clause */
/* Transactions that hold the write lock on the table, and up to which id each of them keeps gaps open.
 *
 *     question     1            2            3
 *     sequence    10           14           20
 *     a holder    drew 9       quiet        quiet since then
 *                 waits        (known: its ids lie up to 14)
 *
 * A holder that acts may have drawn any id below the sequence. One that was prepared, or stood idle in its transaction, and is found
 * again as it was, drew nothing in between: all its ids lie at or below the sequence as it was read after it was first found so. Gaps
 * above that are not its own, however long it stays. One that acts again counts as any other.
 */
#ifndef RELAY_CORE_HOLDERS_H
#define RELAY_CORE_HOLDERS_H

#include <stddef.h>
#include <stdint.h>

struct holders;
struct relay_writer;

size_t holders_size(uint32_t holders_max);
/* Lies in `memory` of holders_size() bytes, kept. Knows nobody. */
struct holders *holders_init(void *memory, uint32_t holders_max);
void holders_reset(struct holders *h); /* forget everybody */

/* `writers` (borrowed) held the lock after the sequence was read as `last_id`. `round_upto` 0: the round goes on, and whoever was not there
 * when it began holds up nothing in it. Else a new one begins for the gaps up to there, which is not above `last_id`, and `writers_n` is
 * not above `holders_max`. */
void holders_see(struct holders *h, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n, int64_t round_upto);

/* Gaps of the round up to here wait for somebody; 0: for nobody. */
int64_t holders_block_upto(const struct holders *h);
/* Up to here they wait for somebody who is known to be quiet: perhaps for ever. */
int64_t holders_quiet_block_upto(const struct holders *h);

uint64_t holders_digest(const struct holders *h);

#endif
