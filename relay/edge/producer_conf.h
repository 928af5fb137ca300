/* SPDX-License-Identifier: BSD-2-Clause */
/* librdkafka's properties: which are the user's, which are forced, and the configuration that comes of both. Within the edge only. */
#ifndef RELAY_EDGE_PRODUCER_CONF_H
#define RELAY_EDGE_PRODUCER_CONF_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/edge/producer.h"

/* A configuration for asking only (metadata): the user's properties over our defaults, errors as events, nothing logged to stderr. The
 * caller takes it. Returns NULL with a sentence in `error`. */
rd_kafka_conf_t *producer_conf_new(const struct producer_property *properties, size_t properties_n, char *error, size_t error_size);

struct producer_queue {
    enum relay_session session;
    uint32_t rows;               /* that may be in it, and... */
    uint64_t bytes, batch_bytes; /* ...their bytes; of a batch at most, 0: as configured */
};

/* The same for a session: what order needs is forced. Returns NULL with a sentence in `error`. */
rd_kafka_conf_t *producer_conf_new_session(const struct producer_property *properties, size_t properties_n,
                                           const struct producer_queue *queue, char *error, size_t error_size);

/* The number that `name` has in `conf`; 0 if it is none. */
uint64_t producer_conf_number(const rd_kafka_conf_t *conf, const char *name);

/* The largest message that they let through. Properties that librdkafka does not take count as its default; producer_open fails with them. */
uint32_t producer_conf_message_bytes_max(const struct producer_property *properties, size_t properties_n);

/* A copy of all, names and values too; taken by the caller. Returns NULL if out of memory. */
struct producer_property *producer_conf_copy_properties(const struct producer_property *properties, size_t n);
void producer_conf_free_properties(struct producer_property *properties, size_t n); /* NULL is allowed. */

#endif
