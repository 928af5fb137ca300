/* SPDX-License-Identifier: BSD-2-Clause */
/* The keys of requests that must not be carried out twice, and what each of them was answered: shop.idempotency_keys.
 *
 * A key belongs to a scope (the caller's X-Client-Id) and stands for one request (its fingerprint). Its row is in one of these states:
 *
 *   state        who sees it                       what is stored                what the next request with it gets
 *   -----------  --------------------------------  ----------------------------  ----------------------------------------------------
 *   (no row)     -                                 nothing                       it is carried out
 *   IN_PROGRESS  of an order: nobody. Key, order,  key, fingerprint              it waits on the key's index entry up to 2 s: then the
 *                event and response are one                                      response, or 409 with Retry-After. If the first one
 *                transaction                                                     dies all of it is gone: it is carried out
 *   IN_PROGRESS  of a refund: everybody, since     the same, event_id, refund,   it waits up to 2 s: then the response, or 409 with
 *                the card processor is asked       recovery_point "started",     Retry-After. Once locked_at is older than the lease, it
 *                between two transactions          lock_token, locked_at         takes over: lock_token + 1, asks the card processor
 *                                                                                what became of the call, and goes on from there
 *   COMPLETED    everybody                         status, headers and body of   the stored response, byte for byte
 *                                                  the response, event_id
 *   FAILED       everybody                         status, headers and body of   the stored response, byte for byte: the refusal is
 *                                                  the refusal (404, 409, 410)   final, another try is another intent and another key
 *
 * May be repeated with the same key: whatever was answered with 409 "in progress" or 503, or not at all. Such answers are not stored, and
 * nothing was changed, or the repeated request finds what was. A request that is not valid (400, 413, 415) is refused before its key is
 * looked at, and stores nothing. The same key with another fingerprint is refused with 422 in every state.
 *
 * COMPLETED and FAILED rows are deleted (sweep.h) some time after 24 hours; until then the response is given. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_KEYS_H
#define PRODUCER_DEMO_ORDER_SERVICE_KEYS_H

#include <jansson.h>

#include "producer-demo/lib/key.h"
#include "producer-demo/order_service/work.h"

/* A request's hold on its key. */
struct claim {
    char scope[SHOP_SCOPE_MAX + 1], key[KEY_MAX + 1], fingerprint[65];
    /* From the row, once it is held. */
    char event_id[37];  /* of the one event that the request writes */
    char card_key[37];  /* under which the card processor is asked */
    int64_t lock_token; /* of this holder */
    char refund_id[37]; /* after a takeover; else "" */
};

/* The scope alone, for requests without a key; false: the answer (400) is filled in. */
bool scope_read(const struct web_request *request, char ret_scope[SHOP_SCOPE_MAX + 1], struct web_response *response);
/* Scope and key from the headers, the fingerprint of the rest; false: the answer (400) is filled in. */
bool claim_read(const struct web_request *request, const char *path, const json_t *body, struct claim *ret_claim,
                struct web_response *response);

enum claim_verdict {
    CLAIM_NEW,        /* the row was inserted by this transaction: carry the request out */
    CLAIM_TAKEN_OVER, /* an abandoned row is held now: go on from its recovery point */
    CLAIM_ANSWERED,   /* the answer is filled in: a replay or a mismatch */
    CLAIM_BUSY,       /* somebody else has it in progress, for all to see */
    CLAIM_TROUBLE     /* see work_explain */
};

/* Insert the key's row, or look at the one that is there. */
enum claim_verdict claim_begin(struct work *work, struct claim *claim, struct web_response *response);
/* Take over a row whose lease has run out, whatever its fingerprint (the sweep's part); claim has scope and key. */
enum claim_verdict claim_take_over(struct work *work, struct claim *claim);
/* Make what is known of a refund in progress visible with this transaction's commit. */
bool claim_start(struct work *work, const struct claim *claim, const char *refund_id);
/* For a later transaction of the same holder: lock the row again. False without trouble: it was taken over meanwhile, stop. */
bool claim_hold(struct work *work, const struct claim *claim);
/* Store the response in the row: COMPLETED if its status is below 400, else FAILED. */
bool claim_finish(struct work *work, const struct claim *claim, const struct web_response *response);
/* Let go of a row in progress: the next request may take over at once. */
bool claim_release(struct work *work, const struct claim *claim);

#endif
