/* SPDX-License-Identifier: BSD-2-Clause */
/* The workers of one process, and what they share. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_CREW_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_CREW_H

#include "producer-demo/lib/tally.h"
#include "producer-demo/payment_consumer/meeting.h"
#include "producer-demo/payment_consumer/way.h"

#include <stdatomic.h>

struct crew {
    const struct consumer_settings *settings;
    const struct way *way;
    struct tally *tally;
    struct meeting *meeting;
    struct idset *witness; /* which events were delivered; counts duplicates, and no way may ask it */
    atomic_llong floor_ms; /* where the oldest partition of processed_messages begins; 0: it is not known yet */
    atomic_bool stopping;
    atomic_llong first_us, last_us; /* of this process, by the monotonic clock: its first batch began, its last one was done; 0: none */
    atomic_llong done;              /* deliveries of this process that are done */
    atomic_llong redeliver_percent; /* changes at run time */
};

struct worker_thread;

/* Start one more worker, whose number is `number`. Ends the program if the system has no thread for it. */
struct worker_thread *worker_start(struct crew *crew, int number);
/* Wait until it has ended, which it does soon after crew->stopping is set: after the batch it is at. false: not within `seconds`, because
 * somebody whom it asks does not answer; it goes on. */
bool worker_join(struct worker_thread *thread, int seconds);

#endif
