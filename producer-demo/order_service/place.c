/* SPDX-License-Identifier: BSD-2-Clause */
/* Placing an order: the key, the order, its event and the response are one transaction, so there is no moment at which some of them exist. */
#include <inttypes.h>
#include <stdio.h>

#include "producer-demo/lib/uuid.h"
#include "producer-demo/order_service/body.h"
#include "producer-demo/order_service/keys.h"
#include "producer-demo/order_service/order.h"
#include "producer-demo/order_service/requests.h"

struct draft {
    const char *customer, *address, *reference;
    int64_t amount_cents;
};

static json_t *draft_read(const struct web_request *request, struct draft *ret_draft, struct web_response *response)
{
    const struct body_field fields[] = {
        {.name = "customer", .text = &ret_draft->customer, .text_max = SHOP_TEXT_MAX},
        {.name = "address", .text = &ret_draft->address, .text_max = SHOP_ADDRESS_MAX},
        {.name = "amount_cents", .number = &ret_draft->amount_cents, .number_max = SHOP_AMOUNT_MAX},
        {.name = "reference", .text = &ret_draft->reference, .text_max = SHOP_TEXT_MAX, .optional = true},
    };

    return body_read(request, fields, sizeof fields / sizeof *fields, response);
}

static bool order_insert(struct work *work, const struct claim *claim, const struct draft *draft, struct order *ret_order)
{
    char id[37], amount[24];

    uuid_print(uuid_make(), id);
    (void)snprintf(amount, sizeof amount, "%" PRId64, draft->amount_cents);
    (void)WORK_DO(work,
                  "INSERT INTO shop.orders (id, client_id, reference, customer, address, amount_cents) "
                  "VALUES ($1, $2, $3, $4, $5, $6) RETURNING " ORDER_COLUMNS,
                  id, claim->scope, draft->reference, draft->customer, draft->address, amount);
    return order_take(work, ret_order);
}

#ifdef MUTANT_KEY_ALONE
/* What was done so far is committed for itself. */
static void transaction_split(struct work *work)
{
    (void)work_commit(work);
    (void)work_do(work, "BEGIN", 0, NULL);
}
#endif

/* The key is ours: do it. */
static void draft_carry_out(struct work *work, const struct claim *claim, const struct draft *draft, struct web_response *response)
{
    struct order order = {0};

#ifdef MUTANT_KEY_ALONE
    transaction_split(work);
#endif
    (void)work_pass(work, "order-after-key");
    if (!order_insert(work, claim, draft, &order))
        goto out;
    (void)work_pass(work, "order-after-order");
    (void)order_tell(work, &order,
                     &(struct order_event){.type = "order-placed",
                                           .event_id = claim->event_id,
                                           .client_id = claim->scope,
                                           .key = claim->key,
                                           .delta_cents = order.amount_cents});
#ifdef MUTANT_KEY_ALONE
    transaction_split(work);
#endif
    (void)work_pass(work, "order-after-event");
    order_answer(&order, 201, response);
    web_response_header(response, "Location", "/orders/%s", order.id);
    (void)claim_finish(work, claim, response);
    (void)work_pass(work, "order-before-commit");
    if (work_commit(work))
        shop_count(work->shop, COUNT_ORDERS_PLACED);
    (void)work_pass(work, "order-after-commit");
out:
    order_free(&order);
}

void order_place(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    struct draft draft = {0};
    struct claim claim;
    struct work work;
    json_t *body = draft_read(request, &draft, response);

    (void)id;
    if (!body || !claim_read(request, "/orders", body, &claim, response))
        goto out;
    (void)work_begin(&work, shop, "order-before");
    switch (claim_begin(&work, &claim, response)) {
    case CLAIM_NEW:
    case CLAIM_TAKEN_OVER: /* never: nobody sees an order in progress */
        draft_carry_out(&work, &claim, &draft, response);
        break;
    case CLAIM_BUSY:
        shop_answer_busy(shop, response, "this order is being placed");
        break;
    case CLAIM_ANSWERED:
    case CLAIM_TROUBLE:
        break;
    }
    if (work.trouble[0])
        work_explain(&work, response);
    work_end(&work);
out:
    json_decref(body);
}
