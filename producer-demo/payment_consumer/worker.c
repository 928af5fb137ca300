/* SPDX-License-Identifier: BSD-2-Clause */
/* The frame around the ways: read a batch, refuse, apply until it is done, commit the offsets. */
#include "producer-demo/payment_consumer/crew.h"
#include "producer-demo/payment_consumer/delivery.h"
#include "producer-demo/payment_consumer/idset.h"
#include "producer-demo/payment_consumer/intake.h"
#include "producer-demo/payment_consumer/ledger.h"
#include "producer-demo/payment_consumer/metrics.h"
#include "producer-demo/payment_consumer/processed.h"
#include "producer-demo/payment_consumer/refused.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 1000

struct worker_thread {
    struct worker worker; /* what the way sees */
    struct crew *crew;
    struct intake *intake;
    pthread_t thread;
    bool prepared, opened;
    int pause_ms; /* how long to wait after the next failure */
};

static int64_t now_us(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* --- waiting for what is away ---------------------------------------------------------------------------------------- */

/* Longer each time, until something succeeds. */
static void pause_take(struct worker_thread *w)
{
    for (int waited_ms = 0; waited_ms < w->pause_ms && !w->crew->stopping; waited_ms += 10)
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    w->pause_ms = w->pause_ms * 2 < PAUSE_MAX_MS ? w->pause_ms * 2 : PAUSE_MAX_MS;
}

static bool connected(struct worker_thread *w)
{
    struct worker *worker = &w->worker;

    if (worker->db && PQstatus(worker->db) == CONNECTION_OK && PQtransactionStatus(worker->db) == PQTRANS_IDLE)
        return true;
    PQfinish(worker->db);
    worker->db = ledger_connect(worker, w->crew->way);
    return worker->db != NULL;
}

/* All that apply may rely on. */
static bool ready(struct worker_thread *w)
{
    const struct way *way = w->crew->way;

    if (!connected(w))
        return false;
    if (!w->prepared)
        w->prepared = ledger_prepare(w->worker.db, way);
    if (w->prepared && !w->opened)
        w->opened = !way->open || way->open(&w->worker);
    return w->opened && (!way->keeps_ids || w->crew->floor_ms > 0);
}

static bool ready_at_last(struct worker_thread *w)
{
    while (!w->crew->stopping) {
        if (ready(w))
            return true;
        pause_take(w);
    }
    return false;
}

/* --- a batch ---------------------------------------------------------------------------------------------------------- */

static void batch_count(struct worker_thread *w, struct delivery *const *batch, int n, int64_t started_us)
{
    struct tally *tally = w->crew->tally;
    int64_t ended_us = now_us(CLOCK_MONOTONIC);
    long long never = 0;

    (void)atomic_compare_exchange_strong(&w->crew->first_us, &never, started_us);
    w->crew->last_us = ended_us;
    w->crew->done += n;
    tally_latency(tally, ended_us - started_us);
    tally_add(tally, METRIC_APPLIED, deliveries_count(batch, n, DELIVERY_APPLIED));
    tally_add(tally, METRIC_SUPPRESSED, deliveries_count(batch, n, DELIVERY_SUPPRESSED));
    tally_add(tally, METRIC_LOST, deliveries_count(batch, n, DELIVERY_LOST));
}

/* Try until something else than WAY_LATER comes of it. WAY_LATER: the program shall end. */
static enum way_result apply_at_last(struct worker_thread *w, struct delivery **batch, int n)
{
    int64_t started_us = now_us(CLOCK_MONOTONIC);

    while (ready_at_last(w)) {
        enum way_result result;

        for (int i = 0; i < n; i++)
            batch[i]->outcome = DELIVERY_APPLIED;
        result = w->crew->way->apply(&w->worker, batch, n);
        if (result == WAY_DONE)
            batch_count(w, batch, n, started_us);
        if (result != WAY_LATER) {
            w->pause_ms = PAUSE_MIN_MS;
            return result;
        }
        tally_add(w->crew->tally, METRIC_RETRIES, 1);
        pause_take(w);
    }
    return WAY_LATER;
}

/* false: the program shall end, and it is not kept. */
static bool refuse(struct worker_thread *w, const struct delivery *delivery, enum metric counter, const char *detail)
{
    const char *reason = counter == METRIC_REFUSED_TOO_OLD  ? "too-old"
                         : counter == METRIC_REFUSED_FUTURE ? "future"
                         : counter == METRIC_REFUSED_POISON ? "poison"
                                                            : "unreadable";

    while (ready_at_last(w)) {
        bool new = false;

        if (refused_keep(&w->worker, delivery, reason, detail, &new) == WAY_DONE) {
            tally_add(w->crew->tally, (int)counter, new);
            return true;
        }
        pause_take(w);
    }
    return false;
}

/* Why a delivery is refused before a way sees it; METRICS_N: it is not. */
static enum metric refusal(struct worker_thread *w, const struct delivery *delivery, const char **ret_detail)
{
    *ret_detail = delivery->unreadable;
    if (delivery->unreadable)
        return METRIC_REFUSED_UNREADABLE;
    if (!w->crew->way->keeps_ids)
        return METRICS_N;
    switch (processed_judge(delivery->event_id, w->crew->floor_ms, now_us(CLOCK_REALTIME) / 1000)) {
    case PROCESSED_TOO_OLD:
        *ret_detail = "its id is older than the ids that are kept, so nobody can say whether it was applied";
        return METRIC_REFUSED_TOO_OLD;
    case PROCESSED_FUTURE:
        *ret_detail = "its id is of more than ten minutes from now";
        return METRIC_REFUSED_FUTURE;
    case PROCESSED_FINE:
        break;
    }
    return METRICS_N;
}

/* One that cannot be applied: perhaps another process dropped its day since it was looked at. false: the program shall end. */
static bool refuse_poison(struct worker_thread *w, const struct delivery *delivery)
{
    const char *detail;
    int64_t floor_ms = 0;
    enum metric why;

    if (w->crew->way->keeps_ids && ready_at_last(w) && processed_floor(w->worker.db, &floor_ms))
        w->crew->floor_ms = floor_ms;
    why = refusal(w, delivery, &detail);
    if (why == METRICS_N)
        return refuse(w, delivery, METRIC_REFUSED_POISON, "the database refused to apply it");
    return refuse(w, delivery, why, detail);
}

/* A batch that cannot be applied is halved until the message is found that it is because of. false: the program shall end. */
static bool settle(struct worker_thread *w, struct delivery **batch, int n)
{
    enum way_result result = n == 0 ? WAY_DONE : apply_at_last(w, batch, n);

    if (result != WAY_POISON)
        return result == WAY_DONE;
    if (n == 1)
        return refuse_poison(w, batch[0]);
    return settle(w, batch, n / 2) && settle(w, batch + n / 2, n - n / 2);
}

/* Refuse what no way shall see; moves the rest to the front, and returns how many; -1: the program shall end. */
static int screen(struct worker_thread *w, struct delivery **batch, int n)
{
    int kept = 0;

    for (int i = 0; i < n; i++) {
        const char *detail;
        enum metric why = refusal(w, batch[i], &detail);

        if (why == METRICS_N)
            batch[kept++] = batch[i];
        else if (!refuse(w, batch[i], why, detail))
            return -1;
    }
    return kept;
}

static void deliveries_witness(const struct crew *crew, struct delivery *const *batch, int n)
{
    tally_add(crew->tally, METRIC_DELIVERIES, n);
    for (int i = 0; i < n; i++)
        if (!batch[i]->unreadable && !idset_add(crew->witness, batch[i]->event_id))
            tally_add(crew->tally, METRIC_DUPLICATES, 1);
}

/* Copies of the batch's chosen ones go to the next worker, its copies come here. Returns the new size of the batch, which has room for them:
 * it is made larger. */
static int exchange(struct worker_thread *w, struct delivery ***batch, int n)
{
    struct crew *crew = w->crew;
    struct delivery **copies = malloc((size_t)(n + 1) * sizeof *copies), **taken = NULL;
    int copies_n = 0, taken_n;

    if (!copies)
        abort();
    for (int i = 0; i < n; i++)
        if (!(*batch)[i]->unreadable && delivery_chosen((*batch)[i], crew->settings->seed, crew->redeliver_percent))
            copies[copies_n++] = delivery_copy((*batch)[i]);
    tally_add(crew->tally, METRIC_REDELIVERED, copies_n);
    taken_n = meeting_join(crew->meeting, w->worker.number, copies, copies_n, &taken);
    free(copies);
    if (taken_n > 0) {
        *batch = realloc(*batch, (size_t)(n + taken_n) * sizeof **batch);
        if (!*batch)
            abort();
        memcpy(*batch + n, taken, (size_t)taken_n * sizeof **batch);
    }
    free(taken);
    return n + taken_n;
}

/* One turn: a batch from its reading to its offsets. */
static void turn(struct worker_thread *w)
{
    struct delivery **batch = NULL, **given;
    int n = intake_read(w->intake, &batch), given_n;

    w->worker.assignments = intake_assignments(w->intake);
    n = exchange(w, &batch, n);
    given = malloc((size_t)(n + 1) * sizeof *given); /* the way may reorder this one */
    if (!given)
        abort();
    if (n > 0)
        memcpy(given, batch, (size_t)n * sizeof *given);
    deliveries_witness(w->crew, batch, n);
    given_n = screen(w, given, n);
    /* A way that commits by itself knows better what may be committed: perhaps it was told that all this is another's by now. */
    if (given_n >= 0 && settle(w, given, given_n) && !w->crew->way->commits_offsets)
        intake_done(w->intake, batch, n);
    for (int i = 0; i < n; i++)
        free(batch[i]);
    free(batch);
    free(given);
    if (!w->crew->way->commits_offsets)
        intake_commit(w->intake, false);
}

static void *run(void *context)
{
    struct worker_thread *w = context;

    if (ready_at_last(w))
        while (!w->crew->stopping)
            turn(w);
    if (w->opened && w->crew->way->close)
        w->crew->way->close(&w->worker);
    intake_close(w->intake, !w->crew->way->commits_offsets);
    PQfinish(w->worker.db);
    return NULL;
}

struct worker_thread *worker_start(struct crew *crew, int number)
{
    struct worker_thread *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    w->crew = crew;
    w->pause_ms = PAUSE_MIN_MS;
    w->worker = (struct worker){.settings = crew->settings, .number = number};
    w->intake = intake_open(crew->settings);
    w->worker.consumer = intake_consumer(w->intake);
    if (pthread_create(&w->thread, NULL, run, w) != 0)
        abort();
    return w;
}

bool worker_join(struct worker_thread *thread, int seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    if (pthread_timedjoin_np(thread->thread, NULL, &until) != 0)
        return false;
    free(thread);
    return true;
}
