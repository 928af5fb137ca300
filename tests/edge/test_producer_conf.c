/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties that would break order, loss or the loop are refused with a reason; all others pass. */
#include <stdio.h>
#include <string.h>

#include "relay/edge/producer.h"
#include "relay/edge/producer_conf.h"
#include "relay/edge/producer_record.h"
#include "tests/lib/test.h"

static void check_refused(const char *name, const char *value)
{
    const char *reason = producer_refuses(name, value);

    if (reason == NULL)
        test_fail(__FILE__, __LINE__, "%s=%s is not refused", name, value);
    CHECK(strlen(reason) > 20);
}

TEST(producer_refuses_what_it_forces)
{
    check_refused("enable.idempotence", "false");
    check_refused("enable.idempotence", "true");
    check_refused("acks", "1");
    check_refused("request.required.acks", "-1");
    check_refused("enable.gapless.guarantee", "false");
    check_refused("message.timeout.ms", "300000");
    check_refused("delivery.timeout.ms", "0");
    check_refused("transactional.id", "x");
    check_refused("queue.buffering.max.messages", "10");
    check_refused("queue.buffering.max.kbytes", "10");
    check_refused("partitioner", "murmur2_random");
    check_refused("retries", "0");
    check_refused("message.send.max.retries", "10");
    check_refused("delivery.report.only.error", "true");
    check_refused("queuing.strategy", "lifo");
    check_refused("queuing.strategy", "LIFO");
    check_refused("plugin.library.paths", "/tmp/x.so");
    check_refused("test.mock.num.brokers", "3");
    check_refused("background_event_cb", "x");
    check_refused("log_level", "7");
    check_refused("max.in.flight", "6");
    check_refused("max.in.flight", "1000000");
    check_refused("max.in.flight.requests.per.connection", "10");
    check_refused("max.in.flight", "0");
    check_refused("max.in.flight", "5x");
    check_refused("max.in.flight", "");
}

TEST(producer_lets_others_pass)
{
    static const char *const others[][2] = {{"bootstrap.servers", "a:1,b:2"},
                                            {"linger.ms", "5"},
                                            {"queue.buffering.max.ms", "5"},
                                            {"max.in.flight", "1"},
                                            {"max.in.flight", "5"},
                                            {"batch.size", "100000"},
                                            {"queuing.strategy", "fifo"},
                                            {"compression.type", "zstd"},
                                            {"client.id", "x"},
                                            {"allow.auto.create.topics", "true"},
                                            {"debug", "all"}};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (producer_refuses(others[i][0], others[i][1]) != NULL)
            test_fail(__FILE__, __LINE__, "%s is refused: %s", others[i][0], producer_refuses(others[i][0], others[i][1]));
}

/* Files are read only when a client is made. */
TEST(producer_accepts_no_certificate_that_is_not_there)
{
    struct producer_property properties[] = {{"security.protocol", "ssl"}, {"ssl.ca.location", "/nowhere/ca.pem"}};
    char error[500] = "";

    CHECK(!producer_accepts(properties, 2, error, sizeof error));
    CHECK(strstr(error, "ssl.ca.location") != NULL);
}

static void check_not_accepted(const char *name, const char *value, const char *with, const char *without)
{
    struct producer_property properties[] = {{"bootstrap.servers", "127.0.0.1:1"}, {name, value}};
    char error[500] = "";

    CHECK(!producer_accepts(properties, 2, error, sizeof error));
    if (strstr(error, with) == NULL || (without != NULL && strstr(error, without) != NULL))
        test_fail(__FILE__, __LINE__, "%s=%s: %s", name, value, error);
}

TEST(producer_accepts_what_librdkafka_takes)
{
    struct producer_property good[] = {{"bootstrap.servers", "no-such-host.invalid:9092"}, {"compression.type", "lz4"}};
    char error[500] = "";
    uint64_t begin_ms = test_now_ms();

    CHECK(producer_accepts(good, 2, error, sizeof error));
    CHECK(test_now_ms() - begin_ms < 2000); /* it resolves no name */
    check_not_accepted("bootstrap.server", "x", "kafka.bootstrap.server is not a property", NULL);
    check_not_accepted("linger.ms", "soon", "kafka.linger.ms has a value", NULL);
    check_not_accepted("compression.type", "rar", "kafka.compression.type", NULL);
    check_not_accepted("security.protocol", "telnet", "kafka.security.protocol", NULL);
    check_not_accepted("linger.ms", "-5", "kafka.linger.ms", NULL);
}

TEST(producer_conf_forces_and_derives)
{
    struct producer_property properties[] = {{"linger.ms", "7"}, {"batch.size", "300000"}};
    char error[300], text[64];
    size_t text_size = sizeof text;
    rd_kafka_conf_t *conf =
        producer_conf_new_session(properties, 2, &(struct producer_queue){RELAY_MAIN, 50000, 64 << 20, 200000}, error, sizeof error);

    CHECK(conf != NULL);
    CHECK_EQ(producer_conf_number(conf, "batch.size"), 200000);
    CHECK_EQ(producer_conf_number(conf, "linger.ms"), 7);
    CHECK_EQ(producer_conf_number(conf, "max.in.flight"), 5);
    CHECK_EQ(producer_conf_number(conf, "message.timeout.ms"), 0);
    CHECK(producer_conf_number(conf, "queue.buffering.max.messages") >= 100000);
    CHECK(producer_conf_number(conf, "queue.buffering.max.kbytes") >= 2 * 65536);
    CHECK_EQ(rd_kafka_conf_get(conf, "enable.gapless.guarantee", text, &text_size), RD_KAFKA_CONF_OK);
    CHECK_STR(text, "true");
    rd_kafka_conf_destroy(conf);
    conf = producer_conf_new_session(properties, 2, &(struct producer_queue){RELAY_PROBE, 50000, 64 << 20, 400000}, error, sizeof error);
    CHECK_EQ(producer_conf_number(conf, "batch.size"), 300000);
    CHECK_EQ(producer_conf_number(conf, "linger.ms"), 0);
    CHECK_EQ(producer_conf_number(conf, "reconnect.backoff.max.ms"), 2000);
    text_size = sizeof text;
    CHECK_EQ(rd_kafka_conf_get(conf, "client.id", text, &text_size), RD_KAFKA_CONF_OK);
    CHECK_STR(text, "outbox-relay-probe");
    rd_kafka_conf_destroy(conf);
    conf = producer_conf_new_session(properties, 1, &(struct producer_queue){RELAY_MAIN, 10000000, UINT64_MAX / 4, 0}, error, sizeof error);
    CHECK(conf != NULL);
    rd_kafka_conf_destroy(conf);
}

/* The exact sizes are compared with a broker's limit in test_producer_kafka.c. */
TEST(producer_record_counts_what_kafka_counts)
{
    struct producer_header header = {"id", 2, "x", 1};
    struct producer_record record = {.payload = "", .payload_n = 0};

    CHECK_EQ(record_batch_bytes(&record), 61 + 1 + 6);
    record.payload = NULL;
    CHECK_EQ(record_batch_bytes(&record), 61 + 1 + 6);
    record.key = "k";
    record.key_n = 1;
    CHECK_EQ(record_batch_bytes(&record), 61 + 1 + 7);
    record.headers = &header;
    record.headers_n = 1;
    CHECK_EQ(record_batch_bytes(&record), 61 + 1 + 7 + 5);
}
