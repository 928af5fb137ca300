/* SPDX-License-Identifier: BSD-2-Clause */
/* The mark first, then the effect. Two workers can no longer do the same thing, since Redis lets one of them set the mark. But the mark says
 * "done" of what is not done yet: who dies in between has lost it, for every copy that comes later is recognised. Money that was paid and
 * is in no book. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"
#include "producer-demo/payment_consumer/marks.h"

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
    enum way_result result = WAY_LATER;

    deliveries_sort(batch, n);
    if (!marks_take(worker->own, batch, n))
        return WAY_LATER;
    if (!points_pass(POINT_BETWEEN)) /* whoever dies here has promised and not paid */
        result = ledger_effect(worker, batch, n);
    /* Who lives to see it fail can give the marks back. That is no repair: it needs Redis, it needs to live, and it needs to know that the
     * effect failed. */
    if (result != WAY_DONE)
        (void)marks_remove(worker->own, batch, n);
    return result;
}

const struct way way_redis_before = {
    .name = "redis-before",
    .what = "SET NX in Redis, then the effect: loses what dies between",
    .open = open,
    .apply = apply,
    .close = close,
};
