/* SPDX-License-Identifier: BSD-2-Clause */
/* An order, as a row of shop.orders and as JSON; and the event that every change of it writes into the outbox, in the same transaction. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_ORDER_H
#define PRODUCER_DEMO_ORDER_SERVICE_ORDER_H

#include <jansson.h>

#include "producer-demo/order_service/work.h"

struct order {
    char id[37];
    int64_t amount_cents, refunded_cents, version;
    bool cancelled;
    json_t *json; /* all of it; owned */
};

/* What a statement must select, or return, for order_take. */
#define ORDER_COLUMNS                                                                              \
    "id, client_id, reference, customer, address, amount_cents, refunded_cents, status, version, " \
    "to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"

/* Take it from the first row of the last statement; false: there is none, or trouble, and *ret_order is empty. Free it in any case. */
bool order_take(const struct work *work, struct order *ret_order);
void order_free(struct order *order);
/* Read one without locking it, or lock its row until the end of the transaction. false: there is none, or trouble. */
bool order_find(struct work *work, const char *id, struct order *ret_order);
bool order_lock(struct work *work, const char *id, struct order *ret_order);
/* The refunds of it that the card processor has been asked for, and whose end is not known, in cents. */
int64_t order_pending_cents(struct work *work, const struct order *order);
/* Its JSON as the answer, with its version as the ETag. */
void order_answer(const struct order *order, int status, struct web_response *response);

struct order_event {
    const char *type;            /* order-placed, order-moved, order-cancelled, order-refunded */
    const char *event_id;        /* NULL: a new one (of a request without a key) */
    const char *client_id, *key; /* for the headers; key may be NULL */
    int64_t delta_cents;         /* that this change moves */
};

/* Write the event of a change to the order as it is after it. The order's row must be locked: so events of an order lie in the outbox in the
 * order of its versions. */
bool order_tell(struct work *work, const struct order *order, const struct order_event *event);

#endif
