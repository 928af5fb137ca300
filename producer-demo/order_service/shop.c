/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/shop.h"

#define KEY_HELP "requests with an Idempotency-Key, by what the key said: many replays or conflicts are a retry storm"

const struct tally_row shop_counters[SHOP_COUNTS] = {
    [COUNT_KEY_NEW] = {"keys_total", "outcome=\"new\"", KEY_HELP},
    [COUNT_KEY_REPLAY] = {"keys_total", "outcome=\"replay\"", KEY_HELP},
    [COUNT_KEY_MISMATCH] = {"keys_total", "outcome=\"mismatch\"", KEY_HELP},
    [COUNT_KEY_CONFLICT] = {"keys_total", "outcome=\"conflict\"", KEY_HELP},
    [COUNT_KEY_TAKEOVER] = {"keys_total", "outcome=\"takeover\"", KEY_HELP},
    [COUNT_ORDERS_PLACED] = {"orders_total", "change=\"placed\"", "changes of orders; each wrote one event"},
    [COUNT_ORDERS_MOVED] = {"orders_total", "change=\"moved\"", "changes of orders; each wrote one event"},
    [COUNT_ORDERS_CANCELLED] = {"orders_total", "change=\"cancelled\"", "changes of orders; each wrote one event"},
    [COUNT_REFUNDS_COMPLETED] = {"refunds_total", "outcome=\"completed\"", "refunds by their end; unknown: left to a retry"},
    [COUNT_REFUNDS_FAILED] = {"refunds_total", "outcome=\"failed\"", "refunds by their end; unknown: left to a retry"},
    [COUNT_REFUNDS_UNKNOWN] = {"refunds_total", "outcome=\"unknown\"", "refunds by their end; unknown: left to a retry"},
    [COUNT_STALE] = {"stale_versions_total", NULL, "changes refused because If-Match named an older version"},
    [COUNT_REFUSED] = {"refused_total", NULL, "requests answered with 400 to 499"},
    [COUNT_UNAVAILABLE] = {"unavailable_total", NULL, "requests answered with 503: no database, or no card processor"},
    [COUNT_KEYS_SWEPT] = {"keys_swept_total", NULL, "keys deleted after their lifetime"},
};

const char *const shop_points[] = {
    "order-before",        "order-after-key",    "order-after-order",    "order-after-event",
    "order-before-commit", "order-after-commit", "refund-before",        "refund-after-key",
    "refund-before-start", "refund-after-start", "refund-after-call",    "refund-after-refund",
    "refund-after-order",  "refund-after-event", "refund-before-commit", "refund-after-commit",
    "change-before",       "change-after-order", "change-after-event",   "change-before-commit",
    "change-after-commit", "read-before",        "sweep-before",         NULL,
};

void shop_count(const struct shop *shop, enum shop_count what)
{
    tally_add(shop->tally, (int)what, 1);
}

void shop_answer_busy(const struct shop *shop, struct web_response *response, const char *detail)
{
    shop_count(shop, COUNT_KEY_CONFLICT);
    response->headers_n = 0;
    web_response_problem(response, 409, "in progress", "%s; repeat this request as it is", detail);
    web_response_header(response, "Retry-After", "1");
}

void shop_answer_unavailable(const struct shop *shop, struct web_response *response, const char *detail)
{
    shop_count(shop, COUNT_UNAVAILABLE);
    response->headers_n = 0;
    web_response_problem(response, 503, "not available", "%s; repeat this request as it is, with the same key", detail);
    web_response_header(response, "Retry-After", "1");
}

void shop_answer_missing(struct web_response *response)
{
    web_response_problem(response, 404, "no such order", "GET the Location that the order was placed with");
}

void shop_answer_cancelled(struct web_response *response)
{
    web_response_problem(response, 410, "the order was cancelled", "nothing can be done with it any more; place another one");
}
