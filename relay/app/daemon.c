/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of the daemon. Everything runs on one loop: the edges wake it, and just before it blocks it asks the relay what to do. */
#include "relay/app/daemon.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "relay/app/daemon_faults.h"
#include "relay/app/daemon_state.h"
#include "relay/app/faults.h"
#include "relay/app/notify.h"
#include "relay/app/version.h"

enum {
    CONNECT_MS = 10000,   /* an unreachable host says nothing: so long is an attempt */
    STATEMENT_MS = 30000, /* longer than any of ours takes but behind a table lock */
    DRAINED_MS = 5000,    /* `run --drain`: rows that got nowhere for so long are waiting rows */
    END_MS = 2000         /* for handles to close, when everything is at rest */
};

/* --- time --------------------------------------------------------------------------------------------------------- */

static uint64_t clock_read_ms(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t daemon_now(struct daemon *d)
{
    if (d->clock_stale) {
        d->clock_ms = clock_read_ms(CLOCK_BOOTTIME);
        d->real_ms = (int64_t)clock_read_ms(CLOCK_REALTIME);
        d->clock_stale = false;
    }
    return d->clock_ms;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

void daemon_stop(struct daemon *d, const char *why)
{
    if (d->stopping)
        return;
    d->stopping = true;
    LOG(d->log, LOG_LEVEL_INFO, "stopping", LOG_TEXT("reason", why));
    notify_stopping();
    relay_on_stop(d->relay, daemon_now(d));
}

/* `run --drain`: is there anything left that could still be published? */
static void drain_check(struct daemon *d)
{
    struct relay_view v = relay_view(d->relay);

    if (!v.drained || d->acked_rows != d->drained_acked_rows) {
        d->drained_ms = 0;
        d->drained_acked_rows = d->acked_rows;
    }
    if (!v.drained || d->stopping)
        return;
    if (v.behind_lanes == 0 && v.behind_topics == 0) {
        daemon_stop(d, "drained");
        return;
    }
    if (d->drained_ms == 0)
        d->drained_ms = daemon_now(d);
    if (daemon_now(d) - d->drained_ms < DRAINED_MS)
        return;
    d->rows_wait = true;
    d->status = 1;
    daemon_stop(d, "drained but for waiting rows");
}

static void on_wake(uv_timer_t *timer)
{
    (void)timer; /* the loop turns, and so the relay is asked */
}

static void on_more(uv_idle_t *idle)
{
    (void)idle; /* active: the loop does not block */
}

static void on_after_poll(uv_check_t *check)
{
    ((struct daemon *)check->data)->clock_stale = true;
}

static void on_before_poll(uv_prepare_t *prepare)
{
    struct daemon *d = prepare->data;
    uint64_t until_ms;

    d->clock_stale = true;
    if (d->config->drain)
        drain_check(d);
    until_ms = daemon_act(d);
    if (d->exited) {
        uv_stop(&d->loop);
        return;
    }
    if (until_ms == 0) {
        uv_idle_start(&d->more, on_more);
        return;
    }
    uv_idle_stop(&d->more);
    uv_timer_start(&d->wake, on_wake, until_ms > daemon_now(d) ? until_ms - daemon_now(d) : 0, 0);
}

static void on_alive(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    struct relay_view v = relay_view(d->relay);

    notify_alive();
    notify_status("%s, %u rows in flight, floor %lld", v.lease_held ? "publishing" : "standing by", v.window_rows, (long long)v.floor);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct daemon *d = signal->data;

    if (d->stopping) {
        LOG(d->log, LOG_LEVEL_WARNING, "second signal, exiting at once", LOG_NUMBER("signal", number));
        d->status = 1;
        d->exited = true;
        uv_stop(&d->loop);
        return;
    }
    daemon_stop(d, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* --- from settings to parts --------------------------------------------------------------------------------------- */

static uint64_t batch_bytes_of(const struct config *c)
{
    uint64_t bytes = 1000000; /* librdkafka's default */

    for (size_t i = 0; i < c->kafka_n; i++) {
        if (strcmp(c->kafka[i].name, "batch.size") == 0)
            bytes = strtoull(c->kafka[i].value, NULL, 10);
    }
    return bytes;
}

static enum relay_durability durability_of(const struct config *c)
{
    switch (c->durability) {
    case CONFIG_DURABILITY_OFF:
        return RELAY_DURABILITY_OFF;
    case CONFIG_DURABILITY_LOCAL:
        break;
    case CONFIG_DURABILITY_REPLICATED:
        return RELAY_DURABILITY_REPLICATED;
    }
    return RELAY_DURABILITY_LOCAL;
}

static struct relay_limits limits_of(const struct config *c)
{
    struct relay_limits l = relay_limits_default();

    l.fetch_rows = c->fetch_rows;
    l.window_rows = c->window_rows;
    l.window_bytes = c->window_bytes;
    if (l.lane_rows > l.fetch_rows * 5)
        l.lane_rows = l.fetch_rows * 5;
    if (l.settled_rows < l.fetch_rows)
        l.settled_rows = l.fetch_rows;
    if (l.ranges_max <= l.settled_rows * 2)
        l.ranges_max = l.settled_rows * 2;
    l.poll_min_ms = c->poll_min_ms;
    l.poll_max_ms = c->poll_max_ms;
    l.lease_ttl_ms = c->lease_ttl_ms;
    l.lease_margin_ms = c->lease_ttl_ms / 5;
    l.backoff_min_ms = c->backoff_min_ms;
    l.backoff_max_ms = c->backoff_max_ms;
    l.shutdown_ms = c->shutdown_ms;
    l.batch_bytes = batch_bytes_of(c);
    l.durability = durability_of(c);
    l.seed = clock_read_ms(CLOCK_REALTIME) ^ (uint64_t)getpid() << 32;
    return l;
}

static bool start_producer(struct daemon *d, const struct relay_limits *limits)
{
    const struct config *c = d->config;
    struct producer_property *properties = calloc(c->kafka_n + 1, sizeof *properties);

    if (properties == NULL)
        return false;
    for (size_t i = 0; i < c->kafka_n; i++)
        properties[i] = (struct producer_property){.name = c->kafka[i].name, .value = c->kafka[i].value};
    d->producer = producer_new(&d->loop, properties, c->kafka_n, limits->topics_max, limits->window_rows, limits->window_bytes,
                               daemon_fault_producer(daemon_producer_callbacks()), d);
    free(properties);
    return d->producer != NULL;
}

static struct outbox_settings outbox_settings_of(const struct daemon *d, const struct relay_limits *limits)
{
    const struct config *c = d->config;

    return (struct outbox_settings){
        .database = c->database,
        .pooled = c->pooled == CONFIG_POOLED_ON,
        .replicated = c->durability == CONFIG_DURABILITY_REPLICATED,
        .table = c->table,
        .name = c->name,
        .instance = c->instance,
        .mark = c->mark == CONFIG_MARK_DELETE ? OUTBOX_MARK_DELETE : OUTBOX_MARK_SENT_AT,
        .window_rows = limits->window_rows,
        .topics_max = limits->topics_max,
        .row_bytes_max = producer_message_bytes_max(d->producer),
        .lease_ttl_ms = limits->lease_ttl_ms,
        .connect_ms = CONNECT_MS,
        .statement_ms = STATEMENT_MS,
    };
}

static bool start_outbox(struct daemon *d, const struct relay_limits *limits)
{
    struct outbox_settings settings = outbox_settings_of(d, limits);

    d->outbox = outbox_new(&d->loop, &settings, daemon_fault_outbox(daemon_outbox_callbacks()), d);
    return d->outbox != NULL;
}

static bool start_parts(struct daemon *d)
{
    struct relay_limits limits = limits_of(d->config);

    d->stats = stats_new(limits.topics_max);
    d->relay = relay_new(&limits, daemon_now(d));
    return d->stats != NULL && d->relay != NULL && start_producer(d, &limits) && start_outbox(d, &limits);
}

static void start_handles(struct daemon *d)
{
    uint64_t alive_ms = notify_alive_interval_ms();

    uv_prepare_init(&d->loop, &d->before_poll);
    uv_check_init(&d->loop, &d->after_poll);
    uv_idle_init(&d->loop, &d->more);
    uv_timer_init(&d->loop, &d->wake);
    uv_timer_init(&d->loop, &d->alive);
    uv_signal_init(&d->loop, &d->terminate);
    uv_signal_init(&d->loop, &d->interrupt);
    d->before_poll.data = d->after_poll.data = d->alive.data = d->terminate.data = d->interrupt.data = d;
    uv_prepare_start(&d->before_poll, on_before_poll);
    uv_check_start(&d->after_poll, on_after_poll);
    uv_signal_start(&d->terminate, on_signal, SIGTERM);
    uv_signal_start(&d->interrupt, on_signal, SIGINT);
    if (alive_ms > 0)
        uv_timer_start(&d->alive, on_alive, 0, alive_ms);
}

/* How many rows the drain left is known to the table only. */
static void tell_waiting(struct daemon *d)
{
    struct relay_limits limits = limits_of(d->config);
    struct outbox_settings settings = outbox_settings_of(d, &limits);
    struct relay_view v = relay_view(d->relay);
    char error[512];
    int64_t rows = -1;

    if (!outbox_count(&settings, &rows, error, sizeof error))
        LOG(d->log, LOG_LEVEL_WARNING, "waiting rows were not counted", LOG_TEXT("reason", error));
    LOG(d->log, LOG_LEVEL_ERROR, "only waiting rows remain", LOG_NUMBER("rows", rows), LOG_NUMBER("partitions", v.behind_lanes),
        LOG_NUMBER("topics", v.behind_topics));
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void on_part_freed(void *data)
{
    (void)data;
}

static void on_end(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Everything is at rest: give all back, so that a leak is seen as one. Returns false if some handle did not close in time. */
static bool end_parts(struct daemon *d)
{
    uv_timer_t end;

    if (d->http != NULL)
        http_free(d->http, on_part_freed, d);
    producer_free(d->producer, on_part_freed, d);
    outbox_free(d->outbox, on_part_freed, d);
    uv_close((uv_handle_t *)&d->before_poll, NULL);
    uv_close((uv_handle_t *)&d->after_poll, NULL);
    uv_close((uv_handle_t *)&d->more, NULL);
    uv_close((uv_handle_t *)&d->wake, NULL);
    uv_close((uv_handle_t *)&d->alive, NULL);
    uv_close((uv_handle_t *)&d->terminate, NULL);
    uv_close((uv_handle_t *)&d->interrupt, NULL);
    uv_timer_init(&d->loop, &end);
    uv_timer_start(&end, on_end, END_MS, 0);
    uv_unref((uv_handle_t *)&end);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&end, NULL);
    uv_run(&d->loop, UV_RUN_NOWAIT);
    return uv_loop_close(&d->loop) == 0;
}

static void free_parts(struct daemon *d)
{
    headers_reset(&d->headers);
    relay_free(d->relay);
    stats_free(d->stats);
}

/* --- run ---------------------------------------------------------------------------------------------------------- */

static enum log_level log_level_of(enum config_log_level level)
{
    static const enum log_level levels[] = {[CONFIG_LOG_ERROR] = LOG_LEVEL_ERROR,
                                            [CONFIG_LOG_WARNING] = LOG_LEVEL_WARNING,
                                            [CONFIG_LOG_INFO] = LOG_LEVEL_INFO,
                                            [CONFIG_LOG_DEBUG] = LOG_LEVEL_DEBUG};

    return levels[level];
}

static bool start_http(struct daemon *d, char *error, size_t error_size)
{
    if (d->config->listen[0] == '\0')
        return true;
    d->http = http_new(&d->loop, d->config->listen, daemon_render, d, error, error_size);
    return d->http != NULL;
}

int daemon_run(const struct config *c, bool *ret_busy)
{
    struct daemon *d = calloc(1, sizeof *d);
    char error[512] = "out of memory";
    bool at_rest = false;

    faults_start();
    /* libuv has four threads for what may block. With a name server that is silent, two old sessions, the learner and both new sessions
     * may wait in it, and the database's names must be asked for all the same. */
    (void)setenv("UV_THREADPOOL_SIZE", "8", 0);
    if (d == NULL || uv_loop_init(&d->loop) != 0) {
        fprintf(stderr, "outbox-relay: %s\n", error);
        free(d);
        return 2;
    }
    d->config = c;
    d->clock_stale = true;
    d->log = log_new(STDERR_FILENO, log_level_of(c->log_level), c->name);
    if (d->log == NULL || !start_parts(d) || !start_http(d, error, sizeof error)) {
        fprintf(stderr, "outbox-relay: %s\n", error);
        d->status = 2;
        return 2; /* the process ends: nothing was begun that needs an orderly end */
    }
    start_handles(d);
    LOG(d->log, LOG_LEVEL_INFO, "started", LOG_TEXT("version", RELAY_VERSION), LOG_TEXT("instance", c->instance),
        LOG_NUMBER("port", d->http != NULL ? http_port(d->http) : 0));
    uv_run(&d->loop, UV_RUN_DEFAULT);
    if (d->rows_wait)
        tell_waiting(d);
    at_rest = producer_is_closed(d->producer) && relay_view(d->relay).handed_rows == 0 && d->status == 0;
    LOG(d->log, LOG_LEVEL_INFO, "stopped", LOG_NUMBER("status", d->status), LOG_NUMBER("published", d->acked_rows));
    if (at_rest && end_parts(d)) {
        int status = d->status;

        free_parts(d);
        log_free(d->log);
        free(d);
        return status;
    }
    *ret_busy = true; /* left to the end of the process: waiting for it could take for ever */
    return d->status;
}
