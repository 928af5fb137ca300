/* SPDX-License-Identifier: BSD-2-Clause */
/* The effect is somebody else's: a card is charged over HTTP, and no transaction of ours reaches there. What reaches there is the key. The client
 * made it when it meant to order; it came through the order service, the outbox and the topic unchanged, and here it goes on to the card
 * processor, which moves money once for each key. So we may call as often as we like, and need remember nothing.
 *
 * What an event asks for: order-placed is charged under the client's own key, order-cancelled refunded under the event's id (nobody made
 * a key for it, and the id is the same in every copy). order-refunded has happened at the card already: the order service asked for it. The
 * ledger is the card processor's. */
#include "producer-demo/lib/fetch.h"
#include "producer-demo/lib/key.h"
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/event_set.h"
#include "producer-demo/payment_consumer/way.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 10000

struct own {
    struct fetch *fetch;
    struct event_set done; /* of a batch that is tried again: what this worker did of it, and will not call a copy */
};

static bool open(struct worker *worker)
{
    struct own *own = calloc(1, sizeof *own);

    if (!own)
        abort();
    own->fetch = fetch_open();
    worker->own = own;
    return true;
}

static void close(struct worker *worker)
{
    struct own *own = worker->own;

    fetch_close(own->fetch);
    event_set_clear(&own->done);
    free(own);
}

/* A header's value in quotes, where any key can be written. */
static void header_write(char *ret, size_t size, const char *name, const char *value)
{
    int n = snprintf(ret, size, "%s: \"", name);
    size_t at = (size_t)n;

    for (; *value && at + 4 < size; value++) {
        if (*value == '"' || *value == '\\')
            ret[at++] = '\\';
        ret[at++] = *value;
    }
    (void)snprintf(ret + at, size - at, "\"");
}

/* What the event asks of the card; NULL: nothing. */
static const char *path_of(const struct delivery *delivery)
{
    if (strcmp(delivery->type, "order-placed") == 0)
        return "/charges";
    if (strcmp(delivery->type, "order-cancelled") == 0 && delivery->delta_cents != 0)
        return "/refunds";
    return NULL;
}

/* Who writes to the topic may write what he likes; what ends a line would become a header of its own. */
static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

static void ask(struct worker *worker, const struct delivery *delivery, const char *path, struct fetch_response *ret_response)
{
    const struct own *own = worker->own;
    bool charge = strcmp(path, "/charges") == 0;
    char key[2 * KEY_MAX + 64], scope[2 * KEY_MAX + 64], url[512], body[160];
    const char *headers[] = {key, "Content-Type: application/json", scope, NULL};

    header_write(key, sizeof key, "Idempotency-Key", charge && *delivery->key ? delivery->key : delivery->event_text);
    header_write(scope, sizeof scope, "X-Client-Id", delivery->client_id);
    if (!*delivery->client_id)
        headers[2] = NULL;
    (void)snprintf(url, sizeof url, "%s%s", worker->settings->card_url, path);
    (void)snprintf(body, sizeof body, "{\"order_id\":\"%s\",\"amount_cents\":%" PRId64 "}", delivery->order_text,
                   charge ? delivery->delta_cents : -delivery->delta_cents);
    fetch_send(own->fetch, &(struct fetch_request){.method = "POST", .url = url, .headers = headers, .body = body, .timeout_ms = ANSWER_MS},
               ret_response);
}

/* Everything that is neither yes nor no is asked again: no answer, too busy, its database is away. */
static enum way_result judge(struct own *own, struct delivery *delivery, const struct fetch_response *response)
{
    int status = response->status;

    if (status == 200 || status == 201) {
        if (!response->replayed)
            (void)event_set_add(&own->done, delivery->event_id);
        else if (delivery->copied || !event_set_has(&own->done, delivery->event_id))
            delivery->outcome = DELIVERY_SUPPRESSED;
        return WAY_DONE;
    }
    (void)fprintf(stderr, "payment-consumer: card processor: event %s: %d %s\n", delivery->event_text, status,
                  status ? response->body : response->reason);
    return status >= 400 && status < 500 && status != 408 && status != 409 && status != 429 ? WAY_POISON : WAY_LATER;
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    struct own *own = worker->own;

    for (int i = 0; i < n; i++) {
        const char *path = path_of(batch[i]);
        struct fetch_response response;
        enum way_result result;

        if (!path)
            continue;
        if (!is_printable(batch[i]->key) || !is_printable(batch[i]->client_id))
            return WAY_POISON;
        ask(worker, batch[i], path, &response);
        result = judge(own, batch[i], &response);
        if (result != WAY_DONE)
            return result;
    }
    if (points_pass(POINT_BETWEEN)) /* the money has moved, and nobody here knows: it does not matter */
        return WAY_LATER;
    event_set_clear(&own->done);
    return WAY_DONE;
}

const struct way way_passthrough = {
    .name = "passthrough",
    .what = "charges a card elsewhere, and passes the client's key on: exact",
    /* The card processor makes its table; until it has, this is tried again. */
    .schema = "CREATE OR REPLACE VIEW balance AS SELECT order_id, sum(cents)::bigint AS cents FROM card.movement GROUP BY order_id;",
    .open = open,
    .apply = apply,
    .close = close,
};
