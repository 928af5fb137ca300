/* SPDX-License-Identifier: BSD-2-Clause */
/* The fault "redeliver": copies of some records go to the next worker, and both begin to apply at the same moment. Kafka never does this to
 * two workers that are well (a key has one of them), but does when one was thought dead and is not. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_MEETING_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_MEETING_H

#include "producer-demo/payment_consumer/way.h"

struct meeting;

struct meeting *meeting_new(int workers);
void meeting_free(struct meeting *meeting); /* with the copies that nobody took */

/* Worker `number` is about to apply: it gives `copies` (they are the meeting's from now on) to the next worker and waits until that one, too, is
 * about to apply, a quarter of a second at most; then takes what was given to itself. Returns how many; *ret_taken (malloc'ed, of malloc'ed
 * deliveries) is the caller's, NULL if none. With one worker the copies come back at once. */
int meeting_join(struct meeting *meeting, int number, struct delivery **copies, int copies_n, struct delivery ***ret_taken);

#endif
