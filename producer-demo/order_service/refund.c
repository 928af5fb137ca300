/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/refund.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "producer-demo/lib/points.h"
#include "producer-demo/lib/uuid.h"
#include "producer-demo/order_service/body.h"
#include "producer-demo/order_service/card.h"
#include "producer-demo/order_service/order.h"
#include "producer-demo/order_service/requests.h"

/* --- the first transaction ---------------------------------------------------------------------------------------- */

bool refund_load(struct work *work, struct refund *refund)
{
    if (!WORK_DO(work, "SELECT order_id, amount_cents, card_key FROM shop.refunds WHERE id = $1", refund->claim.refund_id) ||
        work_rows(work) == 0)
        return false;
    (void)snprintf(refund->id, sizeof refund->id, "%s", refund->claim.refund_id);
    (void)snprintf(refund->order_id, sizeof refund->order_id, "%s", work_text(work, 0, 0));
    (void)snprintf(refund->card_key, sizeof refund->card_key, "%s", work_text(work, 0, 2));
    refund->amount_cents = work_number(work, 0, 1);
    refund->repeated = true;
    return true;
}

/* false: the answer is filled in. */
static bool refund_allowed(struct work *work, const struct refund *refund, const struct order *order, struct web_response *response)
{
    int64_t left;

    if (!order->json) {
        shop_answer_missing(response);
        return false;
    }
    if (order->cancelled) {
        shop_answer_cancelled(response);
        return false;
    }
    left = order->amount_cents - order->refunded_cents - order_pending_cents(work, order);
    if (refund->amount_cents <= left)
        return true;
    web_response_problem(response, 409, "more than was paid", "at most %" PRId64 " cents of this order can be given back", left);
    return false;
}

static void refund_insert(struct work *work, struct refund *refund)
{
    char amount[24];

    uuid_print(uuid_make(), refund->id);
    (void)snprintf(refund->card_key, sizeof refund->card_key, "%s", refund->claim.card_key);
    (void)snprintf(amount, sizeof amount, "%" PRId64, refund->amount_cents);
    (void)WORK_DO(work, "INSERT INTO shop.refunds (id, order_id, amount_cents, state, card_key) VALUES ($1, $2, $3, 'IN_PROGRESS', $4)",
                  refund->id, refund->order_id, amount, refund->card_key);
    (void)claim_start(work, &refund->claim, refund->id);
}

/* The key is new: say what will be done, or that it cannot be. */
static enum claim_verdict refund_start(struct work *work, struct refund *refund, struct web_response *response)
{
    struct order order;
    bool allowed;

    (void)work_pass(work, "refund-after-key");
    (void)order_lock(work, refund->order_id, &order);
    allowed = refund_allowed(work, refund, &order, response);
    if (allowed)
        refund_insert(work, refund);
    else
        (void)claim_finish(work, &refund->claim, response);
    (void)work_pass(work, "refund-before-start");
    order_free(&order);
    if (!work_commit(work))
        return CLAIM_TROUBLE;
    if (!allowed)
        shop_count(work->shop, COUNT_REFUNDS_FAILED);
    return allowed ? CLAIM_NEW : CLAIM_ANSWERED;
}

static enum claim_verdict refund_begin(const struct shop *shop, struct refund *refund, struct web_response *response)
{
    struct work work;
    enum claim_verdict verdict;

    (void)work_begin(&work, shop, "refund-before");
    verdict = claim_begin(&work, &refund->claim, response);
    if (verdict == CLAIM_NEW)
        verdict = refund_start(&work, refund, response);
    else if (verdict == CLAIM_TAKEN_OVER && !(refund_load(&work, refund) && work_commit(&work)))
        verdict = CLAIM_TROUBLE;
    if (verdict == CLAIM_TROUBLE)
        work_explain(&work, response);
    work_end(&work);
    return verdict;
}

/* --- the second --------------------------------------------------------------------------------------------------- */

static void refund_state(struct work *work, const struct refund *refund, const char *state)
{
    (void)WORK_DO(work, "UPDATE shop.refunds SET state = $2, finished_at = clock_timestamp() WHERE id = $1", refund->id, state);
    (void)work_pass(work, "refund-after-refund");
}

static void completed_answer(const struct refund *refund, const struct order *order, struct web_response *response)
{
    web_response_text(response, 201, "application/json",
                      "{\"refund_id\":\"%s\",\"order_id\":\"%s\",\"amount_cents\":%" PRId64
                      ",\"state\":\"COMPLETED\",\"refunded_cents\":%" PRId64 ",\"version\":%" PRId64 "}",
                      refund->id, refund->order_id, refund->amount_cents, order->refunded_cents, order->version);
}

static void refund_complete(struct work *work, const struct refund *refund, struct web_response *response)
{
    struct order before, after = {0};
    char amount[24], version[24];

    refund_state(work, refund, "COMPLETED");
    if (!order_lock(work, refund->order_id, &before))
        goto out;
    (void)snprintf(amount, sizeof amount, "%" PRId64, refund->amount_cents);
    (void)snprintf(version, sizeof version, "%" PRId64, before.version);
    (void)WORK_DO(work,
                  "UPDATE shop.orders SET refunded_cents = refunded_cents + $3, version = version + 1 WHERE id = $1 AND version = $2 "
                  "RETURNING " ORDER_COLUMNS,
                  refund->order_id, version, amount);
    (void)work_pass(work, "refund-after-order");
    if (!order_take(work, &after))
        goto out;
    (void)order_tell(work, &after,
                     &(struct order_event){.type = "order-refunded",
                                           .event_id = refund->claim.event_id,
                                           .client_id = refund->claim.scope,
                                           .key = refund->claim.key,
                                           .delta_cents = -refund->amount_cents});
    (void)work_pass(work, "refund-after-event");
    completed_answer(refund, &after, response);
out:
    order_free(&after);
    order_free(&before);
}

static void refund_refuse(struct work *work, const struct refund *refund, const char *reason, struct web_response *response)
{
    refund_state(work, refund, "FAILED");
    web_response_problem(response, 409, "the refund was refused", "%s", reason);
}

static void refund_finish(const struct shop *shop, const struct refund *refund, enum card_outcome outcome, const char *reason,
                          struct web_response *response)
{
    struct work work;

    (void)work_begin(&work, shop, "refund-after-call");
    if (!claim_hold(&work, &refund->claim)) {
        shop_answer_busy(shop, response, "another request has taken this refund over");
        goto out;
    }
    if (outcome == CARD_DONE)
        refund_complete(&work, refund, response);
    else
        refund_refuse(&work, refund, reason, response);
    (void)claim_finish(&work, &refund->claim, response);
    (void)work_pass(&work, "refund-before-commit");
    if (work_commit(&work))
        shop_count(shop, outcome == CARD_DONE ? COUNT_REFUNDS_COMPLETED : COUNT_REFUNDS_FAILED);
    (void)work_pass(&work, "refund-after-commit");
out:
    if (work.trouble[0])
        work_explain(&work, response);
    work_end(&work);
}

/* Nobody can say what became of the call: the next one may try at once. Failing that, the lease runs out. */
static void refund_let_go(const struct shop *shop, const struct refund *refund, const char *reason, struct web_response *response)
{
    struct work work;

    if (work_begin(&work, shop, "refund-after-call") && claim_release(&work, &refund->claim))
        (void)work_commit(&work);
    work_end(&work);
    shop_count(shop, COUNT_REFUNDS_UNKNOWN);
    shop_answer_unavailable(shop, response, reason);
}

void refund_go_on(const struct shop *shop, struct refund *refund, struct web_response *response)
{
    char reason[400] = "";
    const struct card_call call = {refund->card_key, refund->order_id, refund->amount_cents, refund->repeated};
    enum card_outcome outcome = CARD_UNKNOWN;

    if (points_pass("refund-after-start"))
        (void)snprintf(reason, sizeof reason, "a fault point failed");
    else
        outcome = card_refund(shop, &call, reason, sizeof reason);
    if (outcome == CARD_UNKNOWN)
        refund_let_go(shop, refund, reason, response);
    else
        refund_finish(shop, refund, outcome, reason, response);
}

/* --- the request -------------------------------------------------------------------------------------------------- */

static int64_t clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Its twin holds no lock that could be waited for. */
static enum claim_verdict refund_begin_patiently(const struct shop *shop, struct refund *refund, struct web_response *response)
{
    const int64_t deadline_ms = clock_ms() + shop->settings.wait_ms;
    const struct timespec pause = {0, 50000000};
    enum claim_verdict verdict;

    while ((verdict = refund_begin(shop, refund, response)) == CLAIM_BUSY && clock_ms() < deadline_ms)
        (void)nanosleep(&pause, NULL);
    return verdict;
}

static void refund_carry_out(const struct shop *shop, struct refund *refund, struct web_response *response)
{
    switch (refund_begin_patiently(shop, refund, response)) {
    case CLAIM_NEW:
    case CLAIM_TAKEN_OVER:
        refund_go_on(shop, refund, response);
        break;
    case CLAIM_BUSY:
        shop_answer_busy(shop, response, "this refund is being made");
        break;
    case CLAIM_ANSWERED:
    case CLAIM_TROUBLE:
        break;
    }
}

void refund_make(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    struct refund refund = {0};
    const struct body_field field = {.name = "amount_cents", .number = &refund.amount_cents, .number_max = SHOP_AMOUNT_MAX};
    json_t *body = body_read(request, &field, 1, response);
    char path[80];

    (void)snprintf(refund.order_id, sizeof refund.order_id, "%s", id);
    (void)snprintf(path, sizeof path, "/orders/%s/refunds", id);
    if (body && claim_read(request, path, body, &refund.claim, response))
        refund_carry_out(shop, &refund, response);
    json_decref(body);
}

/* The rows as they are: refunds in progress are seen by everybody. */
void refunds_show(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    struct order order = {0};
    struct work work;

    (void)request;
    (void)work_begin(&work, shop, "read-before");
    if (!order_find(&work, id, &order))
        shop_answer_missing(response);
    else if (order.cancelled)
        shop_answer_cancelled(response);
    else if (WORK_DO(
                 &work,
                 "SELECT coalesce(json_agg(json_build_object('refund_id', id, 'order_id', order_id, 'amount_cents', amount_cents, 'state', "
                 "state) ORDER BY created_at, id), '[]') FROM shop.refunds WHERE order_id = $1",
                 id))
        web_response_text(response, 200, "application/json", "{\"refunds\":%s}", work_text(&work, 0, 0));
    if (work.trouble[0])
        work_explain(&work, response);
    order_free(&order);
    work_end(&work);
}
