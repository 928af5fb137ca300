/* SPDX-License-Identifier: BSD-2-Clause */
/* The whole chain of the demo for a test, each part a process that it may kill and start again: order-client -> order-service -> outbox ->
 * outbox-relay -> broker -> payment-consumer. The client loses replies on purpose and tries again, and a fifth of all records come to the
 * consumers twice, whatever else a test does. */
#ifndef TESTS_DEMO_CHAIN_H
#define TESTS_DEMO_CHAIN_H

#include "tests/lib/services.h"

enum chain_part {
    CHAIN_CARD,
    CHAIN_SERVICE,
    CHAIN_RELAY,
    CHAIN_UNIQUE, /* payment-consumer --way unique, and so on: the ways that must be right on any broker */
    CHAIN_VERSION,
    CHAIN_PASSTHROUGH,
    CHAIN_CLIENT,
    CHAIN_PARTS
};

#define CHAIN_PARTITIONS 4

struct chain {
    struct postgres db;
    char bootstrap[256]; /* of the broker */
    int orders;          /* that the client places */
    struct process part[CHAIN_PARTS];
    int port[CHAIN_PARTS];
};

/* Start all of it but the client, on a broker that has the topic `orders`; waits until each part answers. */
void chain_begin(struct chain *ret_chain, const char *bootstrap, int orders);
/* Start one part, again as well: on its port and with its files. Does not wait. */
void chain_start(struct chain *chain, enum chain_part part);
/* Wait until it answers (a service), or does nothing (the relay and the client, which need not be waited for). */
void chain_await(struct chain *chain, enum chain_part part);
/* kill -9; it must have been running. Waits for its end. */
void chain_kill(struct chain *chain, enum chain_part part);
int64_t chain_placed(const struct chain *chain); /* orders in the database; -1: the server does not answer */
/* Wait until the client has ended well and all that it caused has arrived; then everything must be right: each order is there once, committed
 * = published = applied, the relay's promises are kept, and no way has a drift. */
void chain_judge(struct chain *chain);

#endif
