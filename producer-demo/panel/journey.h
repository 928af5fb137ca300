/* SPDX-License-Identifier: BSD-2-Clause */
/* The way of what was last asked for on the page, from the click to every ledger, with its key at each hop: the requests, the row of
 * idempotency_keys, the order, its events in the outbox, the records in Kafka, the cents in each ledger. */
#ifndef PRODUCER_DEMO_PANEL_JOURNEY_H
#define PRODUCER_DEMO_PANEL_JOURNEY_H

#include "producer-demo/panel/tap.h"

#include <jansson.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#define JOURNEY_REQUESTS_MAX 2
#define JOURNEY_SCOPE        "panel" /* the X-Client-Id of the page's own requests */

/* One request to the order service and its answer. */
struct journey_request {
    char key[40], order_id[40]; /* order_id "": the answer named none */
    int status;                 /* 0: no answer */
    bool replayed;
    int64_t took_us;
};

struct journey;

struct journey *journey_open(void);
void journey_close(struct journey *journey);
/* Follow these from now on; copied. `kind` is a literal: the button. Events below `first_id` are not of it. */
void journey_begin(struct journey *journey, const char *kind, const struct journey_request *requests, int n, int64_t first_id);
void journey_forget(struct journey *journey);
/* Where it is now; the caller's. JSON null: nothing was asked for. */
json_t *journey_look(struct journey *journey, PGconn *db, struct tap *tap);

#endif
