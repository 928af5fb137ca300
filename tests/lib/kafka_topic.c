/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define ASK_MS    1000
#define CHANGE_MS 20000

static void log_ignore(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    (void)client, (void)level, (void)facility, (void)text;
}

static rd_kafka_t *client_new(const char *bootstrap)
{
    char error[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, log_ignore);
    if (rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof error) != RD_KAFKA_CONF_OK)
        test_fail(__FILE__, __LINE__, "%s", error);
    rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    if (client == NULL)
        test_fail(__FILE__, __LINE__, "%s", error);
    return client;
}

static int partitions_count(const struct rd_kafka_metadata *m, const char *topic)
{
    if (m->broker_cnt == 0)
        return -1;
    for (int i = 0; i < m->topic_cnt; i++) {
        const struct rd_kafka_metadata_topic *t = &m->topics[i];
        if (topic == NULL || strcmp(t->topic, topic) != 0 || t->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        for (int p = 0; p < t->partition_cnt; p++)
            if (t->partitions[p].leader < 0)
                return 0;
        return t->partition_cnt;
    }
    return 0;
}

/* -1: nobody answers, or no broker has registered yet. */
static int partitions_ask(rd_kafka_t *client, const char *topic)
{
    const struct rd_kafka_metadata *m;
    if (rd_kafka_metadata(client, 1, NULL, &m, ASK_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return -1;
    int n = partitions_count(m, topic);
    rd_kafka_metadata_destroy(m);
    return n;
}

int kafka_topic_partitions(const char *bootstrap, const char *topic)
{
    rd_kafka_t *client = client_new(bootstrap);
    int n = partitions_ask(client, topic);
    rd_kafka_destroy(client);
    return n;
}

static void config_add(rd_kafka_NewTopic_t *topic, const char *config)
{
    char *copy = strdup(config), *rest = copy;
    for (char *pair; copy != NULL && (pair = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(pair, '=');
        if (value == NULL)
            test_fail(__FILE__, __LINE__, "\"%s\" is not name=value", pair);
        *value++ = 0;
        rd_kafka_NewTopic_set_config(topic, pair, value);
    }
    free(copy);
}

/* The one answer of an admin operation, which fails the test if it is an error. */
static void answer_check(rd_kafka_queue_t *queue, const char *what, const char *topic)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, CHANGE_MS * (int)test_slow());
    if (event == NULL)
        test_fail(__FILE__, __LINE__, "%s topic %s: no answer", what, topic);
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        test_fail(__FILE__, __LINE__, "%s topic %s: %s", what, topic, rd_kafka_event_error_string(event));
    size_t n = 0;
    const rd_kafka_CreateTopics_result_t *created = rd_kafka_event_CreateTopics_result(event);
    const rd_kafka_DeleteTopics_result_t *deleted = rd_kafka_event_DeleteTopics_result(event);
    const rd_kafka_topic_result_t **results = created != NULL   ? rd_kafka_CreateTopics_result_topics(created, &n)
                                              : deleted != NULL ? rd_kafka_DeleteTopics_result_topics(deleted, &n)
                                                                : NULL;
    if (n != 1 || rd_kafka_topic_result_error(results[0]) != RD_KAFKA_RESP_ERR_NO_ERROR)
        test_fail(__FILE__, __LINE__, "%s topic %s: %s", what, topic,
                  n == 1 ? rd_kafka_topic_result_error_string(results[0]) : "no result");
    rd_kafka_event_destroy(event);
}

void kafka_topic_create(const char *bootstrap, const char *topic, int partitions, const char *config)
{
    char error[256];
    rd_kafka_t *client = client_new(bootstrap);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_NewTopic_t *wanted = rd_kafka_NewTopic_new(topic, partitions, 1, error, sizeof error);
    if (wanted == NULL)
        test_fail(__FILE__, __LINE__, "topic %s: %s", topic, error);
    if (config != NULL)
        config_add(wanted, config);
    rd_kafka_CreateTopics(client, &wanted, 1, NULL, queue);
    answer_check(queue, "create", topic);
    rd_kafka_NewTopic_destroy(wanted);
    WAIT_UNTIL(partitions_ask(client, topic) == partitions, 20);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(client);
}

void kafka_topic_delete(const char *bootstrap, const char *topic)
{
    rd_kafka_t *client = client_new(bootstrap);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_DeleteTopic_t *unwanted = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_DeleteTopics(client, &unwanted, 1, NULL, queue);
    answer_check(queue, "delete", topic);
    rd_kafka_DeleteTopic_destroy(unwanted);
    WAIT_UNTIL(partitions_ask(client, topic) == 0, 20);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(client);
}
