/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/edge/producer_record.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static size_t varint_size(uint64_t zigzag)
{
    size_t n = 1;

    while (zigzag >= 128) {
        zigzag >>= 7;
        n++;
    }
    return n;
}

static size_t field_size(size_t n)
{
    return varint_size((uint64_t)n << 1) + n;
}

size_t record_batch_bytes(const struct producer_record *record)
{
    size_t n = 3; /* attributes, and the differences in time and offset to the batch's, which are 0 */

    n += record->key != NULL ? field_size(record->key_n) : 1;
    n += record->payload != NULL ? field_size(record->payload_n) : 1;
    n += varint_size((uint64_t)record->headers_n << 1);
    for (size_t i = 0; i < record->headers_n; i++)
        n += field_size(strlen(record->headers[i].name)) + field_size(record->headers[i].value_n);
    return 61 + field_size(n);
}

static rd_kafka_headers_t *copy_headers(const struct producer_record *record)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(record->headers_n);

    for (size_t i = 0; i < record->headers_n; i++) {
        const struct producer_header *header = &record->headers[i];
        rd_kafka_resp_err_t error =
            rd_kafka_header_add(headers, header->name, -1, header->value_n > 0 ? header->value : "", (ssize_t)header->value_n);

        assert(error == RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    return headers;
}

/* Of the ways into librdkafka that take headers and a timestamp this is the cheapest: 0.37 us a row with one header, against 0.39 with
 * headers one by one and 0.40 with producev. */
rd_kafka_resp_err_t record_hand(rd_kafka_t *client, rd_kafka_topic_t *topic, const struct producer_record *record)
{
    rd_kafka_headers_t *headers = record->headers_n > 0 ? copy_headers(record) : NULL;
    /* To librdkafka 0 means now, and to a broker a negative time is none: what is older than 1970 is told as its first millisecond. */
    int64_t timestamp_ms = record->timestamp_ms > 0 ? record->timestamp_ms : 1;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_error_t *error;
    rd_kafka_vu_t arguments[] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = record->partition},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {.ptr = (void *)(uintptr_t)record->payload, .size = record->payload_n}},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {.ptr = (void *)(uintptr_t)record->key, .size = record->key_n}},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = timestamp_ms},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = (void *)(uintptr_t)record->slot},
#ifdef MUTANT_MARK_BEFORE_REPORT /* the row's bytes end before its report */
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
#endif
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
    };

    error = rd_kafka_produceva(client, arguments, sizeof arguments / sizeof *arguments - (headers == NULL));
    if (error != NULL) {
        code = rd_kafka_error_code(error);
        rd_kafka_error_destroy(error);
        if (headers != NULL)
            rd_kafka_headers_destroy(headers);
    }
    return code;
}
