/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/demo/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "producer-demo/lib/uuid.h"
#include "tests/lib/kafka_client.h"
#include "tests/lib/test.h"

#define EVENTS_MAX 20000

struct stream_event {
    char id[37], order[37], type[20];
    int version;
    int64_t delta_cents, balance_cents;
};

struct stream stream_start(const char *bootstrap)
{
    struct stream stream = {.db = postgres_start(NULL), .bootstrap = bootstrap};
    char error[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    stream.written = test_allocate(EVENTS_MAX * sizeof *stream.written);
    CHECK_EQ(rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof error), RD_KAFKA_CONF_OK);
    CHECK_EQ(rd_kafka_conf_set(conf, "enable.idempotence", "true", error, sizeof error), RD_KAFKA_CONF_OK);
    stream.producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    CHECK(stream.producer);
    postgres_query(stream.db.conninfo, "CREATE SCHEMA shop; CREATE TABLE shop.intended (order_id uuid PRIMARY KEY, cents bigint);"
                                       "CREATE TABLE shop.event (event_id uuid PRIMARY KEY)");
    return stream;
}

static void event_send(const struct stream *stream, const struct stream_event *event)
{
    const char *payload = program_text("{\"order_id\":\"%s\",\"version\":%d,\"type\":\"%s\",\"customer\":\"c\",\"delta_cents\":%" PRId64
                                       ",\"balance_cents\":%" PRId64 ",\"at\":\"2026-01-01T00:00:00Z\"}",
                                       event->order, event->version, event->type, event->delta_cents, event->balance_cents);
    rd_kafka_resp_err_t failed =
        rd_kafka_producev(stream->producer, RD_KAFKA_V_TOPIC("orders"), RD_KAFKA_V_KEY((void *)(uintptr_t)event->order, 36),
                          RD_KAFKA_V_VALUE((void *)(uintptr_t)payload, strlen(payload)), RD_KAFKA_V_HEADER("id", event->id, -1),
                          RD_KAFKA_V_HEADER("type", event->type, -1), RD_KAFKA_V_HEADER("client-id", "tests \"1\"", -1),
                          RD_KAFKA_V_HEADER("idempotency-key", event->order, -1), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);

    CHECK_EQ(failed, RD_KAFKA_RESP_ERR_NO_ERROR);
}

static void event_write(struct stream *stream, struct stream_event event)
{
    CHECK(stream->events < EVENTS_MAX);
    uuid_print(uuid_make(), event.id);
    stream->written[stream->events++] = event;
    event_send(stream, &event);
}

static void sent_await(const struct stream *stream)
{
    CHECK_EQ(rd_kafka_flush(stream->producer, 60000), RD_KAFKA_RESP_ERR_NO_ERROR);
}

/* Returns what it should have moved in the end. */
static int64_t order_place(struct stream *stream, const char *order, int number)
{
    struct stream_event event = {.type = "order-placed", .version = 1, .delta_cents = 100 + number * 37 % 1000};

    event.balance_cents = event.delta_cents;
    (void)snprintf(event.order, sizeof event.order, "%s", order);
    event_write(stream, event);
    if (number % 5 == 0) {
        (void)snprintf(event.type, sizeof event.type, "order-moved");
        event.version++;
        event.delta_cents = 0;
        event_write(stream, event);
    }
    if (number % 7 == 0) {
        (void)snprintf(event.type, sizeof event.type, "order-cancelled");
        event.version++;
        event.delta_cents = -event.balance_cents;
        event.balance_cents = 0;
        event_write(stream, event);
    }
    return event.balance_cents;
}

static void events_note(const struct stream *stream, int64_t first)
{
    char *ids = test_allocate((size_t)(stream->events - first) * 40 + 1);
    size_t n = 0;

    for (int64_t i = first; i < stream->events; i++)
        n += (size_t)snprintf(ids + n, 41, "%s%s", i > first ? "," : "", stream->written[i].id);
    postgres_query(stream->db.conninfo, "INSERT INTO shop.event SELECT unnest('{%s}'::uuid[])", ids);
}

void stream_place(struct stream *stream, int orders)
{
    char *values = test_allocate((size_t)orders * 64 + 1);
    size_t n = 0;
    int64_t before = stream->events;

    for (int i = 1; i <= orders; i++) {
        char order[37];
        int64_t cents;

        uuid_print(uuid_make(), order);
        cents = order_place(stream, order, i);
        n += (size_t)snprintf(values + n, 64, "%s('%s',%" PRId64 ")", i > 1 ? "," : "", order, cents);
    }
    postgres_query(stream->db.conninfo, "INSERT INTO shop.intended VALUES %s", values);
    events_note(stream, before);
    sent_await(stream);
}

void stream_repeat(struct stream *stream, int n)
{
    for (int64_t i = stream->events - n; i < stream->events; i++)
        event_send(stream, &stream->written[i]);
    sent_await(stream);
}

struct program stream_consumer(const struct stream *stream, const char *way, const char *const *flags)
{
    const char *arguments[PROGRAM_ARGUMENTS_MAX] = {"--way",
                                                    way,
                                                    "--kafka",
                                                    stream->bootstrap,
                                                    "--state",
                                                    program_text("%s/state-%s", temp_folder(), way),
                                                    "--commit-interval-ms",
                                                    "300",
                                                    "--database",
                                                    program_text("%s", stream->db.conninfo)};
    int n = 10;

    (void)mkdir(arguments[5], 0755);
    for (; flags && *flags; flags++)
        arguments[n++] = *flags;
    return program_serve("payment-consumer", arguments);
}

static rd_kafka_t *group_ask(const struct stream *stream, const char *way)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char error[256];
    rd_kafka_t *client;

    (void)rd_kafka_conf_set(conf, "bootstrap.servers", stream->bootstrap, error, sizeof error);
    (void)rd_kafka_conf_set(conf, "isolation.level", "read_uncommitted", error, sizeof error);
    (void)rd_kafka_conf_set(conf, "group.id", program_text("payment-%s", way), error, sizeof error);
    client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
    CHECK(client);
    return client;
}

int64_t stream_lag(const struct stream *stream, const char *way)
{
    rd_kafka_t *client = group_ask(stream, way);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(STREAM_PARTITIONS);
    int64_t lag = 0;

    rd_kafka_topic_partition_list_add_range(list, "orders", 0, STREAM_PARTITIONS - 1);
    if (rd_kafka_committed(client, list, 5000))
        lag = -1;
    for (int i = 0; i < STREAM_PARTITIONS && lag >= 0; i++) {
        int64_t low, high, done = list->elems[i].offset > 0 ? list->elems[i].offset : 0;

        lag = rd_kafka_query_watermark_offsets(client, "orders", i, &low, &high, 5000) ? -1 : lag + high - done;
    }
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(client);
    return lag;
}

int stream_members(const struct stream *stream, const char *way)
{
    rd_kafka_t *client = group_ask(stream, way);
    const struct rd_kafka_group_list *groups = NULL;
    int n = -1;

    if (!rd_kafka_list_groups(client, program_text("payment-%s", way), &groups, 5000) && groups->group_cnt == 1)
        n = groups->groups[0].member_cnt;
    if (groups)
        rd_kafka_group_list_destroy(groups);
    rd_kafka_destroy(client);
    return n;
}

/* A table or view of its ledger. */
static const char *table_of(const char *way, const char *table)
{
    char *name = (char *)(uintptr_t)program_text("ledger_%s.%s", way, table);

    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    return name;
}

static const char *effects_of(const char *way)
{
    return table_of(way, strcmp(way, "kafka-to-kafka") == 0 ? "output" : "entry");
}

int64_t stream_drift(const struct stream *stream, const char *way)
{
    return postgres_number(stream->db.conninfo,
                           "SELECT (SELECT coalesce(sum(cents), 0) FROM %s) - (SELECT coalesce(sum(cents), 0) FROM shop.intended)",
                           table_of(way, "balance"));
}

int64_t stream_doubled(const struct stream *stream, const char *way)
{
    return postgres_number(stream->db.conninfo, "SELECT count(*) FROM (SELECT FROM %s GROUP BY event_id HAVING count(*) > 1) d",
                           effects_of(way));
}

int64_t stream_lost(const struct stream *stream, const char *way)
{
    return postgres_number(stream->db.conninfo,
                           "SELECT count(*) FROM shop.event e WHERE NOT EXISTS (SELECT FROM %s a WHERE a.event_id = e.event_id)",
                           effects_of(way));
}
