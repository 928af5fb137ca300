/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/delivery.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A text into the delivery's own memory. */
static const char *keep(char **to, const void *text, size_t n)
{
    char *kept = *to;

    if (n > 0)
        memcpy(kept, text, n);
    kept[n] = 0;
    *to += n + 1;
    return kept;
}

struct header {
    const void *text;
    size_t n;
};

static struct header header_find(const rd_kafka_message_t *message, const char *name)
{
    struct header header = {"", 0};
    rd_kafka_headers_t *headers;

    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR &&
        rd_kafka_header_get_last(headers, name, &header.text, &header.n) != RD_KAFKA_RESP_ERR_NO_ERROR)
        header = (struct header){"", 0};
    return header;
}

/* The numbers and the order; what else the payload says is of no interest here. */
static const char *payload_read(struct delivery *delivery)
{
    const char *order = NULL, *why = NULL;
    json_int_t version = 0, delta = 0, balance = 0;
    json_t *payload = json_loadb(delivery->payload, delivery->payload_n, 0, NULL);

    if (!payload || json_unpack(payload, "{s:s, s:I, s:I, s:I}", "order_id", &order, "version", &version, "delta_cents", &delta,
                                "balance_cents", &balance) != 0)
        why = "its payload is no JSON object with order_id, version, delta_cents and balance_cents";
    else if (!uuid_read(order, &delivery->order_id))
        why = "its order_id is no UUID";
    uuid_print(delivery->order_id, delivery->order_text);
    delivery->version = version;
    delivery->delta_cents = delta;
    delivery->balance_cents = balance;
    json_decref(payload);
    return why;
}

struct delivery *delivery_read(const rd_kafka_message_t *message)
{
    const char *names[] = {"id", "type", "idempotency-key", "client-id"};
    struct header headers[4];
    const char *texts[4];
    size_t size = sizeof(struct delivery) + message->len + 1;
    struct delivery *delivery;
    char *to;

    for (int i = 0; i < 4; i++) {
        headers[i] = header_find(message, names[i]);
        size += headers[i].n + 1;
    }
    delivery = calloc(1, size);
    if (!delivery)
        abort();
    to = (char *)(delivery + 1);
    for (int i = 0; i < 4; i++)
        texts[i] = keep(&to, headers[i].text, headers[i].n);
    delivery->type = texts[1];
    delivery->key = texts[2];
    delivery->client_id = texts[3];
    delivery->payload = keep(&to, message->payload, message->len);
    delivery->payload_n = message->len;
    delivery->partition = message->partition;
    delivery->offset = message->offset;
    delivery->size = size;
    delivery->unreadable = uuid_read(texts[0], &delivery->event_id) ? payload_read(delivery) : "its header \"id\" is no UUID";
    uuid_print(delivery->event_id, delivery->event_text);
    return delivery;
}

struct delivery *delivery_copy(const struct delivery *delivery)
{
    struct delivery *copy = malloc(delivery->size);
    const char **texts[] = {&copy->type, &copy->key, &copy->client_id, &copy->payload};

    if (!copy)
        abort();
    memcpy(copy, delivery, delivery->size);
    for (int i = 0; i < 4; i++)
        *texts[i] = (const char *)copy + (*texts[i] - (const char *)delivery);
    copy->copied = true;
    return copy;
}

/* FNV-1a, then mixed: every way has the same copies, another seed has others. */
bool delivery_chosen(const struct delivery *delivery, int64_t seed, int64_t percent)
{
    uint64_t hash = 14695981039346656037u ^ (uint64_t)seed * 0x9e3779b97f4a7c15u;

    for (size_t i = 0; i < sizeof delivery->event_id.bytes; i++)
        hash = (hash ^ delivery->event_id.bytes[i]) * 1099511628211u;
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93u;
    hash ^= hash >> 32;
    return (int64_t)(hash % 100) < percent;
}

static int compare(const void *a, const void *b)
{
    const struct delivery *x = *(struct delivery *const *)a, *y = *(struct delivery *const *)b;
    int order = memcmp(&x->event_id, &y->event_id, sizeof x->event_id);

    return order ? order : (x->copied - y->copied);
}

void deliveries_sort(struct delivery **batch, int n)
{
    qsort(batch, (size_t)n, sizeof *batch, compare);
    for (int i = 1; i < n; i++)
        if (memcmp(&batch[i]->event_id, &batch[i - 1]->event_id, sizeof batch[i]->event_id) == 0)
            batch[i]->outcome = DELIVERY_SUPPRESSED;
}

int deliveries_count(struct delivery *const *batch, int n, enum delivery_outcome outcome)
{
    int count = 0;

    for (int i = 0; i < n; i++)
        count += batch[i]->outcome == outcome;
    return count;
}

struct delivery *deliveries_find(struct delivery *const *batch, int n, const char *event_text)
{
    int low = 0, high = n;

    while (low < high) { /* to the first that is not smaller: copies come after it, suppressed */
        int middle = low + (high - low) / 2;

        if (strcmp(batch[middle]->event_text, event_text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && strcmp(batch[low]->event_text, event_text) == 0 ? batch[low] : NULL;
}
