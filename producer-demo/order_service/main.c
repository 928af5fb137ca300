/* SPDX-License-Identifier: BSD-2-Clause */
/* order-service: settings, start and end of the HTTP API of the demo's shop. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "producer-demo/lib/embedded.h"
#include "producer-demo/lib/options.h"
#include "producer-demo/lib/points.h"
#include "producer-demo/order_service/requests.h"
#include "producer-demo/order_service/sweep.h"

struct options {
    const char *listen, *database, *fault, *counters;
    int64_t threads, timeout_s;
    bool migrate;
    struct shop_settings shop;
};

static int settings_read(int argc, char **argv, struct options *o)
{
    struct shop_settings *s = &o->shop;
    const struct option_row rows[] = {
        {"listen", "HOST:PORT", "where to serve; port 0: any free one", .text = &o->listen},
        {"database", "CONNINFO", "of libpq; the relay's outbox schema must be in it", .text = &o->database},
        {"migrate", NULL, "make the schema \"shop\" first, if it is not there", .flag = &o->migrate},
        {"topic", "NAME", "of the events", .text = &s->topic},
        {"card-url", "URL", "of the card processor", .text = &s->card_url},
        {"threads", "N", "requests at once, and connections to the database", .number = &o->threads, .min = 1, .max = 256},
        {"request-timeout-s", "N", "a request must have arrived whole within", .number = &o->timeout_s, .min = 1, .max = 3600},
        {"wait-ms", "N", "for another request with the same key, then 409", .number = &s->wait_ms, .min = 1, .max = 60000},
        {"lease-ms", "N", "of a refund in progress; then it is taken over", .number = &s->lease_ms, .min = 100, .max = 3600000},
        {"card-ms", "N", "for an answer of the card processor; below half of the lease", .number = &s->card_ms, .min = 10, .max = 60000},
        {"keep-hours", "N", "a key and its response", .number = &s->keep_hours, .min = 0, .max = 8760},
        {"sweep-ms", "N", "between two cleanings of the keys", .number = &s->sweep_ms, .min = 10, .max = 3600000},
        {"sweep-batch", "N", "keys in one transaction of it", .number = &s->sweep_batch, .min = 1, .max = 100000},
        {"counters", "FILE", "of the metrics, so that they survive a kill; empty: none", .text = &o->counters},
        {"fault", "NAME:N:ACTION", "fail at a point; ACTION is kill, stop or error", .text = &o->fault},
    };

    return options_read(argc, argv, "the HTTP API of a shop: orders with idempotency keys, events through an outbox", rows,
                        sizeof rows / sizeof *rows);
}

static bool settings_check(const struct options *o)
{
    char reason[300];

    if (o->shop.lease_ms < 2 * o->shop.card_ms) {
        (void)fprintf(stderr, "order-service: --lease-ms must be at least twice --card-ms, or a refund is taken over while it is made\n");
        return false;
    }
    if (*o->fault && !points_arm(o->fault, reason, sizeof reason)) {
        (void)fprintf(stderr, "order-service: --fault: %s\n", reason);
        return false;
    }
    return true;
}

/* A signal that asks for the end is taken by sigtimedwait, in the main thread alone. */
static void signals_block(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    (void)sigaddset(ret_set, SIGTERM);
    (void)sigaddset(ret_set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, ret_set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static bool schema_make_once(const struct shop *shop)
{
    char reason[256];
    PGconn *db = store_take(shop->store, reason, sizeof reason);
    bool made = db && store_run_script(db, order_service_schema, reason, sizeof reason);

    if (db)
        store_give(shop->store, db);
    if (!made)
        (void)fprintf(stderr, "order-service: the schema cannot be made yet: %s\n", reason);
    return made;
}

/* Waits for the database as long as it takes; false: asked to end meanwhile. */
static bool schema_make(const struct shop *shop, const sigset_t *signals)
{
    const struct timespec second = {1, 0};

    while (!schema_make_once(shop))
        if (sigtimedwait(signals, NULL, &second) > 0)
            return false;
    return true;
}

static int serve(struct shop *shop, const struct options *o, const sigset_t *signals)
{
    char reason[300];
    struct sweep *sweep;
    int number;
    struct web *web = web_start(&(struct web_settings){.listen = o->listen,
                                                       .threads = (int)o->threads,
                                                       .body_max = SHOP_BODY_MAX,
                                                       .timeout_s = (unsigned)o->timeout_s,
                                                       .handler = request_route,
                                                       .context = shop},
                                reason, sizeof reason);

    if (!web) {
        (void)fprintf(stderr, "order-service: %s\n", reason);
        return 2;
    }
    sweep = sweep_start(shop);
    (void)fprintf(stderr, "order-service: listening on http://%.*s:%d\n", (int)(strrchr(o->listen, ':') - o->listen), o->listen,
                  web_port(web));
    (void)sigwait(signals, &number);
    web_stop(web);
    sweep_stop(sweep);
    (void)fprintf(stderr, "order-service: ended\n");
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {.listen = "127.0.0.1:8080",
                        .database = "",
                        .fault = "",
                        .counters = "",
                        .threads = 16,
                        .timeout_s = 10,
                        .shop = {.topic = "orders",
                                 .card_url = "http://127.0.0.1:8082",
                                 .wait_ms = 2000,
                                 .lease_ms = 15000,
                                 .card_ms = 5000,
                                 .keep_hours = 24,
                                 .sweep_ms = 10000,
                                 .sweep_batch = 1000}};
    struct shop shop = {0};
    sigset_t signals;
    char reason[300];
    int status = settings_read(argc, argv, &o);

    points_name(shop_points);
    if (status >= 0)
        return status;
    if (!settings_check(&o))
        return 2;
    signals_block(&signals);
    shop.settings = o.shop;
    (void)snprintf(shop.name, sizeof shop.name, "order-service %ld", (long)getpid());
    shop.tally = tally_open(*o.counters ? o.counters : NULL, "order_service", shop_counters, SHOP_COUNTS, reason, sizeof reason);
    if (!shop.tally) {
        (void)fprintf(stderr, "order-service: --counters: %s\n", reason);
        return 2;
    }
    shop.store = store_open(o.database, "order-service", (int)o.threads + 1); /* one is the sweep's */
    if (!o.migrate || schema_make(&shop, &signals))
        status = serve(&shop, &o, &signals);
    else
        status = 0;
    store_close(shop.store);
    tally_close(shop.tally);
    return status;
}
