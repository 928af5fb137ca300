/* SPDX-License-Identifier: BSD-2-Clause */
/* card-processor: the external effect that cannot share our transaction. Somebody else's money machine, which can do one thing for us: heed
 * the key that we pass through. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "producer-demo/card_processor/card.h"
#include "producer-demo/lib/embedded.h"
#include "producer-demo/lib/options.h"
#include "producer-demo/lib/points.h"

struct settings {
    const char *listen, *database, *fault;
    int64_t threads;
    bool ignore_keys;
};

static int settings_read(int argc, char **argv, struct settings *settings)
{
    const struct option_row rows[] = {
        {"listen", "HOST:PORT", "where to serve HTTP", &settings->listen, NULL, NULL, 0, 0},
        {"database", "CONNINFO", "PostgreSQL, in libpq's words; the schema `card` is made there", &settings->database, NULL, NULL, 0, 0},
        {"threads", "N", "requests at work at once", NULL, &settings->threads, NULL, 1, 256},
        {"ignore-keys", NULL, "move money on every request, whatever its key", NULL, NULL, &settings->ignore_keys, 0, 0},
        {"fault", "NAME:N:ACTION", "at the Nth pass of before-movement or after-movement: kill, stop or error", &settings->fault, NULL,
         NULL, 0, 0},
    };
    char reason[200];
    int status = options_read(argc, argv, "moves money, once for each Idempotency-Key", rows, sizeof rows / sizeof *rows);

    points_name(card_points);
    if (status >= 0 || !settings->fault || points_arm(settings->fault, reason, sizeof reason))
        return status;
    (void)fprintf(stderr, "card-processor: --fault: %s\n", reason);
    return 2;
}

/* Make the tables, however long the database is away; false if a signal came first. */
static bool schema_make(struct store *store, const sigset_t *signals)
{
    for (;;) {
        char reason[200] = "";
        PGconn *db = store_take(store, reason, sizeof reason);
        bool made = db && store_run_script(db, card_processor_schema, reason, sizeof reason);

        if (db)
            store_give(store, db);
        if (made)
            return true;
        (void)fprintf(stderr, "card-processor: waiting for the database: %s\n", reason);
        if (sigtimedwait(signals, NULL, &(struct timespec){.tv_nsec = 500000000}) > 0)
            return false;
    }
}

static int serve(const struct settings *settings, struct card *card, const sigset_t *signals)
{
    char reason[200];
    int number;
    struct web *web = web_start(&(struct web_settings){.listen = settings->listen,
                                                       .threads = (int)settings->threads,
                                                       .body_max = 65536,
                                                       .timeout_s = 10,
                                                       .handler = card_handle,
                                                       .context = card},
                                reason, sizeof reason);

    if (!web) {
        (void)fprintf(stderr, "card-processor: %s\n", reason);
        return 2;
    }
    (void)fprintf(stderr, "card-processor: listening on http://127.0.0.1:%d%s\n", web_port(web),
                  card->ignore_keys ? ", ignoring keys" : "");
    (void)sigwait(signals, &number);
    web_stop(web);
    return 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {.listen = "127.0.0.1:8081", .database = "", .threads = 16};
    int status = settings_read(argc, argv, &settings);
    struct card card = {.ignore_keys = settings.ignore_keys};
    sigset_t signals;

    if (status >= 0)
        return status;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* inherited by the threads of the server */
    (void)signal(SIGPIPE, SIG_IGN);
    card.store = store_open(settings.database, "card-processor", (int)settings.threads);
    card.tally = card_tally_open();
    status = schema_make(card.store, &signals) ? serve(&settings, &card, &signals) : 0;
    tally_close(card.tally);
    store_close(card.store);
    return status;
}
