/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <string.h>

#include "relay/core/hash.h"
#include "relay/edge/database.h"
#include "relay/edge/outbox_decode.h"
#include "relay/edge/outbox_names.h"
#include "relay/edge/outbox_sql.h"

#define EPOCH_2000_US 946684800000000
#define YEAR_9999_MS  253402300799999

int64_t decode_timestamp_ms(int64_t microseconds)
{
    if (microseconds <= -EPOCH_2000_US)
        return 0;
    if (microseconds >= YEAR_9999_MS * 1000 - EPOCH_2000_US)
        return YEAR_9999_MS;
    return (microseconds + EPOCH_2000_US) / 1000;
}

static void copy_uuid(unsigned char to[16], const struct database_result *result, uint32_t row, unsigned column)
{
    uint32_t n;
    const void *bytes = database_result_value(result, row, column, &n);

    memset(to, 0, 16);
    if (bytes && n == 16)
        memcpy(to, bytes, 16);
}

struct relay_token decode_token(const struct database_result *result, uint32_t row, unsigned column)
{
    struct relay_token token = {{0}};

    copy_uuid(token.bytes, result, row, column);
    return token;
}

/* -1, for any, where there is none. */
static int64_t decode_wish(const struct database_result *result, uint32_t i)
{
    uint32_t n;

    return database_result_value(result, i, ROW_PARTITION, &n) ? database_result_integer(result, i, ROW_PARTITION) : -1;
}

/* -1 is the row's way of saying "any", too, as in Kafka's clients; other negative numbers name a partition that does not exist. */
static int32_t partition_of(int64_t wish)
{
    return wish < -1 || wish > INT32_MAX ? INT32_MAX : (int32_t)wish;
}

/* A small read does not tell sizes, only which rows are large. */
static int64_t decode_size(const struct database_result *result, uint32_t i, const struct decode_limits *limits, int64_t wish)
{
    if (limits->small_only)
        return wish == ROW_LARGE ? INT64_MAX : 0;
    return database_result_integer(result, i, ROW_SIZE);
}

static bool row_settled(const struct database_result *result, uint32_t i, const struct decode_limits *limits)
{
    return limits->settled && database_result_integer(result, i, ROW_SETTLED) != 0;
}

/* Each column is looked at once. Returns false if topic numbers run short. */
static bool decode_unsettled(const struct database_result *result, uint32_t i, struct names *names, struct row *row,
                             struct outbox_row *found)
{
    uint32_t topic_n;
    const char *topic = database_result_value(result, i, ROW_TOPIC, &topic_n);

    topic = topic ? topic : "";
    row->topic = names_number(names, topic, topic_n);
    if (row->topic == NAMES_NONE)
        return false;
    copy_uuid(row->event_id.bytes, result, i, ROW_EVENT_ID);
    found->key = database_result_value(result, i, ROW_KEY, &found->key_n);
    found->payload = database_result_value(result, i, ROW_PAYLOAD, &found->payload_n);
    found->headers = database_result_value(result, i, ROW_HEADERS, &found->headers_n);
    row->key_hash = found->key ? hash_key(topic, topic_n, found->key, found->key_n) : 0;
    row->spread = found->key ? hash_murmur2(found->key, found->key_n) : hash_murmur2(row->event_id.bytes, sizeof(row->event_id.bytes));
    row->bytes = found->key_n + found->payload_n + found->headers_n + OUTBOX_ROW_EXTRA;
    row->settled = false;
    found->topic = row->topic;
    found->created_ms = decode_timestamp_ms(database_result_integer(result, i, ROW_CREATED_AT));
    return true;
}

static void decode_head(const struct database_result *result, bool small_only, struct relay_read *ret_read)
{
    ret_read->token = decode_token(result, 0, ROW_EVENT_ID);
    ret_read->insert_lsn = (uint64_t)database_result_integer(result, 0, ROW_ID);
    ret_read->flush_lsn = (uint64_t)database_result_integer(result, 0, small_only ? ROW_PARTITION : ROW_SIZE);
    ret_read->rows_n = 0;
    ret_read->upto = INT64_MAX;
}

/* Whole up to the last row if a limit may have cut the answer after it. */
static int64_t decode_upto(const struct decode_limits *limits, uint32_t rows_n, uint64_t size, int64_t last_id)
{
    return rows_n > 0 && (rows_n >= limits->rows || size >= limits->bytes) ? last_id : INT64_MAX;
}

bool decode_read(const struct database_result *result, const struct decode_limits *limits, struct names *names, struct row *rows,
                 struct outbox_row *found, struct relay_read *ret_read, struct decode_found *ret_found, const char **error)
{
    uint32_t rows_n = database_result_rows(result) - 1, i;
    uint64_t size = 0;
    int64_t last_id = INT64_MIN;

    assert(database_result_rows(result) > 0 && rows_n <= limits->rows);
    *ret_found = (struct decode_found){0, false};
    decode_head(result, limits->small_only, ret_read);
    ret_read->rows = rows;
    for (i = 0; i < rows_n; i++) {
        int64_t wish = decode_wish(result, i + 1), row_size = decode_size(result, i + 1, limits, wish);
        rows[i] = (struct row){.id = database_result_integer(result, i + 1, ROW_ID), .partition = partition_of(wish), .settled = true};
        if (rows[i].id <= last_id) {
            *error = "the rows did not come in the order of their ids: is the id unique, and does the plan read by its index?";
            return false;
        }
        ret_found->large |= row_size > limits->small_bytes;
        if (limits->small_only && row_size > limits->small_bytes)
            break;
        found[i].too_large = row_size > limits->row_bytes_max;
        if (!row_settled(result, i + 1, limits) && !decode_unsettled(result, i + 1, names, &rows[i], &found[i]))
            break;
        last_id = rows[i].id;
        size += row_size < limits->row_bytes_max ? (uint64_t)row_size : limits->row_bytes_max;
        ret_found->bytes += rows[i].bytes;
    }
    ret_read->rows_n = i;
    ret_read->upto = i < rows_n ? rows[i].id - 1 : decode_upto(limits, i, size, last_id);
    return true;
}

enum taken { /* columns of SQL_TAKE */
    TAKEN_TOPIC = 5,
    TAKEN_PARTITION,
    TAKEN_KEY_HASH,
    TAKEN_FIRST_ID,
    TAKEN_ATTEMPTS,
    TAKEN_HELD
};

bool decode_behind(const struct database_result *result, struct names *names, struct relay_behind *behind)
{
    for (uint32_t i = 1; i < database_result_rows(result); i++) {
        uint32_t n;
        const char *topic = database_result_value(result, i, TAKEN_TOPIC, &n);
        uint32_t number = names_number(names, topic ? topic : "", n);
        if (number == NAMES_NONE)
            return false;
        behind[i - 1] = (struct relay_behind){
            .topic = number,
            .partition = (int32_t)database_result_integer(result, i, TAKEN_PARTITION),
            .key_hash = (uint64_t)database_result_integer(result, i, TAKEN_KEY_HASH),
            .first_id = database_result_integer(result, i, TAKEN_FIRST_ID),
            .attempts = (uint32_t)database_result_integer(result, i, TAKEN_ATTEMPTS),
            .held = database_result_integer(result, i, TAKEN_HELD) != 0,
        };
    }
    return true;
}
