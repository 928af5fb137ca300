/* SPDX-License-Identifier: BSD-2-Clause */
/* A payment-consumer between a topic and a database of its own. Events are produced here, without an order service, so a test knows to the cent what
 * the ledger should say. */
#ifndef TESTS_DEMO_CONSUMER_RIG_H
#define TESTS_DEMO_CONSUMER_RIG_H

#include "producer-demo/lib/uuid.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#include <librdkafka/rdkafka.h>

#define RIG_PARTITIONS 4

struct consumer_rig {
    struct postgres db;
    struct mock mock; /* unless a test brought a real Kafka */
    char kafka[256], topic[32], state[300];
    const char *way;
    rd_kafka_t *producer;
    int64_t events, intended_cents; /* produced so far, and what they should move in sum */
    struct process consumer;
    int port;
};

/* A database, and a topic on a mock cluster or on `kafka` (lent) if that is not NULL. */
struct consumer_rig consumer_rig_new(const char *way, const struct kafka *kafka);

/* One event; zero members have a value of their own: id new, order made of its number, version 1, delta and balance 1000 + order. */
struct consumer_event {
    struct uuid id;
    int order;
    int64_t version, delta_cents, balance_cents;
    const char *payload; /* instead of the usual one */
    bool unintended;     /* is not to be applied, so it does not count */
};
void consumer_rig_event(struct consumer_rig *rig, struct consumer_event event);
void consumer_rig_orders(struct consumer_rig *rig, int first, int n); /* n events of n orders */
void consumer_rig_flush(struct consumer_rig *rig);                    /* wait until all are in the topic */

/* Start a consumer with more arguments; waits until it listens. Ends with NULL. */
void consumer_rig_start(struct consumer_rig *rig, const char *const *more);
#define CONSUMER(rig, ...) consumer_rig_start((rig), (const char *const[]){__VA_ARGS__, NULL})
/* The same without any waiting: another process of the same way. */
struct process consumer_rig_process(const struct consumer_rig *rig, const char *listen, const char *const *more);
void consumer_rig_stop(struct consumer_rig *rig);                   /* SIGTERM, and it must end with 0 */
int consumer_rig_fault(struct consumer_rig *rig, const char *body); /* POST /faults: the status */
/* One metric's value, all its labels after the way's given ("" or `,reason="poison"`); -1: it is not there. */
int64_t consumer_rig_metric(struct consumer_rig *rig, const char *name, const char *labels);
/* Every event was given to a worker in this life or an earlier one, and all that was given is settled, offsets included. */
bool consumer_rig_settled(struct consumer_rig *rig);
/* What the ledger says beyond what was intended. */
int64_t consumer_rig_drift(const struct consumer_rig *rig);
int64_t consumer_rig_number(const struct consumer_rig *rig, const char *sql); /* in the ledger's schema */

#endif
