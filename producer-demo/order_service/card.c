/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/card.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "producer-demo/lib/fetch.h"

/* Who we are to the card processor: our keys are not those of its other clients. */
#define CLIENT "X-Client-Id: order-service"

static void answer_explain(const struct fetch_response *answer, char *ret_reason, size_t reason_size)
{
    if (answer->status == 0)
        (void)snprintf(ret_reason, reason_size, "the card processor gave no answer: %s", answer->reason);
    else
        (void)snprintf(ret_reason, reason_size, "the card processor answered %d", answer->status);
}

/* Does it know the key? CARD_UNKNOWN: not yet, or no answer. */
static enum card_outcome movement_find(const struct shop *shop, struct fetch *fetch, const struct card_call *call)
{
    char url[500];
    struct fetch_response answer;
    const char *const headers[] = {CLIENT, NULL};

    (void)snprintf(url, sizeof url, "%s/movements/%s", shop->settings.card_url, call->key);
    fetch_send(fetch, &(struct fetch_request){.method = "GET", .url = url, .headers = headers, .timeout_ms = (long)shop->settings.card_ms},
               &answer);
    return answer.status == 200 ? CARD_DONE : CARD_UNKNOWN;
}

/* A refusal that says "not now" (in progress, too many, too slow) is none. */
static bool is_final(int status)
{
    return status >= 400 && status < 500 && status != 408 && status != 409 && status != 425 && status != 429;
}

static enum card_outcome refund_ask(const struct shop *shop, struct fetch *fetch, const struct card_call *call, char *ret_reason,
                                    size_t reason_size)
{
    char url[500], body[200], key[80];
    struct fetch_response answer;
    const char *const headers[] = {CLIENT, "Content-Type: application/json", key, NULL};

    (void)snprintf(url, sizeof url, "%s/refunds", shop->settings.card_url);
    (void)snprintf(key, sizeof key, "Idempotency-Key: %s", call->key);
    (void)snprintf(body, sizeof body, "{\"order_id\":\"%s\",\"amount_cents\":%" PRId64 "}", call->order_id, call->amount_cents);
    fetch_send(
        fetch,
        &(struct fetch_request){.method = "POST", .url = url, .headers = headers, .body = body, .timeout_ms = (long)shop->settings.card_ms},
        &answer);
    if (answer.status == 200 || answer.status == 201)
        return CARD_DONE;
    answer_explain(&answer, ret_reason, reason_size);
    return is_final(answer.status) ? CARD_REFUSED : CARD_UNKNOWN;
}

enum card_outcome card_refund(const struct shop *shop, const struct card_call *call, char *ret_reason, size_t reason_size)
{
    struct fetch *fetch = fetch_open();
    enum card_outcome outcome = CARD_UNKNOWN;

    if (call->repeated)
        outcome = movement_find(shop, fetch, call);
    if (outcome == CARD_UNKNOWN)
        outcome = refund_ask(shop, fetch, call, ret_reason, reason_size);
    if (outcome == CARD_UNKNOWN && !call->repeated)
        outcome = movement_find(shop, fetch, call);
    fetch_close(fetch);
    return outcome;
}
