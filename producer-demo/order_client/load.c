/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_client/load.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct load {
    const struct load_settings *settings;
    const struct journal_intent *left;
    size_t left_n;
    int64_t began_ms, first; /* number of the first order of this run */
    atomic_size_t next_left;
    atomic_llong next_order;
    atomic_bool failed;
};

struct load_thread {
    pthread_t thread;
    struct load *load;
    int number;
};

/* The same for the same seed, order and question. */
static uint64_t choose(const struct load *load, int64_t order, uint64_t question)
{
    uint64_t z = load->settings->client.seed + (uint64_t)order * 0x9e3779b97f4a7c15u + question * 0x632be59bd9b4e019u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static bool chosen(const struct load *load, int64_t order, uint64_t question, int64_t percent)
{
    return (int64_t)(choose(load, order, question) % 100) < percent;
}

/* Whoever cannot write the journal must not ask for anything more. */
static void outcome_look(struct load *load, const struct client_result *result)
{
    if (result->outcome != CLIENT_NOT_BEGUN)
        return;
    atomic_store(&load->failed, true);
    patience_end(load->settings->client.patience);
}

static bool order_id_read(const struct client_result *result, char ret_id[37])
{
    json_t *order = json_loads(result->body, 0, NULL);
    const char *id = json_string_value(json_object_get(order, "order_id"));
    bool found = id && strlen(id) == 36;

    if (found)
        memcpy(ret_id, id, 37);
    else
        (void)fprintf(stderr, "order-client: the answer to POST /orders under key %s has no order_id\n", result->key);
    json_decref(order);
    return found;
}

static void order_follow(struct load *load, struct client *client, int64_t number, int64_t amount_cents, const struct client_result *placed)
{
    const struct load_settings *settings = load->settings;
    struct client_result result = {.outcome = CLIENT_DONE};
    char id[37], address[64];

    if (!order_id_read(placed, id))
        return;
    if (chosen(load, number, 3, settings->move_percent)) {
        (void)snprintf(address, sizeof address, "%" PRIu64 " Second Street", choose(load, number, 4) % 1000);
        client_move(client, id, placed->etag, address, &result);
        outcome_look(load, &result);
    }
    if (chosen(load, number, 5, settings->refund_percent)) {
        client_refund(client, id, amount_cents / 4 + 1, &result);
        outcome_look(load, &result);
    }
    if (chosen(load, number, 6, settings->cancel_percent)) {
        client_cancel(client, id, &result);
        outcome_look(load, &result);
    }
}

static void order_place(struct load *load, struct client *client, int64_t number)
{
    char customer[64], address[64];
    int64_t amount_cents = 100 + (int64_t)(choose(load, number, 1) % 9900);
    struct client_result result;

    (void)snprintf(customer, sizeof customer, "customer-%" PRIu64, choose(load, number, 2) % 1000);
    (void)snprintf(address, sizeof address, "%" PRId64 " Main Street", number);
    client_order(client, &(struct client_order){customer, address, amount_cents}, &result);
    outcome_look(load, &result);
    if (result.outcome == CLIENT_DONE)
        order_follow(load, client, number, amount_cents, &result);
}

/* false: patience was ended. */
static bool order_await(const struct load *load, int64_t number)
{
    const struct load_settings *settings = load->settings;
    int64_t due_ms = load->began_ms;

    if (settings->rate > 0)
        due_ms += (number - load->first) * 1000 / settings->rate;
    due_ms -= patience_now_ms();
    return due_ms > 0 ? patience_wait(settings->client.patience, due_ms) : !patience_ended(settings->client.patience);
}

static void *load_thread_run(void *context)
{
    struct load_thread *self = context;
    struct load *load = self->load;
    struct client *client = client_open(&load->settings->client, self->number);
    struct client_result result;
    size_t i;
    int64_t number;

    while ((i = atomic_fetch_add(&load->next_left, 1)) < load->left_n && !patience_ended(load->settings->client.patience))
        client_finish(client, &load->left[i], &result);
    while ((number = atomic_fetch_add(&load->next_order, 1)) < load->settings->orders && order_await(load, number))
        order_place(load, client, number);
    client_close(client);
    return NULL;
}

bool load_run(const struct load_settings *settings)
{
    struct load load = {.settings = settings, .began_ms = patience_now_ms(), .first = journal_orders(settings->client.journal)};
    struct load_thread *threads = calloc((size_t)settings->threads, sizeof *threads);

    if (!threads)
        abort();
    load.left = journal_left(settings->client.journal, &load.left_n);
    atomic_store(&load.next_order, load.first);
    for (int i = 0; i < settings->threads; i++) {
        threads[i].load = &load;
        threads[i].number = i;
        if (pthread_create(&threads[i].thread, NULL, load_thread_run, &threads[i]) != 0)
            abort();
    }
    for (int i = 0; i < settings->threads; i++)
        (void)pthread_join(threads[i].thread, NULL);
    free(threads);
    return !atomic_load(&load.failed);
}
