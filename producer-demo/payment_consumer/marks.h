/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks in Redis: one name for each event, set only if it is not there, gone again after a time to live. Fast, shared by all workers, and in
 * nobody's transaction. Redis may forget them whenever it likes: it restarts, it fails over, its memory is full. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_MARKS_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_MARKS_H

#include "producer-demo/payment_consumer/way.h"

struct marks; /* a connection that is made when it is needed; for one thread */

/* At the settings' `redis`, under names that begin with the group. Ends the program if there is no memory. */
struct marks *marks_open(const struct consumer_settings *settings);
void marks_close(struct marks *marks);

/* Each of these is about the deliveries whose outcome is DELIVERY_APPLIED, and asks for all of them at once. false: Redis is away, or went
 * away (logged), and how much was done is not known. */

/* Those that are marked become DELIVERY_SUPPRESSED. */
bool marks_look(struct marks *marks, struct delivery *const *batch, int n);
/* Mark them; those that were marked already, even an instant ago by another worker, become DELIVERY_SUPPRESSED. */
bool marks_take(struct marks *marks, struct delivery *const *batch, int n);
/* Mark them; the outcome stays as it is. */
bool marks_set(struct marks *marks, struct delivery *const *batch, int n);
/* Take the marks away again. */
bool marks_remove(struct marks *marks, struct delivery *const *batch, int n);

#endif
