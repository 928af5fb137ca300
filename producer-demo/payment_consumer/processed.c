/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/processed.h"

#include "producer-demo/lib/store.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* No day and no consumer beside the id: the schema is the consumer, the id has the day. Rows are never updated. */
const char processed_schema[] = "CREATE TABLE IF NOT EXISTS processed_messages (event_id uuid PRIMARY KEY) PARTITION BY RANGE (event_id);"
                                "CREATE TABLE IF NOT EXISTS processed_floor ("
                                "    one      boolean PRIMARY KEY DEFAULT true CHECK (one),"
                                "    floor_ms bigint  NOT NULL);";

/* Run one statement; false: it failed, which was logged. *ret_rows (may be NULL) is the caller's. */
static bool run(PGconn *db, PGresult **ret_rows, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool run(PGconn *db, PGresult **ret_rows, const char *format, ...)
{
    char sql[1024];
    va_list arguments;
    PGresult *result;
    bool fine;

    va_start(arguments, format);
    (void)vsnprintf(sql, sizeof sql, format, arguments);
    va_end(arguments);
    result = PQexec(db, sql);
    fine = result && store_succeeded(result);
    if (!fine)
        (void)fprintf(stderr, "payment-consumer: processed_messages: %.*s\n", (int)strcspn(PQerrorMessage(db), "\n"), PQerrorMessage(db));
    if (fine && ret_rows)
        *ret_rows = result;
    else
        PQclear(result);
    return fine;
}

/* The lowest id of a day: its first millisecond, then zeros, which are below any version. */
static void bound_print(int64_t day_ms, char ret_text[37])
{
    (void)snprintf(ret_text, 37, "%08" PRIx32 "-%04x-0000-0000-000000000000", (uint32_t)(day_ms >> 16), (unsigned)(day_ms & 0xffff));
}

static void partition_print(int64_t day_ms, char ret_name[32])
{
    time_t seconds = day_ms / 1000;
    struct tm day;

    (void)gmtime_r(&seconds, &day);
    (void)strftime(ret_name, 32, "processed_%Y%m%d", &day);
}

/* Attaching does not wait for those who write to other partitions, as CREATE ... PARTITION OF would. */
static bool partition_make(PGconn *db, int64_t day_ms)
{
    char name[32], from[37], to[37];
    PGresult *rows;
    bool there;

    partition_print(day_ms, name);
    bound_print(day_ms, from);
    bound_print(day_ms + PROCESSED_DAY_MS, to);
    if (!run(db, &rows, "SELECT to_regclass('%s')", name))
        return false;
    there = !PQgetisnull(rows, 0, 0);
    PQclear(rows);
    return there || run(db, NULL,
                        "CREATE TABLE %s (LIKE processed_messages INCLUDING INDEXES);"
                        "ALTER TABLE processed_messages ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')",
                        name, name, from, to);
}

/* Detached without a lock that others would wait for, then dropped. A detach that was cut off is finished, and one that was not followed by its
 * drop is. */
static bool partition_drop(PGconn *db, const char *name, const char *state)
{
    if (strcmp(state, "attached") == 0 && !run(db, NULL, "ALTER TABLE processed_messages DETACH PARTITION %s CONCURRENTLY", name))
        return false;
    if (strcmp(state, "pending") == 0 && !run(db, NULL, "ALTER TABLE processed_messages DETACH PARTITION %s FINALIZE", name))
        return false;
    (void)fprintf(stderr, "payment-consumer: the ids of %s are forgotten\n", name + strlen("processed_"));
    return run(db, NULL, "DROP TABLE %s", name);
}

static bool partitions_drop(PGconn *db, int64_t floor_ms)
{
    char lowest[32];
    PGresult *rows;
    bool fine;

    partition_print(floor_ms, lowest);
    fine = run(db, &rows,
               "SELECT c.relname, CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'pending' ELSE 'attached' END"
               " FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid"
               " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname ~ '^processed_[0-9]{8}$'"
               " AND c.relname < '%s' ORDER BY 1",
               lowest);
    if (!fine)
        return false;
    for (int i = 0; i < PQntuples(rows) && fine; i++)
        fine = partition_drop(db, PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 1));
    PQclear(rows);
    return fine;
}

/* By the earlier of the two clocks: one that is far ahead must not make us forget. */
static bool floor_raise(PGconn *db, int64_t now_ms, int64_t retention_days, int64_t *ret_floor_ms)
{
    PGresult *rows;

    if (!run(db, &rows,
             "INSERT INTO processed_floor (floor_ms)"
             " SELECT (least(%" PRId64 ", (extract(epoch FROM clock_timestamp()) * 1000)::bigint) / %" PRId64 " - %" PRId64 ") * %" PRId64
             " ON CONFLICT (one) DO UPDATE SET floor_ms = greatest(processed_floor.floor_ms, excluded.floor_ms) RETURNING floor_ms",
             now_ms, PROCESSED_DAY_MS, retention_days, PROCESSED_DAY_MS))
        return false;
    *ret_floor_ms = strtoll(PQgetvalue(rows, 0, 0), NULL, 10);
    PQclear(rows);
    return true;
}

/* The floor rises before anything is dropped: whoever asks for it in between refuses an id that could still be looked up, never the reverse. */
bool processed_tend(PGconn *db, int64_t now_ms, int64_t retention_days, int64_t *ret_floor_ms)
{
    int64_t floor_ms = 0, last_ms = (now_ms / PROCESSED_DAY_MS + PROCESSED_AHEAD_DAYS) * PROCESSED_DAY_MS;
    bool fine;

    if (!run(db, NULL, "SELECT pg_advisory_lock(hashtext(current_schema() || ' partitions'))"))
        return false;
    fine = floor_raise(db, now_ms, retention_days, &floor_ms);
    for (int64_t day_ms = floor_ms; fine && day_ms <= last_ms; day_ms += PROCESSED_DAY_MS)
        fine = partition_make(db, day_ms);
    fine = fine && partitions_drop(db, floor_ms);
    fine = run(db, NULL, "SELECT pg_advisory_unlock(hashtext(current_schema() || ' partitions'))") && fine;
    if (fine)
        *ret_floor_ms = floor_ms;
    return fine;
}

bool processed_floor(PGconn *db, int64_t *ret_floor_ms)
{
    PGresult *rows;

    if (!run(db, &rows, "SELECT floor_ms FROM processed_floor"))
        return false;
    if (PQntuples(rows) > 0)
        *ret_floor_ms = strtoll(PQgetvalue(rows, 0, 0), NULL, 10);
    PQclear(rows);
    return true;
}

enum processed_verdict processed_judge(struct uuid id, int64_t floor_ms, int64_t now_ms)
{
    int64_t created_ms = uuid_created_ms(id);

    if (created_ms < floor_ms)
        return PROCESSED_TOO_OLD;
    return created_ms > now_ms + PROCESSED_FUTURE_MS ? PROCESSED_FUTURE : PROCESSED_FINE;
}
