/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/books.h"

#include "producer-demo/lib/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const books_ways[BOOKS_WAYS_N] = {"none",         "seen-cache", "check-then-act", "redis-before", "redis-after",   "kafka-eos",
                                              "at-most-once", "unique",     "version",        "passthrough",  "kafka-to-kafka"};

void books_schema(const char *way, char ret_name[64])
{
    (void)snprintf(ret_name, 64, "ledger_%s", way);
    for (char *c = ret_name; *c; c++)
        if (*c == '-')
            *c = '_';
}

static int64_t cell(const PGresult *rows, int column)
{
    return strtoll(PQgetvalue(rows, 0, column), NULL, 10);
}

static bool relation_is_there(PGconn *db, const char *schema, const char *relation)
{
    char name[80];
    const char *values[] = {name};
    PGresult *rows;
    bool is_there;

    (void)snprintf(name, sizeof name, "%s.%s", schema, relation);
    rows = store_query(db, "SELECT to_regclass($1) IS NOT NULL", 1, values);
    is_there = store_succeeded(rows) && strcmp(PQgetvalue(rows, 0, 0), "t") == 0;
    PQclear(rows);
    return is_there;
}

/* All less what is open, on both sides: so nothing has to be grouped or joined, and three tables are read once. The view `balance` of a ledger
 * with a table `entry` is its sum by order, so the entries are read. */
static void compare_sql(const char *schema, bool has_entries, char *ret_sql, size_t size)
{
    (void)snprintf(ret_sql, size,
                   "WITH open AS MATERIALIZED (SELECT DISTINCT key::uuid AS order_id FROM outbox.event"
                   " WHERE topic = $1 AND (sent_at IS NULL OR sent_at > to_timestamp($2::double precision))),"
                   " i AS (SELECT coalesce(sum(cents), 0) AS cents, count(*) AS n,"
                   " coalesce(sum(cents) FILTER (WHERE order_id IN (SELECT order_id FROM open)), 0) AS open_cents,"
                   " count(*) FILTER (WHERE order_id IN (SELECT order_id FROM open)) AS open_n FROM shop.intended),"
                   " l AS (SELECT coalesce(sum(%s), 0) AS cents,"
                   " coalesce(sum(%s) FILTER (WHERE order_id IN (SELECT order_id FROM open)), 0) AS open_cents FROM %s.%s)"
                   " SELECT (i.cents - i.open_cents)::bigint, (l.cents - l.open_cents)::bigint, i.n - i.open_n, i.open_n FROM i, l",
                   has_entries ? "delta_cents" : "cents", has_entries ? "delta_cents" : "cents", schema, has_entries ? "entry" : "balance");
}

bool books_compare(PGconn *db, const char *way, const char *topic, int64_t settled_ms, struct book *ret_book)
{
    char sql[1400], schema[64], settled[32];
    const char *values[] = {topic, settled};
    PGresult *rows;
    bool succeeded;

    *ret_book = (struct book){0};
    books_schema(way, schema);
    if (!relation_is_there(db, schema, "balance"))
        return PQstatus(db) == CONNECTION_OK;
    (void)snprintf(settled, sizeof settled, "%.3f", (double)settled_ms / 1000);
    compare_sql(schema, relation_is_there(db, schema, "entry"), sql, sizeof sql);
    rows = store_query(db, sql, 2, values);
    succeeded = store_succeeded(rows);
    if (succeeded)
        *ret_book = (struct book){true, cell(rows, 0), cell(rows, 1), cell(rows, 2), cell(rows, 3)};
    PQclear(rows);
    return succeeded;
}

bool books_pipeline_read(PGconn *db, struct books_pipeline *ret_pipeline)
{
    PGresult *rows = store_query(
        db,
        "SELECT o.n, o.minute, e.n, e.backlog, e.age_ms, d.n, d.cents, i.cents, coalesce((SELECT holder FROM outbox.lease"
        " WHERE token IS NOT NULL AND (SELECT expires_at FROM outbox.beat) > clock_timestamp()), '')"
        " FROM (SELECT count(*) AS n, count(*) FILTER (WHERE created_at > now() - interval '60 s') AS minute FROM shop.orders) o,"
        " (SELECT count(*) AS n, count(*) FILTER (WHERE sent_at IS NULL) AS backlog, coalesce(extract(epoch FROM clock_timestamp()"
        " - min(created_at) FILTER (WHERE sent_at IS NULL)) * 1000, 0)::bigint AS age_ms FROM outbox.event) e,"
        " (SELECT coalesce(sum(again), 0) AS n, coalesce(sum(beyond), 0)::bigint AS cents FROM (SELECT count(*) - 1 AS again,"
        " sum(amount_cents) - min(amount_cents) AS beyond FROM shop.orders WHERE reference IS NOT NULL AND status = 'placed'"
        " GROUP BY client_id, reference HAVING count(*) > 1) r) d,"
        " (SELECT coalesce(sum(cents), 0)::bigint AS cents FROM shop.intended) i",
        0, NULL);
    bool succeeded = store_succeeded(rows);

    *ret_pipeline = (struct books_pipeline){0};
    if (succeeded) {
        *ret_pipeline = (struct books_pipeline){
            .orders = cell(rows, 0),
            .orders_minute = cell(rows, 1),
            .events = cell(rows, 2),
            .backlog = cell(rows, 3),
            .backlog_age_ms = cell(rows, 4),
            .intents_doubled = cell(rows, 5),
            .doubled_cents = cell(rows, 6),
            .intended_cents = cell(rows, 7),
        };
        (void)snprintf(ret_pipeline->leader, sizeof ret_pipeline->leader, "%s", PQgetvalue(rows, 0, 8));
    }
    PQclear(rows);
    return succeeded;
}
