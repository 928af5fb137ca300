/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading runs into memory and stops at the first thing that is odd: a verdict on half of the evidence is worse than none. */
#include "tests/lib/oracle_read.h"

#include <endian.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FNV_BASIS 14695981039346656037u
#define FNV_PRIME 1099511628211u

static uint64_t hash_on(uint64_t hash, const void *bytes, size_t bytes_n)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < bytes_n; i++)
        hash = (hash ^ byte[i]) * FNV_PRIME;
    return hash;
}

/* Of (topic, key); 0 without a key. */
static uint64_t hash_name(const char *topic, const void *key, size_t key_n)
{
    return key == NULL ? 0 : hash_on(hash_on(FNV_BASIS, topic, strlen(topic) + 1), key, key_n) | 1;
}

int64_t oracle_payload_hash(const void *payload, size_t payload_n)
{
    uint64_t hash = payload == NULL ? 0 : hash_on(FNV_BASIS, payload, payload_n);
    int64_t same_bits;

    memcpy(&same_bits, &hash, sizeof same_bits);
    return same_bits;
}

void *oracle_grow(void *list, size_t n, size_t *max, size_t element_size)
{
    if (n < *max)
        return list;
    *max = *max == 0 ? 1024 : *max * 2;
    list = realloc(list, *max * element_size);
    if (list == NULL) {
        (void)fputs("oracle: out of memory\n", stderr);
        abort();
    }
    return list;
}

static bool fail(char *error, size_t error_size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool fail(char *error, size_t error_size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(error, error_size, format, arguments);
    va_end(arguments);
    return false;
}

void oracle_reading_init(struct oracle_reading *reading, const char *topics)
{
    size_t max = 0;

    memset(reading, 0, sizeof *reading);
    for (size_t n; *topics != '\0'; topics += n + (topics[n] == ',')) {
        n = strcspn(topics, ",");
        reading->topic = oracle_grow(reading->topic, reading->topics_n, &max, sizeof *reading->topic);
        reading->topic[reading->topics_n++] = strndup(topics, n);
    }
}

void oracle_reading_reset(struct oracle_reading *reading)
{
    for (uint32_t i = 0; i < reading->topics_n; i++)
        free(reading->topic[i]);
    free(reading->topic);
    free(reading->event);
    free(reading->record);
    free(reading->names);
    memset(reading, 0, sizeof *reading);
}

static uint32_t topic_number(const struct oracle_reading *reading, const char *name)
{
    for (uint32_t i = 0; i < reading->topics_n; i++)
        if (strcmp(reading->topic[i], name) == 0)
            return i;
    return ORACLE_NO_TOPIC;
}

/* --- the history, joined with the marks ---------------------------------------------------------------------------- */

static size_t keep_name(struct oracle_reading *reading, const char *topic, const char *key)
{
    size_t at = reading->names_n, n = strlen(topic) + 1 + strlen(key) + 1;

    while (reading->names_n + n > reading->names_max)
        reading->names = oracle_grow(reading->names, reading->names_max, &reading->names_max, 1);
    (void)snprintf(reading->names + at, n, "%s/%s", topic, key);
    reading->names_n += n;
    return at;
}

static int64_t result_number(const PGresult *result, int line, int column)
{
    uint64_t bits;

    memcpy(&bits, PQgetvalue(result, line, column), sizeof bits);
    bits = be64toh(bits);
    return (int64_t)bits;
}

enum history_column {
    COLUMN_EVENT_ID,
    COLUMN_TOPIC,
    COLUMN_KEY,
    COLUMN_VERSION,
    COLUMN_PAYLOAD_HASH,
    COLUMN_MARKED_MS
};

/* marked_ms is -1 where the row is there without a mark, 0 where it is gone. */
static void keep_event(struct oracle_reading *reading, const PGresult *result, int line)
{
    const char *topic = PQgetvalue(result, line, COLUMN_TOPIC), *key = PQgetvalue(result, line, COLUMN_KEY);
    bool no_key = PQgetisnull(result, line, COLUMN_KEY);
    int64_t marked_ms = result_number(result, line, COLUMN_MARKED_MS);
    struct oracle_event *e;

    reading->event = oracle_grow(reading->event, reading->events_n, &reading->events_max, sizeof *reading->event);
    e = &reading->event[reading->events_n++];
    *e = (struct oracle_event){.key_hash = no_key ? 0 : hash_name(topic, key, strlen(key)),
                               .payload_hash = result_number(result, line, COLUMN_PAYLOAD_HASH),
                               .version = result_number(result, line, COLUMN_VERSION),
                               .marked = marked_ms >= 0,
                               .marked_ms = marked_ms > 0 ? marked_ms : 0,
                               .first_offset = -1,
                               .topic = topic_number(reading, topic),
                               .name = keep_name(reading, topic, no_key ? "(no key)" : key)};
    memcpy(e->event_id, PQgetvalue(result, line, COLUMN_EVENT_ID), sizeof e->event_id);
}

static bool statement(PGconn *db, const char *sql, char *error, size_t error_size)
{
    PGresult *result = PQexec(db, sql);
    bool good = PQresultStatus(result) == PGRES_COMMAND_OK;

    PQclear(result);
    return good || fail(error, error_size, "the oracle cannot read the history: %s", PQerrorMessage(db));
}

static bool fetch_events(struct oracle_reading *reading, PGconn *db, char *error, size_t error_size)
{
    for (int n = 1; n > 0;) {
        PGresult *result = PQexecParams(db, "FETCH 20000 FROM history_lines", 0, NULL, NULL, NULL, NULL, 1);
        bool good = PQresultStatus(result) == PGRES_TUPLES_OK;

        n = PQntuples(result);
        for (int line = 0; line < n; line++)
            keep_event(reading, result, line);
        PQclear(result);
        if (!good)
            return fail(error, error_size, "the oracle cannot read the history: %s", PQerrorMessage(db));
    }
    return true;
}

bool oracle_read_history(struct oracle_reading *reading, const struct oracle_question *question, char *error, size_t error_size)
{
    PGconn *db = PQconnectdb(question->database);
    char declare[1024];
    bool good;

    (void)snprintf(declare, sizeof declare,
                   "DECLARE history_lines NO SCROLL CURSOR FOR "
                   "SELECT h.event_id, h.topic::text, h.key::text, h.version::int8, coalesce(h.payload_hash, 0)::int8, "
                   "CASE WHEN e.event_id IS NULL THEN 0 WHEN e.sent_at IS NULL THEN -1 "
                   "ELSE floor(extract(epoch FROM e.sent_at) * 1000) END::int8 "
                   "FROM %s h LEFT JOIN %s e ON e.event_id = h.event_id",
                   question->history != NULL ? question->history : "demo.history",
                   question->table != NULL ? question->table : "outbox.event");
    if (PQstatus(db) != CONNECTION_OK)
        good = fail(error, error_size, "the oracle cannot connect to the database: %s", PQerrorMessage(db));
    else
        good = statement(db, "SET work_mem = '256MB'", error, error_size) &&
               statement(db, "SET client_encoding = 'UTF8'", error, error_size) &&
               statement(db, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", error, error_size) &&
               statement(db, declare, error, error_size) && fetch_events(reading, db, error, error_size);
    PQfinish(db);
    return good;
}

/* --- Kafka --------------------------------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool parse_uuid(const char *text, size_t text_n, unsigned char ret_bytes[16])
{
    size_t digits = 0;

    if (text_n != 36)
        return false;
    memset(ret_bytes, 0, 16);
    for (size_t i = 0; i < text_n; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        int digit = hex_digit(text[i]);

        if (dash ? text[i] != '-' : digit < 0)
            return false;
        if (!dash) {
            ret_bytes[digits / 2] = (unsigned char)(ret_bytes[digits / 2] << 4 | digit);
            digits++;
        }
    }
    return true;
}

/* The event's id, and a hash over all headers; no id unless there is exactly one. */
static uint64_t read_headers(const rd_kafka_message_t *message, unsigned char ret_event_id[16])
{
    uint64_t hash = FNV_BASIS;
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t value_n;
    int ids = 0;

    memset(ret_event_id, 0, 16);
    if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return hash;
    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &value_n) == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        hash = hash_on(hash_on(hash, name, strlen(name) + 1), &value_n, sizeof value_n);
        hash = hash_on(hash, value, value == NULL ? 0 : value_n);
        if (strcmp(name, "id") == 0 && (ids++ > 0 || value == NULL || !parse_uuid(value, value_n, ret_event_id)))
            memset(ret_event_id, 0, 16);
    }
    return hash;
}

static void keep_record(struct oracle_reading *reading, uint32_t topic, const rd_kafka_message_t *message)
{
    struct oracle_record *r;

    reading->record = oracle_grow(reading->record, reading->records_n, &reading->records_max, sizeof *reading->record);
    r = &reading->record[reading->records_n++];
    *r = (struct oracle_record){.key_hash = hash_name(reading->topic[topic], message->key, message->key_len),
                                .payload_hash = oracle_payload_hash(message->payload, message->len),
                                .offset = message->offset,
                                .timestamp_ms = rd_kafka_message_timestamp(message, NULL),
                                .topic = topic,
                                .partition = message->partition};
    r->copy_hash = hash_on(read_headers(message, r->event_id), &r->key_hash, sizeof r->key_hash);
    r->copy_hash = hash_on(r->copy_hash, &r->payload_hash, sizeof r->payload_hash);
}

static rd_kafka_t *consumer_new(const char *bootstrap, char *error, size_t error_size)
{
    static const char *const properties[][2] = {
        {"group.id", "oracle"},
        {"enable.auto.commit", "false"},
        {"isolation.level", "read_uncommitted"},
        {"auto.offset.reset", "error"},
        {"check.crcs", "true"},
        {"fetch.wait.max.ms", "10"},
        {"fetch.error.backoff.ms", "5"},
        {"queued.min.messages", "10000000"},
        {"queued.max.messages.kbytes", "262144"},
        {"log_level", "0"},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *consumer = NULL;
    bool good = rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, error_size) == RD_KAFKA_CONF_OK;

    for (size_t i = 0; good && i < sizeof properties / sizeof properties[0]; i++)
        good = rd_kafka_conf_set(conf, properties[i][0], properties[i][1], error, error_size) == RD_KAFKA_CONF_OK;
    if (good)
        consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, error_size);
    if (consumer == NULL)
        rd_kafka_conf_destroy(conf);
    else
        rd_kafka_poll_set_consumer(consumer);
    return consumer;
}

static int32_t partition_count(rd_kafka_t *consumer, const char *name, char *error, size_t error_size)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, name, NULL);
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t failed = rd_kafka_metadata(consumer, 0, topic, &metadata, 10000);
    int32_t n = 0;

    if (failed == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1 && metadata->topics[0].partition_cnt > 0)
        n = metadata->topics[0].partition_cnt;
    else
        (void)fail(error, error_size, "the oracle cannot read topic %s: %s", name,
                   failed != RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_err2str(failed) : "it has no partitions");
    if (metadata != NULL)
        rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(topic);
    return n;
}

struct span {
    int64_t next, end; /* offsets of a partition: to be read next, and where it ended when it was asked */
};

/* One record, or a sentence. What was appended since is left for another day. */
static bool read_record(struct oracle_reading *reading, uint32_t topic, const rd_kafka_message_t *message, struct span *spans,
                        int64_t *left, char *error, size_t error_size)
{
    const char *name = reading->topic[topic];
    struct span *span = &spans[message->partition];

    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return fail(error, error_size, "the oracle cannot read %s: %s", name, rd_kafka_message_errstr(message));
    if (message->offset != span->next)
        return fail(error, error_size, "the log of %s[%d] goes from offset %" PRId64 " to %" PRId64, name, message->partition,
                    span->next - 1, message->offset);
    if (span->next++ < span->end) {
        keep_record(reading, topic, message);
        --*left;
    }
    return true;
}

static bool read_spans(struct oracle_reading *reading, rd_kafka_t *consumer, uint32_t topic, struct span *spans, int64_t left, char *error,
                       size_t error_size)
{
    bool good = true;

    while (good && left > 0) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 15000);

        if (message == NULL)
            return fail(error, error_size, "the oracle got no record of %s for 15 s; %" PRId64 " are missing", reading->topic[topic], left);
        good = read_record(reading, topic, message, spans, &left, error, error_size);
        rd_kafka_message_destroy(message);
    }
    return good;
}

/* What lies in the partitions now; they must begin at 0, or the oracle would not see everything. */
static bool measure_spans(rd_kafka_t *consumer, const char *name, int32_t partitions_n, rd_kafka_topic_partition_list_t *list,
                          struct span *spans, int64_t *ret_records, char *error, size_t error_size)
{
    *ret_records = 0;
    for (int32_t p = 0; p < partitions_n; p++) {
        int64_t low;
        rd_kafka_resp_err_t failed = rd_kafka_query_watermark_offsets(consumer, name, p, &low, &spans[p].end, 10000);

        if (failed != RD_KAFKA_RESP_ERR_NO_ERROR)
            return fail(error, error_size, "the oracle cannot read %s[%d]: %s", name, p, rd_kafka_err2str(failed));
        if (low != 0)
            return fail(error, error_size, "the log of %s[%d] begins at offset %" PRId64 ": its beginning was deleted", name, p, low);
        *ret_records += spans[p].end;
        if (spans[p].end > 0)
            rd_kafka_topic_partition_list_add(list, name, p)->offset = 0;
    }
    return true;
}

static bool read_topic(struct oracle_reading *reading, rd_kafka_t *consumer, uint32_t topic, char *error, size_t error_size)
{
    const char *name = reading->topic[topic];
    int32_t partitions_n = partition_count(consumer, name, error, error_size);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions_n);
    struct span *spans = calloc((size_t)partitions_n + 1, sizeof *spans);
    int64_t records = 0;
    bool good = partitions_n > 0 && spans != NULL && measure_spans(consumer, name, partitions_n, list, spans, &records, error, error_size);

    if (good && records > 0) {
        (void)rd_kafka_assign(consumer, list);
        good = read_spans(reading, consumer, topic, spans, records, error, error_size);
        (void)rd_kafka_assign(consumer, NULL);
    }
    rd_kafka_topic_partition_list_destroy(list);
    free(spans);
    return good;
}

bool oracle_read_topics(struct oracle_reading *reading, const char *bootstrap, char *error, size_t error_size)
{
    rd_kafka_t *consumer = consumer_new(bootstrap, error, error_size);
    bool good = consumer != NULL;

    for (uint32_t i = 0; good && i < reading->topics_n; i++)
        good = read_topic(reading, consumer, i, error, error_size);
    if (consumer != NULL)
        rd_kafka_destroy(consumer);
    return good;
}
