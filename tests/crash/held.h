/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection that stays open beside the relay's: it holds locks and transactions, and it sees what nobody new may look at any more. */
#ifndef TESTS_CRASH_HELD_H
#define TESTS_CRASH_HELD_H

#include <stdbool.h>
#include <stdint.h>

struct held; /* closed with the test, or by held_close */

struct held *held_open(const char *conninfo); /* fails the test if it cannot */
void held_close(struct held *h);              /* what it has open is rolled back */
/* Run statements to their end; an error fails the test. Returns the number that the last one answered; 0: nothing, or NULL. */
int64_t held_number(struct held *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Send statements and do not wait. held_done: whether they have ended; then `ret_sqlstate`, lent, is "" or that of their error. */
void held_send(struct held *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool held_done(struct held *h, const char **ret_sqlstate);

#endif
