/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies the output topic of kafka-to-kafka, which is its ledger, into a table, so that its drift is the same SQL query as everybody's. A record
 * is known by its partition and offset, which a committed record never changes: to copy it twice is to copy it once. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_COPIER_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_COPIER_H

#include "producer-demo/payment_consumer/way.h"

/* Its table, and the view over it. */
extern const char copier_schema[];

struct copier;

/* Start the thread that copies; everything lent until copier_stop. Ends the program if there is no thread for it. */
struct copier *copier_start(const struct consumer_settings *settings, const struct way *way, const char *output, int partitions);
/* Copy what is there by now, if all who must answer do, and end. */
void copier_stop(struct copier *copier);

#endif
