/* SPDX-License-Identifier: BSD-2-Clause */
/* The output topic of a way whose effect lies in Kafka: made with the input's partitions, and read back from any offset to its end, without what was
 * aborted. It is a ledger, so it keeps its records for ever. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_OUTPUT_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_OUTPUT_H

#include "producer-demo/payment_consumer/way.h"

#define OUTPUT_NAME_MAX 250

/* TOPIC-WAY: orders-kafka-to-kafka. */
void output_name(const struct consumer_settings *settings, char ret_name[OUTPUT_NAME_MAX]);
/* Make it if it is not there. Returns its partitions; 0: the input topic is not there yet, or the broker is away (logged). */
int output_create(const struct consumer_settings *settings, const char *name);

struct history; /* a reader of committed records; for one thread */

/* Of the topic `output`, lent until history_close. NULL: logged. */
struct history *history_open(const struct consumer_settings *settings, const char *output);
void history_close(struct history *history);

typedef void history_each(void *context, const rd_kafka_message_t *record);

/* Call `each` for the committed records of the partition from *next on, at most `max` of them and up to what was its end when this was called; waits
 * until the transactions that were open there have ended. Moves *next behind what was read. Returns 0: the end was reached; 1: there is more;
 * -1: not now (logged), and what was read was read. */
int history_read(struct history *history, int32_t partition, int64_t *next, int max, history_each *each, void *context);

#endif
