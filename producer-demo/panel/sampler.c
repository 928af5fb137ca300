/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/sampler.h"

#include "producer-demo/panel/meters.h"
#include "producer-demo/panel/patience.h"
#include "producer-demo/panel/place.h"
#include "producer-demo/panel/timeline.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sampler {
    struct panel *panel;
    struct meters *meters;
    struct timeline *timeline;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopping;
    /* Of the thread alone; what the database said last is shown, as old, while it says nothing. */
    struct place places[PANEL_PLACES_MAX];
    struct books_pipeline pipeline;
    struct book books[BOOKS_WAYS_N];
    json_t *journey;
    bool database_up, broker_up, looked; /* looked: at least once */
    bool was_database_up, was_broker_up; /* ever */
    char database_why[256];
    int64_t books_at_ms;
};

int64_t sampler_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- processes ------------------------------------------------------------------------------------------------------ */

static void change_mark(struct sampler *sampler, const char *name, const struct place *before, const struct place *now)
{
    bool is_consumer = strncmp(name, "consumer-", 9) == 0;
    char text[80];

    if (before->pid == now->pid || before->pid == 0 || strcmp(name, "client") == 0 || strcmp(name, "postgres") == 0)
        return; /* the client is nobody's topic; the database tells by not answering */
    if (is_consumer)
        (void)snprintf(text, sizeof text, "consumers restarted");
    else
        (void)snprintf(text, sizeof text, "%s killed", name);
    timeline_mark(sampler->timeline, sampler_now_ms(), text);
}

static void places_look(struct sampler *sampler)
{
    for (int i = 0; panel_place(i); i++) {
        struct place now = place_look(sampler->panel->folder, panel_place(i));

        if (sampler->looked) {
            change_mark(sampler, panel_place(i), &sampler->places[i], &now);
            if (now.state == PLACE_FROZEN && sampler->places[i].state == PLACE_RUNNING) {
                char text[80];

                (void)snprintf(text, sizeof text, "%s paused", panel_place(i));
                timeline_mark(sampler->timeline, sampler_now_ms(), text);
            }
        }
        sampler->places[i] = now;
    }
    sampler->looked = true;
}

static json_t *places_list(const struct sampler *sampler)
{
    json_t *list = json_array();

    for (int i = 0; panel_place(i); i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:i}", "name", panel_place(i), "state",
                                              place_state_name(sampler->places[i].state), "pid", (int)sampler->places[i].pid));
    return list;
}

/* --- the database --------------------------------------------------------------------------------------------------- */

static bool books_read(struct sampler *sampler, PGconn *db)
{
    struct panel *panel = sampler->panel;
    struct book books[BOOKS_WAYS_N];
    struct books_pipeline pipeline;

    for (int i = 0; i < BOOKS_WAYS_N; i++)
        if (!books_compare(db, books_ways[i], panel->topic, progress_look(panel->progress, i).settled_ms, &books[i]))
            return false;
    if (!books_pipeline_read(db, &pipeline))
        return false;
    memcpy(sampler->books, books, sizeof books);
    sampler->pipeline = pipeline;
    sampler->books_at_ms = sampler_now_ms();
    timeline_add(sampler->timeline, sampler->books_at_ms, books);
    json_decref(sampler->journey);
    sampler->journey = journey_look(panel->journey, db, panel->tap);
    return true;
}

static void database_look(struct sampler *sampler)
{
    bool was_up = sampler->database_up;
    PGconn *db = store_take(sampler->panel->store, sampler->database_why, sizeof sampler->database_why);

    sampler->database_up = db && books_read(sampler, db);
    if (db && !sampler->database_up)
        (void)snprintf(sampler->database_why, sizeof sampler->database_why, "%.*s", (int)strcspn(PQerrorMessage(db), "\n"),
                       PQerrorMessage(db));
    if (db)
        store_give(sampler->panel->store, db);
    if (sampler->was_database_up && was_up != sampler->database_up)
        timeline_mark(sampler->timeline, sampler_now_ms(), sampler->database_up ? "database back" : "database away");
    sampler->was_database_up = sampler->was_database_up || sampler->database_up;
}

static void broker_look(struct sampler *sampler)
{
    bool was_up = sampler->broker_up;

    sampler->broker_up = progress_broker_is_up(sampler->panel->progress);
    if (sampler->was_broker_up && was_up != sampler->broker_up)
        timeline_mark(sampler->timeline, sampler_now_ms(), sampler->broker_up ? "broker back" : "broker away");
    sampler->was_broker_up = sampler->was_broker_up || sampler->broker_up;
}

/* --- what is published ---------------------------------------------------------------------------------------------- */

static json_t *ways_list(const struct sampler *sampler)
{
    json_t *list = json_array();

    for (int i = 0; i < BOOKS_WAYS_N; i++) {
        const struct book *book = &sampler->books[i];
        struct progress_group group = progress_look(sampler->panel->progress, i);
        char name[64];
        struct place place;

        (void)snprintf(name, sizeof name, "consumer-%s", books_ways[i]);
        place = place_look(sampler->panel->folder, name);
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "way", books_ways[i], "state",
                                              place_state_name(place.state), "known", book->known, "intended_cents",
                                              (json_int_t)book->intended_cents, "actual_cents", (json_int_t)book->actual_cents,
                                              "drift_cents", (json_int_t)(book->actual_cents - book->intended_cents), "orders",
                                              (json_int_t)book->orders, "open", (json_int_t)book->open_orders, "lag", (json_int_t)group.lag,
                                              "counts", meters_way(sampler->meters, i)));
    }
    return list;
}

static json_t *pipeline_object(const struct sampler *sampler)
{
    const struct books_pipeline *pipeline = &sampler->pipeline;
    struct tap_counts counts = tap_count(sampler->panel->tap);

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:o, s:o}", "orders", (json_int_t)pipeline->orders,
                     "orders_minute", (json_int_t)pipeline->orders_minute, "events", (json_int_t)pipeline->events, "backlog",
                     (json_int_t)pipeline->backlog, "backlog_age_ms", (json_int_t)pipeline->backlog_age_ms, "intents_doubled",
                     (json_int_t)pipeline->intents_doubled, "doubled_cents", (json_int_t)pipeline->doubled_cents, "intended_cents",
                     (json_int_t)pipeline->intended_cents, "leader", pipeline->leader, "records", (json_int_t)counts.records, "copies",
                     (json_int_t)counts.copies, "relays", meters_relays(sampler->meters), "service", meters_service(sampler->meters));
}

/* What the script starts consumers with, and the button changes; -1: nobody said. */
static int redeliver_percent(const struct panel *panel)
{
    char path[512], text[16] = "-1";
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/redeliver", panel->folder);
    file = fopen(path, "re");
    if (!file)
        return -1;
    if (!fgets(text, sizeof text, file))
        text[0] = 0;
    (void)fclose(file);
    return (int)strtol(text, NULL, 10);
}

static json_t *snapshot(const struct sampler *sampler)
{
    struct panel *panel = sampler->panel;

    return json_pack("{s:I, s:I, s:{s:b, s:s}, s:b, s:i, s:o, s:o, s:o, s:O, s:o, s:o, s:s}", "at", (json_int_t)sampler_now_ms(),
                     "books_at", (json_int_t)sampler->books_at_ms, "database", "up", sampler->database_up, "why",
                     sampler->database_up ? "" : sampler->database_why, "broker_up", sampler->broker_up, "redeliver",
                     redeliver_percent(panel), "places", places_list(sampler), "ways", ways_list(sampler), "pipeline",
                     pipeline_object(sampler), "journey", sampler->journey, "marks", timeline_marks(sampler->timeline), "presses",
                     desk_list(panel->desk), "absent", panel->absent);
}

static void publish(struct sampler *sampler)
{
    json_t *object = snapshot(sampler);
    char *json = object ? json_dumps(object, JSON_COMPACT) : NULL, *event = NULL;
    int n;

    if (!json || (n = asprintf(&event, "data: %s\n\n", json)) < 0)
        abort();
    web_feed_publish(sampler->panel->feed, event, (size_t)n);
    free(json);
    json_decref(object);
}

/* --- the thread ----------------------------------------------------------------------------------------------------- */

/* Wait a second, or twice as long as looking took; false: stop. */
static bool pause_take(struct sampler *sampler, int64_t took_ms)
{
    int64_t until_ms = patience_now_ms() + (took_ms * 2 > 1000 - took_ms ? took_ms * 2 : 1000 - took_ms);
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    bool stopping;

    pthread_mutex_lock(&sampler->mutex);
    while (!sampler->stopping && pthread_cond_timedwait(&sampler->changed, &sampler->mutex, &until) == 0)
        continue;
    stopping = sampler->stopping;
    pthread_mutex_unlock(&sampler->mutex);
    return !stopping;
}

static void *sampler_run(void *context)
{
    struct sampler *sampler = context;
    int64_t begin_ms;

    do {
        begin_ms = patience_now_ms();
        places_look(sampler);
        meters_read(sampler->meters);
        broker_look(sampler);
        database_look(sampler);
        publish(sampler);
    } while (pause_take(sampler, patience_now_ms() - begin_ms));
    return NULL;
}

struct sampler *sampler_open(struct panel *panel)
{
    struct sampler *sampler = calloc(1, sizeof *sampler);
    pthread_condattr_t monotonic;

    if (!sampler)
        abort();
    sampler->panel = panel;
    sampler->meters = meters_open(panel->folder);
    sampler->timeline = timeline_open();
    sampler->journey = json_null();
    pthread_mutex_init(&sampler->mutex, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&sampler->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (pthread_create(&sampler->thread, NULL, sampler_run, sampler) != 0)
        abort();
    return sampler;
}

void sampler_close(struct sampler *sampler)
{
    pthread_mutex_lock(&sampler->mutex);
    sampler->stopping = true;
    pthread_cond_signal(&sampler->changed);
    pthread_mutex_unlock(&sampler->mutex);
    (void)pthread_join(sampler->thread, NULL);
    json_decref(sampler->journey);
    meters_close(sampler->meters);
    timeline_close(sampler->timeline);
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->mutex);
    free(sampler);
}

void sampler_forget(struct sampler *sampler)
{
    meters_forget(sampler->meters);
    timeline_forget(sampler->timeline);
}

json_t *sampler_history(struct sampler *sampler)
{
    return timeline_points(sampler->timeline);
}
