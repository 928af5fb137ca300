/* SPDX-License-Identifier: BSD-2-Clause */
/* The call to the card processor: an effect that cannot be in our transaction. It is made safe to repeat by a key that is passed on, and asked
 * for by that key when nobody knows whether it happened. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_CARD_H
#define PRODUCER_DEMO_ORDER_SERVICE_CARD_H

#include "producer-demo/order_service/shop.h"

enum card_outcome {
    CARD_DONE,    /* the money moved, once, now or before */
    CARD_REFUSED, /* it did not, and will not */
    CARD_UNKNOWN  /* nobody can say now; ask again later, with the same key */
};

struct card_call {
    const char *key; /* derived from the client's; one call, however often it is repeated */
    const char *order_id;
    int64_t amount_cents;
    bool repeated; /* another try came before: ask what became of it first */
};

/* Give money back. Waits at most twice the setting card_ms. ret_reason: one line, unless it is done. */
enum card_outcome card_refund(const struct shop *shop, const struct card_call *call, char *ret_reason, size_t reason_size);

#endif
