/* SPDX-License-Identifier: BSD-2-Clause */
/* panel: the page that shows the money. It owns nothing that it shows: the script of the demo started the processes, and this one looks at
 * them, at the database and at the topic, and presses buttons that anybody could press. */
#include "producer-demo/lib/options.h"
#include "producer-demo/lib/web.h"
#include "producer-demo/panel/books.h"
#include "producer-demo/panel/buttons.h"
#include "producer-demo/panel/panel.h"
#include "producer-demo/panel/sampler.h"
#include "producer-demo/panel/site.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct settings {
    const char *folder, *database, *kafka, *topic, *page, *chart, *absent;
    int64_t port;
};

static int settings_read(int argc, char **argv, struct settings *settings)
{
    const struct option_row rows[] = {
        {"folder", "FOLDER", "where the demo's script keeps NAME.pid and NAME.port of its processes", &settings->folder, NULL, NULL, 0, 0},
        {"database", "CONNINFO", "PostgreSQL, in libpq's words", &settings->database, NULL, NULL, 0, 0},
        {"kafka", "HOST:PORT", "the broker", &settings->kafka, NULL, NULL, 0, 0},
        {"topic", "TOPIC", "of the orders", &settings->topic, NULL, NULL, 0, 0},
        {"page", "FOLDER", "the page's files", &settings->page, NULL, NULL, 0, 0},
        {"chart", "FILE", "the chart library (Debian's libjs-chart.js)", &settings->chart, NULL, NULL, 0, 0},
        {"absent", "LINES", "why some ways are not there, \"WAY|reason\" each", &settings->absent, NULL, NULL, 0, 0},
        {"port", "PORT", "where to serve the page, on 127.0.0.1 only; 0: any free one", NULL, &settings->port, NULL, 0, 65535},
    };
    int status = options_read(argc, argv, "shows the demo's money in a browser, live", rows, sizeof rows / sizeof *rows);

    if (status >= 0)
        return status;
    if (!*settings->folder || !*settings->database || !*settings->kafka) {
        (void)fprintf(stderr, "panel: --folder, --database and --kafka are required; `make demo` gives them\n");
        return 2;
    }
    if (access(settings->chart, R_OK) != 0) {
        (void)fprintf(stderr, "panel: %s cannot be read; install libjs-chart.js, or name another with --chart\n", settings->chart);
        return 2;
    }
    return -1;
}

const char *panel_place(int i)
{
    static const char *const services[] = {"postgres", "broker", "order-service", "card-processor", "relay", "relay-2", "client"};
    static const char *const consumers[BOOKS_WAYS_N] = {"consumer-none",         "consumer-seen-cache",    "consumer-check-then-act",
                                                        "consumer-redis-before", "consumer-redis-after",   "consumer-kafka-eos",
                                                        "consumer-at-most-once", "consumer-unique",        "consumer-version",
                                                        "consumer-passthrough",  "consumer-kafka-to-kafka"};
    int services_n = (int)(sizeof services / sizeof *services);

    if (i < services_n)
        return services[i];
    return i < services_n + BOOKS_WAYS_N ? consumers[i - services_n] : NULL;
}

/* Serve until a signal comes. */
static int serve(struct panel *panel, int64_t port, const sigset_t *signals)
{
    struct site site = {.panel = panel, .port = (int)port};
    char listen[32], reason[200];
    int number;
    struct web *web;

    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", (int)port);
    web = web_start(
        &(struct web_settings){.listen = listen, .threads = 4, .body_max = 4096, .timeout_s = 10, .handler = site_handle, .context = &site},
        reason, sizeof reason);
    if (!web) {
        (void)fprintf(stderr, "panel: %s\n", reason);
        return 2;
    }
    site.port = web_port(web); /* nobody can know the address before the next line */
    (void)fprintf(stderr, "panel: listening on http://127.0.0.1:%d\n", site.port);
    (void)sigwait(signals, &number);
    web_feed_end(panel->feed);
    web_stop(web);
    return 0;
}

/* Open what reaches outside; false: what is wrong was said. */
static bool panel_reach(struct panel *panel, const struct settings *settings)
{
    static const char *const groups[BOOKS_WAYS_N] = {"payment-none",         "payment-seen-cache",    "payment-check-then-act",
                                                     "payment-redis-before", "payment-redis-after",   "payment-kafka-eos",
                                                     "payment-at-most-once", "payment-unique",        "payment-version",
                                                     "payment-passthrough",  "payment-kafka-to-kafka"};
    char reason[256];

    panel->tap = tap_open(settings->kafka, settings->topic, reason, sizeof reason);
    if (panel->tap)
        panel->progress = progress_open(settings->kafka, settings->topic, groups, BOOKS_WAYS_N, reason, sizeof reason);
    if (!panel->tap || !panel->progress) {
        (void)fprintf(stderr, "panel: Kafka at %s cannot be used: %s\n", settings->kafka, reason);
        return false;
    }
    return true;
}

static int run(const struct settings *settings, const sigset_t *signals)
{
    struct panel panel = {
        .folder = settings->folder, .topic = settings->topic, .page = settings->page, .chart = settings->chart, .absent = settings->absent};
    int rows_n, status;
    const struct desk_row *rows = buttons_rows(&rows_n);

    if (!panel_reach(&panel, settings))
        return 2;
    panel.store = store_open(settings->database, "panel", 8);
    panel.journey = journey_open();
    panel.feed = web_feed_open();
    panel.desk = desk_open(rows, rows_n, &panel);
    panel.sampler = sampler_open(&panel);
    status = serve(&panel, settings->port, signals);
    desk_close(panel.desk); /* a button may still speak to the sampler */
    sampler_close(panel.sampler);
    journey_close(panel.journey);
    store_close(panel.store);
    progress_close(panel.progress);
    tap_close(panel.tap);
    web_feed_close(panel.feed);
    return status;
}

int main(int argc, char **argv)
{
    struct settings settings = {.folder = "",
                                .database = "",
                                .kafka = "",
                                .topic = "orders",
                                .page = "producer-demo/panel/page",
                                .chart = "/usr/share/javascript/chart.js/chart.min.js",
                                .absent = ""};
    int status = settings_read(argc, argv, &settings);
    sigset_t signals;

    if (status >= 0)
        return status;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before any thread */
    return run(&settings, &signals);
}
