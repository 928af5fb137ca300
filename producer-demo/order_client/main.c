/* SPDX-License-Identifier: BSD-2-Clause */
/* order-client: places orders and keeps their keys, whatever happens to the server, to the network, or to itself. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "producer-demo/lib/options.h"
#include "producer-demo/lib/points.h"
#include "producer-demo/order_client/load.h"

struct settings {
    struct load_settings load;
    const char *journal, *fault;
    int64_t seed;
};

static int settings_read(int argc, char **argv, struct settings *settings)
{
    struct load_settings *load = &settings->load;
    struct client_settings *client = &load->client;
    const struct option_row rows[] = {
        {"url", "URL", "the order service", &client->url, NULL, NULL, 0, 0},
        {"journal", "FILE", "where intents are written before they are sent; needed", &settings->journal, NULL, NULL, 0, 0},
        {"orders", "N", "orders to place, those in the journal included", NULL, &load->orders, NULL, 0, 1000000000},
        {"rate", "R", "orders begun a second; 0: as fast as it goes", NULL, &load->rate, NULL, 0, 1000000},
        {"threads", "T", "orders under way at once", NULL, &load->threads, NULL, 1, 1000},
        {"client-id", "NAME", "who we are: the scope of our keys", &client->client_id, NULL, NULL, 0, 0},
        {"flaky", "PERCENT", "of replies that are lost on purpose after the server gave them", NULL, &client->flaky_percent, NULL, 0, 99},
        {"bad-client", NULL, "make a new key on every retry: the classic mistake", NULL, NULL, &client->bad_client, 0, 0},
        {"refunds", "PERCENT", "of orders get a part of their money back", NULL, &load->refund_percent, NULL, 0, 100},
        {"cancel", "PERCENT", "of orders are cancelled", NULL, &load->cancel_percent, NULL, 0, 100},
        {"move", "PERCENT", "of orders get a new address", NULL, &load->move_percent, NULL, 0, 100},
        {"seed", "N", "of amounts, choices and jitter", NULL, &settings->seed, NULL, 0, INT64_MAX},
        {"give-up-ms", "MS", "after its first send an intent is given up; it stays in the journal", NULL, &client->give_up_ms, NULL, 1,
         86400000},
        {"timeout-ms", "MS", "of one send", NULL, &client->timeout_ms, NULL, 1, 600000},
        {"backoff-ms", "MS", "longest wait before the first retry; doubles with each", NULL, &client->backoff.base_ms, NULL, 1, 60000},
        {"backoff-cap-ms", "MS", "longest wait before any", NULL, &client->backoff.cap_ms, NULL, 1, 600000},
        {"fault", "NAME:N:ACTION", "at the Nth pass of after-intent, after-journal, after-reply or after-end: kill or stop",
         &settings->fault, NULL, NULL, 0, 0},
    };

    return options_read(argc, argv, "places orders; one intent has one key, whatever happens", rows, sizeof rows / sizeof *rows);
}

/* What a single flag could not say about itself. */
static int settings_check(struct settings *settings)
{
    char reason[200] = "";

    settings->load.client.seed = (uint64_t)settings->seed;
    points_name(client_points);
    if (!settings->journal)
        (void)fprintf(stderr, "order-client: --journal says where intents are written before they are sent; give it a file\n");
    else if (settings->fault && !points_arm(settings->fault, reason, sizeof reason))
        (void)fprintf(stderr, "order-client: --fault: %s\n", reason);
    else
        return -1;
    return 2;
}

/* Waits for a signal: SIGTERM and SIGINT are from outside, SIGUSR1 is main's, who is done. */
static void *signals_run(void *context)
{
    sigset_t signals;
    int number = 0;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGUSR1);
    (void)sigwait(&signals, &number);
    if (number != SIGUSR1)
        patience_end(context);
    return NULL;
}

static pthread_t signals_start(struct patience *patience)
{
    sigset_t all;
    pthread_t thread;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL); /* of every thread from here on */
    if (pthread_create(&thread, NULL, signals_run, patience) != 0) {
        (void)fprintf(stderr, "order-client: a thread cannot be started; free memory or threads\n");
        _Exit(1);
    }
    return thread;
}

static void counts_print(struct client_counts *counts, int64_t began_ms)
{
    printf("order-client: intents %lld sends %lld retries %lld unanswered %lld replays %lld conflicts %lld refused %lld given-up %lld in "
           "%" PRId64 " ms\n",
           atomic_load(&counts->intents), atomic_load(&counts->sends), atomic_load(&counts->retries), atomic_load(&counts->unanswered),
           atomic_load(&counts->replays), atomic_load(&counts->conflicts), atomic_load(&counts->refused), atomic_load(&counts->given_up),
           patience_now_ms() - began_ms);
}

static int run(struct settings *settings)
{
    struct client_settings *client = &settings->load.client;
    char reason[500] = "";
    int64_t began_ms = patience_now_ms();
    bool fine;

    client->journal = journal_open(settings->journal, reason, sizeof reason);
    if (!client->journal) {
        (void)fprintf(stderr, "order-client: %s\n", reason);
        return 2;
    }
    fine = load_run(&settings->load);
    counts_print(client->counts, began_ms);
    journal_close(client->journal);
    return fine && atomic_load(&client->counts->refused) == 0 && atomic_load(&client->counts->given_up) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct client_counts counts = {0};
    struct settings settings = {.load = {.client = {.url = "http://127.0.0.1:8080",
                                                    .counts = &counts,
                                                    .backoff = {.base_ms = 50, .cap_ms = 2000},
                                                    .give_up_ms = 60000,
                                                    .timeout_ms = 10000},
                                         .orders = 100,
                                         .threads = 4},
                                .seed = 1};
    int status = settings_read(argc, argv, &settings);
    pthread_t signals;

    if (status < 0)
        status = settings_check(&settings);
    if (status >= 0)
        return status;
    settings.load.client.patience = patience_new();
    signals = signals_start(settings.load.client.patience);
    status = run(&settings);
    (void)pthread_kill(signals, SIGUSR1);
    (void)pthread_join(signals, NULL);
    patience_free(settings.load.client.patience);
    return status;
}
