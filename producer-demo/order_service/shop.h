/* SPDX-License-Identifier: BSD-2-Clause */
/* What all requests of the order service share: settings, connections, counters; and the answers that any of them may give. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_SHOP_H
#define PRODUCER_DEMO_ORDER_SERVICE_SHOP_H

#include <stdint.h>

#include "producer-demo/lib/store.h"
#include "producer-demo/lib/tally.h"
#include "producer-demo/lib/web.h"

#define SHOP_BODY_MAX    16384
#define SHOP_TEXT_MAX    200 /* characters of a customer or a reference */
#define SHOP_ADDRESS_MAX 500 /* characters */
#define SHOP_AMOUNT_MAX  100000000
#define SHOP_SCOPE_MAX   100

struct shop_settings {
    const char *topic;    /* of the events */
    const char *card_url; /* of the card processor, without a slash at its end */
    int64_t wait_ms;      /* for another request with the same key, or of the same order */
    int64_t lease_ms;     /* of a refund in progress: after it another request may take it over */
    int64_t card_ms;      /* for an answer of the card processor; a refund asks it twice at most, so it is below half of the lease */
    int64_t keep_hours;   /* a key and its response */
    int64_t sweep_ms;     /* between two cleanings */
    int64_t sweep_batch;  /* keys that one transaction of it deletes */
};

enum shop_count {
    COUNT_KEY_NEW,
    COUNT_KEY_REPLAY,
    COUNT_KEY_MISMATCH,
    COUNT_KEY_CONFLICT,
    COUNT_KEY_TAKEOVER,
    COUNT_ORDERS_PLACED,
    COUNT_ORDERS_MOVED,
    COUNT_ORDERS_CANCELLED,
    COUNT_REFUNDS_COMPLETED,
    COUNT_REFUNDS_FAILED,
    COUNT_REFUNDS_UNKNOWN,
    COUNT_STALE,
    COUNT_REFUSED,
    COUNT_UNAVAILABLE,
    COUNT_KEYS_SWEPT,
    SHOP_COUNTS
};

struct shop {
    struct store *store;
    struct tally *tally;
    struct shop_settings settings;
    char name[80]; /* of this process, for locked_by */
};

extern const struct tally_row shop_counters[SHOP_COUNTS];
/* The fault points of this program, for points_name. */
extern const char *const shop_points[];

void shop_count(const struct shop *shop, enum shop_count what);
/* "Come again, with the same key": 409 or 503 with Retry-After. Nothing is stored. */
void shop_answer_busy(const struct shop *shop, struct web_response *response, const char *detail);
void shop_answer_unavailable(const struct shop *shop, struct web_response *response, const char *detail);
void shop_answer_missing(struct web_response *response);   /* 404: no such order */
void shop_answer_cancelled(struct web_response *response); /* 410 */

#endif
