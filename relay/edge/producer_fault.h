/* SPDX-License-Identifier: BSD-2-Clause */
/* Which of librdkafka's errors mean what to the relay. It decides waits, breakers and sentences; never safety: whatever the error, a row
 * without a good report is not marked, and its session ends. */
#ifndef RELAY_EDGE_PRODUCER_FAULT_H
#define RELAY_EDGE_PRODUCER_FAULT_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

#include "relay/core/relay.h"

/* The class of a bad report, of an error of producing, or of a fatal error. An error that is not known is passing. */
enum relay_fault producer_fault(rd_kafka_resp_err_t error);

/* Is it about reaching a broker at all, rather than about a row? */
bool producer_fault_is_connection(rd_kafka_resp_err_t error);

/* Write one sentence for people about a connection that does not work: what, where, what to do. `reason` is librdkafka's text; borrowed. */
void producer_fault_sentence(rd_kafka_resp_err_t error, const char *reason, char *ret_text, size_t text_size);

/* The same about a topic that cannot be learned. */
void producer_fault_topic_sentence(rd_kafka_resp_err_t error, const char *topic, char *ret_text, size_t text_size);

#endif
