/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "producer-demo/lib/uuid.h"

/* The columns of ORDER_COLUMNS. */
enum {
    ORDER_ID,
    ORDER_CLIENT,
    ORDER_REFERENCE,
    ORDER_CUSTOMER,
    ORDER_ADDRESS,
    ORDER_AMOUNT,
    ORDER_REFUNDED,
    ORDER_STATUS,
    ORDER_VERSION,
    ORDER_CREATED
};

static json_t *row_json(const struct work *work)
{
    const char *reference = PQgetisnull(work->rows, 0, ORDER_REFERENCE) ? NULL : work_text(work, 0, ORDER_REFERENCE);
    json_t *json = json_pack("{s:s, s:s, s:s*, s:s, s:s, s:I, s:I, s:s, s:I, s:s}", "order_id", work_text(work, 0, ORDER_ID), "client_id",
                             work_text(work, 0, ORDER_CLIENT), "reference", reference, "customer", work_text(work, 0, ORDER_CUSTOMER),
                             "address", work_text(work, 0, ORDER_ADDRESS), "amount_cents", (json_int_t)work_number(work, 0, ORDER_AMOUNT),
                             "refunded_cents", (json_int_t)work_number(work, 0, ORDER_REFUNDED), "status", work_text(work, 0, ORDER_STATUS),
                             "version", (json_int_t)work_number(work, 0, ORDER_VERSION), "created_at", work_text(work, 0, ORDER_CREATED));

    if (!json)
        abort();
    return json;
}

bool order_take(const struct work *work, struct order *ret_order)
{
    *ret_order = (struct order){0};
    if (work_rows(work) == 0)
        return false;
    (void)snprintf(ret_order->id, sizeof ret_order->id, "%s", work_text(work, 0, ORDER_ID));
    ret_order->amount_cents = work_number(work, 0, ORDER_AMOUNT);
    ret_order->refunded_cents = work_number(work, 0, ORDER_REFUNDED);
    ret_order->version = work_number(work, 0, ORDER_VERSION);
    ret_order->cancelled = strcmp(work_text(work, 0, ORDER_STATUS), "cancelled") == 0;
    ret_order->json = row_json(work);
    return true;
}

void order_free(struct order *order)
{
    json_decref(order->json);
    order->json = NULL;
}

bool order_find(struct work *work, const char *id, struct order *ret_order)
{
    (void)WORK_DO(work, "SELECT " ORDER_COLUMNS " FROM shop.orders WHERE id = $1", id);
    return order_take(work, ret_order);
}

bool order_lock(struct work *work, const char *id, struct order *ret_order)
{
    (void)WORK_DO(work, "SELECT " ORDER_COLUMNS " FROM shop.orders WHERE id = $1 FOR UPDATE", id);
    return order_take(work, ret_order);
}

int64_t order_pending_cents(struct work *work, const struct order *order)
{
    (void)WORK_DO(work, "SELECT coalesce(sum(amount_cents), 0) FROM shop.refunds WHERE order_id = $1 AND state = 'IN_PROGRESS'", order->id);
    return work_rows(work) ? work_number(work, 0, 0) : 0;
}

void order_answer(const struct order *order, int status, struct web_response *response)
{
    char *text = json_dumps(order->json, JSON_COMPACT | JSON_ENSURE_ASCII);

    if (!text)
        abort();
    web_response_text(response, status, "application/json", "%s", text);
    web_response_header(response, "ETag", "\"%" PRId64 "\"", order->version);
    free(text);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static void moment_print(char ret_text[32])
{
    struct timespec now;
    struct tm utc;
    size_t n;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    n = strftime(ret_text, 32, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(ret_text + n, 32 - n, ".%03ldZ", now.tv_nsec / 1000000);
}

/* Frees the JSON. */
static char *json_print(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII);

    json_decref(json);
    if (!text)
        abort();
    return text;
}

static char *payload_print(const struct order *order, const struct order_event *event)
{
    json_int_t balance = order->cancelled ? 0 : order->amount_cents - order->refunded_cents;
    char at[32];

    moment_print(at);
    return json_print(json_pack("{s:s, s:I, s:s, s:O, s:I, s:I, s:s}", "order_id", order->id, "version", (json_int_t)order->version, "type",
                                event->type, "customer", json_object_get(order->json, "customer"), "delta_cents",
                                (json_int_t)event->delta_cents, "balance_cents", balance, "at", at));
}

bool order_tell(struct work *work, const struct order *order, const struct order_event *event)
{
    char new_id[37], *payload = payload_print(order, event), *headers;
    const char *event_id = event->event_id;
    bool done;

#ifdef MUTANT_EVENT_ID_NEW
    event_id = NULL;
#endif
    if (!event_id) {
        uuid_print(uuid_make(), new_id);
        event_id = new_id;
    }
    headers = json_print(json_pack("{s:s, s:s, s:s*}", "type", event->type, "client-id", event->client_id, "idempotency-key", event->key));
    done = WORK_DO(work,
                   "INSERT INTO outbox.event (event_id, topic, key, payload, headers) "
                   "VALUES ($1, $2, $3, convert_to($4, 'UTF8'), $5::jsonb)",
                   event_id, work->shop->settings.topic, order->id, payload, headers);
    free(headers);
    free(payload);
    return done;
}
