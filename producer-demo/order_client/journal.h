/* SPDX-License-Identifier: BSD-2-Clause */
/* What a client wants, written down before anybody is asked for it. A client that dies and starts again finds here what it does not know the
 * end of, and asks again under the same key. Without it, it would have to make a new key, and with that a second order.
 *
 * The file is only appended to, one line for each fact; a checksum of the rest comes first:
 *
 *     5d3a1c02 intent KEY METHOD PATH IF-MATCH BODY     on disk (fsync) before the first send; "-" is no If-Match; the body may be empty
 *     0b77e9f1 end KEY STATUS                           the final answer; 0: given up for good. Not synced: a lost one costs one replay
 *
 * A torn last line is cut off when the file is opened: an intent there was never sent, and of an end only a replay is lost. */
#ifndef PRODUCER_DEMO_JOURNAL_H
#define PRODUCER_DEMO_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct journal;

struct journal_intent {
    char key[37];       /* a UUID of version 7: made at the moment of the intent, which it tells */
    const char *method; /* without spaces, as are all but the body */
    const char *path;   /* "/orders" */
    const char *match;  /* If-Match; or NULL */
    const char *body;   /* on one line; or NULL */
};

/* Open or make it, and read what it leaves open. NULL: ret_reason says in one line why (it is in use, cannot be written, is damaged before
 * its last line). */
struct journal *journal_open(const char *path, char *ret_reason, size_t reason_size);
void journal_close(struct journal *journal);

/* The intents without an end when it was opened, in the order in which they were written; lent until it is closed. */
const struct journal_intent *journal_left(const struct journal *journal, size_t *ret_n);
int64_t journal_orders(const struct journal *journal); /* how many orders (POST /orders) were wanted in it when it was opened */

/* Write it down, and return when it is on the disk. false: it is not, so it must not be sent; the reason was printed. From any thread; those that
 * come at the same moment share one fsync. */
bool journal_begin(struct journal *journal, const struct journal_intent *intent);
/* How it ended. Any thread. */
void journal_end(struct journal *journal, const char *key, int status);

#endif
