/* SPDX-License-Identifier: BSD-2-Clause */
/* payment-consumer: moves the money that the order service's events speak of, into a ledger of its own, protected from copies in one of several
 * ways, some of which do not work. */
#include "producer-demo/lib/options.h"
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/crew.h"
#include "producer-demo/payment_consumer/metrics.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX  16
#define STOP_WAIT_S  10
#define count(array) ((int)(sizeof(array) / sizeof *(array)))

static const char *const point_names[] = {POINT_BETWEEN, POINT_BEFORE_OFFSETS, POINT_AFTER_OFFSETS, NULL};

static int settings_read(int argc, char **argv, struct consumer_settings *s, const char **fault)
{
    const struct option_row rows[] = {
        {"way", "NAME", "how it protects itself: --ways lists them", .text = &s->way},
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
        {"fault", "NAME:N:ACTION", "at the Nth pass of between, before-offsets, after-offsets: kill, stop, error", .text = fault},
    };
    int status =
        options_read(argc, argv, "a payment consumer under at-least-once delivery, protected in the way you choose", rows, count(rows));

    if (status >= 0)
        return status;
    return -1;
}

static int refuse(const char *why)
{
    (void)fprintf(stderr, "payment-consumer: %s\n", why);
    return 2;
}

/* Wait for SIGTERM or SIGINT, which every thread has blocked. */
static void wait_for_signal(void)
{
    sigset_t signals;
    int got;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigwait(&signals, &got);
}

static void signals_block(void)
{
    sigset_t signals;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static int serve(struct crew *crew)
{
    struct worker_thread *threads[WORKERS_MAX];
    int64_t n = crew->settings->workers;

    for (int i = 0; i < n; i++)
        threads[i] = worker_start(crew, i);
    wait_for_signal();
    crew->stopping = true;
    for (int i = 0; i < n; i++)
        if (!worker_join(threads[i], STOP_WAIT_S)) {
            (void)fputs("payment-consumer: somebody does not answer; what was not committed comes again\n", stderr);
            _exit(0);
        }
    return 0;
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
    struct crew crew = {.settings = &s};
    const char *fault = NULL;
    char reason[512], group[128];
    int status = settings_read(argc, argv, &s, &fault);

    if (status >= 0)
        return status;
    points_name(point_names);
    crew.way = way_find(s.way);
    if (!crew.way)
        return refuse("--way: there is no such way; --help lists them");
    if (!s.kafka)
        return refuse("--kafka HOST:PORT is needed");
    if (fault && !points_arm(fault, reason, sizeof reason))
        return refuse(reason);
    (void)snprintf(group, sizeof group, "payment-%s", s.way);
    if (!s.group)
        s.group = group;
    crew.tally = metrics_open(s.state, s.way, reason, sizeof reason);
    if (!crew.tally)
        return refuse(reason);
    crew.redeliver_percent = s.redeliver_percent;
    crew.meeting = meeting_new((int)s.workers);
    signals_block();
    status = serve(&crew);
    meeting_free(crew.meeting);
    tally_close(crew.tally);
    return status;
}
