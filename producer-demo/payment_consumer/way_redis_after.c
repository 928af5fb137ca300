/* SPDX-License-Identifier: BSD-2-Clause */
/* The effect first, then the mark. Nothing is lost, and between the two lies a window: who dies in it does the same again, and so does a second
 * worker that looked for the mark before it was there. When Redis forgets its marks (a restart, a failover, the time to live), each copy
 * counts. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"
#include "producer-demo/payment_consumer/marks.h"

#include <stdio.h>

static bool open(struct worker *worker)
{
    worker->own = marks_open(worker->settings);
    return true;
}

static void close(struct worker *worker)
{
    marks_close(worker->own);
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    enum way_result result;

    deliveries_sort(batch, n);
    if (!marks_look(worker->own, batch, n))
        return WAY_LATER;
    result = ledger_effect(worker, batch, n);
    if (result != WAY_DONE)
        return result;
    if (points_pass(POINT_BETWEEN)) /* whoever dies here has paid and does not know it */
        return WAY_LATER;
    /* To try the batch again would be to pay it again. */
    if (!marks_set(worker->own, batch, n))
        (void)fprintf(stderr, "payment-consumer: %d events are applied and not marked: a copy of theirs will count\n",
                      deliveries_count(batch, n, DELIVERY_APPLIED));
    return WAY_DONE;
}

const struct way way_redis_after = {
    .name = "redis-after",
    .what = "the effect, then SET NX in Redis: doubles what dies between",
    .open = open,
    .apply = apply,
    .close = close,
};
