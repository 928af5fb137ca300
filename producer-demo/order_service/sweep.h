/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that keeps shop.idempotency_keys small and its refunds moving: it deletes keys whose lifetime is over, in batches, and goes on with
 * refunds whose holder is gone and whose client does not come back. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_SWEEP_H
#define PRODUCER_DEMO_ORDER_SERVICE_SWEEP_H

#include "producer-demo/order_service/shop.h"

struct sweep;

struct sweep *sweep_start(const struct shop *shop); /* lends the shop until sweep_stop; ends the program if there is no memory */
void sweep_stop(struct sweep *sweep);               /* waits for what it is doing */

#endif
