/* SPDX-License-Identifier: BSD-2-Clause */
/* payment-consumer: moves the money that the order service's events speak of, into a ledger of its own, protected from copies in one of several
 * ways, some of which do not work. */
#include "producer-demo/lib/options.h"
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/broker.h"
#include "producer-demo/payment_consumer/control.h"
#include "producer-demo/payment_consumer/idset.h"
#include "producer-demo/payment_consumer/keeper.h"
#include "producer-demo/payment_consumer/metrics.h"
#include "producer-demo/payment_consumer/retention.h"
#include "producer-demo/payment_consumer/size.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX   16
#define STOP_WAIT_S   10
#define count(array)  ((int)(sizeof(array) / sizeof *(array)))
#define RETENTION_MAX 400 /* days: as many partitions */

static const char *const point_names[] = {POINT_BETWEEN, POINT_BEFORE_OFFSETS, POINT_AFTER_OFFSETS, NULL};

/* What is not a consumer's setting. */
struct arguments {
    const char *fault;
    int64_t messages_per_day;
    bool size, ways;
};

static int refuse(const char *why)
{
    (void)fprintf(stderr, "payment-consumer: %s\n", why);
    return 2;
}

static int settings_read(int argc, char **argv, struct consumer_settings *s, struct arguments *a)
{
    const struct option_row rows[] = {
        {"way", "NAME", "how it protects itself", .text = &s->way},
        {"ways", NULL, "list the ways, and end", .flag = &a->ways},
        {"database", "CONNINFO", "PostgreSQL", .text = &s->database},
        {"kafka", "HOST:PORT", "Kafka", .text = &s->kafka},
        {"topic", "NAME", "of the order service's events", .text = &s->topic},
        {"group", "NAME", "consumer group; payment-WAY if not given", .text = &s->group},
        {"workers", "N", "threads, each a member of the group", .number = &s->workers, .min = 1, .max = WORKERS_MAX},
        {"batch", "N", "records in one transaction, at most", .number = &s->batch, .min = 1, .max = 10000},
        {"commit-interval-ms", "N", "at most this often are offsets committed", .number = &s->commit_interval_ms, .min = 0, .max = 3600000},
        {"listen", "HOST:PORT", "for GET /metrics, GET /healthz, POST /faults", .text = &s->listen},
        {"card-url", "URL", "the card processor, for passthrough", .text = &s->card_url},
        {"redis", "HOST:PORT", "for redis-before and redis-after", .text = &s->redis},
        {"redis-ttl-s", "N", "how long it keeps a mark", .number = &s->redis_ttl_s, .min = 1, .max = 31536000},
        {"state", "FOLDER", "where counters survive the process; none: they do not", .text = &s->state},
        {"redeliver", "PERCENT", "copy so many records to the next worker", .number = &s->redeliver_percent, .min = 0, .max = 100},
        {"seed", "N", "which ones are copied", .number = &s->seed, .min = 0, .max = INT64_MAX},
        {"fault", "NAME:N:ACTION", "at the Nth pass of between, before-offsets, after-offsets: kill, stop, error", .text = &a->fault},
        {"retention-days", "N", "unique: how long ids are kept; must be said", .number = &s->retention_days, .min = 1,
         .max = RETENTION_MAX},
        {"outbox-days", "N", "how long the outbox may hold an event", .number = &s->outbox_days, .min = 0, .max = RETENTION_MAX},
        {"retention-unchecked", NULL, "keep ids so long whatever the broker and the outbox keep", .flag = &s->retention_unchecked},
        {"size", NULL, "print what the ids take, and end; measured if there is a --database", .flag = &a->size},
        {"messages-per-day", "N", "for --size", .number = &a->messages_per_day, .min = 1, .max = INT64_C(1000000000000)},
    };

    return options_read(argc, argv, "a payment consumer under at-least-once delivery, protected in the way you choose", rows, count(rows));
}

static int ways_print(void)
{
    for (int i = 0; way_at(i); i++)
        (void)printf("%-16s%s%s\n", way_at(i)->name, way_at(i)->what, way_at(i)->needs_real_kafka ? " (needs a real Kafka)" : "");
    return 0;
}

/* Returns -1 if the settings go together; else the exit status. */
static int settings_check(struct consumer_settings *s, const struct way *way, const char *fault)
{
    char reason[256];

    if (!way)
        return refuse("--way: there is no such way; --ways lists them");
    if (!s->kafka)
        return refuse("--kafka HOST:PORT is needed");
    if (way->keeps_ids && s->retention_days == 0)
        return refuse("--retention-days N is needed: how long may a copy still come? (the topic's retention and what waits in the outbox)");
    if (way == &way_passthrough && !s->card_url)
        return refuse("--card-url URL is needed: the card processor's");
    if (fault && !points_arm(fault, reason, sizeof reason))
        return refuse(reason);
    return -1;
}

static sigset_t ends(void)
{
    sigset_t signals;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    return signals;
}

/* Ask until somebody answers. -1: long enough; else the exit status, which is 0 if a signal came first. */
static int retention_wait(const struct consumer_settings *s)
{
    char reason[512], last[512] = "";
    sigset_t signals = ends();

    for (;;) {
        switch (retention_check(s, reason, sizeof reason)) {
        case RETENTION_FINE:
            return -1;
        case RETENTION_SHORT:
            return refuse(reason);
        case RETENTION_UNKNOWN:
            break;
        }
        if (strcmp(reason, last) != 0)
            (void)fprintf(stderr, "payment-consumer: waiting to check --retention-days (--retention-unchecked does not): %s\n", reason);
        (void)strcpy(last, reason);
        if (sigtimedwait(&signals, NULL, &(struct timespec){.tv_sec = 1}) > 0)
            return 0;
    }
}

/* The same for what the way needs of the broker. */
static int broker_wait(const struct crew *crew)
{
    char reason[256];
    sigset_t signals = ends();

    for (int tries = 0;; tries++) {
        enum broker_kind kind = broker_ask(crew->settings->kafka);

        if (kind == BROKER_REAL)
            return -1;
        (void)snprintf(reason, sizeof reason, "--way %s needs a real Kafka: the embedded broker keeps no transactions", crew->way->name);
        if (kind == BROKER_EMBEDDED)
            return refuse(reason);
        if (tries == 0)
            (void)fprintf(stderr, "payment-consumer: waiting for Kafka at %s\n", crew->settings->kafka);
        if (sigtimedwait(&signals, NULL, &(struct timespec){.tv_sec = 1}) > 0)
            return 0;
    }
}

/* Until SIGTERM or SIGINT, which every thread has blocked. */
static void serve(struct crew *crew)
{
    struct worker_thread *threads[WORKERS_MAX];
    struct keeper *keeper = keeper_start(crew);
    sigset_t signals = ends();
    int64_t n = crew->settings->workers;
    int got;

    for (int i = 0; i < n; i++)
        threads[i] = worker_start(crew, i);
    (void)sigwait(&signals, &got);
    crew->stopping = true;
    for (int i = 0; i < n; i++)
        if (!worker_join(threads[i], STOP_WAIT_S)) {
            (void)fputs("payment-consumer: somebody does not answer; what was not committed comes again\n", stderr);
            _exit(0);
        }
    keeper_join(keeper);
}

/* What this process did, for people and for the bench. */
static void summary_print(struct crew *crew)
{
    double seconds = (double)(crew->last_us - crew->first_us) / 1e6;

    if (crew->done > 0)
        (void)fprintf(stderr, "payment-consumer: %s: %lld deliveries in %.3f s, %.0f a second; a batch took %.3f ms (p50), %.3f ms (p99)\n",
                      crew->way->name, (long long)crew->done, seconds, (double)crew->done / (seconds > 0 ? seconds : 1e-6),
                      (double)tally_percentile(crew->tally, 50) / 1e3, (double)tally_percentile(crew->tally, 99) / 1e3);
}

static int run(struct crew *crew)
{
    const struct consumer_settings *s = crew->settings;
    char reason[512];
    struct web *web = NULL;
    int status = 2;

    crew->meeting = meeting_new((int)s->workers);
    crew->redeliver_percent = s->redeliver_percent;
    crew->tally = metrics_open(s->state, s->way, reason, sizeof reason);
    crew->witness = crew->tally ? metrics_witness(s->state, s->way, reason, sizeof reason) : NULL;
    if (!crew->witness || (s->listen && !(web = control_start(crew, reason, sizeof reason)))) {
        (void)refuse(reason);
        goto out;
    }
    if (web)
        (void)fprintf(stderr, "payment-consumer: listening on http://127.0.0.1:%d\n", web_port(web));
    status = crew->way->keeps_ids && !s->retention_unchecked ? retention_wait(s) : -1;
    if (status < 0 && crew->way->needs_real_kafka)
        status = broker_wait(crew);
    if (status < 0) {
        serve(crew);
        summary_print(crew);
        status = 0;
    }
out:
    if (web)
        web_stop(web);
    if (crew->witness)
        idset_close(crew->witness);
    if (crew->tally)
        tally_close(crew->tally);
    meeting_free(crew->meeting);
    return status;
}

int main(int argc, char **argv)
{
    struct consumer_settings s = {.way = "unique",
                                  .database = "",
                                  .topic = "orders",
                                  .workers = 2,
                                  .batch = 100,
                                  .commit_interval_ms = 1000,
                                  .outbox_days = 1,
                                  .redis = "127.0.0.1:6379",
                                  .redis_ttl_s = 86400};
    struct arguments a = {.messages_per_day = 1000000};
    struct crew crew = {.settings = &s};
    char group[128];
    sigset_t signals = ends();
    int status = settings_read(argc, argv, &s, &a);

    if (status >= 0)
        return status;
    if (a.ways)
        return ways_print();
    if (a.size)
        return size_print(&(struct size_settings){s.database, a.messages_per_day, s.retention_days ? s.retention_days : 8}, stdout);
    points_name(point_names);
    crew.way = way_find(s.way);
    status = settings_check(&s, crew.way, a.fault);
    if (status >= 0)
        return status;
    (void)snprintf(group, sizeof group, "payment-%s", s.way);
    if (!s.group)
        s.group = group;
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return run(&crew);
}
