/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests that the order service knows, one function each: they are called by routes.c with a whole request of their own method and path, and
 * fill in the answer. `id` is that of the order in the path, as a UUID in lower case; NULL where the path has none. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_REQUESTS_H
#define PRODUCER_DEMO_ORDER_SERVICE_REQUESTS_H

#include "producer-demo/order_service/shop.h"

typedef void request_handler(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response);

request_handler order_place;  /* POST /orders */
request_handler order_show;   /* GET /orders/{id} */
request_handler order_cancel; /* DELETE /orders/{id}: naturally idempotent, so without a key */
request_handler order_move;   /* PUT /orders/{id}/address: naturally idempotent, with the version that it changes */
request_handler refund_make;  /* POST /orders/{id}/refunds */
request_handler refunds_show; /* GET /orders/{id}/refunds */
request_handler faults_arm;   /* POST /faults */
request_handler counters_show, health_show, openapi_show;

/* For web.h; the context is the shop. Finds the request's function, or answers 404 or 405. */
web_handler request_route;

#endif
