/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer-demo/lib/uuid.h"
#include "producer-demo/order_service/fingerprint.h"

/* What is derived from a key has numbers; 0 is the call, events count from 1. */
#define NUMBER_OF_CARD_CALL 0
#define NUMBER_OF_EVENT     1

bool scope_read(const struct web_request *request, char ret_scope[SHOP_SCOPE_MAX + 1], struct web_response *response)
{
    const char *scope = web_request_header(request, "X-Client-Id");
    size_t n;

    if (!scope)
        scope = "anonymous";
    n = strlen(scope);
    for (const char *c = scope; *c; c++)
        if (*c <= ' ' || *c > '~')
            n = 0;
    if (n < 1 || n > SHOP_SCOPE_MAX) {
        web_response_problem(response, 400, "X-Client-Id is not valid", "it is 1 to %d visible ASCII characters", SHOP_SCOPE_MAX);
        return false;
    }
    memcpy(ret_scope, scope, n + 1);
    return true;
}

bool claim_read(const struct web_request *request, const char *path, const json_t *body, struct claim *ret_claim,
                struct web_response *response)
{
    const char *header = web_request_header(request, "Idempotency-Key");

    *ret_claim = (struct claim){.lock_token = 1};
    if (!scope_read(request, ret_claim->scope, response))
        return false;
    if (!key_read(header, ret_claim->key)) {
        web_response_problem(response, 400, header ? "Idempotency-Key is not valid" : "Idempotency-Key is missing",
                             "send one header with a token, or a string in double quotes, of 1 to %d characters: one key for each intent, "
                             "the same for every repetition of it",
                             KEY_MAX);
        return false;
    }
    fingerprint_make(request->method, path, body, ret_claim->fingerprint);
    return true;
}

/* --- begin -------------------------------------------------------------------------------------------------------- */

static void claim_derive(struct claim *claim, int64_t created_ms)
{
    uuid_print(uuid_derive(created_ms, claim->scope, claim->key, NUMBER_OF_EVENT), claim->event_id);
    uuid_print(uuid_derive(created_ms, claim->scope, claim->key, NUMBER_OF_CARD_CALL), claim->card_key);
}

static bool row_insert(struct work *work, struct claim *claim)
{
    char hours[24];

    (void)snprintf(hours, sizeof hours, "%" PRId64 "h", work->shop->settings.keep_hours);
    if (!WORK_DO(work,
                 "INSERT INTO shop.idempotency_keys (scope, key, fingerprint, status, locked_by, expires_at) "
                 "VALUES ($1, $2, decode($3, 'hex'), 'IN_PROGRESS', $4, clock_timestamp() + $5::interval) "
                 "ON CONFLICT DO NOTHING RETURNING round(extract(epoch FROM created_at) * 1000)",
                 claim->scope, claim->key, claim->fingerprint, work->shop->name, hours) ||
        work_rows(work) == 0)
        return false;
    claim_derive(claim, work_number(work, 0, 0));
    return true;
}

/* The columns of row_find. */
enum {
    ROW_SAME,
    ROW_STATUS,
    ROW_CODE,
    ROW_LOCATION,
    ROW_ETAG,
    ROW_BODY
};

/* The rows of a response are read as they were when the row was committed: this statement sees what the INSERT ran into. */
static bool row_find(struct work *work, const struct claim *claim)
{
    return WORK_DO(
        work,
        "SELECT fingerprint = decode($3, 'hex'), status, response_code, response_headers->>'Location', "
        "response_headers->>'ETag', convert_from(response_body, 'UTF8') FROM shop.idempotency_keys WHERE scope = $1 AND key = $2",
        claim->scope, claim->key, claim->fingerprint);
}

static void row_replay(const struct work *work, struct web_response *response)
{
    int status = (int)work_number(work, 0, ROW_CODE);

    shop_count(work->shop, COUNT_KEY_REPLAY);
    web_response_text(response, status, status < 400 ? "application/json" : "application/problem+json", "%s", work_text(work, 0, ROW_BODY));
    if (*work_text(work, 0, ROW_LOCATION))
        web_response_header(response, "Location", "%s", work_text(work, 0, ROW_LOCATION));
    if (*work_text(work, 0, ROW_ETAG))
        web_response_header(response, "ETag", "%s", work_text(work, 0, ROW_ETAG));
    web_response_header(response, "Idempotent-Replayed", "true");
}

static void row_mismatch(const struct work *work, struct web_response *response)
{
    shop_count(work->shop, COUNT_KEY_MISMATCH);
    web_response_problem(response, 422, "this key was used for another request",
                         "make a new key for a new intent, and repeat a request as it was");
}

enum claim_verdict claim_begin(struct work *work, struct claim *claim, struct web_response *response)
{
    enum claim_verdict verdict;

    /* In between the sweep may have deleted what was in the way. */
    do {
        if (row_insert(work, claim)) {
            shop_count(work->shop, COUNT_KEY_NEW);
            return CLAIM_NEW;
        }
        if (!row_find(work, claim))
            return CLAIM_TROUBLE;
    } while (work_rows(work) == 0);
    if (strcmp(work_text(work, 0, ROW_SAME), "t") != 0) {
        row_mismatch(work, response);
        return CLAIM_ANSWERED;
    }
    if (strcmp(work_text(work, 0, ROW_STATUS), "IN_PROGRESS") != 0) {
        row_replay(work, response);
        return CLAIM_ANSWERED;
    }
    verdict = claim_take_over(work, claim);
    return verdict;
}

enum claim_verdict claim_take_over(struct work *work, struct claim *claim)
{
    char lease[24];

    (void)snprintf(lease, sizeof lease, "%" PRId64 "ms", work->shop->settings.lease_ms);
    if (!WORK_DO(work,
                 "UPDATE shop.idempotency_keys SET lock_token = lock_token + 1, locked_at = clock_timestamp(), locked_by = $3 "
                 "WHERE scope = $1 AND key = $2 AND status = 'IN_PROGRESS' AND locked_at < clock_timestamp() - $4::interval "
                 "RETURNING lock_token, event_id, refund_id, round(extract(epoch FROM created_at) * 1000)",
                 claim->scope, claim->key, work->shop->name, lease))
        return CLAIM_TROUBLE;
    if (work_rows(work) == 0)
        return CLAIM_BUSY;
    claim_derive(claim, work_number(work, 0, 3));
    claim->lock_token = work_number(work, 0, 0);
#ifndef MUTANT_KEY_ALONE /* which has stored none yet */
    (void)snprintf(claim->event_id, sizeof claim->event_id, "%s", work_text(work, 0, 1));
#endif
    (void)snprintf(claim->refund_id, sizeof claim->refund_id, "%s", work_text(work, 0, 2));
    shop_count(work->shop, COUNT_KEY_TAKEOVER);
    return CLAIM_TAKEN_OVER;
}

/* --- later -------------------------------------------------------------------------------------------------------- */

bool claim_start(struct work *work, const struct claim *claim, const char *refund_id)
{
    return WORK_DO(
        work,
        "UPDATE shop.idempotency_keys SET recovery_point = 'started', locked_at = clock_timestamp(), refund_id = $3, event_id = $4 "
        "WHERE scope = $1 AND key = $2",
        claim->scope, claim->key, refund_id, claim->event_id);
}

/* Every write of a holder is for its own lock_token only. */
static bool held_do(struct work *work, const struct claim *claim, const char *sql)
{
    char token[24];

    (void)snprintf(token, sizeof token, "%" PRId64, claim->lock_token);
    return WORK_DO(work, sql, claim->scope, claim->key, token);
}

bool claim_hold(struct work *work, const struct claim *claim)
{
    return held_do(work, claim,
                   "SELECT 1 FROM shop.idempotency_keys WHERE scope = $1 AND key = $2 AND lock_token = $3 AND status = 'IN_PROGRESS' "
                   "FOR UPDATE") &&
           work_rows(work) == 1;
}

bool claim_release(struct work *work, const struct claim *claim)
{
    return held_do(work, claim,
                   "UPDATE shop.idempotency_keys SET locked_at = '-infinity' "
                   "WHERE scope = $1 AND key = $2 AND lock_token = $3 AND status = 'IN_PROGRESS'");
}

static char *headers_print(const struct web_response *response)
{
    json_t *headers = json_object();
    char *text;

    for (int i = 0; headers && i < response->headers_n; i++)
        (void)json_object_set_new(headers, response->headers[i].name, json_string(response->headers[i].value));
    text = json_dumps(headers, JSON_COMPACT);
    json_decref(headers);
    if (!text)
        abort();
    return text;
}

bool claim_finish(struct work *work, const struct claim *claim, const struct web_response *response)
{
    char code[12], *headers = headers_print(response);
    bool done;

    (void)snprintf(code, sizeof code, "%d", response->status);
    done = WORK_DO(work,
                   "UPDATE shop.idempotency_keys SET status = $3, response_code = $4, response_headers = $5, "
                   "response_body = convert_to($6, 'UTF8'), event_id = $7, recovery_point = NULL WHERE scope = $1 AND key = $2",
                   claim->scope, claim->key, response->status < 400 ? "COMPLETED" : "FAILED", code, headers, response->body,
                   response->status < 400 ? claim->event_id : NULL);
    free(headers);
    return done;
}
