/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/kafka_client.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define ASK_MS 1000

static void log_ignore(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    (void)client, (void)level, (void)facility, (void)text;
}

rd_kafka_t *kafka_client_new(const char *bootstrap)
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
int kafka_client_partitions(rd_kafka_t *client, const char *topic)
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
    rd_kafka_t *client = kafka_client_new(bootstrap);
    int n = kafka_client_partitions(client, topic);
    rd_kafka_destroy(client);
    return n;
}

/* NULL: nobody answers within ASK_MS. */
static const struct rd_kafka_metadata *metadata_ask(const char *bootstrap)
{
    const struct rd_kafka_metadata *m = NULL;
    rd_kafka_t *client = kafka_client_new(bootstrap);
    if (rd_kafka_metadata(client, 1, NULL, &m, ASK_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        m = NULL;
    rd_kafka_destroy(client);
    return m;
}

static const struct rd_kafka_metadata_topic *topic_find(const struct rd_kafka_metadata *m, const char *topic)
{
    for (int i = 0; m != NULL && i < m->topic_cnt; i++)
        if (strcmp(m->topics[i].topic, topic) == 0)
            return &m->topics[i];
    return NULL;
}

int kafka_brokers(const char *bootstrap)
{
    const struct rd_kafka_metadata *m = metadata_ask(bootstrap);
    int n = m != NULL ? m->broker_cnt : -1;
    if (m != NULL)
        rd_kafka_metadata_destroy(m);
    return n;
}

int kafka_topic_led_by(const char *bootstrap, const char *topic, int node)
{
    const struct rd_kafka_metadata *m = metadata_ask(bootstrap);
    const struct rd_kafka_metadata_topic *t = topic_find(m, topic);
    int n = m != NULL ? 0 : -1;
    for (int p = 0; t != NULL && p < t->partition_cnt; p++)
        n += t->partitions[p].leader == node;
    if (m != NULL)
        rd_kafka_metadata_destroy(m);
    return n;
}

int kafka_topic_in_sync(const char *bootstrap, const char *topic, int partition)
{
    const struct rd_kafka_metadata *m = metadata_ask(bootstrap);
    const struct rd_kafka_metadata_topic *t = topic_find(m, topic);
    int n = -1;
    for (int p = 0; t != NULL && p < t->partition_cnt; p++)
        if (t->partitions[p].id == partition)
            n = t->partitions[p].isr_cnt;
    if (m != NULL)
        rd_kafka_metadata_destroy(m);
    return n;
}

int64_t kafka_topic_records(const char *bootstrap, const char *topic, int first)
{
    rd_kafka_t *client = kafka_client_new(bootstrap);
    int partitions = kafka_client_partitions(client, topic);
    int64_t n = 0;
    for (int p = first; p < partitions; p++) {
        int64_t low, high;
        WAIT_UNTIL(rd_kafka_query_watermark_offsets(client, topic, p, &low, &high, ASK_MS) == RD_KAFKA_RESP_ERR_NO_ERROR, 20);
        n += high;
    }
    rd_kafka_destroy(client);
    return n;
}
