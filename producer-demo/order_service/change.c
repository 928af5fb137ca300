/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading an order, and the two changes of it that need no key, since repeating them changes nothing more: another address, cancelling. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer-demo/order_service/body.h"
#include "producer-demo/order_service/keys.h"
#include "producer-demo/order_service/order.h"
#include "producer-demo/order_service/requests.h"

/* --- which version ------------------------------------------------------------------------------------------------ */

#define VERSION_ANY    (-1)
#define VERSION_ABSENT (-2)

/* If-Match: "7", or * for any. false: it is neither, and the answer (400) is filled in. */
static bool version_read(const struct web_request *request, int64_t *ret_version, struct web_response *response)
{
    const char *tag = web_request_header(request, "If-Match");
    size_t digits;

    *ret_version = VERSION_ABSENT;
    if (!tag)
        return true;
    *ret_version = VERSION_ANY;
    if (strcmp(tag, "*") == 0)
        return true;
    digits = *tag == '"' ? strspn(tag + 1, "0123456789") : 0;
    if (digits < 1 || digits > 18 || strcmp(tag + 1 + digits, "\"") != 0) {
        web_response_problem(response, 400, "If-Match is not valid", "it is one ETag of this order, like \"1\" with its quotes, or *");
        return false;
    }
    *ret_version = strtoll(tag + 1, NULL, 10);
    return true;
}

static bool is_stale(const struct order *order, int64_t version)
{
    return version >= 0 && version != order->version;
}

static void stale_answer(const struct shop *shop, const struct order *order, struct web_response *response)
{
    shop_count(shop, COUNT_STALE);
    web_response_problem(response, 412, "the order has changed", "it is at version %" PRId64 "; GET it and decide again", order->version);
    web_response_header(response, "ETag", "\"%" PRId64 "\"", order->version);
}

/* --- what changes have in common ---------------------------------------------------------------------------------- */

/* The new row was returned by the UPDATE just carried out; write its event and commit. The version in the UPDATE's condition is the optimistic
 * lock; with the row locked before it always holds. */
static bool change_finish(struct work *work, const struct order_event *event, enum shop_count count, struct order *ret_order)
{
    if (!order_take(work, ret_order))
        return false;
    (void)work_pass(work, "change-after-order");
    (void)order_tell(work, ret_order, event);
    (void)work_pass(work, "change-after-event");
    (void)work_pass(work, "change-before-commit");
    if (work_commit(work))
        shop_count(work->shop, count);
    return work_pass(work, "change-after-commit");
}

/* Lock the order that shall be changed. false: there is none, or trouble; the answer is filled in. */
static bool change_begin(struct work *work, const struct shop *shop, const char *id, struct order *ret_order, struct web_response *response)
{
    (void)work_begin(work, shop, "change-before");
    if (order_lock(work, id, ret_order))
        return true;
    if (!work->trouble[0])
        shop_answer_missing(response);
    return false;
}

static void change_end(struct work *work, struct order *order, struct web_response *response)
{
    if (work->trouble[0])
        work_explain(work, response);
    order_free(order);
    work_end(work);
}

/* --- address ------------------------------------------------------------------------------------------------------ */

static void address_change(struct work *work, const struct order *before, const char *scope, const char *address,
                           struct web_response *response)
{
    struct order after = {0};
    char version[24];

    (void)snprintf(version, sizeof version, "%" PRId64, before->version);
    (void)WORK_DO(work,
                  "UPDATE shop.orders SET address = $3, version = version + 1 WHERE id = $1 AND version = $2 RETURNING " ORDER_COLUMNS,
                  before->id, version, address);
    if (change_finish(work, &(struct order_event){.type = "order-moved", .client_id = scope}, COUNT_ORDERS_MOVED, &after))
        order_answer(&after, 200, response);
    order_free(&after);
}

/* A repetition names the version before its own change: it asks for what already is, and is told so (RFC 9110, 13.1.1). */
static bool is_there_already(const struct order *order, const char *address)
{
    return strcmp(json_string_value(json_object_get(order->json, "address")), address) == 0;
}

static void address_put(const struct shop *shop, const char *id, const char *scope, const char *address, int64_t version,
                        struct web_response *response)
{
    struct order order = {0};
    struct work work;

    if (!change_begin(&work, shop, id, &order, response))
        goto out;
    if (order.cancelled)
        shop_answer_cancelled(response);
    else if (is_there_already(&order, address))
        order_answer(&order, 200, response);
    else if (is_stale(&order, version))
        stale_answer(shop, &order, response);
    else
        address_change(&work, &order, scope, address, response);
out:
    change_end(&work, &order, response);
}

void order_move(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    const char *address = NULL;
    const struct body_field field = {.name = "address", .text = &address, .text_max = SHOP_ADDRESS_MAX};
    json_t *body = body_read(request, &field, 1, response);
    char scope[SHOP_SCOPE_MAX + 1];
    int64_t version;

    if (body && scope_read(request, scope, response) && version_read(request, &version, response)) {
        if (version == VERSION_ABSENT)
            web_response_problem(response, 428, "If-Match is missing", "send the ETag of the order as you know it");
        else
            address_put(shop, id, scope, address, version, response);
    }
    json_decref(body);
}

/* --- cancel ------------------------------------------------------------------------------------------------------- */

static void cancel_carry_out(struct work *work, const struct order *before, const char *scope)
{
    struct order after = {0};
    char version[24];
    const struct order_event event = {
        .type = "order-cancelled", .client_id = scope, .delta_cents = before->refunded_cents - before->amount_cents};

    (void)snprintf(version, sizeof version, "%" PRId64, before->version);
    (void)WORK_DO(
        work, "UPDATE shop.orders SET status = 'cancelled', version = version + 1 WHERE id = $1 AND version = $2 RETURNING " ORDER_COLUMNS,
        before->id, version);
    (void)change_finish(work, &event, COUNT_ORDERS_CANCELLED, &after);
    order_free(&after);
}

void order_cancel(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    struct order order = {0};
    struct work work;
    char scope[SHOP_SCOPE_MAX + 1];
    int64_t version;

    if (!scope_read(request, scope, response) || !version_read(request, &version, response))
        return;
    if (!change_begin(&work, shop, id, &order, response))
        goto out;
    if (!order.cancelled && is_stale(&order, version)) {
        stale_answer(shop, &order, response);
        goto out;
    }
    if (!order.cancelled && order_pending_cents(&work, &order) > 0) {
        shop_answer_busy(shop, response, "a refund of this order is being made");
        goto out;
    }
    if (!order.cancelled)
        cancel_carry_out(&work, &order, scope);
    response->status = 204;
out:
    change_end(&work, &order, response);
}

/* --- read --------------------------------------------------------------------------------------------------------- */

void order_show(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    struct order order = {0};
    struct work work;

    (void)request;
    (void)work_begin(&work, shop, "read-before");
    if (!order_find(&work, id, &order))
        shop_answer_missing(response);
    else if (order.cancelled)
        shop_answer_cancelled(response);
    else
        order_answer(&order, 200, response);
    change_end(&work, &order, response);
}
