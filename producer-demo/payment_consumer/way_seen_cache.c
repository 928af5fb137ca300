/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids that were seen are kept in memory. Copies are caught, even two at the same moment, and it costs nothing; so one trusts it. Then the
 * process is started again, the memory is empty, and the broker delivers once more all that was not committed: at that moment. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/idset.h"
#include "producer-demo/payment_consumer/ledger.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* One for the process, since a copy may come to any worker. */
static struct idset *cache;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;

static void cache_open(void)
{
    char reason[256];

    cache = idset_open(NULL, reason, sizeof reason);
    if (!cache) {
        (void)fprintf(stderr, "payment-consumer: %s\n", reason);
        exit(1);
    }
}

static bool way_open(struct worker *worker)
{
    (void)worker;
    return pthread_once(&cache_once, cache_open) == 0;
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    enum way_result result;

    for (int i = 0; i < n; i++)
        if (!idset_add(cache, batch[i]->event_id))
            batch[i]->outcome = DELIVERY_SUPPRESSED;
    result = ledger_effect(worker, batch, n);
    for (int i = 0; i < n && result != WAY_DONE; i++) /* it did not happen: it must not be suppressed when it is tried again */
        if (batch[i]->outcome == DELIVERY_APPLIED)
            idset_remove(cache, batch[i]->event_id);
    if (result == WAY_DONE && points_pass(POINT_BETWEEN))
        return WAY_LATER;
    return result;
}

const struct way way_seen_cache = {
    .name = "seen-cache",
    .what = "ids in memory: clean until the restart, which is when the copies come",
    .open = way_open,
    .apply = apply,
};
