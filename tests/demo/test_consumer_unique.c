/* SPDX-License-Identifier: BSD-2-Clause */
/* `unique` against what can go wrong in the database: batches with the same ids in another order, a commit that did not wait for its standby. In
 * this process, without Kafka. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"
#include "producer-demo/payment_consumer/processed.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 40
#define BATCH  100
#define EVENTS (ROUNDS * BATCH)

static const char *const names[] = {POINT_BETWEEN, POINT_BEFORE_OFFSETS, POINT_AFTER_OFFSETS, NULL};

struct desk {
    struct postgres p;
    struct consumer_settings settings;
    const struct way *way;
    struct delivery *events[EVENTS];
};

/* The connection knows the worker by its address. */
static void worker_connect(struct worker *worker, const struct desk *desk)
{
    *worker = (struct worker){.settings = &desk->settings};
    worker->db = ledger_connect(worker, desk->way);
    CHECK(worker->db);
}

/* A database with the way's ledger, and deliveries: of EVENTS events, of half as many orders. */
static struct desk *desk_new(const struct way *way)
{
    struct desk *desk = test_allocate(sizeof *desk);
    struct worker worker;
    int64_t floor_ms;

    points_name(names);
    desk->p = postgres_start("fsync = off\ndeadlock_timeout = 50ms");
    desk->settings.database = desk->p.conninfo;
    desk->settings.topic = "orders";
    desk->way = way;
    worker_connect(&worker, desk);
    CHECK(ledger_prepare(worker.db, way));
    for (int i = 0; i < EVENTS; i++) {
        struct delivery *d = desk->events[i] = test_allocate(sizeof *d);

        *d = (struct delivery){.event_id = uuid_make(), .order_id = uuid_derive(0, "", "", i / 2), .version = i % 2 + 1};
        d->delta_cents = d->balance_cents = 5;
        uuid_print(d->event_id, d->event_text);
        uuid_print(d->order_id, d->order_text);
    }
    if (way->keeps_ids)
        CHECK(processed_tend(worker.db, uuid_created_ms(desk->events[0]->event_id), 1, &floor_ms));
    PQfinish(worker.db);
    return desk;
}

static int64_t number(const struct desk *desk, const char *sql)
{
    char conninfo[600], schema[64];

    ledger_schema_name(desk->way, schema);
    (void)snprintf(conninfo, sizeof conninfo, "%s options='-c search_path=%s'", desk->p.conninfo, schema);
    return postgres_number(conninfo, "%s", sql);
}

/* --- deadlocks --------------------------------------------------------------------------------------------------------- */

struct clerk {
    const struct desk *desk;
    pthread_barrier_t *begin; /* of each round */
    unsigned seed;
    int applied, later;
};

/* New deliveries of the round's events, in an order of the clerk's own. */
static void batch_fill(struct clerk *clerk, int round, struct delivery **batch)
{
    for (int i = 0; i < BATCH; i++) {
        struct delivery *d = malloc(sizeof *d), *other;
        int at = (int)((unsigned)rand_r(&clerk->seed) % (unsigned)(i + 1));

        CHECK(d);
        *d = *clerk->desk->events[round * BATCH + i];
        other = batch[at];
        batch[i] = other;
        batch[at] = d;
    }
}

/* In each round both have the same events, which nobody has seen before, at the same moment. */
static void *clerk_work(void *context)
{
    struct clerk *clerk = context;
    struct worker worker;
    struct delivery *batch[BATCH] = {0};

    worker_connect(&worker, clerk->desk);
    for (int round = 0; round < ROUNDS; round++) {
        enum way_result result;

        batch_fill(clerk, round, batch);
        (void)pthread_barrier_wait(clerk->begin);
        while ((result = clerk->desk->way->apply(&worker, batch, BATCH)) == WAY_LATER)
            clerk->later++;
        CHECK(result == WAY_DONE);
        clerk->applied += deliveries_count(batch, BATCH, DELIVERY_APPLIED);
        for (int i = 0; i < BATCH; i++)
            free(batch[i]);
    }
    PQfinish(worker.db);
    return NULL;
}

static struct clerk clerks_work(const struct desk *desk)
{
    pthread_barrier_t begin;
    struct clerk clerks[2] = {{.desk = desk, .begin = &begin, .seed = 1}, {.desk = desk, .begin = &begin, .seed = 2}};
    pthread_t threads[2];

    CHECK(pthread_barrier_init(&begin, NULL, 2) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, clerk_work, &clerks[i]) == 0);
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    return (struct clerk){.applied = clerks[0].applied + clerks[1].applied, .later = clerks[0].later + clerks[1].later};
}

TEST_WITHIN(demo_consumer_unique_never_deadlocks, 120)
{
    struct desk *desk = desk_new(&way_unique);
    struct clerk sum = clerks_work(desk);

    CHECK_EQ(sum.later, 0);
    CHECK_EQ(sum.applied, EVENTS);
    CHECK_EQ(number(desk, "SELECT count(*) FROM entry"), EVENTS);
    CHECK_EQ(number(desk, "SELECT count(*) - count(DISTINCT event_id) FROM entry"), 0);
    WAIT_UNTIL(number(desk, "SELECT (xact_commit > 80)::int FROM pg_stat_database WHERE datname = current_database()"), 20);
    CHECK_EQ(number(desk, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), 0);
}

TEST_WITHIN(demo_consumer_version_never_deadlocks, 120)
{
    struct desk *desk = desk_new(&way_version);
    struct clerk sum = clerks_work(desk);

    CHECK_EQ(sum.later, 0);
    CHECK_EQ(number(desk, "SELECT count(*) FROM fact"), EVENTS / 2);
    WAIT_UNTIL(number(desk, "SELECT (xact_commit > 80)::int FROM pg_stat_database WHERE datname = current_database()"), 20);
    CHECK_EQ(number(desk, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), 0);
}

TEST_WITHIN(demo_consumer_version_ignores_what_is_older, 60)
{
    struct desk *desk = desk_new(&way_version);
    struct worker worker;
    struct delivery old = *desk->events[0], new = *desk->events[1], *batch[] = {&new};

    worker_connect(&worker, desk);
    new.balance_cents = 70;
    CHECK(way_version.apply(&worker, batch, 1) == WAY_DONE && new.outcome == DELIVERY_APPLIED);
    batch[0] = &old;
    CHECK(way_version.apply(&worker, batch, 1) == WAY_DONE && old.outcome == DELIVERY_SUPPRESSED);
    CHECK_EQ(number(desk, "SELECT cents FROM balance"), 70);
    CHECK_EQ(number(desk, "SELECT version FROM fact"), 2);
    PQfinish(worker.db);
}

/* --- a commit that did not wait ---------------------------------------------------------------------------------------- */

static void standby_require(struct desk *desk, const char *name)
{
    char line[100];

    (void)snprintf(line, sizeof line, "synchronous_standby_names = '%s'", name);
    postgres_settings(&desk->p, line);
    postgres_reload(&desk->p);
    WAIT_UNTIL(strcmp(postgres_query(desk->p.conninfo, "SHOW synchronous_standby_names"), name) == 0, 20);
}

struct applying {
    struct worker *worker;
    struct delivery **batch;
    enum way_result result;
};

static void *apply_ten(void *context)
{
    struct applying *applying = context;

    for (int i = 0; i < 10; i++)
        applying->batch[i]->outcome = DELIVERY_APPLIED;
    applying->result = way_unique.apply(applying->worker, applying->batch, 10);
    return NULL;
}

/* Apply, and cancel its wait for the standby once it waits. */
static enum way_result apply_cancelled(const struct desk *desk, struct worker *worker, struct delivery **batch)
{
    struct applying applying = {.worker = worker, .batch = batch};
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, apply_ten, &applying) == 0);
    WAIT_UNTIL(postgres_number(desk->p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 1, 20);
    (void)postgres_query(desk->p.conninfo, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    (void)pthread_join(thread, NULL);
    return applying.result;
}

TEST_WITHIN(demo_consumer_unique_is_not_done_before_its_standby_is, 90)
{
    struct desk *desk = desk_new(&way_unique);
    struct worker worker;
    struct delivery *batch[10];
    struct applying last = {.worker = &worker, .batch = batch};

    worker_connect(&worker, desk);
    memcpy(batch, desk->events, sizeof batch);
    standby_require(desk, "nobody");
    CHECK(apply_cancelled(desk, &worker, batch) == WAY_LATER);
    CHECK_EQ(number(desk, "SELECT count(*) FROM entry"), 10);
    /* Its own rows are found now, and nothing would be written; it waits all the same, in this connection... */
    CHECK(apply_cancelled(desk, &worker, batch) == WAY_LATER);
    PQfinish(worker.db);
    worker_connect(&worker, desk);
    CHECK(apply_cancelled(desk, &worker, batch) == WAY_LATER); /* ...and in a new one, of a new process perhaps */
    standby_require(desk, "");
    (void)apply_ten(&last);
    CHECK(last.result == WAY_DONE);
    CHECK_EQ(deliveries_count(batch, 10, DELIVERY_SUPPRESSED), 10);
    CHECK_EQ(number(desk, "SELECT count(*) FROM entry"), 10);
    PQfinish(worker.db);
}
