/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/edge/producer_conf.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- what is refused ---------------------------------------------------------------------------------------------- */

struct refusal {
    const char *name;
    const char *value; /* only this one is refused; NULL: any */
    const char *reason;
};

#define IDEMPOTENT "is forced to true: without it retries would repeat rows and swap them; remove it"
#define ACKS       "is forced to all: a row is marked only when every in-sync replica has it; remove it"
#define GAPLESS    "is forced to true: a row must not overtake a refused one of its key; remove it"
#define TIMEOUT    "is forced to 0: a row is never given up after a time, since later rows of its key would overtake it; remove it"
#define NO_TXN     "must not be set: the relay does not publish in Kafka transactions; remove it"
#define QUEUE      "is derived from window_rows and window_bytes; set those instead"
#define PARTITIONS "must not be set: the relay computes partitions itself, as Java's default partitioner does; remove it"
#define RETRIES    "is forced to its maximum: the idempotent producer retries until it succeeds or ends; remove it"
#define REPORTS    "is forced to false: the report of success is what marks a row; remove it"
#define EVENTS     "must not be set: librdkafka's events and callbacks are the relay's own; remove it"
#define LOGS       "must not be set: librdkafka's log goes into the relay's; use log_level and kafka.debug instead"
#define CODE       "must not be set: it would load foreign code between the relay and Kafka; remove it"
#define NO_MOCK    "must not be set: rows would go to a broker inside the relay and be lost with it; remove it"

static const struct refusal refusals[] = {
    {"enable.idempotence", NULL, IDEMPOTENT},
    {"acks", NULL, ACKS},
    {"request.required.acks", NULL, ACKS},
    {"enable.gapless.guarantee", NULL, GAPLESS},
    {"message.timeout.ms", NULL, TIMEOUT},
    {"delivery.timeout.ms", NULL, TIMEOUT},
    {"transactional.id", NULL, NO_TXN},
    {"transaction.timeout.ms", NULL, NO_TXN},
    {"queue.buffering.max.messages", NULL, QUEUE},
    {"queue.buffering.max.kbytes", NULL, QUEUE},
    {"partitioner", NULL, PARTITIONS},
    {"partitioner_cb", NULL, PARTITIONS},
    {"sticky.partitioning.linger.ms", NULL, PARTITIONS},
    {"msg_order_cmp", NULL, "must not be set: rows leave in the order of their ids; remove it"},
    {"queuing.strategy", "lifo", "must not be lifo: rows leave in the order of their ids; remove it"},
    {"retries", NULL, RETRIES},
    {"message.send.max.retries", NULL, RETRIES},
    {"delivery.report.only.error", NULL, REPORTS},
    {"enabled_events", NULL, EVENTS},
    {"background_event_cb", NULL, EVENTS},
    {"error_cb", NULL, EVENTS},
    {"throttle_cb", NULL, EVENTS},
    {"stats_cb", NULL, EVENTS},
    {"dr_cb", NULL, EVENTS},
    {"dr_msg_cb", NULL, EVENTS},
    {"consume_cb", NULL, EVENTS},
    {"rebalance_cb", NULL, EVENTS},
    {"offset_commit_cb", NULL, EVENTS},
    {"socket_cb", NULL, EVENTS},
    {"connect_cb", NULL, EVENTS},
    {"closesocket_cb", NULL, EVENTS},
    {"open_cb", NULL, EVENTS},
    {"resolve_cb", NULL, EVENTS},
    {"oauthbearer_token_refresh_cb", NULL, EVENTS},
    {"ssl.certificate.verify_cb", NULL, EVENTS},
    {"opaque", NULL, EVENTS},
    {"default_topic_conf", NULL, EVENTS},
    {"statistics.interval.ms", NULL, "must not be set: the relay has metrics of its own; remove it"},
    {"log_cb", NULL, LOGS},
    {"log_level", NULL, LOGS},
    {"log.queue", NULL, LOGS},
    {"plugin.library.paths", NULL, CODE},
    {"interceptors", NULL, CODE},
    {"test.mock.num.brokers", NULL, NO_MOCK},
    {"ut_handle_ProduceResponse", NULL, NO_MOCK},
};

/* The idempotent producer keeps the order of at most five requests. */
static bool in_flight_is_ordered(const char *value)
{
    char *end;
    long n = strtol(value, &end, 10);

    return end != value && *end == '\0' && n >= 1 && n <= 5;
}

const char *producer_refuses(const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (strcmp(refusals[i].name, name) == 0 && (refusals[i].value == NULL || strcasecmp(refusals[i].value, value) == 0))
            return refusals[i].reason;
    if ((strcmp(name, "max.in.flight") == 0 || strcmp(name, "max.in.flight.requests.per.connection") == 0) && !in_flight_is_ordered(value))
        return "must be 1 to 5: with more requests in flight the broker cannot keep the order; lower it";
    return NULL;
}

/* --- a configuration ---------------------------------------------------------------------------------------------- */

static const struct producer_property defaults[] = {
    {"client.id", "outbox-relay"},         {"linger.ms", "0"}, {"max.in.flight", "5"}, {"socket.nagle.disable", "true"},
    {"reconnect.backoff.max.ms", "2000"}, /* librdkafka's 10 s: so long after a broker is back */
    {"allow.auto.create.topics", "false"},
};

static const struct producer_property forced[] = {
    {"enable.idempotence", "true"},          {"acks", "all"}, {"enable.gapless.guarantee", "true"}, {"message.timeout.ms", "0"},
    {"delivery.report.only.error", "false"},
};

/* librdkafka may repeat a value in its message. */
static bool is_secret(const char *name)
{
    return strstr(name, "password") != NULL || strstr(name, "secret") != NULL || strstr(name, ".pem") != NULL ||
           strstr(name, "oauthbearer.config") != NULL;
}

static bool set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error, size_t error_size)
{
    char reason[300];
    rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, name, value, reason, sizeof reason);

    if (result == RD_KAFKA_CONF_OK)
        return true;
    if (result == RD_KAFKA_CONF_UNKNOWN)
        snprintf(error, error_size, "kafka.%s is not a property of librdkafka %s; correct its name or remove it", name,
                 rd_kafka_version_str());
    else if (is_secret(name))
        snprintf(error, error_size, "kafka.%s has a value that librdkafka does not take; correct it", name);
    else
        snprintf(error, error_size, "kafka.%s has a value that librdkafka does not take (%s); correct it", name, reason);
    return false;
}

static bool set_all(rd_kafka_conf_t *conf, const struct producer_property *properties, size_t n, char *error, size_t error_size)
{
    for (size_t i = 0; i < n; i++)
        if (!set(conf, properties[i].name, properties[i].value, error, error_size))
            return false;
    return true;
}

static bool set_number(rd_kafka_conf_t *conf, const char *name, uint64_t value, uint64_t most, char *error, size_t error_size)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value < most ? value : most);
    return set(conf, name, text, error, error_size);
}

uint64_t producer_conf_number(const rd_kafka_conf_t *conf, const char *name)
{
    char text[64] = "";
    size_t text_size = sizeof text;

    if (rd_kafka_conf_get(conf, name, text, &text_size) != RD_KAFKA_CONF_OK)
        return 0;
    return strtoull(text, NULL, 10);
}

rd_kafka_conf_t *producer_conf_new(const struct producer_property *properties, size_t properties_n, char *error, size_t error_size)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    if (!set_all(conf, defaults, sizeof defaults / sizeof *defaults, error, error_size) ||
        !set_all(conf, properties, properties_n, error, error_size) || !set(conf, "log.queue", "true", error, error_size)) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);
    return conf;
}

/* A row counts in librdkafka's queue until its report is destroyed, a moment after it was told: hence twice, and something. */
static bool set_queue(rd_kafka_conf_t *conf, uint32_t rows, uint64_t bytes, char *error, size_t error_size)
{
    return set_number(conf, "queue.buffering.max.messages", 2 * (uint64_t)rows + 1000, 10000000, error, error_size) &&
           set_number(conf, "queue.buffering.max.kbytes", 2 * (bytes / 1024) + 65536, INT32_MAX, error, error_size);
}

/* The broker's logs and quotas tell the two apart. What is suspected waits for nothing that it could be put together with. */
static bool set_probe(rd_kafka_conf_t *conf, char *error, size_t error_size)
{
    char id[512] = "", probe_id[528];
    size_t id_size = sizeof id;

    (void)rd_kafka_conf_get(conf, "client.id", id, &id_size);
    snprintf(probe_id, sizeof probe_id, "%s-probe", id);
    return set(conf, "client.id", probe_id, error, error_size) && set(conf, "linger.ms", "0", error, error_size);
}

rd_kafka_conf_t *producer_conf_new_session(const struct producer_property *properties, size_t properties_n,
                                           const struct producer_queue *queue, char *error, size_t error_size)
{
    rd_kafka_conf_t *conf = producer_conf_new(properties, properties_n, error, error_size);

    if (conf == NULL)
        return NULL;
    if (set_all(conf, forced, sizeof forced / sizeof *forced, error, error_size) &&
        set_queue(conf, queue->rows, queue->bytes, error, error_size) &&
        (queue->batch_bytes == 0 || producer_conf_number(conf, "batch.size") <= queue->batch_bytes ||
         set_number(conf, "batch.size", queue->batch_bytes, INT32_MAX, error, error_size)) &&
        (queue->session == RELAY_MAIN || set_probe(conf, error, error_size)))
        return conf;
    rd_kafka_conf_destroy(conf);
    return NULL;
}

uint32_t producer_conf_message_bytes_max(const struct producer_property *properties, size_t properties_n)
{
    char error[100];
    uint64_t bytes = 1000000;
    rd_kafka_conf_t *conf = producer_conf_new(properties, properties_n, error, sizeof error);

    if (conf != NULL) {
        bytes = producer_conf_number(conf, "message.max.bytes");
        rd_kafka_conf_destroy(conf);
    }
    return (uint32_t)bytes;
}

/* Files of keys and certificates are read, and properties that exclude each other are found, only when a client is made. */
bool producer_accepts(const struct producer_property *properties, size_t properties_n, char *error, size_t error_size)
{
    char reason[400];
    rd_kafka_t *client;
    const struct producer_queue queue = {.session = RELAY_MAIN, .rows = 1, .bytes = 1};
    rd_kafka_conf_t *conf = producer_conf_new_session(properties, properties_n, &queue, error, error_size);

    if (conf == NULL)
        return false;
    /* Without brokers: it must not wait for a name to be resolved. */
    (void)rd_kafka_conf_set(conf, "bootstrap.servers", "", NULL, 0);
    client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (client == NULL) {
        rd_kafka_conf_destroy(conf);
        snprintf(error, error_size, "librdkafka does not take the settings kafka.* (%s); correct them", reason);
        return false;
    }
    rd_kafka_destroy(client);
    return true;
}

void producer_conf_free_properties(struct producer_property *properties, size_t n)
{
    if (properties == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)properties[i].name);
        free((void *)(uintptr_t)properties[i].value);
    }
    free(properties);
}

struct producer_property *producer_conf_copy_properties(const struct producer_property *properties, size_t n)
{
    struct producer_property *copy = calloc(n + 1, sizeof *copy);

    for (size_t i = 0; copy != NULL && i < n; i++) {
        copy[i].name = strdup(properties[i].name);
        copy[i].value = strdup(properties[i].value);
        if (copy[i].name == NULL || copy[i].value == NULL) {
            producer_conf_free_properties(copy, n);
            copy = NULL;
        }
    }
    return copy;
}
