/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/journey.h"

#include "producer-demo/lib/store.h"
#include "producer-demo/panel/books.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct trip {
    const char *kind; /* NULL: none */
    struct journey_request requests[JOURNEY_REQUESTS_MAX];
    int requests_n;
    int64_t at_ms, first_id;
};

struct journey {
    pthread_mutex_t mutex;
    struct trip trip;
};

struct journey *journey_open(void)
{
    struct journey *journey = calloc(1, sizeof *journey);

    if (!journey)
        abort();
    pthread_mutex_init(&journey->mutex, NULL);
    return journey;
}

void journey_close(struct journey *journey)
{
    pthread_mutex_destroy(&journey->mutex);
    free(journey);
}

void journey_begin(struct journey *journey, const char *kind, const struct journey_request *requests, int n, int64_t first_id)
{
    struct trip trip = {.kind = kind, .requests_n = n, .first_id = first_id};
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    trip.at_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    memcpy(trip.requests, requests, (size_t)n * sizeof *requests);
    pthread_mutex_lock(&journey->mutex);
    journey->trip = trip;
    pthread_mutex_unlock(&journey->mutex);
}

void journey_forget(struct journey *journey)
{
    pthread_mutex_lock(&journey->mutex);
    journey->trip = (struct trip){0};
    pthread_mutex_unlock(&journey->mutex);
}

/* --- hops ----------------------------------------------------------------------------------------------------------- */

/* The rows of a statement as an array of objects, texts all of them; an empty one if it failed. */
static json_t *rows_list(PGconn *db, const char *sql, int values_n, const char *const *values)
{
    PGresult *rows = store_query(db, sql, values_n, values);
    json_t *list = json_array();

    for (int r = 0; store_succeeded(rows) && r < PQntuples(rows); r++) {
        json_t *object = json_object();

        for (int c = 0; c < PQnfields(rows); c++)
            json_object_set_new(object, PQfname(rows, c), PQgetisnull(rows, r, c) ? json_null() : json_string(PQgetvalue(rows, r, c)));
        json_array_append_new(list, object);
    }
    PQclear(rows);
    return list;
}

static json_t *requests_list(const struct trip *trip, PGconn *db)
{
    json_t *list = json_array();

    for (int i = 0; i < trip->requests_n; i++) {
        const struct journey_request *request = &trip->requests[i];
        const char *values[] = {JOURNEY_SCOPE, request->key};

        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:b, s:I, s:o}", "key", request->key, "order", request->order_id, "status", request->status,
                            "replayed", request->replayed, "took_us", (json_int_t)request->took_us, "kept",
                            rows_list(db, "SELECT status, response_code::text FROM shop.idempotency_keys WHERE scope = $1 AND key = $2", 2,
                                      values)));
    }
    return list;
}

static json_t *events_list(PGconn *db, const char *order, int64_t first_id)
{
    char first[32];
    const char *values[] = {order, first};

    (void)snprintf(first, sizeof first, "%" PRId64, first_id);
    return rows_list(db,
                     "SELECT id::text, event_id::text, headers->>'type' AS type, headers->>'idempotency-key' AS key,"
                     " octet_length(payload)::text AS bytes, (sent_at IS NOT NULL)::text AS sent,"
                     " (extract(epoch FROM sent_at - created_at) * 1000)::bigint::text AS sent_ms"
                     " FROM outbox.event WHERE key = $1 AND id >= $2 ORDER BY id LIMIT 6",
                     2, values);
}

static json_t *records_list(struct tap *tap, const char *order)
{
    struct tap_record records[6];
    int n = tap_find(tap, order, records, 6);
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:I, s:s, s:s}", "partition", records[i].partition, "offset", (json_int_t)records[i].offset,
                                        "event_id", records[i].event_id, "key", records[i].client_key));
    return list;
}

/* Of every ledger that exists; a ledger without the order is null. */
static json_t *ledgers_object(PGconn *db, const char *order)
{
    json_t *object = json_object();
    const char *values[] = {order};

    for (int i = 0; i < BOOKS_WAYS_N; i++) {
        char sql[160], schema[64];
        PGresult *rows;

        books_schema(books_ways[i], schema);
        (void)snprintf(sql, sizeof sql, "SELECT sum(cents)::bigint FROM %s.balance WHERE order_id = $1", schema);
        rows = store_query(db, sql, 1, values);
        if (store_succeeded(rows))
            json_object_set_new(object, books_ways[i],
                                PQgetisnull(rows, 0, 0) ? json_null() : json_integer(strtoll(PQgetvalue(rows, 0, 0), NULL, 10)));
        PQclear(rows);
    }
    return object;
}

static json_t *order_object(const struct trip *trip, const char *order, PGconn *db, struct tap *tap)
{
    const char *values[] = {order};

    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "order", order, "row",
                     rows_list(db,
                               "SELECT o.version::text, o.status, o.reference, o.amount_cents::text, i.cents::text AS intended_cents"
                               " FROM shop.orders o JOIN shop.intended i ON i.order_id = o.id WHERE o.id = $1",
                               1, values),
                     "events", events_list(db, order, trip->first_id), "records", records_list(tap, order), "ledgers",
                     ledgers_object(db, order));
}

json_t *journey_look(struct journey *journey, PGconn *db, struct tap *tap)
{
    struct trip trip;
    json_t *orders;

    pthread_mutex_lock(&journey->mutex);
    trip = journey->trip;
    pthread_mutex_unlock(&journey->mutex);
    if (!trip.kind)
        return json_null();
    orders = json_array();
    for (int i = 0; i < trip.requests_n; i++)
        if (trip.requests[i].order_id[0] && (i == 0 || strcmp(trip.requests[i].order_id, trip.requests[0].order_id) != 0))
            json_array_append_new(orders, order_object(&trip, trip.requests[i].order_id, db, tap));
    return json_pack("{s:s, s:I, s:o, s:o}", "kind", trip.kind, "at", (json_int_t)trip.at_ms, "requests", requests_list(&trip, db),
                     "orders", orders);
}
