/* SPDX-License-Identifier: BSD-2-Clause */
/* The order service: what each request is answered. */
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/demo/service_rig.h"
#include "tests/lib/test.h"

TEST_WITHIN(demo_service_places_an_order_and_repeats_its_response, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2");
    struct wire_answer first = service_post(&rig, "/orders", "a-key", SERVICE_ORDER), again;

    CHECK_EQ(first.status, 201);
    CHECK(strstr(first.body, "\"customer\":\"Ada\""));
    CHECK_STR(wire_header(&first, "ETag"), "\"1\"");
    CHECK_STR(wire_header(&first, "Idempotent-Replayed"), NULL);
    /* The same request in other bytes: blanks, order, a quoted key. */
    again = service_post(&rig, "/orders", "\"a-key\"", "{ \"amount_cents\": 1000, \"address\":\"1 Main St\", \"customer\":\"\\u0041da\"}");
    CHECK_EQ(again.status, 201);
    CHECK_STR(again.body, first.body);
    CHECK_STR(wire_header(&again, "Location"), wire_header(&first, "Location"));
    CHECK_STR(wire_header(&again, "ETag"), "\"1\"");
    CHECK_STR(wire_header(&again, "Content-Type"), wire_header(&first, "Content-Type"));
    CHECK_STR(wire_header(&again, "Idempotent-Replayed"), "true");
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM shop.orders"), 1);
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM outbox.event"), 1);
    CHECK_STR(postgres_query(rig.db.conninfo, "SELECT topic, headers->>'type', headers->>'client-id', headers->>'idempotency-key', "
                                              "key = (SELECT id::text FROM shop.orders) FROM outbox.event"),
              "orders\torder-placed\tanonymous\ta-key\tt");
    service_check_keys(&rig);
    process_signal(&rig.server, SIGTERM);
    CHECK_EQ(process_wait(&rig.server, 20), 0);
}

#define COUNT(rig, from) postgres_number((rig).db.conninfo, "SELECT count(*) FROM " from)

static int post_status(const struct service_rig *rig, const char *headers, const char *body)
{
    struct wire_answer answer = wire_ask(rig->port, "POST", "/orders", headers, body);

    if (answer.status >= 400)
        CHECK_STR(wire_header(&answer, "Content-Type"), "application/problem+json");
    return answer.status;
}

TEST_WITHIN(demo_service_wants_one_valid_key, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2");
    char longest[400] = SERVICE_JSON "Idempotency-Key: ", longer[400];

    memset(longest + strlen(longest), 'k', 255);
    (void)snprintf(longer, sizeof longer, "%sk\r\n", longest);
    (void)strcat(longest, "\r\n");
    CHECK_EQ(post_status(&rig, SERVICE_JSON, SERVICE_ORDER), 400);
    CHECK_EQ(post_status(&rig, SERVICE_JSON "Idempotency-Key:\r\n", SERVICE_ORDER), 400);
    CHECK_EQ(post_status(&rig, SERVICE_JSON "Idempotency-Key: \"\"\r\n", SERVICE_ORDER), 400);
    CHECK_EQ(post_status(&rig, SERVICE_JSON "Idempotency-Key: a, b\r\n", SERVICE_ORDER), 400);
    CHECK_EQ(post_status(&rig, SERVICE_JSON "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", SERVICE_ORDER), 400);
    CHECK_EQ(post_status(&rig, SERVICE_JSON "Idempotency-Key: \xc3\xa4\r\n", SERVICE_ORDER), 400);
    CHECK_EQ(post_status(&rig, longer, SERVICE_ORDER), 400);
    CHECK_EQ(post_status(&rig, SERVICE_JSON "X-Client-Id: a b\r\nIdempotency-Key: a\r\n", SERVICE_ORDER), 400);
    CHECK_EQ(COUNT(rig, "shop.idempotency_keys"), 0);
    CHECK_EQ(post_status(&rig, longest, SERVICE_ORDER), 201);
    CHECK_EQ(COUNT(rig, "shop.orders"), 1);
}

TEST_WITHIN(demo_service_keys_stand_for_one_request_of_one_client, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2");
    const char *id = service_place(&rig, "k");
    char path[80];

    /* Another body, and another path. */
    CHECK_EQ(service_post(&rig, "/orders", "k", "{\"customer\":\"Bob\",\"address\":\"1 Main St\",\"amount_cents\":1000}").status, 422);
    (void)snprintf(path, sizeof path, "/orders/%s/refunds", id);
    CHECK_EQ(service_post(&rig, path, "k", "{\"amount_cents\":1000}").status, 422);
    CHECK_EQ(service_post(&rig, "/orders", "k", SERVICE_ORDER).status, 201);
    CHECK_EQ(COUNT(rig, "shop.orders"), 1);
    /* The key of another client is another key. */
    CHECK_EQ(post_status(&rig, SERVICE_JSON "X-Client-Id: bob\r\nIdempotency-Key: k\r\n", SERVICE_ORDER), 201);
    CHECK_EQ(COUNT(rig, "shop.orders"), 2);
    CHECK_EQ(COUNT(rig, "outbox.event WHERE headers->>'client-id' = 'bob'"), 1);
    service_check_keys(&rig);
}

static const struct {
    const char *body;
    size_t n; /* 0: up to its zero */
} wrong_bodies[] = {
    {"", 0},
    {"{", 0},
    {"[]", 0},
    {"\"text\"", 0},
    {SERVICE_ORDER "x", 0},
    {"{\"customer\":\"Ada\",\"address\":\"1\"}", 0},
    {"{\"customer\":7,\"address\":\"1\",\"amount_cents\":1}", 0},
    {"{\"customer\":\"\",\"address\":\"1\",\"amount_cents\":1}", 0},
    {"{\"customer\":null,\"address\":\"1\",\"amount_cents\":1}", 0},
    {"{\"customer\":\"Ada\",\"address\":\"1\",\"amount_cents\":\"1\"}", 0},
    {"{\"customer\":\"Ada\",\"address\":\"1\",\"amount_cents\":0}", 0},
    {"{\"customer\":\"Ada\",\"address\":\"1\",\"amount_cents\":1.5}", 0},
    {"{\"customer\":\"Ada\",\"address\":\"1\",\"amount_cents\":1e300}", 0},
    {"{\"customer\":\"Ada\",\"address\":\"1\",\"amount_cents\":100000001}", 0},
    {"{\"customer\":\"Ada\",\"address\":\"1\",\"amount_cents\":99999999999999999999999}", 0},
    {"{\"customer\":\"Ada\",\"address\":\"1\",\"amount_cents\":1,\"more\":1}", 0},
    {"{\"customer\":\"Ada\",\"customer\":\"Ada\",\"address\":\"1\",\"amount_cents\":1}", 0},
    {"{\"customer\":\"A\\u0000da\",\"address\":\"1\",\"amount_cents\":1}", 0},
    {"{\"customer\":\"A\\ud800da\",\"address\":\"1\",\"amount_cents\":1}", 0},
    {"{\"customer\":\"A\xff\xfe\",\"address\":\"1\",\"amount_cents\":1}", 0},
    {"{\"customer\":\"A\xc0\x80\",\"address\":\"1\",\"amount_cents\":1}", 0},
    {"{\"customer\":\"A\0da\",\"address\":\"1\",\"amount_cents\":1}", 49},
    {SERVICE_ORDER "\0", sizeof SERVICE_ORDER},
};

TEST_WITHIN(demo_service_refuses_what_is_not_valid_and_stores_nothing, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2");

    for (size_t i = 0; i < sizeof wrong_bodies / sizeof *wrong_bodies; i++) {
        size_t n = wrong_bodies[i].n ? wrong_bodies[i].n : strlen(wrong_bodies[i].body);
        struct wire_answer answer =
            wire_ask_bytes(rig.port, "POST", "/orders", SERVICE_JSON "Idempotency-Key: k\r\n", wrong_bodies[i].body, n);

        if (answer.status != 400)
            test_fail(__FILE__, __LINE__, "body %zu, %s: %d", i, wrong_bodies[i].body, answer.status);
        CHECK_STR(wire_header(&answer, "Content-Type"), "application/problem+json");
    }
    CHECK_EQ(wire_ask_bytes(rig.port, "POST", "/orders", SERVICE_JSON "Idempotency-Key: k\r\n", test_allocate(10000000), 10000000).status,
             413);
    CHECK_EQ(post_status(&rig, "Idempotency-Key: k\r\n", SERVICE_ORDER), 415);
    CHECK_EQ(post_status(&rig, "Content-Type: text/plain\r\nIdempotency-Key: k\r\n", SERVICE_ORDER), 415);
    CHECK_EQ(COUNT(rig, "shop.idempotency_keys"), 0);
    /* The key is still free. */
    CHECK_EQ(post_status(&rig, "Content-Type: APPLICATION/json; charset=utf-8\r\nIdempotency-Key: k\r\n", SERVICE_ORDER), 201);
}

TEST_WITHIN(demo_service_knows_its_paths_and_methods, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2");
    const char *id = service_place(&rig, "k");
    char path[80];
    struct wire_answer answer;

    (void)snprintf(path, sizeof path, "/orders/%s", id);
    answer = wire_ask(rig.port, "PATCH", path, "", NULL);
    CHECK_EQ(answer.status, 405);
    CHECK_STR(wire_header(&answer, "Allow"), "GET, HEAD, DELETE");
    answer = wire_ask(rig.port, "BREW", "/orders", "", NULL);
    CHECK_EQ(answer.status, 405);
    CHECK_STR(wire_header(&answer, "Allow"), "POST");
    answer = wire_ask(rig.port, "HEAD", path, "", NULL);
    CHECK_EQ(answer.status, 200);
    CHECK_STR(wire_header(&answer, "ETag"), "\"1\"");
    CHECK_EQ(wire_ask(rig.port, "GET", "/nothing", "", NULL).status, 404);
    CHECK_EQ(wire_ask(rig.port, "GET", "/orders/7", "", NULL).status, 404);
    CHECK_EQ(wire_ask(rig.port, "GET", "/orders/00000000-0000-7000-8000-000000000000", "", NULL).status, 404);
    CHECK_EQ(wire_ask(rig.port, "GET", "/orders/%00", "", NULL).status, 404);
    CHECK_EQ(wire_ask(rig.port, "GET", "/healthz", "", NULL).status, 200);
    CHECK_EQ(wire_ask(rig.port, "GET", "/openapi.json", "", NULL).status, 200);
    CHECK(strstr(wire_ask(rig.port, "GET", "/metrics", "", NULL).body, "order_service_keys_total{outcome=\"new\"} 1"));
}

static struct wire_answer address_put(const struct service_rig *rig, const char *id, const char *if_match, const char *address)
{
    char path[80], headers[200], body[200];

    (void)snprintf(path, sizeof path, "/orders/%s/address", id);
    (void)snprintf(headers, sizeof headers, SERVICE_JSON "%s%s%s", if_match ? "If-Match: " : "", if_match ? if_match : "",
                   if_match ? "\r\n" : "");
    (void)snprintf(body, sizeof body, "{\"address\":\"%s\"}", address);
    return wire_ask(rig->port, "PUT", path, headers, body);
}

TEST_WITHIN(demo_service_moves_an_order_by_its_version, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2");
    const char *id = service_place(&rig, "k");
    struct wire_answer answer;

    CHECK_EQ(address_put(&rig, id, NULL, "2 Side St").status, 428);
    CHECK_EQ(address_put(&rig, id, "1", "2 Side St").status, 400);
    CHECK_EQ(address_put(&rig, id, "\"7\"", "2 Side St").status, 412);
    answer = address_put(&rig, id, "\"1\"", "2 Side St");
    CHECK_EQ(answer.status, 200);
    CHECK_STR(wire_header(&answer, "ETag"), "\"2\"");
    /* Its reply was lost; the repetition finds what is, and writes no second event. */
    answer = address_put(&rig, id, "\"1\"", "2 Side St");
    CHECK_EQ(answer.status, 200);
    CHECK_STR(wire_header(&answer, "ETag"), "\"2\"");
    CHECK_EQ(address_put(&rig, id, "\"1\"", "3 Back St").status, 412);
    CHECK_EQ(address_put(&rig, "00000000-0000-7000-8000-000000000000", "*", "2").status, 404);
    CHECK_STR(postgres_query(rig.db.conninfo, "SELECT headers->>'type', convert_from(payload, 'UTF8')::json->>'version', "
                                              "convert_from(payload, 'UTF8')::json->>'delta_cents' FROM outbox.event ORDER BY id"),
              "order-placed\t1\t1000\norder-moved\t2\t0");
}

TEST_WITHIN(demo_service_cancels_once, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2");
    const char *id = service_place(&rig, "k");
    char path[80];

    (void)snprintf(path, sizeof path, "/orders/%s", id);
    CHECK_EQ(wire_ask(rig.port, "DELETE", path, "If-Match: \"9\"\r\n", NULL).status, 412);
    CHECK_EQ(wire_ask(rig.port, "DELETE", path, "", NULL).status, 204);
    CHECK_EQ(wire_ask(rig.port, "DELETE", path, "", NULL).status, 204);
    CHECK_EQ(wire_ask(rig.port, "GET", path, "", NULL).status, 410);
    CHECK_EQ(address_put(&rig, id, "*", "2 Side St").status, 410);
    CHECK_EQ(wire_ask(rig.port, "DELETE", "/orders/00000000-0000-7000-8000-000000000000", "", NULL).status, 404);
    CHECK_STR(postgres_query(rig.db.conninfo, "SELECT headers->>'type', convert_from(payload, 'UTF8')::json->>'delta_cents', "
                                              "convert_from(payload, 'UTF8')::json->>'balance_cents' FROM outbox.event ORDER BY id"),
              "order-placed\t1000\t1000\norder-cancelled\t-1000\t0");
    CHECK_EQ(service_number(&rig, "SELECT sum(cents) FROM shop.intended"), 0);
    /* The key still has its response: what was asked for then was done then. */
    CHECK_EQ(service_post(&rig, "/orders", "k", SERVICE_ORDER).status, 201);
}

TEST_WITHIN(demo_service_answers_503_without_its_database, 60)
{
    struct service_rig rig = SERVICE_START("--threads", "2");
    struct wire_answer answer;

    service_place(&rig, "before");
    postgres_kill(&rig.db);
    answer = service_post(&rig, "/orders", "k", SERVICE_ORDER);
    CHECK_EQ(answer.status, 503);
    CHECK_STR(wire_header(&answer, "Retry-After"), "1");
    CHECK_EQ(wire_ask(rig.port, "GET", "/healthz", "", NULL).status, 503);
    postgres_restart(&rig.db);
    CHECK_EQ(COUNT(rig, "shop.idempotency_keys"), 1);
    CHECK_EQ(service_insist(&rig, "/orders", "k", SERVICE_ORDER).status, 201);
    service_check_keys(&rig);
}

TEST_WITHIN(demo_service_waits_for_a_twin_then_says_409, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2", "--wait-ms", "300");
    /* A twin that has inserted the key and goes on for longer than anybody waits. */
    PGconn *twin = PQconnectdb(rig.db.conninfo);
    struct wire_answer answer;

    PQclear(PQexec(twin, "BEGIN"));
    PQclear(PQexec(twin, "INSERT INTO shop.idempotency_keys (scope, key, fingerprint, status, locked_by, expires_at) "
                         "VALUES ('anonymous', 'k', '', 'IN_PROGRESS', 'twin', now())"));
    CHECK_EQ(PQtransactionStatus(twin), PQTRANS_INTRANS);
    answer = service_post(&rig, "/orders", "k", SERVICE_ORDER);
    CHECK_EQ(answer.status, 409);
    CHECK_STR(wire_header(&answer, "Retry-After"), "1");
    CHECK_EQ(service_post(&rig, "/orders", "another", SERVICE_ORDER).status, 201);
    /* It dies: nothing of it is left. */
    PQfinish(twin);
    CHECK_EQ(service_insist(&rig, "/orders", "k", SERVICE_ORDER).status, 201);
    CHECK(strstr(wire_ask(rig.port, "GET", "/metrics", "", NULL).body, "order_service_keys_total{outcome=\"conflict\"} 1"));
}

TEST_WITHIN(demo_service_sweeps_old_keys_in_batches, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2", "--sweep-ms", "50", "--sweep-batch", "2");

    for (int i = 0; i < 5; i++) {
        char key[8];

        (void)snprintf(key, sizeof key, "k%d", i);
        service_place(&rig, key);
    }
    CHECK_EQ(COUNT(rig, "shop.idempotency_keys WHERE expires_at - created_at BETWEEN '23:59' AND '24:01'"), 5);
    postgres_query(rig.db.conninfo, "UPDATE shop.idempotency_keys SET expires_at = now() - interval '1 second' WHERE key <> 'k4'");
    WAIT_UNTIL(COUNT(rig, "shop.idempotency_keys") == 1, 10);
    CHECK_EQ(COUNT(rig, "shop.orders"), 5);
    WAIT_UNTIL(strstr(wire_ask(rig.port, "GET", "/metrics", "", NULL).body, "order_service_keys_swept_total 4"), 10);
}
