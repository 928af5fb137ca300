/* SPDX-License-Identifier: BSD-2-Clause */
/* Refunds move money at the card processor, which cannot be in our transaction. So there are three steps, each of which may be the last before
 * a crash: a transaction that says what will be done (key and refund IN_PROGRESS), the call, and a transaction that says what became of it (order,
 * event, refund, key with its response). Whoever finds the first without the last, a repeated request or the sweep, takes over. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_REFUND_H
#define PRODUCER_DEMO_ORDER_SERVICE_REFUND_H

#include "producer-demo/order_service/keys.h"

struct refund {
    struct claim claim;
    char id[37], order_id[37], card_key[37];
    int64_t amount_cents;
    bool repeated; /* it was taken over: the card processor may have been asked before */
};

/* What was stored of a refund whose key was just taken over, in the same transaction; false: trouble. */
bool refund_load(struct work *work, struct refund *refund);
/* The call and the second transaction. The answer is filled in, whatever happens. The first is committed, the key is held. */
void refund_go_on(const struct shop *shop, struct refund *refund, struct web_response *response);

#endif
