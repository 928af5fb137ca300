/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/copier.h"

#include "producer-demo/payment_consumer/delivery.h"
#include "producer-demo/payment_consumer/ledger.h"
#include "producer-demo/payment_consumer/output.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUND_PAUSE_MS 100
#define ROWS_MAX       2000 /* in one statement */

const char copier_schema[] =
    "CREATE TABLE IF NOT EXISTS output ("
    "    partition   int    NOT NULL,"
    "    \"offset\"    bigint NOT NULL,"
    "    event_id    uuid   NOT NULL," /* nothing here says that it comes once: that it does is what there is to be seen */
    "    order_id    uuid   NOT NULL,"
    "    delta_cents bigint NOT NULL,"
    "    PRIMARY KEY (partition, \"offset\"));"
    "CREATE OR REPLACE VIEW balance AS SELECT order_id, sum(delta_cents)::bigint AS cents FROM output GROUP BY order_id;";

struct rows {
    struct ledger_list partitions, offsets, events, orders, deltas;
    int n;
};

struct copier {
    struct worker worker; /* the ledger's idea of who has a connection */
    const struct way *way;
    struct history *history;
    int partitions;
    const char *output;
    pthread_t thread;
    atomic_bool stopping;
};

static void rows_free(struct rows *rows)
{
    ledger_list_free(&rows->partitions);
    ledger_list_free(&rows->offsets);
    ledger_list_free(&rows->events);
    ledger_list_free(&rows->orders);
    ledger_list_free(&rows->deltas);
}

/* A history_each. */
static void row_add(void *context, const rd_kafka_message_t *record)
{
    struct rows *rows = context;
    struct delivery *delivery = delivery_read(record);

    if (delivery->unreadable)
        (void)fprintf(stderr, "payment-consumer: output at %" PRId32 ":%" PRId64 ": %s\n", record->partition, record->offset,
                      delivery->unreadable);
    else {
        ledger_list_number(&rows->partitions, delivery->partition);
        ledger_list_number(&rows->offsets, delivery->offset);
        ledger_list_add(&rows->events, delivery->event_text);
        ledger_list_add(&rows->orders, delivery->order_text);
        ledger_list_number(&rows->deltas, delivery->delta_cents);
        rows->n++;
    }
    free(delivery);
}

static bool rows_insert(struct copier *copier, const struct rows *rows)
{
    const char *values[] = {ledger_list_text(&rows->partitions), ledger_list_text(&rows->offsets), ledger_list_text(&rows->events),
                            ledger_list_text(&rows->orders), ledger_list_text(&rows->deltas)};

    return rows->n == 0 ||
           ledger_run(&copier->worker,
                      "INSERT INTO output SELECT * FROM unnest($1::int[], $2::bigint[], $3::uuid[], $4::uuid[], $5::bigint[])"
                      " ON CONFLICT DO NOTHING",
                      5, values, NULL) == WAY_DONE;
}

/* Behind the last record that the table has. -1: not now. */
static int64_t position_find(struct copier *copier, int partition)
{
    char number[16];
    PGresult *rows = NULL;
    int64_t position = -1;

    (void)snprintf(number, sizeof number, "%d", partition);
    if (ledger_run(&copier->worker, "SELECT coalesce(max(\"offset\") + 1, 0) FROM output WHERE partition = $1::int", 1,
                   (const char *const[]){number}, &rows) == WAY_DONE) {
        position = strtoll(PQgetvalue(rows, 0, 0), NULL, 10);
        PQclear(rows);
    }
    return position;
}

static bool partition_copy(struct copier *copier, int partition, int64_t *next)
{
    int more = 1;

    while (more > 0) {
        struct rows rows = {.n = 0};
        int64_t position = *next;

        more = history_read(copier->history, partition, &position, ROWS_MAX, row_add, &rows);
        if (rows_insert(copier, &rows))
            *next = position;
        else
            more = -1;
        rows_free(&rows);
    }
    return more == 0;
}

static bool ready(struct copier *copier)
{
    struct worker *worker = &copier->worker;

    if (!copier->history)
        copier->history = history_open(worker->settings, copier->output);
    if (!worker->db || PQstatus(worker->db) != CONNECTION_OK) {
        PQfinish(worker->db);
        worker->db = ledger_connect(worker, copier->way);
    }
    return copier->history && worker->db;
}

/* Copy what came since the last time, partition by partition. */
static void copy_round(struct copier *copier, int64_t *next)
{
    if (!ready(copier))
        return;
    for (int i = 0; i < copier->partitions; i++) {
        if (next[i] < 0)
            next[i] = position_find(copier, i);
        if (next[i] < 0 || !partition_copy(copier, i, &next[i]))
            return;
    }
}

static void *run(void *context)
{
    struct copier *copier = context;
    int64_t *next = malloc((size_t)copier->partitions * sizeof *next);
    bool last = false;

    if (!next)
        abort();
    for (int i = 0; i < copier->partitions; i++)
        next[i] = -1;
    while (!last) {
        last = copier->stopping;
        copy_round(copier, next);
        for (int waited_ms = 0; waited_ms < ROUND_PAUSE_MS && !copier->stopping; waited_ms += 10)
            (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    free(next);
    if (copier->history)
        history_close(copier->history);
    PQfinish(copier->worker.db);
    return NULL;
}

struct copier *copier_start(const struct consumer_settings *settings, const struct way *way, const char *output, int partitions)
{
    struct copier *copier = calloc(1, sizeof *copier);

    if (!copier)
        abort();
    copier->worker.settings = settings;
    copier->way = way;
    copier->output = output;
    copier->partitions = partitions;
    if (pthread_create(&copier->thread, NULL, run, copier) != 0)
        abort();
    return copier;
}

void copier_stop(struct copier *copier)
{
    copier->stopping = true;
    (void)pthread_join(copier->thread, NULL);
    free(copier);
}
