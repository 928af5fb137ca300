/* SPDX-License-Identifier: BSD-2-Clause */
/* The buttons that act as a client of the order service: one order, one order twice, the bad client, and a row that Kafka will never take. */
#include "producer-demo/lib/fetch.h"
#include "producer-demo/lib/uuid.h"
#include "producer-demo/panel/buttons.h"
#include "producer-demo/panel/panel.h"
#include "producer-demo/panel/place.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- requests ------------------------------------------------------------------------------------------------------- */

/* One POST /orders, sent by a thread of its own where two go at once. */
struct sending {
    const struct panel *panel;
    const char *body;
    pthread_barrier_t *barrier; /* NULL: alone */
    struct journey_request request;
    char etag[64];
    pthread_t thread;
};

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void answer_read(struct sending *sending, const struct fetch_response *response)
{
    json_t *order = response->status ? json_loads(response->body, 0, NULL) : NULL;
    const char *id = json_string_value(json_object_get(order, "order_id"));

    sending->request.status = response->status;
    sending->request.replayed = response->replayed;
    (void)snprintf(sending->request.order_id, sizeof sending->request.order_id, "%s", id && response->status < 300 ? id : "");
    memcpy(sending->etag, response->etag, sizeof sending->etag);
    json_decref(order);
}

static void *order_send(void *context)
{
    struct sending *sending = context;
    struct fetch *fetch = fetch_open();
    struct fetch_response response;
    char url[64], key[80];
    const char *headers[] = {key, "X-Client-Id: " JOURNEY_SCOPE, NULL};

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/orders", place_look(sending->panel->folder, "order-service").port);
    (void)snprintf(key, sizeof key, "Idempotency-Key: %s", sending->request.key);
    if (sending->barrier)
        (void)pthread_barrier_wait(sending->barrier);
    sending->request.took_us = now_us();
    fetch_send(fetch, &(struct fetch_request){.method = "POST", .url = url, .headers = headers, .body = sending->body, .timeout_ms = 5000},
               &response);
    sending->request.took_us = now_us() - sending->request.took_us;
    answer_read(sending, &response);
    fetch_close(fetch);
    return NULL;
}

static void key_make(char ret_key[40])
{
    uuid_print(uuid_make(), ret_key);
}

/* An order with a reference of its own: what its customer meant, once. */
static void body_make(char *ret_body, size_t size, int64_t *ret_cents)
{
    struct uuid id = uuid_make();
    char reference[37];

    uuid_print(id, reference);
    *ret_cents = 1000 + (id.bytes[14] * 256 + id.bytes[15]) % 9000;
    (void)snprintf(ret_body, size,
                   "{\"customer\": \"You\", \"address\": \"1 Example Street\", \"amount_cents\": %" PRId64 ", \"reference\": \"%s\"}",
                   *ret_cents, reference);
}

/* The outbox rows that come from now on have ids from this one on; 1 if the database does not say. */
static int64_t first_id(const struct panel *panel)
{
    char why[256];
    PGconn *db = store_take(panel->store, why, sizeof why);
    PGresult *rows;
    int64_t id = 1;

    if (!db)
        return 1;
    rows = store_query(db, "SELECT coalesce(max(id), 0) + 1 FROM outbox.event", 0, NULL);
    if (store_succeeded(rows))
        id = strtoll(PQgetvalue(rows, 0, 0), NULL, 10);
    PQclear(rows);
    store_give(panel->store, db);
    return id;
}

/* --- buttons -------------------------------------------------------------------------------------------------------- */

static bool no_answer(const struct sending *sending, char *ret_text, size_t text_size)
{
    (void)snprintf(ret_text, text_size, "The order service answered %d%s.", sending->request.status,
                   sending->request.status == 0 ? ": it could not be reached, or not in time" : "");
    return false;
}

bool button_order(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    char body[300];
    struct sending sending = {.panel = panel, .body = body};
    int64_t first = first_id(panel), cents;

    (void)arguments;
    body_make(body, sizeof body, &cents);
    key_make(sending.request.key);
    (void)order_send(&sending);
    journey_begin(panel->journey, "order", &sending.request, 1, first);
    if (sending.request.status != 201)
        return no_answer(&sending, ret_text, text_size);
    (void)snprintf(ret_text, text_size,
                   "Ordered for $%" PRId64 ".%02" PRId64 " under the key %.13s... Each hop: One order, from click to ledger.", cents / 100,
                   cents % 100, sending.request.key);
    return true;
}

bool button_twice(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    char body[300];
    pthread_barrier_t barrier;
    struct sending sendings[2] = {{.panel = panel, .body = body, .barrier = &barrier}, {.panel = panel, .body = body, .barrier = &barrier}};
    struct journey_request requests[2];
    int64_t first = first_id(panel), cents;
    bool one;

    (void)arguments;
    body_make(body, sizeof body, &cents);
    key_make(sendings[0].request.key);
    memcpy(sendings[1].request.key, sendings[0].request.key, sizeof sendings[1].request.key);
    (void)pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&sendings[i].thread, NULL, order_send, &sendings[i]) != 0)
            abort();
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(sendings[i].thread, NULL);
        requests[i] = sendings[i].request;
    }
    (void)pthread_barrier_destroy(&barrier);
    journey_begin(panel->journey, "twice", requests, 2, first);
    for (int i = 0; i < 2; i++)
        if (requests[i].status != 201)
            return no_answer(&sendings[i], ret_text, text_size);
    one = strcmp(requests[0].order_id, requests[1].order_id) == 0;
    (void)snprintf(ret_text, text_size, "Two requests with one key at the same moment: %s, and %s.", one ? "one order" : "two orders",
                   requests[0].replayed != requests[1].replayed ? "the second got the first one's answer" : "both answers are new");
    return one;
}

bool button_bad_client(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    char body[300];
    struct journey_request requests[2];
    int64_t first = first_id(panel), cents;

    (void)arguments;
    body_make(body, sizeof body, &cents);
    for (int i = 0; i < 2; i++) {
        struct sending sending = {.panel = panel, .body = body};

        key_make(sending.request.key);
        (void)order_send(&sending);
        requests[i] = sending.request;
        if (sending.request.status != 201)
            return no_answer(&sending, ret_text, text_size);
    }
    journey_begin(panel->journey, "bad-client", requests, 2, first);
    (void)snprintf(ret_text, text_size,
                   "One purchase of $%" PRId64 ".%02" PRId64
                   ", sent again under a new key: two orders. No consumer can see that they are one.",
                   cents / 100, cents % 100);
    return true;
}

/* --- a key that waits ----------------------------------------------------------------------------------------------- */

/* Larger than any producer sends by default (message.max.bytes is 1 000 000). */
#define POISON_SQL                                                      \
    "INSERT INTO outbox.event (event_id, topic, key, payload, headers)" \
    " VALUES (gen_random_uuid(), $1, $2, convert_to(repeat('x', 1500000), 'UTF8'), '{\"type\": \"poison\"}')"

/* Change the order's address: one more event of the same key. */
static int order_move(const struct panel *panel, const struct sending *sending)
{
    struct fetch *fetch = fetch_open();
    struct fetch_response response;
    char url[128], match[100];
    const char *headers[] = {match, "X-Client-Id: " JOURNEY_SCOPE, NULL};

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/orders/%s/address", place_look(panel->folder, "order-service").port,
                   sending->request.order_id);
    (void)snprintf(match, sizeof match, "If-Match: %s", sending->etag);
    fetch_send(fetch,
               &(struct fetch_request){
                   .method = "PUT", .url = url, .headers = headers, .body = "{\"address\": \"2 Example Street\"}", .timeout_ms = 5000},
               &response);
    fetch_close(fetch);
    return response.status;
}

static bool poison_put(const struct panel *panel, const char *order)
{
    const char *values[] = {panel->topic, order};
    char why[256];
    PGconn *db = store_take(panel->store, why, sizeof why);
    bool succeeded = db && store_run(db, POISON_SQL, 2, values);

    if (db)
        store_give(panel->store, db);
    return succeeded;
}

bool button_poison(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    char body[300];
    struct sending sending = {.panel = panel, .body = body};
    int64_t first = first_id(panel), cents;

    (void)arguments;
    body_make(body, sizeof body, &cents);
    key_make(sending.request.key);
    (void)order_send(&sending);
    if (sending.request.status != 201)
        return no_answer(&sending, ret_text, text_size);
    if (!poison_put(panel, sending.request.order_id) || order_move(panel, &sending) != 200) {
        (void)snprintf(ret_text, text_size,
                       "The order is placed, but its poisoned row is not: the database or the service did not answer.");
        return false;
    }
    journey_begin(panel->journey, "poison", &sending.request, 1, first);
    (void)snprintf(
        ret_text, text_size,
        "One order has a row of 1.5 MB that Kafka will never take: what comes after it in this order waits, all other orders go on.");
    return true;
}

bool button_release(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    char why[256];
    PGconn *db = store_take(panel->store, why, sizeof why);
    PGresult *rows;
    int64_t n = -1;

    (void)arguments;
    if (!db) {
        (void)snprintf(ret_text, text_size, "The database does not answer: %s", why);
        return false;
    }
    rows = store_query(db, "DELETE FROM outbox.event WHERE sent_at IS NULL AND headers->>'type' = 'poison'", 0, NULL);
    if (store_succeeded(rows))
        n = strtoll(PQcmdTuples(rows), NULL, 10);
    PQclear(rows);
    store_give(panel->store, db);
    if (n > 0)
        (void)snprintf(ret_text, text_size, "The poisoned row is deleted; what waited behind it goes out with the relay's next try.");
    else
        (void)snprintf(ret_text, text_size, n == 0 ? "No key is poisoned." : "The poisoned row cannot be deleted now.");
    return n >= 0;
}
