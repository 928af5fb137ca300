/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/meters.h"

#include "producer-demo/lib/fetch.h"
#include "producer-demo/panel/gauges.h"
#include "producer-demo/panel/place.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS         7 /* a histogram is kept for every ten seconds or so of the last minute */
#define SLOT_READINGS 9

enum count {
    COUNT_DELIVERIES,
    COUNT_APPLIED,
    COUNT_SUPPRESSED,
    COUNT_LOST,
    COUNT_DUPLICATES,
    COUNT_REFUSED,
    COUNTS_N
};

static const struct {
    const char *name, *metric;
} counts[COUNTS_N] = {
    {"deliveries", "payment_deliveries_total"}, {"applied", "payment_applied_total"},
    {"suppressed", "payment_suppressed_total"}, {"lost", "payment_lost_total"},
    {"duplicates", "payment_duplicates_total"}, {"refused", "payment_refused_total"},
};

struct way_meter {
    bool answered;
    double now[COUNTS_N], base[COUNTS_N];
    int64_t p50_us, p99_us;
    struct gauges_histogram latency, before[SLOTS]; /* the oldest first */
    int readings;
};

struct relay_meter {
    bool answered, leads, database_up, kafka_up;
    double published, republished, held_keys;
};

static const char *const relay_names[] = {"relay", "relay-2"};

#define RELAYS_N 2

struct meters {
    const char *folder;
    struct fetch *fetch;
    atomic_bool forgetting;
    struct way_meter ways[BOOKS_WAYS_N];
    struct relay_meter relays[RELAYS_N];
    struct {
        bool answered;
        double replays, mismatches, conflicts;
        double base[3];
    } service;
};

struct meters *meters_open(const char *folder)
{
    struct meters *meters = calloc(1, sizeof *meters);

    if (!meters)
        abort();
    meters->folder = folder;
    meters->fetch = fetch_open();
    return meters;
}

void meters_close(struct meters *meters)
{
    fetch_close(meters->fetch);
    free(meters);
}

void meters_forget(struct meters *meters)
{
    meters->forgetting = true;
}

/* The text of its /metrics, lent until the next one; NULL: it does not answer. */
static const char *metrics_fetch(struct meters *meters, const char *name)
{
    struct place place = place_look(meters->folder, name);
    struct fetch_response response;
    char url[64];

    if (place.state != PLACE_RUNNING || place.port == 0)
        return NULL;
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/metrics", place.port);
    fetch_send(meters->fetch, &(struct fetch_request){.method = "GET", .url = url, .timeout_ms = 400}, &response);
    if (response.status == 0) /* the connection that was kept open may be of a process that is gone */
        fetch_send(meters->fetch, &(struct fetch_request){.method = "GET", .url = url, .timeout_ms = 400}, &response);
    return response.status == 200 ? response.body : NULL;
}

static void latency_read(struct way_meter *meter, const char *text)
{
    gauges_histogram_read(text, "payment_latency_seconds", &meter->latency);
    meter->p50_us = gauges_percentile(&meter->before[0], &meter->latency, 50);
    meter->p99_us = gauges_percentile(&meter->before[0], &meter->latency, 99);
    if (++meter->readings % SLOT_READINGS)
        return;
    memmove(meter->before, meter->before + 1, (SLOTS - 1) * sizeof *meter->before);
    meter->before[SLOTS - 1] = meter->latency;
}

static void way_read(struct meters *meters, int way, bool forgetting)
{
    struct way_meter *meter = &meters->ways[way];
    const char *text;
    char name[64];

    (void)snprintf(name, sizeof name, "consumer-%s", books_ways[way]);
    text = metrics_fetch(meters, name);
    meter->answered = text;
    for (int i = 0; text && i < COUNTS_N; i++)
        meter->now[i] = gauges_sum(text, counts[i].metric);
    for (int i = 0; i < COUNTS_N; i++)
        if (forgetting || meter->now[i] < meter->base[i]) /* less than before: its file is new */
            meter->base[i] = forgetting ? meter->now[i] : 0;
    if (text)
        latency_read(meter, text);
}

static void relay_read(struct meters *meters, int relay)
{
    const char *text = metrics_fetch(meters, relay_names[relay]);
    struct relay_meter *meter = &meters->relays[relay];

    meter->answered = text;
    meter->leads = false;
    if (!text)
        return;
    meter->leads = gauges_sum(text, "outbox_relay_lease_held") > 0;
    meter->database_up = gauges_sum(text, "outbox_relay_database_up") > 0;
    meter->kafka_up = gauges_sum(text, "outbox_relay_kafka_up") > 0;
    meter->published = gauges_sum(text, "outbox_relay_published_total");
    meter->republished = gauges_sum(text, "outbox_relay_republished_total");
    meter->held_keys = gauges_sum(text, "outbox_relay_held_keys");
}

static void service_read(struct meters *meters)
{
    const char *text = metrics_fetch(meters, "order-service");

    meters->service.answered = text;
    if (!text)
        return;
    meters->service.replays = gauges_sum_labelled(text, "order_service_keys_total", "outcome=\"replay\"");
    meters->service.mismatches = gauges_sum_labelled(text, "order_service_keys_total", "outcome=\"mismatch\"");
    meters->service.conflicts = gauges_sum_labelled(text, "order_service_keys_total", "outcome=\"conflict\"");
}

void meters_read(struct meters *meters)
{
    bool forgetting = atomic_exchange(&meters->forgetting, false);

    for (int way = 0; way < BOOKS_WAYS_N; way++)
        way_read(meters, way, forgetting);
    for (int relay = 0; relay < RELAYS_N; relay++)
        relay_read(meters, relay);
    service_read(meters);
}

json_t *meters_way(const struct meters *meters, int way)
{
    const struct way_meter *meter = &meters->ways[way];
    json_t *object =
        json_pack("{s:b, s:I, s:I}", "answered", meter->answered, "p50_us", (json_int_t)meter->p50_us, "p99_us", (json_int_t)meter->p99_us);

    for (int i = 0; i < COUNTS_N; i++)
        json_object_set_new(object, counts[i].name, json_integer((json_int_t)(meter->now[i] - meter->base[i])));
    return object;
}

json_t *meters_relays(const struct meters *meters)
{
    json_t *list = json_array();

    for (int i = 0; i < RELAYS_N; i++) {
        const struct relay_meter *meter = &meters->relays[i];

        json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:I, s:I, s:I, s:b, s:b}", "name", relay_names[i], "answered",
                                              meter->answered, "leads", meter->leads, "published", (json_int_t)meter->published,
                                              "republished", (json_int_t)meter->republished, "held_keys", (json_int_t)meter->held_keys,
                                              "database_up", meter->database_up, "kafka_up", meter->kafka_up));
    }
    return list;
}

json_t *meters_service(const struct meters *meters)
{
    return json_pack("{s:b, s:I, s:I, s:I}", "answered", meters->service.answered, "replays", (json_int_t)meters->service.replays,
                     "mismatches", (json_int_t)meters->service.mismatches, "conflicts", (json_int_t)meters->service.conflicts);
}
