/* SPDX-License-Identifier: BSD-2-Clause */
/* Records become deliveries, and deliveries are copied: what the frame does with them before a way sees them. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_DELIVERY_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_DELIVERY_H

#include "producer-demo/payment_consumer/way.h"

/* What the record says, copied; the caller frees it with free(). */
struct delivery *delivery_read(const rd_kafka_message_t *message);
/* The same once more, marked as copied; the caller frees it with free(). */
struct delivery *delivery_copy(const struct delivery *delivery);
/* Is it one of the `percent` of all events that the fault "redeliver" copies? Depends on its event_id and the seed only. */
bool delivery_chosen(const struct delivery *delivery, int64_t seed, int64_t percent);

#endif
