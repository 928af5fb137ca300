/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a worker's records come from: its consumer in the group, and the offsets that are to be committed for it. For one thread, but for
 * intake_open. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_INTAKE_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_INTAKE_H

#include "producer-demo/payment_consumer/way.h"

struct intake;

/* A new consumer, subscribed. Ends the program with a sentence and status 2 if librdkafka does not take the settings. */
struct intake *intake_open(const struct consumer_settings *settings);
rd_kafka_t *intake_consumer(const struct intake *intake);
/* How often it was given partitions, up to now. */
unsigned intake_assignments(const struct intake *intake);
/* Read a batch; returns soon, with nothing if nothing came. *ret_batch is malloc'ed, and so is each delivery: the caller frees all of them.
 * Records of partitions that were taken away meanwhile are not in it: somebody else has them. */
int intake_read(struct intake *intake, struct delivery ***ret_batch);
/* These are done: their offsets may be committed, those of copies aside. */
void intake_done(struct intake *intake, struct delivery *const *batch, int n);
/* Commit the offsets of what is done: if `now` or if the last time is long enough ago. Waits for the answer. */
void intake_commit(struct intake *intake, bool now);
/* Leave the group, after a last commit of what is done if `commit`. */
void intake_close(struct intake *intake, bool commit);

#endif
