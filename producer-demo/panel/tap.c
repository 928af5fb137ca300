/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/tap.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORDS_MAX 8192

struct tap {
    rd_kafka_t *consumer;
    char *topic;
    pthread_t thread;
    atomic_bool stopping;
    pthread_mutex_t mutex; /* of all below */
    struct tap_counts counts;
    int64_t begun;            /* records written into the ring */
    int buckets[RECORDS_MAX]; /* by hash of the event's id: 1 + place of its newest record, or 0 */
    int older[RECORDS_MAX];   /* likewise, of the one before in the same bucket */
    struct tap_record ring[RECORDS_MAX];
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static unsigned hash(const char *text)
{
    unsigned h = 2166136261u;

    while (*text)
        h = (h ^ (unsigned char)*text++) * 16777619u;
    return h % RECORDS_MAX;
}

/* Take the record at `place` out of its bucket, before it is overwritten. */
static void forget(struct tap *tap, int place)
{
    int *link = &tap->buckets[hash(tap->ring[place].event_id)];

    while (*link && *link != place + 1)
        link = &tap->older[*link - 1];
    if (*link)
        *link = tap->older[place];
}

static bool is_known(const struct tap *tap, const char *event_id)
{
    for (int i = tap->buckets[hash(event_id)]; i; i = tap->older[i - 1])
        if (strcmp(tap->ring[i - 1].event_id, event_id) == 0)
            return true;
    return false;
}

static void keep(struct tap *tap, const struct tap_record *record)
{
    int place = (int)(tap->begun % RECORDS_MAX);
    unsigned bucket = hash(record->event_id);

    pthread_mutex_lock(&tap->mutex);
    if (tap->begun >= RECORDS_MAX)
        forget(tap, place);
    tap->counts.records++;
    tap->counts.copies += is_known(tap, record->event_id);
    tap->ring[place] = *record;
    tap->older[place] = tap->buckets[bucket];
    tap->buckets[bucket] = place + 1;
    tap->begun++;
    pthread_mutex_unlock(&tap->mutex);
}

static void header_copy(const rd_kafka_message_t *message, const char *name, char *ret_text, size_t size)
{
    rd_kafka_headers_t *headers;
    const void *value;
    size_t n;

    ret_text[0] = 0;
    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR &&
        rd_kafka_header_get_last(headers, name, &value, &n) == RD_KAFKA_RESP_ERR_NO_ERROR && value)
        (void)snprintf(ret_text, size, "%.*s", (int)n, (const char *)value);
}

static void message_take(struct tap *tap, const rd_kafka_message_t *message)
{
    struct tap_record record = {.partition = message->partition, .offset = message->offset, .at_ms = now_ms()};

    if (message->err)
        return; /* the consumer goes on by itself */
    (void)snprintf(record.key, sizeof record.key, "%.*s", (int)message->key_len, message->key ? (const char *)message->key : "");
    header_copy(message, "id", record.event_id, sizeof record.event_id);
    header_copy(message, "idempotency-key", record.client_key, sizeof record.client_key);
    keep(tap, &record);
}

/* All partitions, from their ends; false: the broker does not say how many there are. */
static bool assign(struct tap *tap)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(tap->consumer, tap->topic, NULL);
    rd_kafka_resp_err_t error = rd_kafka_metadata(tap->consumer, 0, topic, &metadata, 1000);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);

    if (!error) {
        for (int p = 0; metadata->topic_cnt == 1 && p < metadata->topics[0].partition_cnt; p++)
            rd_kafka_topic_partition_list_add(list, tap->topic, p)->offset = RD_KAFKA_OFFSET_END;
        rd_kafka_metadata_destroy(metadata);
        if (list->cnt > 0)
            error = rd_kafka_assign(tap->consumer, list);
        else
            error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    }
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_topic_destroy(topic);
    return !error;
}

static void *tap_run(void *context)
{
    struct tap *tap = context;
    bool assigned = false;

    while (!tap->stopping) {
        rd_kafka_message_t *message;

        assigned = assigned || assign(tap);
        message = rd_kafka_consumer_poll(tap->consumer, 200);
        if (message) {
            message_take(tap, message);
            rd_kafka_message_destroy(message);
        }
    }
    return NULL;
}

static rd_kafka_conf_t *configuration(const char *kafka)
{
    static const char *const settings[][2] = {
        {"group.id", "panel"},
        {"enable.auto.commit", "false"},
        {"auto.offset.reset", "latest"},
        {"queued.max.messages.kbytes", "4096"},
        {"log.connection.close", "false"},
        {"reconnect.backoff.max.ms", "1000"},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char why[256];

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof why) != RD_KAFKA_CONF_OK)
            abort();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", kafka, why, sizeof why) != RD_KAFKA_CONF_OK)
        abort();
    rd_kafka_conf_set_log_cb(conf, NULL); /* an outage is shown, not logged */
    return conf;
}

struct tap *tap_open(const char *kafka, const char *topic, char *ret_reason, unsigned long reason_size)
{
    struct tap *tap = calloc(1, sizeof *tap);

    if (!tap || !(tap->topic = strdup(topic)))
        abort();
    pthread_mutex_init(&tap->mutex, NULL);
    tap->consumer = rd_kafka_new(RD_KAFKA_CONSUMER, configuration(kafka), ret_reason, reason_size);
    if (!tap->consumer) {
        free(tap->topic);
        free(tap);
        return NULL;
    }
    (void)rd_kafka_poll_set_consumer(tap->consumer);
    if (pthread_create(&tap->thread, NULL, tap_run, tap) != 0)
        abort();
    return tap;
}

void tap_close(struct tap *tap)
{
    tap->stopping = true;
    (void)pthread_join(tap->thread, NULL);
    (void)rd_kafka_consumer_close(tap->consumer);
    rd_kafka_destroy(tap->consumer);
    pthread_mutex_destroy(&tap->mutex);
    free(tap->topic);
    free(tap);
}

struct tap_counts tap_count(struct tap *tap)
{
    struct tap_counts counts;

    pthread_mutex_lock(&tap->mutex);
    counts = tap->counts;
    pthread_mutex_unlock(&tap->mutex);
    return counts;
}

int tap_find(struct tap *tap, const char *key, struct tap_record *ret_records, int max)
{
    int n = 0;

    pthread_mutex_lock(&tap->mutex);
    for (int64_t i = tap->begun > RECORDS_MAX ? tap->begun - RECORDS_MAX : 0; i < tap->begun && n < max; i++)
        if (strcmp(tap->ring[i % RECORDS_MAX].key, key) == 0)
            ret_records[n++] = tap->ring[i % RECORDS_MAX];
    pthread_mutex_unlock(&tap->mutex);
    return n;
}
