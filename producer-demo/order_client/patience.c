/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_client/patience.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct patience {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ended;
};

int64_t patience_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct patience *patience_new(void)
{
    struct patience *patience = calloc(1, sizeof *patience);
    pthread_condattr_t monotonic;

    if (!patience)
        abort();
    (void)pthread_mutex_init(&patience->mutex, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&patience->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return patience;
}

void patience_free(struct patience *patience)
{
    pthread_cond_destroy(&patience->changed);
    pthread_mutex_destroy(&patience->mutex);
    free(patience);
}

bool patience_wait(struct patience *patience, int64_t ms)
{
    int64_t until_ms = patience_now_ms() + ms;
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    bool ended;

    pthread_mutex_lock(&patience->mutex);
    while (!patience->ended && pthread_cond_timedwait(&patience->changed, &patience->mutex, &until) != ETIMEDOUT)
        continue;
    ended = patience->ended;
    pthread_mutex_unlock(&patience->mutex);
    return !ended;
}

bool patience_ended(struct patience *patience)
{
    bool ended;

    pthread_mutex_lock(&patience->mutex);
    ended = patience->ended;
    pthread_mutex_unlock(&patience->mutex);
    return ended;
}

void patience_end(struct patience *patience)
{
    pthread_mutex_lock(&patience->mutex);
    patience->ended = true;
    pthread_cond_broadcast(&patience->changed);
    pthread_mutex_unlock(&patience->mutex);
}
