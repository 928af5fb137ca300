/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/keeper.h"

#include "producer-demo/payment_consumer/ledger.h"
#include "producer-demo/payment_consumer/metrics.h"
#include "producer-demo/payment_consumer/processed.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define AGAIN_MS 30000 /* partitions are made two days ahead, so nothing hangs on this */
#define RETRY_MS 500

struct keeper {
    struct crew *crew;
    struct worker worker; /* for its connection only */
    bool prepared;
    pthread_t thread;
};

static bool tend(struct keeper *keeper)
{
    struct crew *crew = keeper->crew;
    struct timespec now;
    int64_t floor_ms;
    bool fine;

    keeper->worker.db = ledger_connect(&keeper->worker, crew->way);
    if (!keeper->worker.db)
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    keeper->prepared = keeper->prepared || ledger_prepare(keeper->worker.db, crew->way);
    fine = keeper->prepared && processed_tend(keeper->worker.db, (int64_t)now.tv_sec * 1000, crew->settings->retention_days, &floor_ms);
    if (fine) {
        crew->floor_ms = floor_ms;
        tally_set(crew->tally, METRIC_OLDEST_DAY, floor_ms / 1000);
    }
    PQfinish(keeper->worker.db);
    return fine;
}

static void *run(void *context)
{
    struct keeper *keeper = context;

    while (!keeper->crew->stopping) {
        int wait_ms = tend(keeper) ? AGAIN_MS : RETRY_MS;

        for (; wait_ms > 0 && !keeper->crew->stopping; wait_ms -= 50)
            (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return NULL;
}

struct keeper *keeper_start(struct crew *crew)
{
    struct keeper *keeper;

    if (!crew->way->keeps_ids)
        return NULL;
    keeper = calloc(1, sizeof *keeper);
    if (!keeper)
        abort();
    keeper->crew = crew;
    keeper->worker.settings = crew->settings;
    if (pthread_create(&keeper->thread, NULL, run, keeper) != 0)
        abort();
    return keeper;
}

void keeper_join(struct keeper *keeper)
{
    if (keeper)
        (void)pthread_join(keeper->thread, NULL);
    free(keeper);
}
