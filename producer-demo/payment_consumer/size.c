/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/size.h"

#include "producer-demo/lib/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A page has 8192 bytes, 24 of them for itself. A row takes 24 for itself, 16 for the id, and 4 for the pointer to it. An entry of the index takes
 * 8, 16 and 4; 40 of a page are spent on its ends, and pages are two thirds full: ids come nearly in order, but not quite, so that most pages are
 * split after they were full. */
#define HEAP_BYTES  (8192.0 / ((8192 - 24) / (24 + 16 + 4)))
#define INDEX_BYTES (8192.0 / ((8192 * 2 / 3 - 24 - 16) / (8 + 16 + 4)))

#define ROWS_MIN 50000 /* fewer say little: half of a small table may be one page */

struct measure {
    double heap_bytes, index_bytes; /* a row */
    int64_t rows;                   /* of which; 0: not measured */
    const char *of;
};

/* A table of the same shape, filled as two workers do: each inserts sorted batches, of partitions that hold ids of the same moments. It is gone with
 * the connection. */
static const char sample[] = "CREATE TEMP TABLE sample (event_id uuid PRIMARY KEY);"
                             "DO $$ BEGIN FOR batch IN 0..1999 LOOP"
                             "  INSERT INTO sample SELECT (lpad(to_hex(1767225600000 + batch / 2 * 10 + n / 10), 12, '0')"
                             "      || '7' || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid AS id"
                             "    FROM generate_series(1, 100) n ORDER BY id ON CONFLICT DO NOTHING;"
                             "END LOOP; END $$";

/* All partitions of a table together. */
static const char measure_table[] =
    "SELECT coalesce(sum(pg_relation_size(relid)), 0)::bigint, coalesce(sum(pg_indexes_size(relid)), 0)::bigint"
    " FROM (SELECT relid FROM pg_partition_tree($1::regclass) UNION SELECT $1::regclass) t";

static bool table_measure(PGconn *db, const char *table, const char *of, struct measure *ret_measure)
{
    char count[128];
    PGresult *rows, *sizes;
    bool fine;

    (void)snprintf(count, sizeof count, "SELECT count(*) FROM %s", table);
    rows = store_query(db, count, 0, NULL);
    sizes = store_query(db, measure_table, 1, &table);
    fine = store_succeeded(rows) && store_succeeded(sizes);
    if (fine && strtoll(PQgetvalue(rows, 0, 0), NULL, 10) >= ROWS_MIN) {
        ret_measure->rows = strtoll(PQgetvalue(rows, 0, 0), NULL, 10);
        ret_measure->heap_bytes = strtod(PQgetvalue(sizes, 0, 0), NULL) / (double)ret_measure->rows;
        ret_measure->index_bytes = strtod(PQgetvalue(sizes, 0, 1), NULL) / (double)ret_measure->rows;
        ret_measure->of = of;
    }
    PQclear(rows);
    PQclear(sizes);
    return fine;
}

/* The real table, if there is one and it says anything; else a sample. */
static bool measure(PGconn *db, struct measure *ret_measure)
{
    PGresult *rows = store_query(db, "SELECT to_regclass('ledger_unique.processed_messages')", 0, NULL);
    bool fine = store_succeeded(rows), there = fine && !PQgetisnull(rows, 0, 0);

    PQclear(rows);
    if (there)
        fine = table_measure(db, "ledger_unique.processed_messages", "processed_messages itself", ret_measure);
    if (!fine || ret_measure->rows > 0)
        return fine;
    rows = PQexec(db, sample);
    fine = rows && store_succeeded(rows) && table_measure(db, "sample", "a table filled for it", ret_measure);
    PQclear(rows);
    return fine;
}

static void arithmetic_print(const struct size_settings *settings, const struct measure *measured, FILE *to)
{
    double bytes = measured->heap_bytes + measured->index_bytes;
    double total = (double)settings->messages_per_day * bytes * (double)settings->days;

    (void)fprintf(to, "bytes a message: %.1f = %.1f in the table + %.1f in its index (", bytes, measured->heap_bytes,
                  measured->index_bytes);
    if (measured->rows > 0)
        (void)fprintf(to, "measured: %" PRId64 " rows of %s)\n", measured->rows, measured->of);
    else
        (void)fputs("by the layout of PostgreSQL's pages; --database measures)\n", to);
    (void)fprintf(to, "%" PRId64 " messages a day x %.1f bytes x %" PRId64 " days = %.0f bytes (%.2f GB)\n", settings->messages_per_day,
                  bytes, settings->days, total, total / 1e9);
    (void)fputs("The day that ends the retention is kept whole, and today is under way: up to one day more.\n", to);
}

int size_print(const struct size_settings *settings, FILE *to)
{
    struct measure measured = {.heap_bytes = HEAP_BYTES, .index_bytes = INDEX_BYTES};
    PGconn *db;
    int status = 0;

    if (*settings->database) {
        db = PQconnectdb(settings->database);
        if (PQstatus(db) != CONNECTION_OK || !measure(db, &measured)) {
            (void)fprintf(stderr, "payment-consumer: --size: %.*s\n", (int)strcspn(PQerrorMessage(db), "\n"), PQerrorMessage(db));
            status = 2;
        }
        PQfinish(db);
    }
    if (status == 0)
        arithmetic_print(settings, &measured, to);
    return status;
}
