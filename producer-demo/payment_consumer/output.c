/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ANSWER_MS 5000
#define READ_MS   20000 /* longer than a transaction may stay open */

void output_name(const struct consumer_settings *settings, char ret_name[OUTPUT_NAME_MAX])
{
    (void)snprintf(ret_name, OUTPUT_NAME_MAX, "%.200s-%.40s", settings->topic, settings->way);
}

static void complain(const char *topic, const char *why)
{
    (void)fprintf(stderr, "payment-consumer: topic %s: %s\n", topic, why);
}

static rd_kafka_t *client_new(const struct consumer_settings *settings, const char *isolation)
{
    char group[256], why[256];
    const char *const properties[][2] = {
        {"bootstrap.servers", settings->kafka},
        {"group.id", group},
        {"enable.auto.commit", "false"},
        {"auto.offset.reset", "earliest"},
        {"fetch.wait.max.ms", "20"},
        {"isolation.level", isolation},
        {"enable.partition.eof", "true"},
        {"reconnect.backoff.max.ms", "1000"},
        {"log_level", "2"}, /* errors are told here */
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *client = NULL;

    (void)snprintf(group, sizeof group, "%.200s-output", settings->group); /* nobody joins it: partitions are assigned by hand */
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (rd_kafka_conf_set(conf, properties[i][0], properties[i][1], why, sizeof why) != RD_KAFKA_CONF_OK)
            goto failed;
    client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (client) {
        (void)rd_kafka_poll_set_consumer(client);
        return client;
    }
failed:
    complain(settings->topic, why);
    rd_kafka_conf_destroy(conf);
    return NULL;
}

/* --- making it -------------------------------------------------------------------------------------------------------- */

/* -1: nobody answers; 0: there is no such topic. */
static int partitions_count(rd_kafka_t *client, const char *topic)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t failed = rd_kafka_metadata(client, 1, NULL, &metadata, ANSWER_MS);
    int n = 0;

    if (failed) {
        complain(topic, rd_kafka_err2str(failed));
        return -1;
    }
    for (int i = 0; i < metadata->topic_cnt; i++)
        if (strcmp(metadata->topics[i].topic, topic) == 0 && !metadata->topics[i].err)
            n = metadata->topics[i].partition_cnt;
    rd_kafka_metadata_destroy(metadata);
    return n;
}

static void creation_await(rd_kafka_t *client, rd_kafka_NewTopic_t *topic)
{
    rd_kafka_queue_t *answers = rd_kafka_queue_new(client);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_event_t *answer;

    (void)rd_kafka_AdminOptions_set_operation_timeout(options, ANSWER_MS, NULL, 0);
    rd_kafka_CreateTopics(client, &topic, 1, options, answers);
    answer = rd_kafka_queue_poll(answers, 2 * ANSWER_MS);
    if (answer)
        rd_kafka_event_destroy(answer);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(answers);
}

/* Whether it worked, or another worker was first, the next look at the metadata shows. */
static void topic_create(rd_kafka_t *client, const char *name, int partitions)
{
    char why[256];
    rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, partitions, -1, why, sizeof why);

    if (!topic) {
        complain(name, why);
        return;
    }
    (void)rd_kafka_NewTopic_set_config(topic, "retention.ms", "-1");
    (void)rd_kafka_NewTopic_set_config(topic, "retention.bytes", "-1");
    creation_await(client, topic);
    rd_kafka_NewTopic_destroy(topic);
}

int output_create(const struct consumer_settings *settings, const char *name)
{
    rd_kafka_t *client = client_new(settings, "read_committed");
    int partitions = 0, input;

    if (!client)
        return 0;
    input = partitions_count(client, settings->topic);
    if (input > 0 && (partitions = partitions_count(client, name)) == 0) {
        topic_create(client, name, input);
        partitions = partitions_count(client, name);
    }
    rd_kafka_destroy(client);
    if (partitions > 0 && partitions < input)
        complain(name, "it has fewer partitions than the input; give it as many");
    return partitions >= input && input > 0 ? partitions : 0;
}

/* --- reading it -------------------------------------------------------------------------------------------------------- */

struct history {
    const char *output;
    rd_kafka_t *committed;   /* reads */
    rd_kafka_t *uncommitted; /* knows the end: to the other, what lies behind an open transaction is not there */
    int32_t partition;       /* where the reader stands; -1: nowhere */
    int64_t position;
};

struct history *history_open(const struct consumer_settings *settings, const char *output)
{
    struct history *history = calloc(1, sizeof *history);

    if (!history)
        abort();
    history->output = output;
    history->partition = -1;
    history->committed = client_new(settings, "read_committed");
    history->uncommitted = client_new(settings, "read_uncommitted");
    if (history->committed && history->uncommitted)
        return history;
    history_close(history);
    return NULL;
}

void history_close(struct history *history)
{
    if (history->committed)
        rd_kafka_destroy(history->committed);
    if (history->uncommitted)
        rd_kafka_destroy(history->uncommitted);
    free(history);
}

static bool seek(struct history *history, int32_t partition, int64_t position)
{
    rd_kafka_topic_partition_list_t *list;
    rd_kafka_resp_err_t failed;

    if (history->partition == partition && history->position == position)
        return true;
    list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, history->output, partition)->offset = position;
    failed = rd_kafka_assign(history->committed, list);
    rd_kafka_topic_partition_list_destroy(list);
    history->partition = failed ? -1 : partition;
    history->position = position;
    if (failed)
        complain(history->output, rd_kafka_err2str(failed));
    return !failed;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* One record, or the news that there is none for now. Returns how many records: 0 or 1; -1: an error, logged. */
static int step(struct history *history, history_each *each, void *context)
{
    rd_kafka_message_t *record = rd_kafka_consumer_poll(history->committed, 100);
    int n = -1;

    if (!record)
        return 0;
    if (record->partition != history->partition) /* of an earlier assignment */
        n = 0;
    else if (!record->err) {
        each(context, record);
        history->position = record->offset + 1;
        n = 1;
    } else if (record->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) { /* behind what is no record: marks of transactions, and aborted ones */
        history->position = record->offset;
        n = 0;
    } else
        complain(history->output, rd_kafka_message_errstr(record));
    rd_kafka_message_destroy(record);
    return n;
}

int history_read(struct history *history, int32_t partition, int64_t *next, int max, history_each *each, void *context)
{
    int64_t low, end, deadline_ms = now_ms() + READ_MS;
    int read = 0;
    rd_kafka_resp_err_t failed = rd_kafka_query_watermark_offsets(history->uncommitted, history->output, partition, &low, &end, ANSWER_MS);

    if (failed) {
        complain(history->output, rd_kafka_err2str(failed));
        return -1;
    }
    if (*next < end && !seek(history, partition, *next))
        return -1;
    while (*next < end) {
        int n = step(history, each, context);

        *next = history->position;
        read += n;
        if (read == max && *next < end)
            return 1;
        if (n < 0 || now_ms() > deadline_ms) {
            history->partition = -1;
            return -1;
        }
    }
    return 0;
}
