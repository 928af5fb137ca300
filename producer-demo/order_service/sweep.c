/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/sweep.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "producer-demo/order_service/refund.h"

struct sweep {
    const struct shop *shop;
    pthread_t thread;
    pthread_mutex_t mutex; /* of the rest */
    pthread_cond_t changed;
    bool stopping;
};

static bool is_stopping(struct sweep *sweep)
{
    bool stopping;

    pthread_mutex_lock(&sweep->mutex);
    stopping = sweep->stopping;
    pthread_mutex_unlock(&sweep->mutex);
    return stopping;
}

/* One batch; returns how many keys it deleted. What is locked is in use, and left for the next time. */
static int64_t batch_delete(const struct shop *shop)
{
    struct work work;
    char batch[24];
    int64_t deleted = 0;

    (void)snprintf(batch, sizeof batch, "%" PRId64, shop->settings.sweep_batch);
    if (work_begin(&work, shop, "sweep-before") &&
        WORK_DO(&work,
                "WITH old AS MATERIALIZED (SELECT scope, key FROM shop.idempotency_keys WHERE expires_at < clock_timestamp() AND "
                "status <> 'IN_PROGRESS' ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED) "
                "DELETE FROM shop.idempotency_keys k USING old WHERE k.scope = old.scope AND k.key = old.key",
                batch)) {
        deleted = strtoll(PQcmdTuples(work.rows), NULL, 10);
        if (work_commit(&work))
            tally_add(shop->tally, COUNT_KEYS_SWEPT, deleted);
    }
    work_end(&work);
    return deleted;
}

/* Take one abandoned refund over; false: there is none. Those let go of a moment ago are left to their clients. */
static bool abandoned_find(const struct shop *shop, struct refund *ret_refund)
{
    struct work work;
    char lease[24];
    bool found = false;

    *ret_refund = (struct refund){0};
    (void)snprintf(lease, sizeof lease, "%" PRId64 "ms", shop->settings.lease_ms);
    if (!work_begin(&work, shop, "sweep-before") ||
        !WORK_DO(&work,
                 "SELECT scope, key FROM shop.idempotency_keys WHERE status = 'IN_PROGRESS' AND refund_id IS NOT NULL AND "
                 "locked_at < clock_timestamp() - $1::interval ORDER BY locked_at, random() LIMIT 1",
                 lease) ||
        work_rows(&work) == 0)
        goto out;
    (void)snprintf(ret_refund->claim.scope, sizeof ret_refund->claim.scope, "%s", work_text(&work, 0, 0));
    (void)snprintf(ret_refund->claim.key, sizeof ret_refund->claim.key, "%s", work_text(&work, 0, 1));
    found = claim_take_over(&work, &ret_refund->claim) == CLAIM_TAKEN_OVER && refund_load(&work, ret_refund) && work_commit(&work);
out:
    work_end(&work);
    return found;
}

/* One a round: the card processor may be down, and each of them waits for it. */
static void abandoned_finish(const struct shop *shop)
{
    struct refund refund;
    struct web_response response = {0};

    if (!abandoned_find(shop, &refund))
        return;
    refund_go_on(shop, &refund, &response);
    (void)fprintf(stderr, "order-service: refund %s was abandoned; going on with it gave %d\n", refund.id, response.status);
    free(response.body);
}

static void pause_until_next(struct sweep *sweep)
{
    struct timespec next;

    (void)clock_gettime(CLOCK_MONOTONIC, &next);
    next.tv_sec += sweep->shop->settings.sweep_ms / 1000;
    next.tv_nsec += sweep->shop->settings.sweep_ms % 1000 * 1000000;
    if (next.tv_nsec >= 1000000000) {
        next.tv_sec++;
        next.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&sweep->mutex);
    while (!sweep->stopping && pthread_cond_timedwait(&sweep->changed, &sweep->mutex, &next) == 0)
        continue;
    pthread_mutex_unlock(&sweep->mutex);
}

static void *sweep_run(void *context)
{
    struct sweep *sweep = context;

    while (!is_stopping(sweep)) {
        while (batch_delete(sweep->shop) == sweep->shop->settings.sweep_batch && !is_stopping(sweep))
            continue;
        abandoned_finish(sweep->shop);
        pause_until_next(sweep);
    }
    return NULL;
}

struct sweep *sweep_start(const struct shop *shop)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);
    pthread_condattr_t monotonic;

    if (!sweep)
        abort();
    sweep->shop = shop;
    (void)pthread_mutex_init(&sweep->mutex, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&sweep->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (pthread_create(&sweep->thread, NULL, sweep_run, sweep) != 0)
        abort();
    return sweep;
}

void sweep_stop(struct sweep *sweep)
{
    pthread_mutex_lock(&sweep->mutex);
    sweep->stopping = true;
    pthread_cond_broadcast(&sweep->changed);
    pthread_mutex_unlock(&sweep->mutex);
    (void)pthread_join(sweep->thread, NULL);
    pthread_cond_destroy(&sweep->changed);
    pthread_mutex_destroy(&sweep->mutex);
    free(sweep);
}
