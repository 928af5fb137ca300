/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/card_processor/card.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "producer-demo/card_processor/movements.h"
#include "producer-demo/lib/points.h"
#include "producer-demo/lib/uuid.h"

#define AMOUNT_MAX 100000000 /* cents */

const char *const card_points[] = {"before-movement", "after-movement", NULL};

enum card_count {
    COUNT_CHARGES,
    COUNT_REFUNDS,
    COUNT_REPLAYS,
    COUNT_MISMATCHES,
    COUNT_REFUSALS,
    COUNT_UNAVAILABLE,
    COUNTS
};

static const struct tally_row tally_rows[COUNTS] = {
    [COUNT_CHARGES] = {"movements_total", "kind=\"charge\"", "Movements of money made."},
    [COUNT_REFUNDS] = {"movements_total", "kind=\"refund\"", "Movements of money made."},
    [COUNT_REPLAYS] = {"replays_total", NULL, "Requests whose key had been used: answered with the movement that was made then."},
    [COUNT_MISMATCHES] = {"mismatches_total", NULL, "Requests whose key stands for another movement: refused."},
    [COUNT_REFUSALS] = {"refusals_total", NULL, "Requests that no key could make right."},
    [COUNT_UNAVAILABLE] = {"unavailable_total", NULL, "Requests that failed because of the database."},
};

struct tally *card_tally_open(void)
{
    char reason[200] = "";
    struct tally *tally = tally_open(NULL, "card", tally_rows, COUNTS, reason, sizeof reason);

    if (!tally)
        abort();
    return tally;
}

/* --- what a request asks for -------------------------------------------------------------------------------------- */

struct card_intent {
    char scope[KEY_MAX + 1], key[KEY_MAX + 1], order_id[37];
    struct movement_request request; /* points to these */
};

static bool refuse(struct web_response *response, const char *title, const char *detail)
{
    web_response_problem(response, 400, title, "%s", detail);
    return false;
}

static bool scope_read(const struct web_request *request, struct web_response *response, char ret_scope[KEY_MAX + 1])
{
    const char *header = web_request_header(request, "X-Client-Id");

    if (key_read(header ? header : "anonymous", ret_scope))
        return true;
    return refuse(response, "X-Client-Id cannot be read", "Write it as one word of at most 255 characters.");
}

static bool names_read(const struct web_request *request, struct web_response *response, struct card_intent *intent)
{
    const char *header = web_request_header(request, "Idempotency-Key");

    if (!scope_read(request, response, intent->scope))
        return false;
    if (key_read(header, intent->key))
        return true;
    return refuse(response, header ? "Idempotency-Key cannot be read" : "Idempotency-Key is missing",
                  "Make one key for each intent, of at most 255 characters, and send it with every try.");
}

/* Exactly the two members, so that two bodies are the same when these are. */
static bool body_read(const struct web_request *request, struct web_response *response, struct card_intent *intent)
{
    json_t *body = json_loadb(request->body, request->body_n, JSON_REJECT_DUPLICATES, NULL);
    const char *order_id = NULL;
    json_int_t cents = 0;
    struct uuid id;
    bool fine = body && json_unpack_ex(body, NULL, JSON_STRICT, "{s:s, s:I}", "order_id", &order_id, "amount_cents", &cents) == 0 &&
                uuid_read(order_id, &id) && cents >= 1 && cents <= AMOUNT_MAX;

    if (fine) {
        uuid_print(id, intent->order_id);
        intent->request.amount_cents = cents;
    }
    json_decref(body);
    return fine || refuse(response, "The body cannot be read",
                          "Send {\"order_id\": UUID, \"amount_cents\": N}, N an integer from 1 to 100000000, and nothing else.");
}

/* --- what it is answered ------------------------------------------------------------------------------------------ */

static void respond_movement(struct web_response *response, int status, const struct movement *movement)
{
    json_t *body = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s}", "id", movement->id, "key", movement->key, "kind", movement->kind, "order_id",
                             movement->order_id, "amount_cents", (json_int_t)movement->amount_cents, "at", movement->at);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    if (!text)
        abort();
    json_decref(body);
    response->status = status;
    response->content_type = "application/json";
    response->body = text;
    response->body_n = strlen(text);
}

static void respond_unavailable(const struct card *card, struct web_response *response, const char *reason)
{
    tally_add(card->tally, COUNT_UNAVAILABLE, 1);
    (void)fprintf(stderr, "card-processor: the database does not answer: %s\n", reason);
    web_response_problem(response, 503, "The database does not answer",
                         "Whether the movement was made is unknown: ask again under the same key.");
    web_response_header(response, "Retry-After", "1");
}

static void respond_outcome(const struct card *card, struct web_response *response, enum movement_outcome outcome,
                            const struct movement *movement, const char *reason)
{
    switch (outcome) {
    case MOVEMENT_MADE:
        tally_add(card->tally, movement->kind[0] == 'c' ? COUNT_CHARGES : COUNT_REFUNDS, 1);
        respond_movement(response, 201, movement);
        break;
    case MOVEMENT_REPEATED:
        tally_add(card->tally, COUNT_REPLAYS, 1);
        respond_movement(response, 200, movement);
        web_response_header(response, "Idempotent-Replayed", "true");
        break;
    case MOVEMENT_MISMATCH:
        tally_add(card->tally, COUNT_MISMATCHES, 1);
        web_response_problem(response, 422, "The key stands for another movement",
                             "Another intent needs a key of its own; GET /movements/{key} shows what this one did.");
        break;
    case MOVEMENT_NONE: /* its row went away between two statements: somebody emptied the tables */
    case MOVEMENT_UNAVAILABLE:
        respond_unavailable(card, response, reason);
        break;
    }
}

static bool point_fails(const char *point, struct web_response *response)
{
    if (!points_pass(point))
        return false;
    web_response_problem(response, 500, "It failed", "The fault point %s was told to.", point);
    return true;
}

/* --- the operations ----------------------------------------------------------------------------------------------- */

static void make(const struct card *card, const struct card_intent *intent, struct web_response *response)
{
    struct movement movement;
    char reason[200] = "";
    enum movement_outcome outcome = MOVEMENT_UNAVAILABLE;
    PGconn *db = store_take(card->store, reason, sizeof reason);

    if (db) {
        outcome = movement_make(db, &intent->request, card->ignore_keys, &movement, reason, sizeof reason);
        store_give(card->store, db);
    }
    if (outcome != MOVEMENT_MADE || !point_fails("after-movement", response))
        respond_outcome(card, response, outcome, &movement, reason);
}

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void handle_make(const struct card *card, const char *kind, const struct web_request *request, struct web_response *response)
{
    struct card_intent intent = {.request = {.kind = kind}};
    int64_t began_us = now_us();

    intent.request.scope = intent.scope;
    intent.request.key = intent.key;
    intent.request.order_id = intent.order_id;
    if (!names_read(request, response, &intent) || !body_read(request, response, &intent)) {
        tally_add(card->tally, COUNT_REFUSALS, 1);
        return;
    }
    if (!point_fails("before-movement", response))
        make(card, &intent, response);
    tally_latency(card->tally, now_us() - began_us);
}

static void handle_find(const struct card *card, const char *part, const struct web_request *request, struct web_response *response)
{
    struct movement movement;
    char scope[KEY_MAX + 1], key[KEY_MAX + 1], reason[200] = "";
    enum movement_outcome outcome = MOVEMENT_UNAVAILABLE;
    PGconn *db;

    if (!scope_read(request, response, scope))
        return;
    if (!key_read_path(part, key)) {
        (void)refuse(response, "The key cannot be read",
                     "Write it as it was sent, without quotes, and other characters as %20 and the like.");
        return;
    }
    if ((db = store_take(card->store, reason, sizeof reason))) {
        outcome = movement_find(db, scope, key, &movement, reason, sizeof reason);
        store_give(card->store, db);
    }
    if (outcome == MOVEMENT_REPEATED)
        respond_movement(response, 200, &movement);
    else if (outcome == MOVEMENT_NONE)
        web_response_problem(response, 404, "No such movement", "Nothing was made under this key by this caller, up to now.");
    else
        respond_unavailable(card, response, reason);
}

static void handle_health(const struct card *card, struct web_response *response)
{
    char reason[200] = "";
    PGconn *db = store_take(card->store, reason, sizeof reason);
    bool healthy = db && store_run(db, "SELECT 1", 0, NULL);

    if (db)
        store_give(card->store, db);
    web_response_text(response, healthy ? 200 : 503, "text/plain", healthy ? "ok\n" : "the database does not answer\n");
}

static void handle_metrics(const struct card *card, struct web_response *response)
{
    response->status = 200;
    response->content_type = "text/plain; version=0.0.4";
    response->body = tally_render(card->tally, &response->body_n);
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

static bool method_fits(const struct web_request *request, const char *method, struct web_response *response)
{
    if (strcmp(request->method, method) == 0)
        return true;
    web_response_problem(response, 405, "This path has no such method", "Use %s.", method);
    web_response_header(response, "Allow", "%s", method);
    return false;
}

void card_handle(void *context, const struct web_request *request, struct web_response *response)
{
    static const char movements[] = "/movements/";
    const struct card *card = context;
    const char *path = request->path;
    bool charge = strcmp(path, "/charges") == 0;

    if (charge || strcmp(path, "/refunds") == 0) {
        if (method_fits(request, "POST", response))
            handle_make(card, charge ? "charge" : "refund", request, response);
    } else if (strncmp(path, movements, sizeof movements - 1) == 0) {
        if (method_fits(request, "GET", response))
            handle_find(card, path + sizeof movements - 1, request, response);
    } else if (strcmp(path, "/healthz") == 0) {
        if (method_fits(request, "GET", response))
            handle_health(card, response);
    } else if (strcmp(path, "/metrics") == 0) {
        if (method_fits(request, "GET", response))
            handle_metrics(card, response);
    } else
        web_response_problem(response, 404, "No such path", "There are /charges, /refunds, /movements/{key}, /metrics and /healthz.");
}
