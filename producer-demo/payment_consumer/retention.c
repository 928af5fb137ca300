/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/retention.h"

#include "producer-demo/lib/store.h"
#include "producer-demo/payment_consumer/processed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 5000

/* --- the topic ------------------------------------------------------------------------------------------------------- */

/* retention.ms out of an answer to DescribeConfigs; false: it is not in it. */
static bool answer_read(const rd_kafka_event_t *answer, int64_t *ret_ms, char *ret_reason, size_t reason_size)
{
    size_t resources_n, entries_n;
    const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result((rd_kafka_event_t *)(uintptr_t)answer), &resources_n);
    const rd_kafka_ConfigEntry_t **entries;

    if (resources_n == 0 || rd_kafka_ConfigResource_error(resources[0])) {
        (void)snprintf(ret_reason, reason_size, "retention.ms of the topic: %s",
                       resources_n == 0 ? "no answer" : rd_kafka_err2str(rd_kafka_ConfigResource_error(resources[0])));
        return false;
    }
    entries = rd_kafka_ConfigResource_configs(resources[0], &entries_n);
    for (size_t i = 0; i < entries_n; i++)
        if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), "retention.ms") == 0) {
            *ret_ms = strtoll(rd_kafka_ConfigEntry_value(entries[i]), NULL, 10);
            return true;
        }
    (void)snprintf(ret_reason, reason_size, "retention.ms of the topic: the broker does not tell it");
    return false;
}

static bool topic_ask(rd_kafka_t *client, const char *topic, int64_t *ret_ms, char *ret_reason, size_t reason_size)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_event_t *answer;
    bool told = false;

    (void)rd_kafka_AdminOptions_set_request_timeout(options, ANSWER_MS, NULL, 0);
    rd_kafka_DescribeConfigs(client, &resource, 1, options, queue);
    answer = rd_kafka_queue_poll(queue, ANSWER_MS + 1000);
    if (!answer || rd_kafka_event_error(answer))
        (void)snprintf(ret_reason, reason_size, "retention.ms of the topic: %s",
                       answer ? rd_kafka_event_error_string(answer) : "no answer");
    else
        told = answer_read(answer, ret_ms, ret_reason, reason_size);
    if (answer)
        rd_kafka_event_destroy(answer);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy(resource);
    rd_kafka_queue_destroy(queue);
    return told;
}

static bool topic_retention(const struct consumer_settings *settings, int64_t *ret_ms, char *ret_reason, size_t reason_size)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *client = NULL;
    bool told = false;

    if (rd_kafka_conf_set(conf, "bootstrap.servers", settings->kafka, ret_reason, reason_size) == RD_KAFKA_CONF_OK)
        client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, ret_reason, reason_size);
    if (!client) {
        rd_kafka_conf_destroy(conf);
        return false;
    }
    told = topic_ask(client, settings->topic, ret_ms, ret_reason, reason_size);
    rd_kafka_destroy(client);
    return told;
}

/* --- the outbox ------------------------------------------------------------------------------------------------------ */

/* Unsent events lie above the relay's position, or above what a row of outbox.behind says. */
static const char oldest_unsent[] =
    "SELECT coalesce(extract(epoch FROM clock_timestamp() - min(created_at)) * 1000, 0)::bigint FROM outbox.event"
    " WHERE sent_at IS NULL AND id >= least((SELECT floor + 1 FROM outbox.position), (SELECT min(first_id) FROM outbox.behind))";

/* The age of the oldest event that is not sent; 0 if there is none, or no outbox in this database. */
static bool outbox_age(const struct consumer_settings *settings, int64_t *ret_ms, char *ret_reason, size_t reason_size)
{
    PGconn *db = PQconnectdb(settings->database);
    PGresult *rows = store_query(db, "SELECT to_regclass('outbox.event'), to_regclass('outbox.behind')", 0, NULL);
    bool outbox = store_succeeded(rows) && !PQgetisnull(rows, 0, 0) && !PQgetisnull(rows, 0, 1), told = store_succeeded(rows);

    *ret_ms = 0;
    PQclear(rows);
    if (outbox) {
        rows = store_query(db, oldest_unsent, 0, NULL);
        told = store_succeeded(rows);
        if (told)
            *ret_ms = strtoll(PQgetvalue(rows, 0, 0), NULL, 10);
        PQclear(rows);
    }
    if (!told)
        (void)snprintf(ret_reason, reason_size, "the oldest event of the outbox: %.*s", (int)strcspn(PQerrorMessage(db), "\n"),
                       PQerrorMessage(db));
    PQfinish(db);
    return told;
}

/* --- both ------------------------------------------------------------------------------------------------------------- */

enum retention_verdict retention_compare(const struct consumer_settings *settings, int64_t topic_ms, int64_t outbox_ms, char *ret_reason,
                                         size_t reason_size)
{
    int64_t needed_ms;

    if (outbox_ms < settings->outbox_days * PROCESSED_DAY_MS)
        outbox_ms = settings->outbox_days * PROCESSED_DAY_MS;
    needed_ms = topic_ms + outbox_ms;
    if (topic_ms >= 0 && settings->retention_days * PROCESSED_DAY_MS >= needed_ms)
        return RETENTION_FINE;
    if (topic_ms < 0)
        (void)snprintf(ret_reason, reason_size,
                       "--retention-days %" PRId64
                       ": topic %s keeps its records for ever (retention.ms), so a copy may come at any time; set"
                       " its retention, or say --retention-unchecked",
                       settings->retention_days, settings->topic);
    else
        (void)snprintf(ret_reason, reason_size,
                       "--retention-days %" PRId64
                       ": topic %s keeps its records for %.1f days (retention.ms) and the outbox may hold an event"
                       " for %.1f: say at least %" PRId64 ", or --retention-unchecked",
                       settings->retention_days, settings->topic, (double)topic_ms / PROCESSED_DAY_MS, (double)outbox_ms / PROCESSED_DAY_MS,
                       (needed_ms + PROCESSED_DAY_MS - 1) / PROCESSED_DAY_MS);
    return RETENTION_SHORT;
}

enum retention_verdict retention_check(const struct consumer_settings *settings, char *ret_reason, size_t reason_size)
{
    int64_t topic_ms = 0, outbox_ms = 0;

    if (!topic_retention(settings, &topic_ms, ret_reason, reason_size) || !outbox_age(settings, &outbox_ms, ret_reason, reason_size))
        return RETENTION_UNKNOWN;
    return retention_compare(settings, topic_ms, outbox_ms, ret_reason, reason_size);
}
