/* SPDX-License-Identifier: BSD-2-Clause */
/* The card processor's HTTP API: POST /charges, POST /refunds, GET /movements/{key}, /metrics and /healthz. It knows only cards and keys; it has
 * never heard of orders' states, of the outbox, or of Kafka. */
#ifndef PRODUCER_DEMO_CARD_H
#define PRODUCER_DEMO_CARD_H

#include "producer-demo/lib/store.h"
#include "producer-demo/lib/tally.h"
#include "producer-demo/lib/web.h"

#include <stdbool.h>

struct card {
    struct store *store;
    struct tally *tally; /* of card_tally_open */
    bool ignore_keys;    /* charge whatever comes, as often as it comes */
};

/* Its counters, kept in memory; ends the program if there is none. */
struct tally *card_tally_open(void);

/* The names of its fault points, for points_name: "before-movement" (nothing happened yet) and "after-movement" (the movement is committed, its
 * answer not sent). */
extern const char *const card_points[];

/* A web_handler; its context is a struct card. Any number of threads. */
void card_handle(void *card, const struct web_request *request, struct web_response *response);

#endif
