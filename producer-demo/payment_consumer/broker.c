/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/broker.h"

#include <librdkafka/rdkafka.h>
#include <string.h>

#define ANSWER_MS 2000

/* What librdkafka calls its embedded cluster; a number follows. */
static const char embedded[] = "mockCluster";

static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
    (void)client;
    (void)level;
    (void)facility;
    (void)text; /* who waits for the broker says so */
}

enum broker_kind broker_ask(const char *kafka)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum broker_kind kind = BROKER_UNKNOWN;
    char why[256], *id;
    rd_kafka_t *client;

    rd_kafka_conf_set_log_cb(conf, on_log);
    (void)rd_kafka_conf_set(conf, "bootstrap.servers", kafka, why, sizeof why);
    client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!client) {
        rd_kafka_conf_destroy(conf);
        return BROKER_UNKNOWN;
    }
    id = rd_kafka_clusterid(client, ANSWER_MS);
    if (id) {
        kind = strncmp(id, embedded, sizeof embedded - 1) == 0 ? BROKER_EMBEDDED : BROKER_REAL;
        rd_kafka_mem_free(client, id);
    }
    rd_kafka_destroy(client);
    return kind;
}
