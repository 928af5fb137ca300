/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/buttons.h"

#include "producer-demo/lib/fetch.h"
#include "producer-demo/panel/books.h"
#include "producer-demo/panel/gauges.h"
#include "producer-demo/panel/panel.h"
#include "producer-demo/panel/patience.h"
#include "producer-demo/panel/place.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- consumers ------------------------------------------------------------------------------------------------------ */

static void consumer_name(int way, char ret_name[64])
{
    (void)snprintf(ret_name, 64, "consumer-%s", books_ways[way]);
}

/* POST /faults at one; false: it did not take it. */
static bool consumer_fault(const struct place *place, const char *body)
{
    struct fetch *fetch = fetch_open();
    struct fetch_response response;
    char url[64];

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/faults", place->port);
    fetch_send(fetch, &(struct fetch_request){.method = "POST", .url = url, .body = body, .timeout_ms = 3000}, &response);
    fetch_close(fetch);
    return response.status >= 200 && response.status < 300;
}

/* The same to all that run; returns how many took it. */
static int consumers_fault(const struct panel *panel, const char *body, int *ret_running)
{
    int took = 0;

    *ret_running = 0;
    for (int i = 0; i < BOOKS_WAYS_N; i++) {
        struct place place;
        char name[64];

        consumer_name(i, name);
        place = place_look(panel->folder, name);
        if (place.state != PLACE_RUNNING)
            continue;
        ++*ret_running;
        took += consumer_fault(&place, body);
    }
    return took;
}

/* The script starts consumers again with what this file says. */
static bool percent_keep(const struct panel *panel, int percent)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/redeliver", panel->folder);
    file = fopen(path, "we");
    if (!file)
        return false;
    (void)fprintf(file, "%d\n", percent);
    return fclose(file) == 0;
}

static bool button_redeliver(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    const json_t *value = json_object_get(arguments, "percent");
    int percent = (int)json_integer_value(value), running, took;
    char body[64];

    if (!json_is_integer(value) || percent < 0 || percent > 100) {
        (void)snprintf(ret_text, text_size, "percent is a number from 0 to 100.");
        return false;
    }
    (void)snprintf(body, sizeof body, "{\"redeliver_percent\": %d}", percent);
    took = consumers_fault(panel, body, &running);
    (void)snprintf(ret_text, text_size, "From now on %d %% of all messages arrive twice, at %d of %d consumers.", percent, took, running);
    return percent_keep(panel, percent) && took == running;
}

struct deaths {
    const struct panel *panel;
    pid_t pids[BOOKS_WAYS_N]; /* 0: does not run */
};

static int deaths_left(const struct deaths *deaths)
{
    int left = 0;

    for (int i = 0; i < BOOKS_WAYS_N; i++)
        left += deaths->pids[i] > 0 && kill(deaths->pids[i], 0) == 0;
    return left;
}

static bool all_are_dead(void *context)
{
    return deaths_left(context) == 0;
}

/* Each dies of kill -9 between the two steps of its way, where it is vulnerable, with work done that it has not committed to Kafka; who does
 * not come there within seconds is killed where it is. */
static bool button_restart_consumers(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    struct deaths deaths = {.panel = panel};
    int running, left;

    (void)arguments;
    for (int i = 0; i < BOOKS_WAYS_N; i++) {
        char name[64];

        consumer_name(i, name);
        deaths.pids[i] = place_look(panel->folder, name).pid;
    }
    (void)consumers_fault(panel, "{\"point\": \"between:1:kill\"}", &running);
    (void)patience_until(all_are_dead, &deaths, 3000);
    left = deaths_left(&deaths);
    for (int i = 0; i < BOOKS_WAYS_N; i++)
        if (deaths.pids[i] > 0)
            (void)kill(deaths.pids[i], SIGKILL);
    (void)snprintf(ret_text, text_size,
                   "kill -9 of %d consumers, %d of them between their two steps: Kafka delivers again what they had not confirmed.",
                   running, running > left ? running - left : 0);
    return running > 0;
}

/* --- relays --------------------------------------------------------------------------------------------------------- */

static double relay_gauge(const struct panel *panel, const char *name, const char *metric)
{
    struct place place = place_look(panel->folder, name);
    struct fetch *fetch;
    struct fetch_response response;
    char url[64];
    double value = -1;

    if (place.state != PLACE_RUNNING || place.port == 0)
        return -1;
    fetch = fetch_open();
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/metrics", place.port);
    fetch_send(fetch, &(struct fetch_request){.method = "GET", .url = url, .timeout_ms = 1000}, &response);
    if (response.status == 200)
        value = gauges_sum(response.body, metric);
    fetch_close(fetch);
    return value;
}

static bool relay_leads(const struct panel *panel, const char *name)
{
    return relay_gauge(panel, name, "outbox_relay_lease_held") > 0;
}

static const char *leader_find(const struct panel *panel)
{
    return relay_leads(panel, "relay-2") ? "relay-2" : "relay";
}

/* After the death of a leader: one that leads again, the other or the same in a new process. */
static bool anyone_leads(void *context)
{
    const struct panel *panel = context;

    return relay_leads(panel, "relay") || relay_leads(panel, "relay-2");
}

struct flow {
    const struct panel *panel;
    int64_t records; /* of the topic, before */
};

static bool flow_goes_on(void *context)
{
    const struct flow *flow = context;

    return tap_count(flow->panel->tap).records > flow->records;
}

/* What came of it, counted in the topic; the ledgers show the rest. */
static bool successor_tell(struct panel *panel, const char *killed, int pid, int64_t copies_before, char *ret_text, size_t text_size)
{
    int64_t begin_ms = patience_now_ms(), copies;
    bool taken_over = patience_until(anyone_leads, panel, 20000), flows;
    double took_s = (double)(patience_now_ms() - begin_ms) / 1000;
    struct flow flow = {panel, tap_count(panel->tap).records};

    if (!taken_over) {
        (void)snprintf(ret_text, text_size, "kill -9 of %s (process %d): nobody publishes after %.0f s; orders wait in the outbox.", killed,
                       pid, took_s);
        return false;
    }
    flows = patience_until(flow_goes_on, &flow, 5000);
    copies = tap_count(panel->tap).copies - copies_before;
    (void)snprintf(
        ret_text, text_size,
        "kill -9 of %s (process %d), which was publishing; %s leads after %.1f s%s. As it should be: what was not yet sent waited"
        " in the outbox, and %lld message%s went out twice, with the same id.",
        killed, pid, leader_find(panel), took_s, flows ? " and publishes" : "", (long long)copies, copies == 1 ? "" : "s");
    return true;
}

static bool button_kill_relay(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    const char *name = leader_find(panel);
    int64_t copies = tap_count(panel->tap).copies;
    pid_t pid;

    (void)arguments;
    if (!place_signal(panel->folder, name, SIGKILL, &pid)) {
        (void)snprintf(ret_text, text_size, "%s does not run at the moment.", name);
        return false;
    }
    return successor_tell(panel, name, (int)pid, copies, ret_text, text_size);
}

struct handover {
    const struct panel *panel;
    const char *from, *to;
};

static bool other_leads(void *context)
{
    const struct handover *handover = context;

    return relay_leads(handover->panel, handover->to);
}

static bool first_knows(void *context)
{
    const struct handover *handover = context;
    double held = relay_gauge(handover->panel, handover->from, "outbox_relay_lease_held");

    return held >= 0 && held < 1;
}

static bool button_pause_relay(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    struct handover handover = {.panel = panel, .from = leader_find(panel)};
    int64_t begin_ms = patience_now_ms(), paused_ms;
    bool taken_over, stepped_back;
    pid_t pid, woken;

    (void)arguments;
    handover.to = strcmp(handover.from, "relay") == 0 ? "relay-2" : "relay";
    if (!place_signal(panel->folder, handover.from, SIGSTOP, &pid)) {
        (void)snprintf(ret_text, text_size, "%s does not run at the moment.", handover.from);
        return false;
    }
    taken_over = patience_until(other_leads, &handover, 20000);
    paused_ms = patience_now_ms() - begin_ms;
    (void)place_signal(panel->folder, handover.from, SIGCONT, &woken);
    stepped_back = patience_until(first_knows, &handover, 10000);
    (void)snprintf(ret_text, text_size, "%s (process %d) stood still for %.1f s; %s %s; %s.", handover.from, (int)pid,
                   (double)paused_ms / 1000, handover.to, taken_over ? "took over" : "did not take over",
                   stepped_back ? "woken up, the first saw that its lease was over and publishes no more"
                                : "woken up, the first does not say whether it still publishes");
    return taken_over && stepped_back;
}

/* --- broker and database -------------------------------------------------------------------------------------------- */

static bool broker_answers(void *context)
{
    return progress_broker_is_up(((const struct panel *)context)->progress);
}

static bool broker_is_silent(void *context)
{
    return !broker_answers(context);
}

static bool database_answers(void *context)
{
    struct panel *panel = context;
    char why[256];
    PGconn *db = store_take(panel->store, why, sizeof why);
    bool answers = db && store_run(db, "SELECT 1", 0, NULL);

    if (db)
        store_give(panel->store, db);
    return answers;
}

static bool database_is_silent(void *context)
{
    return !database_answers(context);
}

static bool down_read(const json_t *arguments, bool *ret_down, char *ret_text, size_t text_size)
{
    const json_t *down = json_object_get(arguments, "down");

    *ret_down = json_is_true(down);
    if (json_is_boolean(down))
        return true;
    (void)snprintf(ret_text, text_size, "down is true or false.");
    return false;
}

static bool keep_down(struct panel *panel, const char *name, bool down, bool (*is_so)(void *), char *ret_text, size_t text_size)
{
    const char *what = strcmp(name, "broker") == 0 ? "The broker" : "The database";
    bool is_done;

    if (!place_keep_down(panel->folder, name, down)) {
        (void)snprintf(ret_text, text_size, "The file %s/%s.down cannot be changed: %s.", panel->folder, name, strerror(errno));
        return false;
    }
    is_done = patience_until(is_so, panel, 30000);
    if (!is_done)
        (void)snprintf(ret_text, text_size, "%s was asked to %s and has not done so for 30 s.", what, down ? "stop" : "start");
    else
        (void)snprintf(ret_text, text_size, "%s %s.", what,
                       down ? "is stopped: whatever needs it waits, and nothing is lost" : "answers again: what waited goes on by itself");
    return is_done;
}

static bool button_broker(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    bool down;

    return down_read(arguments, &down, ret_text, text_size) &&
           keep_down(context, "broker", down, down ? broker_is_silent : broker_answers, ret_text, text_size);
}

static bool button_database(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    bool down;

    return down_read(arguments, &down, ret_text, text_size) &&
           keep_down(context, "postgres", down, down ? database_is_silent : database_answers, ret_text, text_size);
}

/* --- all of them ---------------------------------------------------------------------------------------------------- */

const struct desk_row *buttons_rows(int *ret_n)
{
    static const struct desk_row rows[] = {
        {"order", button_order},
        {"twice", button_twice},
        {"bad-client", button_bad_client},
        {"redeliver", button_redeliver},
        {"restart-consumers", button_restart_consumers},
        {"kill-relay", button_kill_relay},
        {"pause-relay", button_pause_relay},
        {"broker", button_broker},
        {"database", button_database},
        {"poison", button_poison},
        {"release", button_release},
        {"reset", button_reset},
    };

    *ret_n = (int)(sizeof rows / sizeof *rows);
    return rows;
}
