/* SPDX-License-Identifier: BSD-2-Clause */
/* The order service under many requests with one key, and killed at every fault point while a client insists: one order, one event, one
 * response. And what breaks when one of its rules is broken. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/demo/program.h"
#include "tests/demo/service_rig.h"
#include "tests/lib/test.h"

/* --- one key, many requests --------------------------------------------------------------------------------------- */

#define TWINS 200

struct twin {
    const struct service_rig *rig;
    pthread_t thread;
    struct wire_answer answer;
};

static void *twin_run(void *context)
{
    struct twin *twin = context;

    twin->answer = service_post(twin->rig, "/orders", "one", SERVICE_ORDER);
    return NULL;
}

TEST_WITHIN(demo_service_200_requests_with_one_key, 120)
{
    static struct twin twins[TWINS];
    struct service_rig rig = SERVICE_START("--threads", "16");
    const char *body = NULL;
    int created = 0, busy = 0, originals = 0;

    for (int i = 0; i < TWINS; i++) {
        twins[i].rig = &rig;
        CHECK_EQ(pthread_create(&twins[i].thread, NULL, twin_run, &twins[i]), 0);
    }
    for (int i = 0; i < TWINS; i++) {
        const struct wire_answer *answer = &twins[i].answer;

        CHECK_EQ(pthread_join(twins[i].thread, NULL), 0);
        busy += answer->status == 409 && wire_header(answer, "Retry-After");
        if (answer->status != 201)
            continue;
        created++;
        originals += !wire_header(answer, "Idempotent-Replayed");
        if (!body)
            body = answer->body;
        CHECK_STR(answer->body, body);
    }
    CHECK_EQ(created + busy, TWINS);
    CHECK_EQ(originals, 1);
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM shop.orders"), 1);
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM outbox.event"), 1);
    service_check_keys(&rig);
}

/* --- killed at every point ---------------------------------------------------------------------------------------- */

static const char *const order_points[] = {"order-before",      "order-after-key",     "order-after-order",
                                           "order-after-event", "order-before-commit", "order-after-commit"};
static const char *const refund_points[] = {"refund-before",        "refund-after-key",    "refund-before-start", "refund-after-start",
                                            "refund-after-call",    "refund-after-refund", "refund-after-order",  "refund-after-event",
                                            "refund-before-commit", "refund-after-commit"};

#define N_OF(array) (sizeof(array) / sizeof *(array))

/* Every request is hit at its point once, and is repeated until it is answered. */
static void insist_through(struct service_rig *rig, const char *path, const char *body, const char *point, const char *action)
{
    struct wire_answer first, again;
    char fault[80], key[80];

    (void)snprintf(fault, sizeof fault, "%s:1:%s", point, action);
    (void)snprintf(key, sizeof key, "%s-%s", point, action);
    service_fault(rig, fault);
    first = service_insist(rig, path, key, body);
    again = service_post(rig, path, key, body);
    CHECK_EQ(first.status, 201);
    CHECK_EQ(again.status, 201);
    CHECK_STR(again.body, first.body);
    CHECK_STR(wire_header(&again, "Location"), wire_header(&first, "Location"));
    CHECK_STR(wire_header(&again, "ETag"), wire_header(&first, "ETag"));
    CHECK_STR(wire_header(&again, "Idempotent-Replayed"), "true");
}

static void orders_through(struct service_rig *rig, const char *action)
{
    for (size_t i = 0; i < N_OF(order_points); i++)
        insist_through(rig, "/orders", SERVICE_ORDER, order_points[i], action);
}

TEST_WITHIN(demo_service_orders_through_kills, 180)
{
    struct service_rig rig = SERVICE_START("--threads", "2");

    orders_through(&rig, "kill");
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM shop.orders"), N_OF(order_points));
    service_check_keys(&rig);
}

TEST_WITHIN(demo_service_orders_through_errors, 120)
{
    struct service_rig rig = SERVICE_START("--threads", "2");

    orders_through(&rig, "error");
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM shop.orders"), N_OF(order_points));
    service_check_keys(&rig);
}

static const char *const change_points[] = {"change-before", "change-after-order", "change-after-event", "change-before-commit",
                                            "change-after-commit"};

/* A request without a key, hit at its point once and repeated as it is, until it is answered with `status`. */
static void change_through(struct service_rig *rig, const char *method, const char *path, const char *headers, const char *body,
                           const char *point, int status)
{
    struct wire_answer answer;
    char fault[80];

    (void)snprintf(fault, sizeof fault, "%s:1:kill", point);
    service_fault(rig, fault);
    CHECK_EQ(wire_ask(rig->port, method, path, headers, body).status, 0);
    CHECK_EQ(process_wait(&rig->server, 20), 128 + SIGKILL);
    service_restart(rig);
    answer = wire_ask(rig->port, method, path, headers, body);
    CHECK_EQ(answer.status, status);
}

/* Addresses and cancelling need no key: a repetition changes nothing more, and writes no second event. */
TEST_WITHIN(demo_service_changes_through_kills, 180)
{
    struct service_rig rig = SERVICE_START("--threads", "2");

    for (size_t i = 0; i < N_OF(change_points); i++) {
        const char *id = service_place(&rig, change_points[i]);
        char path[80];

        (void)snprintf(path, sizeof path, "/orders/%s/address", id);
        change_through(&rig, "PUT", path, SERVICE_JSON "If-Match: \"1\"\r\n", "{\"address\":\"2 Side St\"}", change_points[i], 200);
        (void)snprintf(path, sizeof path, "/orders/%s", id);
        change_through(&rig, "DELETE", path, "", NULL, change_points[i], 204);
    }
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM shop.orders WHERE status = 'cancelled' AND version = 3"), N_OF(change_points));
    CHECK_EQ(service_number(&rig, "SELECT count(DISTINCT (key, convert_from(payload, 'UTF8')::json->>'version')) FROM outbox.event"),
             3 * N_OF(change_points));
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM outbox.event"), 3 * N_OF(change_points));
}

/* --- refunds: the card processor is asked in between -------------------------------------------------------------- */

struct refund_rig {
    struct service_rig service;
    struct program card;
    char path[80]; /* of one order's refunds */
};

static struct refund_rig refunds_start(void)
{
    struct refund_rig rig = {.service = {.port = 0}};

    rig.service = SERVICE_START("--threads", "4", "--lease-ms", "2000", "--card-ms", "1000", "--wait-ms", "200", "--sweep-ms", "600000",
                                "--card-url", program_text("http://127.0.0.1:%d", free_port()));
    return rig;
}

static void card_start(struct refund_rig *rig)
{
    rig->card = program_serve("card-processor", (const char *const[]){"--database", rig->service.db.conninfo, NULL});
}

/* The service again, with the card processor and `sweep_ms`. */
static void refunds_with_card(struct refund_rig *rig, const char *sweep_ms)
{
    const char **arguments = rig->service.arguments;

    card_start(rig);
    process_signal(&rig->service.server, SIGTERM);
    CHECK_EQ(process_wait(&rig->service.server, 20), 0);
    arguments[9] = sweep_ms;
    arguments[11] = program_text("%s", rig->card.url);
    service_restart(&rig->service);
}

static void order_for_refunds(struct refund_rig *rig)
{
    (void)snprintf(rig->path, sizeof rig->path, "/orders/%s/refunds", service_place(&rig->service, "order"));
}

/* `n` refunds of 10 cents each, each done once everywhere. */
static void refunds_check(const struct refund_rig *rig, int64_t n)
{
    CHECK_EQ(service_number(&rig->service, "SELECT count(*) FROM shop.refunds WHERE state = 'COMPLETED'"), n);
    CHECK_EQ(service_number(&rig->service, "SELECT count(*) FROM shop.refunds"), n);
    CHECK_EQ(service_number(&rig->service, "SELECT count(*) FROM card.movement"), n);
    CHECK_EQ(service_number(&rig->service, "SELECT sum(refunded_cents) FROM shop.orders"), n * 10);
    CHECK_EQ(service_number(&rig->service, "SELECT version FROM shop.orders"), n + 1);
    CHECK_EQ(service_number(&rig->service, "SELECT count(*) FROM outbox.event WHERE headers->>'type' = 'order-refunded'"), n);
    service_check_keys(&rig->service);
}

TEST_WITHIN(demo_service_refunds_through_kills, 300)
{
    struct refund_rig rig = refunds_start();

    refunds_with_card(&rig, "600000");
    order_for_refunds(&rig);
    for (size_t i = 0; i < N_OF(refund_points); i++)
        insist_through(&rig.service, rig.path, "{\"amount_cents\":10}", refund_points[i], "kill");
    refunds_check(&rig, N_OF(refund_points));
}

TEST_WITHIN(demo_service_refunds_through_errors, 180)
{
    struct refund_rig rig = refunds_start();

    refunds_with_card(&rig, "600000");
    order_for_refunds(&rig);
    for (size_t i = 0; i < N_OF(refund_points); i++)
        insist_through(&rig.service, rig.path, "{\"amount_cents\":10}", refund_points[i], "error");
    refunds_check(&rig, N_OF(refund_points));
}

TEST_WITHIN(demo_service_refund_without_a_card_processor, 120)
{
    struct refund_rig rig = refunds_start();
    struct wire_answer answer;
    char path[80];

    order_for_refunds(&rig);
    answer = service_post(&rig.service, rig.path, "r", "{\"amount_cents\":10}");
    CHECK_EQ(answer.status, 503);
    CHECK_STR(wire_header(&answer, "Retry-After"), "1");
    /* Everybody sees it in progress, and the order cannot be cancelled. */
    CHECK(strstr(wire_ask(rig.service.port, "GET", rig.path, "", NULL).body, "\"IN_PROGRESS\""));
    (void)snprintf(path, sizeof path, "%.*s", (int)(strlen(rig.path) - strlen("/refunds")), rig.path);
    CHECK_EQ(wire_ask(rig.service.port, "DELETE", path, "", NULL).status, 409);
    CHECK_EQ(service_post(&rig.service, rig.path, "more", "{\"amount_cents\":991}").status, 409);
    refunds_with_card(&rig, "600000");
    CHECK_EQ(service_insist(&rig.service, rig.path, "r", "{\"amount_cents\":10}").status, 201);
    refunds_check(&rig, 1);
}

/* Nobody comes back for it. */
TEST_WITHIN(demo_service_finishes_abandoned_refunds, 120)
{
    struct refund_rig rig = refunds_start();

    refunds_with_card(&rig, "100");
    order_for_refunds(&rig);
    service_fault(&rig.service, "refund-after-call:1:kill");
    CHECK_EQ(service_post(&rig.service, rig.path, "r", "{\"amount_cents\":10}").status, 0);
    CHECK_EQ(service_number(&rig.service, "SELECT count(*) FROM card.movement"), 1);
    (void)process_wait(&rig.service.server, 10);
    service_restart(&rig.service);
    WAIT_UNTIL(service_number(&rig.service, "SELECT count(*) FROM shop.refunds WHERE state = 'COMPLETED'") == 1, 30);
    refunds_check(&rig, 1);
    CHECK_EQ(service_post(&rig.service, rig.path, "r", "{\"amount_cents\":10}").status, 201);
}

TEST_WITHIN(demo_service_stores_final_refusals_of_refunds, 60)
{
    struct refund_rig rig = refunds_start();
    struct wire_answer first, again;

    order_for_refunds(&rig);
    first = service_post(&rig.service, rig.path, "r", "{\"amount_cents\":1001}");
    CHECK_EQ(first.status, 409);
    CHECK_STR(wire_header(&first, "Retry-After"), NULL);
    again = service_post(&rig.service, rig.path, "r", "{\"amount_cents\":1001}");
    CHECK_EQ(again.status, 409);
    CHECK_STR(again.body, first.body);
    CHECK_STR(wire_header(&again, "Idempotent-Replayed"), "true");
    CHECK_EQ(service_post(&rig.service, rig.path, "r", "{\"amount_cents\":1}").status, 422);
    CHECK_EQ(service_post(&rig.service, "/orders/00000000-0000-7000-8000-000000000000/refunds", "s", "{\"amount_cents\":1}").status, 404);
    CHECK_EQ(service_number(&rig.service, "SELECT count(*) FROM shop.idempotency_keys WHERE status = 'FAILED'"), 2);
    CHECK_EQ(service_number(&rig.service, "SELECT count(*) FROM shop.refunds"), 0);
}

struct holder {
    struct service_rig *service;
    const char *path;
    struct wire_answer answer;
    pthread_t thread;
};

static void *first_run(void *context)
{
    struct holder *holder = context;

    holder->answer = service_post(holder->service, holder->path, "r", "{\"amount_cents\":10}");
    return NULL;
}

static void *second_run(void *context)
{
    struct holder *holder = context;

    holder->answer = service_insist(holder->service, holder->path, "r", "{\"amount_cents\":10}");
    return NULL;
}

static bool is_stopped(const struct service_rig *rig)
{
    char path[40], state = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)rig->server.pid);
    file = fopen(path, "re");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    (void)fclose(file);
    return state == 'T';
}

/* The card processor has answered; then the holder stands still. */
static void holder_start(struct holder *holder, void *(*run)(void *))
{
    service_fault(holder->service, "refund-after-call:1:stop");
    CHECK_EQ(pthread_create(&holder->thread, NULL, run, holder), 0);
    WAIT_UNTIL(is_stopped(holder->service), 30);
}

static int holder_end(struct holder *holder)
{
    process_signal(&holder->service->server, SIGCONT);
    CHECK_EQ(pthread_join(holder->thread, NULL), 0);
    return holder->answer.status;
}

/* A holder that stood still wakes up while another has taken over and is not done yet: its lock_token is old, so it writes nothing. */
TEST_WITHIN(demo_service_fences_a_holder_that_was_taken_over, 120)
{
    struct refund_rig rig = refunds_start();
    struct service_rig other;
    struct holder first = {&rig.service, rig.path, {0}, 0}, second = {&other, rig.path, {0}, 0};

    refunds_with_card(&rig, "600000");
    order_for_refunds(&rig);
    other = rig.service;
    other.port = free_port();
    service_restart(&other);
    holder_start(&first, first_run);
    holder_start(&second, second_run);
    CHECK_EQ(service_number(&rig.service, "SELECT lock_token FROM shop.idempotency_keys WHERE key = 'r'"), 2);
    CHECK_EQ(holder_end(&first), 409);
    CHECK_STR(wire_header(&first.answer, "Retry-After"), "1");
    CHECK_EQ(service_number(&rig.service, "SELECT count(*) FROM shop.refunds WHERE state = 'IN_PROGRESS'"), 1);
    CHECK_EQ(holder_end(&second), 201);
    CHECK_EQ(service_insist(&rig.service, rig.path, "r", "{\"amount_cents\":10}").status, 201);
    refunds_check(&rig, 1);
}

/* --- with a rule broken ------------------------------------------------------------------------------------------- */

#define MUTANT(name) TEST_SOURCE_FOLDER "/build/mutant-" name "/order-service"

/* The key in a transaction of its own, the response in another: killed in between, a retry places a second order. */
TEST_WITHIN(demo_service_mutant_key_alone, 180)
{
    struct service_rig rig =
        service_start_of(MUTANT("KEY_ALONE"), (const char *const[]){"--threads", "2", "--lease-ms", "200", "--card-ms", "100", NULL});

    orders_through(&rig, "kill");
    CHECK(service_number(&rig, "SELECT count(*) FROM shop.orders") > (int64_t)N_OF(order_points));
    CHECK(service_wrong(&rig) > 0);
}

/* An identity that is made when the event is written has nothing to do with the key. */
TEST_WITHIN(demo_service_mutant_event_id_new, 60)
{
    struct service_rig rig = service_start_of(MUTANT("EVENT_ID_NEW"), (const char *const[]){"--threads", "2", NULL});

    service_place(&rig, "k");
    CHECK(service_wrong(&rig) > 0);
}
