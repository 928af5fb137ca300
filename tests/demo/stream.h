/* SPDX-License-Identifier: BSD-2-Clause */
/* What a payment-consumer needs around it, without a shop: a database, a broker (lent), and a stream of events as the relay would write them,
 * some of them twice if a test wants that. It knows what the ledger should say: the view shop.intended, as the order service has it. */
#ifndef TESTS_DEMO_STREAM_H
#define TESTS_DEMO_STREAM_H

#include <librdkafka/rdkafka.h>

#include "tests/demo/program.h"

#define STREAM_PARTITIONS 4

struct stream {
    struct postgres db;
    const char *bootstrap;
    rd_kafka_t *producer;
    int64_t events; /* different ones */
    struct stream_event *written;
};

/* Start the database; make the topic `orders` on `bootstrap`, which is lent for ever. */
struct stream stream_start(const char *bootstrap);
/* Place `orders` more, of 1.00 to 10.99 each; every 5th is moved, every 7th cancelled. Waits until all is in the topic. */
void stream_place(struct stream *stream, int orders);
/* The last n events come once more: another record of the same event, as a relay writes it that did not see the broker's answer. */
void stream_repeat(struct stream *stream, int n);

/* Start payment-consumer --way `way` on it, its state in the test's folder; `flags` are more of them, or NULL, and the last of two counts. It
 * listens when this returns, and may have died since. */
struct program stream_consumer(const struct stream *stream, const char *way, const char *const *flags);
/* Records of the topic whose offset is not committed for the way's group: 0 when it has caught up; -1: nobody can say yet. */
int64_t stream_lag(const struct stream *stream, const char *way);
/* Members of the way's group, a worker each; -1: nobody can say yet. */
int stream_members(const struct stream *stream, const char *way);
/* What its ledger has too much, in cents. */
int64_t stream_drift(const struct stream *stream, const char *way);
/* How many events have their effect more than once there, and how many have none. Not for passthrough. */
int64_t stream_doubled(const struct stream *stream, const char *way);
int64_t stream_lost(const struct stream *stream, const char *way);

#endif
