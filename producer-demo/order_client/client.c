/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_client/client.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "producer-demo/lib/fetch.h"
#include "producer-demo/lib/points.h"
#include "producer-demo/lib/uuid.h"
#include "producer-demo/order_client/answers.h"

/* The server keeps keys for 24 hours. After that a retry is a new request to it, so we stop before. */
#define KEY_LIFE_MS INT64_C(82800000)

const char *const client_points[] = {"after-intent", "after-journal", "after-reply", "after-end", NULL};

struct client {
    const struct client_settings *settings;
    struct fetch *fetch;
    struct fetch_response response; /* the last */
    uint64_t random;                /* state of splitmix64 */
};

/* An intent on its way through its sends. */
struct client_try {
    const struct journal_intent *intent;
    char key[37];   /* what is sent: the intent's, if the client is a good one */
    bool continued; /* an earlier run may have sent it */
    int sends;
    int64_t deadline_ms;
};

struct client *client_open(const struct client_settings *settings, int number)
{
    struct client *client = calloc(1, sizeof *client);

    if (!client)
        abort();
    client->settings = settings;
    client->fetch = fetch_open();
    client->random = settings->seed + (uint64_t)number * 0x632be59bd9b4e019u;
    return client;
}

void client_close(struct client *client)
{
    fetch_close(client->fetch);
    free(client);
}

static uint64_t draw(struct client *client)
{
    uint64_t z = client->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void count(atomic_llong *counter)
{
    (void)atomic_fetch_add(counter, 1);
}

/* --- one send ----------------------------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void request_send(struct client *client, const struct client_try *try, const char *method, const char *path, const char *body)
{
    const struct client_settings *settings = client->settings;
    char url[512], key[80], scope[300], match[80];
    const char *headers[4] = {NULL};
    int64_t left_ms = try->deadline_ms - patience_now_ms();
    int n = 0;

    (void)snprintf(url, sizeof url, "%s%s", settings->url, path);
    if (settings->client_id) {
        (void)snprintf(scope, sizeof scope, "X-Client-Id: %s", settings->client_id);
        headers[n++] = scope;
    }
    if (strcmp(method, "POST") == 0) {
        (void)snprintf(key, sizeof key, "Idempotency-Key: %s", try->key);
        headers[n++] = key;
    }
    if (strcmp(method, "PUT") == 0 && try->intent->match) {
        (void)snprintf(match, sizeof match, "If-Match: %s", try->intent->match);
        headers[n++] = match;
    }
    fetch_send(client->fetch, &(struct fetch_request){method, url, headers, body, left_ms > 1 ? least(left_ms, settings->timeout_ms) : 1},
               &client->response);
}

/* What a bad network does, at the worst moment: the request was carried out, and nobody tells us. */
static void reply_lose(struct client *client)
{
    struct fetch_response *response = &client->response;

    if (response->status == 0 || (int64_t)(draw(client) % 100) >= client->settings->flaky_percent)
        return;
    response->status = 0;
    response->retry_after_s = -1;
    response->replayed = false;
    (void)snprintf(response->reason, sizeof response->reason, "the reply was lost on purpose");
}

static const struct answer_rule *answer_find(const struct client *client)
{
    return answer_rule_find(client->response.status, client->response.retry_after_s >= 0);
}

/* Our change of the address was refused because of the version. Was it an earlier send of ours that made the new one? */
static const struct answer_rule *move_settle(struct client *client, const struct client_try *try, const struct answer_rule *rule)
{
    char path[200], address[1000] = "", wanted[1000] = "-";
    json_t *order, *change;
    const char *text;

    (void)snprintf(path, sizeof path, "%.*s", (int)(strlen(try->intent->path) - strlen("/address")), try->intent->path);
    request_send(client, try, "GET", path, NULL);
    if (client->response.status != 200)
        return client->response.status == 404 ? rule : answer_rule_find(0, false);
    order = json_loads(client->response.body, 0, NULL);
    change = json_loads(try->intent->body, 0, NULL);
    if ((text = json_string_value(json_object_get(order, "address"))))
        (void)snprintf(address, sizeof address, "%s", text);
    if ((text = json_string_value(json_object_get(change, "address"))))
        (void)snprintf(wanted, sizeof wanted, "%s", text);
    json_decref(order);
    json_decref(change);
    return strcmp(address, wanted) == 0 ? answer_find(client) : rule;
}

/* Send the intent once more, and say what the answer means. */
static const struct answer_rule *try_send(struct client *client, struct client_try *try)
{
    struct client_counts *counts = client->settings->counts;
    const struct journal_intent *intent = try->intent;
    const struct answer_rule *rule;
    bool again = try->sends++ > 0;

    if (again && client->settings->bad_client)
        uuid_print(uuid_make(), try->key);
    count(&counts->sends);
    if (again)
        count(&counts->retries);
    request_send(client, try, intent->method, intent->path, intent->body);
    reply_lose(client);
    if (client->response.status == 0)
        count(&counts->unanswered);
    if (client->response.replayed)
        count(&counts->replays);
    rule = answer_find(client);
    if (client->response.status == 412 && (again || try->continued))
        rule = move_settle(client, try, rule);
    return rule;
}

/* --- one intent --------------------------------------------------------------------------------------------------- */

static bool key_is_old(const struct journal_intent *intent)
{
    struct uuid key;
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return strcmp(intent->method, "POST") == 0 && uuid_read(intent->key, &key) &&
           (int64_t)now.tv_sec * 1000 - uuid_created_ms(key) > KEY_LIFE_MS;
}

/* Send until an answer is final. Returns why it stopped; `outcome` of a rule that is not RETRY is not decided here. */
static const struct answer_rule *try_until_final(struct client *client, struct client_try *try, enum client_outcome *ret_outcome)
{
    const struct client_settings *settings = client->settings;

    for (;;) {
        const struct answer_rule *rule = try_send(client, try);
        int64_t wait_ms;

        if (rule->meaning != ANSWER_RETRY)
            return rule;
        wait_ms = backoff_wait_ms(settings->backoff, try->sends, client->response.retry_after_s, draw(client));
        *ret_outcome = CLIENT_GIVEN_UP;
        if (patience_now_ms() + wait_ms >= try->deadline_ms)
            return rule;
        *ret_outcome = CLIENT_STOPPED;
        if (!patience_wait(settings->patience, wait_ms))
            return rule;
    }
}

static void give_up_report(const struct client *client, const struct client_try *try, const struct answer_rule *rule)
{
    const struct fetch_response *response = &client->response;

    (void)fprintf(stderr,
                  "order-client: gave up %s %s under key %s after %d sends in %" PRId64
                  " ms; the last answer: %d, %s%s%s. Start again with the same journal to go on.\n",
                  try->intent->method, try->intent->path, try->key, try->sends, client->settings->give_up_ms, response->status, rule->why,
                  response->status ? "" : ": ", response->status ? "" : response->reason);
}

static void intent_end(struct client *client, const struct client_try *try, const struct answer_rule *rule, enum client_outcome *outcome)
{
    struct client_counts *counts = client->settings->counts;

    switch (rule->meaning) {
    case ANSWER_RETRY:
        if (*outcome == CLIENT_GIVEN_UP) {
            count(&counts->given_up);
            give_up_report(client, try, rule);
        }
        return; /* it stays open */
    case ANSWER_DONE:
        *outcome = CLIENT_DONE;
        break;
    case ANSWER_CONFLICT:
        *outcome = CLIENT_CONFLICT;
        count(&counts->conflicts);
        break;
    case ANSWER_REFUSED:
        *outcome = CLIENT_REFUSED;
        count(&counts->refused);
        (void)fprintf(stderr, "order-client: %s %s under key %s was refused with %d: %s\n", try->intent->method, try->intent->path,
                      try->key, client->response.status, rule->why);
        break;
    }
    (void)points_pass("after-reply");
    journal_end(client->settings->journal, try->intent->key, client->response.status);
    (void)points_pass("after-end");
}

/* An intent that is in the journal. */
static void intent_carry_out(struct client *client, const struct journal_intent *intent, bool continued, struct client_result *ret_result)
{
    struct client_try try = {.intent = intent, .continued = continued, .deadline_ms = patience_now_ms() + client->settings->give_up_ms};

    memcpy(try.key, intent->key, sizeof try.key);
    if (continued && key_is_old(intent)) {
        (void)fprintf(stderr,
                      "order-client: gave up %s %s for good: the server may have forgotten its key %s; look by hand what became of it\n",
                      intent->method, intent->path, intent->key);
        count(&client->settings->counts->given_up);
        journal_end(client->settings->journal, intent->key, 0);
        ret_result->outcome = CLIENT_GIVEN_UP;
        return;
    }
    intent_end(client, &try, try_until_final(client, &try, &ret_result->outcome), &ret_result->outcome);
    ret_result->status = client->response.status;
    ret_result->sends = try.sends;
    ret_result->body = client->response.body;
    memcpy(ret_result->etag, client->response.etag, sizeof ret_result->etag);
}

/* Somebody wants something: from here on it has a key. `intent` has none yet. */
static void intent_begin(struct client *client, struct journal_intent *intent, const char *key, struct client_result *ret_result)
{
    *ret_result = (struct client_result){.outcome = CLIENT_NOT_BEGUN, .body = ""};
    memcpy(intent->key, key, sizeof intent->key);
    memcpy(ret_result->key, key, sizeof ret_result->key);
    count(&client->settings->counts->intents);
    (void)points_pass("after-intent");
    if (!journal_begin(client->settings->journal, intent))
        return;
    (void)points_pass("after-journal");
    intent_carry_out(client, intent, false, ret_result);
}

/* --- operations --------------------------------------------------------------------------------------------------- */

/* The text of an object, which it takes; the caller frees it. */
static char *json_print(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    if (!text)
        abort(); /* no memory, or a text that is no UTF-8 */
    json_decref(object);
    return text;
}

void client_order(struct client *client, const struct client_order *order, struct client_result *ret_result)
{
    char key[37], *body;

    uuid_print(uuid_make(), key);
    body = json_print(json_pack("{s:s, s:s, s:I, s:s}", "customer", order->customer, "address", order->address, "amount_cents",
                                (json_int_t)order->amount_cents, "reference", key));
    intent_begin(client, &(struct journal_intent){.method = "POST", .path = "/orders", .body = body}, key, ret_result);
    free(body);
}

void client_refund(struct client *client, const char *order_id, int64_t amount_cents, struct client_result *ret_result)
{
    char key[37], path[100], *body = json_print(json_pack("{s:I}", "amount_cents", (json_int_t)amount_cents));

    uuid_print(uuid_make(), key);
    (void)snprintf(path, sizeof path, "/orders/%s/refunds", order_id);
    intent_begin(client, &(struct journal_intent){.method = "POST", .path = path, .body = body}, key, ret_result);
    free(body);
}

void client_cancel(struct client *client, const char *order_id, struct client_result *ret_result)
{
    char key[37], path[100];

    uuid_print(uuid_make(), key);
    (void)snprintf(path, sizeof path, "/orders/%s", order_id);
    intent_begin(client, &(struct journal_intent){.method = "DELETE", .path = path}, key, ret_result);
}

void client_move(struct client *client, const char *order_id, const char *etag, const char *address, struct client_result *ret_result)
{
    char key[37], path[100], *body = json_print(json_pack("{s:s}", "address", address));

    uuid_print(uuid_make(), key);
    (void)snprintf(path, sizeof path, "/orders/%s/address", order_id);
    intent_begin(client, &(struct journal_intent){.method = "PUT", .path = path, .match = etag, .body = body}, key, ret_result);
    free(body);
}

void client_finish(struct client *client, const struct journal_intent *intent, struct client_result *ret_result)
{
    *ret_result = (struct client_result){.outcome = CLIENT_STOPPED, .body = ""};
    memcpy(ret_result->key, intent->key, sizeof ret_result->key);
    count(&client->settings->counts->intents);
    intent_carry_out(client, intent, true, ret_result);
}
