/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs of the bench have in common: failing with a sentence, the clock, and librdkafka handles made from a list of
 * properties. Blocking libpq and librdkafka on purpose; each program is one file. */
#ifndef TESTS_BENCH_CLIENT_H
#define TESTS_BENCH_CLIENT_H

#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One sentence on stderr, then exit status 2. */
__attribute__((format(printf, 1, 2))) _Noreturn static inline void client_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

static inline int64_t client_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A positive number from the command line; anything else fails with `what`. */
static inline long client_number(const char *text, const char *what)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < 0)
        client_fail("%s is not a number: %s", what, text);
    return value;
}

/* `pairs`: name, value, name, value, ..., NULL. The handle is the caller's. `on_report` may be NULL. */
typedef void client_report(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *data);
static inline rd_kafka_t *client_kafka(rd_kafka_type_t type, const char *const *pairs, client_report *on_report)
{
    char error[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    for (; *pairs != NULL; pairs += 2)
        if (rd_kafka_conf_set(conf, pairs[0], pairs[1], error, sizeof error) != RD_KAFKA_CONF_OK)
            client_fail("librdkafka refuses %s: %s", pairs[0], error);
    if (on_report != NULL)
        rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_t *kafka = rd_kafka_new(type, conf, error, sizeof error);
    if (kafka == NULL)
        client_fail("no Kafka client: %s", error);
    return kafka;
}

struct client_record {
    const char *topic;
    const void *key, *id; /* `id` is the value of the header of that name, or NULL for no header */
    void *payload;        /* not copied: lent until the report */
    size_t key_n, payload_n, id_n;
    void *data; /* comes back with the report */
};

/* Hand one record to the producer; waits while its queue is full. */
static inline void client_produce(rd_kafka_t *kafka, const struct client_record *record)
{
    for (;;) {
        rd_kafka_vu_t parts[5] = {
            {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = record->topic},
            {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = (void *)(uintptr_t)record->key, .size = record->key_n}},
            {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {.ptr = record->payload, .size = record->payload_n}},
            {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = record->data},
            {.vtype = RD_KAFKA_VTYPE_HEADER, .u.header = {.name = "id", .val = record->id, .size = (ssize_t)record->id_n}},
        };
        rd_kafka_error_t *refusal = rd_kafka_produceva(kafka, parts, record->id == NULL ? 4 : 5);

        if (refusal == NULL)
            return;
        if (rd_kafka_error_code(refusal) != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            client_fail("produce to %s: %s", record->topic, rd_kafka_error_string(refusal));
        rd_kafka_error_destroy(refusal);
        rd_kafka_poll(kafka, 1);
    }
}

/* Consume all partitions of `topic` from their beginning. `partitions_n` of them. */
static inline void client_assign(rd_kafka_topic_partition_list_t *list, const char *topic, int partitions_n)
{
    for (int partition = 0; partition < partitions_n; partition++)
        rd_kafka_topic_partition_list_add(list, topic, partition)->offset = RD_KAFKA_OFFSET_BEGINNING;
}

#endif
