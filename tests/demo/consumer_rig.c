/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/demo/consumer_rig.h"

#include "producer-demo/lib/fetch.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static rd_kafka_t *producer_new(const char *bootstrap)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char why[256] = "";
    rd_kafka_t *producer = NULL;

    if (rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, why, sizeof why) == RD_KAFKA_CONF_OK &&
        rd_kafka_conf_set(conf, "linger.ms", "5", why, sizeof why) == RD_KAFKA_CONF_OK)
        producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (!producer)
        test_fail(__FILE__, __LINE__, "%s", why);
    return producer;
}

struct consumer_rig consumer_rig_new(const char *way, const struct kafka *kafka)
{
    struct consumer_rig rig = {.way = way, .topic = "orders"};

    rig.db = postgres_start("fsync = off");
    if (kafka) {
        (void)snprintf(rig.kafka, sizeof rig.kafka, "%s", kafka->bootstrap);
        kafka_topic_create(rig.kafka, rig.topic, RIG_PARTITIONS, NULL);
    } else {
        rig.mock = mock_start(1);
        (void)snprintf(rig.kafka, sizeof rig.kafka, "%s", rig.mock.bootstrap);
        mock_command(&rig.mock, "topic %s %d", rig.topic, RIG_PARTITIONS);
    }
    rig.producer = producer_new(rig.kafka);
    (void)snprintf(rig.state, sizeof rig.state, "%s/state", temp_folder());
    CHECK(mkdir(rig.state, 0755) == 0);
    return rig;
}

static void produce(struct consumer_rig *rig, const char *key, const char *payload, const char *id)
{
    rd_kafka_resp_err_t failed;

    do {
        failed = rd_kafka_producev(rig->producer, RD_KAFKA_V_TOPIC(rig->topic), RD_KAFKA_V_KEY((void *)(uintptr_t)key, strlen(key)),
                                   RD_KAFKA_V_VALUE((void *)(uintptr_t)payload, strlen(payload)), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                   RD_KAFKA_V_HEADER("id", id, -1), RD_KAFKA_V_HEADER("type", "order-placed", -1),
                                   RD_KAFKA_V_HEADER("client-id", "tests", -1), RD_KAFKA_V_END);
        (void)rd_kafka_poll(rig->producer, failed ? 50 : 0);
    } while (failed == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    CHECK(!failed);
}

void consumer_rig_event(struct consumer_rig *rig, struct consumer_event event)
{
    static const struct uuid none;
    char id[37], order[37], payload[512];
    int64_t cents = 1000 + event.order, delta = event.delta_cents ? event.delta_cents : cents;

    uuid_print(memcmp(&event.id, &none, sizeof none) ? event.id : uuid_make(), id);
    uuid_print(uuid_derive(1767225600000, "order", "", event.order), order);
    (void)snprintf(payload, sizeof payload,
                   "{\"order_id\": \"%s\", \"version\": %" PRId64 ", \"type\": \"order-placed\", \"delta_cents\": %" PRId64
                   ", \"balance_cents\": %" PRId64 "}",
                   order, event.version ? event.version : 1, delta, event.balance_cents ? event.balance_cents : cents);
    produce(rig, order, event.payload ? event.payload : payload, id);
    rig->events++;
    rig->intended_cents += event.unintended ? 0 : delta;
}

void consumer_rig_orders(struct consumer_rig *rig, int first, int n)
{
    for (int i = first; i < first + n; i++)
        consumer_rig_event(rig, (struct consumer_event){.order = i});
}

void consumer_rig_flush(struct consumer_rig *rig)
{
    CHECK(rd_kafka_flush(rig->producer, 30000) == RD_KAFKA_RESP_ERR_NO_ERROR);
}

struct process consumer_rig_process(const struct consumer_rig *rig, const char *listen, const char *const *more)
{
    const char *argv[48] = {TEST_BUILD_FOLDER "/payment-consumer",
                            "--way",
                            rig->way,
                            "--database",
                            rig->db.conninfo,
                            "--kafka",
                            rig->kafka,
                            "--state",
                            rig->state,
                            "--listen",
                            listen,
                            "--seed",
                            "7"};
    int n = 13;

    while (argv[n - 1] && *more && n < 47)
        argv[n++] = *more++;
    return process_start(argv, NULL, NULL);
}

void consumer_rig_start(struct consumer_rig *rig, const char *const *more)
{
    const char *said;

    rig->consumer = consumer_rig_process(rig, "127.0.0.1:0", more);
    WAIT_UNTIL(strstr(process_output(&rig->consumer), "listening on") || !process_running(&rig->consumer), 20);
    said = strstr(process_output(&rig->consumer), "http://127.0.0.1:");
    CHECK(said);
    rig->port = atoi(said + strlen("http://127.0.0.1:"));
}

void consumer_rig_stop(struct consumer_rig *rig)
{
    process_signal(&rig->consumer, SIGTERM);
    CHECK_EQ(process_wait(&rig->consumer, 20), 0);
}

static int ask(const struct consumer_rig *rig, const char *method, const char *path, const char *body, char *ret_body, size_t size)
{
    struct fetch *fetch = fetch_open();
    struct fetch_response response;
    char url[128];

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d%s", rig->port, path);
    fetch_send(fetch, &(struct fetch_request){.method = method, .url = url, .body = body, .timeout_ms = 5000}, &response);
    (void)snprintf(ret_body, size, "%s", response.body ? response.body : "");
    fetch_close(fetch);
    return response.status;
}

int consumer_rig_fault(struct consumer_rig *rig, const char *body)
{
    char answer[1000];

    return ask(rig, "POST", "/faults", body, answer, sizeof answer);
}

static int64_t value_find(const struct consumer_rig *rig, const char *metrics, const char *name, const char *labels)
{
    char wanted[200];
    const char *at;

    (void)snprintf(wanted, sizeof wanted, "\npayment_%s{way=\"%s\"%s} ", name, rig->way, labels);
    at = strstr(metrics, wanted);
    return at ? strtoll(at + strlen(wanted), NULL, 10) : -1;
}

int64_t consumer_rig_metric(struct consumer_rig *rig, const char *name, const char *labels)
{
    char metrics[20000];

    if (ask(rig, "GET", "/metrics", NULL, metrics, sizeof metrics) != 200)
        return -1;
    return value_find(rig, metrics, name, labels);
}

/* Of a topic, the records beyond what its group has committed; -1: nobody answers. */
static int64_t lag(const struct consumer_rig *rig)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(RIG_PARTITIONS);
    char group[64], why[256];
    int64_t sum = 0;
    rd_kafka_t *client;

    (void)snprintf(group, sizeof group, "payment-%s", rig->way);
    (void)rd_kafka_conf_set(conf, "bootstrap.servers", rig->kafka, why, sizeof why);
    (void)rd_kafka_conf_set(conf, "group.id", group, why, sizeof why);
    client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    CHECK(client);
    rd_kafka_topic_partition_list_add_range(list, rig->topic, 0, RIG_PARTITIONS - 1);
    if (rd_kafka_committed(client, list, 5000))
        sum = -1;
    for (int i = 0; i < list->cnt && sum >= 0; i++) {
        int64_t low, high, at = list->elems[i].offset;

        if (rd_kafka_query_watermark_offsets(client, rig->topic, i, &low, &high, 5000))
            sum = -1;
        else
            sum += high - (at < 0 ? low : at);
    }
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(client);
    return sum;
}

bool consumer_rig_settled(struct consumer_rig *rig)
{
    return lag(rig) == 0;
}

int64_t consumer_rig_number(const struct consumer_rig *rig, const char *sql)
{
    char conninfo[600], schema[64];

    (void)snprintf(schema, sizeof schema, "ledger_%s", rig->way);
    for (char *c = schema; *c; c++)
        *c = *c == '-' ? '_' : *c;
    (void)snprintf(conninfo, sizeof conninfo, "%s options='-c search_path=%s'", rig->db.conninfo, schema);
    return postgres_number(conninfo, "%s", sql);
}

int64_t consumer_rig_drift(const struct consumer_rig *rig)
{
    return consumer_rig_number(rig, "SELECT coalesce(sum(cents), 0) FROM balance") - rig->intended_cents;
}
