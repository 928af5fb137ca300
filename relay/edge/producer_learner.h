/* SPDX-License-Identifier: BSD-2-Clause */
/* What Kafka says about topics: partitions, and the largest batch; and for how long it remembers a silent producer. Asked on a worker
 * thread by a client of its own, so that its waiting holds up nobody. Within the edge only. */
#ifndef RELAY_EDGE_PRODUCER_LEARNER_H
#define RELAY_EDGE_PRODUCER_LEARNER_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "relay/edge/producer.h"

struct learner;

struct learned {
    uint32_t topic;
    int32_t partitions_n;       /* 0: `reason` says why */
    uint32_t message_bytes_max; /* 0: the broker did not tell */
    rd_kafka_resp_err_t error;
    char reason[700];
};

/* Called on the loop's thread, once for each learner_ask, but not after learner_forget or learner_free. `learned` is lent for the call. */
typedef void (*learner_on_learned)(void *data, const struct learned *learned);

/* producer.id.expiration.ms, as some broker has it; not called if it does not tell. */
typedef void (*learner_on_idle_limit)(void *data, uint64_t expiration_ms);

/* Keeps everything but the callbacks. NULL: out of memory. */
struct learner *learner_new(uv_loop_t *loop, const struct producer_property *properties, size_t properties_n, learner_on_learned on_learned,
                            learner_on_idle_limit on_idle_limit, void *data);
/* `on_freed` is called when nothing of it is on the loop any more, perhaps before this returns. */
void learner_free(struct learner *l, void (*on_freed)(void *data), void *data);

void learner_ask(struct learner *l, uint32_t topic, const char *name); /* Copies `name`. */
void learner_forget(struct learner *l, uint32_t topic);                /* Not to be answered any more. */
void learner_ask_idle_limit(struct learner *l);                        /* Now, and again until a broker answers. */
void learner_tick(struct learner *l);                                  /* Some time has passed. */

#endif
