/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/ledger.h"

#include "producer-demo/lib/store.h"
#include "producer-demo/payment_consumer/processed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two workers and two processes may come at the same time, hence the lock. entry has no unique index on purpose: what protects it is the way's
 * affair. No event moves more than an order may cost, whatever a message says. */
static const char entry_schema[] =
    "CREATE TABLE IF NOT EXISTS entry ("
    "    event_id    uuid        NOT NULL,"
    "    order_id    uuid        NOT NULL,"
    "    delta_cents bigint      NOT NULL CONSTRAINT entry_delta_cents_possible CHECK (abs(delta_cents) <= 100000000),"
    "    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp());"
    "CREATE OR REPLACE VIEW balance AS SELECT order_id, sum(delta_cents)::bigint AS cents FROM entry GROUP BY order_id;";

/* Every way refuses what it cannot apply. */
static const char refused_schema[] = "CREATE TABLE IF NOT EXISTS refused_messages ("
                                     "    topic      text        NOT NULL,"
                                     "    partition  integer     NOT NULL,"
                                     "    \"offset\"   bigint      NOT NULL,"
                                     "    event_id   uuid        NOT NULL," /* zeros: it had none */
                                     "    reason     text        NOT NULL,"
                                     "    detail     text        NOT NULL,"
                                     "    payload    bytea       NOT NULL,"
                                     "    refused_at timestamptz NOT NULL DEFAULT clock_timestamp(),"
                                     "    PRIMARY KEY (topic, partition, \"offset\"));";

void ledger_schema_name(const struct way *way, char ret_name[64])
{
    (void)snprintf(ret_name, 64, "ledger_%s", way->name);
    for (char *c = ret_name; *c; c++)
        if (*c == '-')
            *c = '_';
}

static void complain(const PGconn *db)
{
    const char *message = PQerrorMessage(db);

    (void)fprintf(stderr, "payment-consumer: PostgreSQL: %.*s\n", (int)strcspn(message, "\n"), message);
}

/* Class 01 with a COMMIT: it did not wait for the standby as it should have. "Already exists, skipping" is 42P07 and the like. */
static void on_notice(void *context, const PGresult *notice)
{
    struct worker *worker = context;
    const char *state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);

    if (state && strcmp(state, "01000") == 0) {
        (void)fprintf(stderr, "payment-consumer: PostgreSQL warns: %s\n", PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY));
        worker->warned = true;
    }
}

PGconn *ledger_connect(struct worker *worker, const struct way *way)
{
    char schema[64], options[96];
    const char *names[] = {"dbname", "options", "fallback_application_name", "connect_timeout", NULL};
    const char *values[] = {worker->settings->database, options, "payment-consumer", "5", NULL};
    PGconn *db;

    ledger_schema_name(way, schema);
    (void)snprintf(options, sizeof options, "-c search_path=%s", schema);
    db = PQconnectdbParams(names, values, 1);
    PQsetNoticeReceiver(db, on_notice, worker);
    worker->warned = true; /* who knows how the commit before this connection ended */
    if (PQstatus(db) == CONNECTION_OK)
        return db;
    complain(db);
    PQfinish(db);
    return NULL;
}

bool ledger_prepare(PGconn *db, const struct way *way)
{
    char schema[64], sql[8192];
    PGresult *result;
    bool fine;

    ledger_schema_name(way, schema);
    (void)snprintf(sql, sizeof sql, "SELECT pg_advisory_xact_lock(hashtext('%s')); CREATE SCHEMA IF NOT EXISTS %s; %s %s %s", schema,
                   schema, refused_schema, way->schema ? way->schema : entry_schema, way->keeps_ids ? processed_schema : "");
    result = PQexec(db, sql); /* several statements, one transaction */
    fine = result && store_succeeded(result);
    if (!fine)
        complain(db);
    PQclear(result);
    return fine;
}

/* What a failed statement means for its batch. Data and constraints are the message's fault; all else (no connection, a shutdown, a deadlock, no
 * space, a table that is not there) may be over when the batch is tried again. */
static enum way_result judge(const PGresult *result)
{
    const char *state = store_error(result);

    if (strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0)
        return WAY_POISON;
    return WAY_LATER;
}

enum way_result ledger_run(struct worker *worker, const char *sql, int values_n, const char *const *values, PGresult **ret_rows)
{
    bool warned = worker->warned;
    PGresult *result;
    enum way_result judged = WAY_DONE;

    worker->warned = false;
    result = store_query(worker->db, sql, values_n, values);
    if (!store_succeeded(result)) {
        judged = judge(result);
        complain(worker->db);
    } else if (worker->warned && PQtransactionStatus(worker->db) == PQTRANS_IDLE) {
        judged = WAY_LATER;
    }
    worker->warned |= warned;
    if (judged == WAY_DONE && ret_rows)
        *ret_rows = result;
    else
        PQclear(result);
    return judged == WAY_DONE ? WAY_DONE : ledger_rollback(worker, judged);
}

enum way_result ledger_begin(struct worker *worker)
{
    enum way_result result = ledger_run(worker, "BEGIN ISOLATION LEVEL READ COMMITTED", 0, NULL, NULL);

    /* Rows that are there already would leave this transaction nothing to write, so that its commit would not wait for a standby that may
     * not have them. This is something to write. */
    if (result == WAY_DONE && worker->warned)
        result = ledger_run(worker, "SELECT pg_logical_emit_message(true, 'payment-consumer', '')", 0, NULL, NULL);
    return result;
}

enum way_result ledger_commit(struct worker *worker)
{
    enum way_result result = ledger_run(worker, "COMMIT", 0, NULL, NULL);

    if (result == WAY_DONE)
        worker->warned = false;
    return result;
}

enum way_result ledger_rollback(struct worker *worker, enum way_result result)
{
    if (PQtransactionStatus(worker->db) != PQTRANS_IDLE && PQstatus(worker->db) == CONNECTION_OK &&
        !store_run(worker->db, "ROLLBACK", 0, NULL))
        complain(worker->db);
    return result;
}

enum way_result ledger_effect(struct worker *worker, struct delivery *const *batch, int n)
{
    struct ledger_list events = {0}, orders = {0}, deltas = {0};
    enum way_result result = WAY_DONE;

    for (int i = 0; i < n; i++)
        if (batch[i]->outcome == DELIVERY_APPLIED) {
            ledger_list_add(&events, batch[i]->event_text);
            ledger_list_add(&orders, batch[i]->order_text);
            ledger_list_number(&deltas, batch[i]->delta_cents);
        }
    if (events.text_n > 0)
        result = ledger_run(worker,
                            "INSERT INTO entry (event_id, order_id, delta_cents)"
                            " SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[])",
                            3, (const char *[]){ledger_list_text(&events), ledger_list_text(&orders), ledger_list_text(&deltas)}, NULL);
    ledger_list_free(&events);
    ledger_list_free(&orders);
    ledger_list_free(&deltas);
    return result;
}

void ledger_list_add(struct ledger_list *list, const char *text)
{
    size_t n = strlen(text);

    if (list->text_n + n + 3 > list->text_max) {
        list->text_max = (list->text_n + n + 3) * 2;
        list->text = realloc(list->text, list->text_max);
        if (!list->text)
            abort();
    }
    list->text[list->text_n] = list->text_n == 0 ? '{' : ',';
    memcpy(list->text + list->text_n + 1, text, n);
    list->text_n += n + 1;
    memcpy(list->text + list->text_n, "}", 2);
}

void ledger_list_number(struct ledger_list *list, int64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, number);
    ledger_list_add(list, text);
}

const char *ledger_list_text(const struct ledger_list *list)
{
    return list->text ? list->text : "{}";
}

void ledger_list_free(struct ledger_list *list)
{
    free(list->text);
    *list = (struct ledger_list){0};
}
