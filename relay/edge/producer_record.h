/* SPDX-License-Identifier: BSD-2-Clause */
/* A record on its way into librdkafka. Within the edge only. */
#ifndef RELAY_EDGE_PRODUCER_RECORD_H
#define RELAY_EDGE_PRODUCER_RECORD_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>

#include "relay/edge/producer.h"

/* What a batch of nothing but this record takes, uncompressed (Kafka's record format 2): no topic whose limit is below it takes it. */
size_t record_batch_bytes(const struct producer_record *record);

/* Hand it over; its slot is the message's opaque. Anything but 0: no report will come. */
rd_kafka_resp_err_t record_hand(rd_kafka_t *client, rd_kafka_topic_t *topic, const struct producer_record *record);

#endif
