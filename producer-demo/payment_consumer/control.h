/* SPDX-License-Identifier: BSD-2-Clause */
/* The consumer over HTTP: GET /metrics, GET /healthz, POST /faults. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_CONTROL_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_CONTROL_H

#include "producer-demo/lib/web.h"
#include "producer-demo/payment_consumer/crew.h"

/* Serve on settings->listen. NULL: ret_reason says why not. End it with web_stop. */
struct web *control_start(struct crew *crew, char *ret_reason, size_t reason_size);

#endif
