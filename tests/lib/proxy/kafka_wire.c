/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/proxy/kafka_wire.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIRST_PRODUCE 3
#define LAST_PRODUCE  8

/* In a record batch: to its producer, and from there on. */
#define BATCH_PRODUCER 43

static const struct api {
    int16_t key;
    const char *name;
} apis[] = {
    {0, "Produce"},          {1, "Fetch"},         {2, "ListOffsets"},       {3, "Metadata"},          {10, "FindCoordinator"},
    {17, "SaslHandshake"},   {18, "ApiVersions"},  {19, "CreateTopics"},     {20, "DeleteTopics"},     {22, "InitProducerId"},
    {32, "DescribeConfigs"}, {33, "AlterConfigs"}, {36, "SaslAuthenticate"}, {37, "CreatePartitions"}, {44, "IncrementalAlterConfigs"},
};

int64_t kafka_frame_size(const uint8_t *bytes, size_t n)
{
    struct wire w = wire_over(bytes, n);
    if (n < 4)
        return 0;
    int32_t length = wire_i32(&w);
    if (length < 4 || length > KAFKA_FRAME_MAX)
        return -1;
    return (int64_t)n >= length + 4 ? length + 4 : 0;
}

static const char *api_name(int16_t key)
{
    for (size_t i = 0; i < sizeof apis / sizeof apis[0]; i++)
        if (apis[i].key == key)
            return apis[i].name;
    return "other";
}

int kafka_key_of(const char *name)
{
    for (size_t i = 0; i < sizeof apis / sizeof apis[0]; i++)
        if (strcasecmp(apis[i].name, name) == 0)
            return apis[i].key;
    char *end;
    long key = strtol(name, &end, 10);
    return end != name && *end == 0 && key >= 0 && key < 1000 ? (int)key : -1;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Past the length, with what every version has. */
static struct wire header_read(const uint8_t *frame, size_t n, struct request *ret)
{
    struct wire w = wire_over(frame, n);
    size_t client_n;
    (void)wire_i32(&w);
    ret->key = wire_i16(&w);
    ret->version = wire_i16(&w);
    ret->correlation = wire_i32(&w);
    (void)wire_string(&w, &client_n);
    return w;
}

static bool produce_is_known(const struct request *r)
{
    return r->key == KAFKA_PRODUCE && r->version >= FIRST_PRODUCE && r->version <= LAST_PRODUCE;
}

/* Past the acks, at the count of topics. */
static int16_t produce_enter(struct wire *w)
{
    size_t n;
    (void)wire_string(w, &n); /* transactional id */
    int16_t acks = wire_i16(w);
    (void)wire_i32(w); /* timeout */
    return acks;
}

static void batch_read(const uint8_t *batch, size_t n, struct request *ret)
{
    struct wire w = wire_over(batch, n);
    (void)wire_skip(&w, BATCH_PRODUCER);
    int64_t producer = wire_i64(&w);
    (void)wire_i16(&w); /* epoch */
    int32_t sequence = wire_i32(&w);
    if (w.bad)
        return;
    ret->producer = producer;
    ret->sequence = sequence;
}

static void produce_read(struct wire *w, struct request *ret)
{
    ret->unanswered = produce_enter(w) == 0;
    if (wire_i32(w) < 1)
        return;
    size_t topic_n;
    const char *topic = wire_string(w, &topic_n);
    int32_t partitions_n = wire_i32(w), partition = wire_i32(w), records_n = wire_i32(w);
    const uint8_t *records = wire_skip(w, records_n);
    if (topic == NULL || records == NULL || topic_n >= sizeof ret->topic)
        return;
    memcpy(ret->topic, topic, topic_n);
    ret->partitions_n = partitions_n;
    ret->partition = partition;
    batch_read(records, (size_t)records_n, ret);
}

bool kafka_request_read(const uint8_t *frame, size_t n, struct request *ret)
{
    *ret = (struct request){.text = "", .partition = -1, .producer = -1, .sequence = -1};
    struct wire w = header_read(frame, n, ret);
    ret->type = api_name(ret->key);
    if (w.bad || ret->key < 0)
        return false;
    if (produce_is_known(ret))
        produce_read(&w, ret);
    return true;
}

int32_t kafka_reply_correlation(const uint8_t *frame, size_t n)
{
    struct wire w = wire_over(frame, n);
    (void)wire_i32(&w);
    int32_t correlation = wire_i32(&w);
    return w.bad ? -1 : correlation;
}

/* --- replies of our own ------------------------------------------------------------------------------------------- */

/* Read one partition of the request and write its refusal. */
static void partition_refuse(struct wire *w, int16_t version, int16_t code, struct bytes *ret)
{
    bytes_i32(ret, wire_i32(w));
    int32_t records_n = wire_i32(w);
    if (records_n != -1)
        (void)wire_skip(w, records_n);
    bytes_i16(ret, code);
    bytes_i64(ret, -1); /* base offset */
    bytes_i64(ret, -1); /* time of the append */
    if (version >= 5)
        bytes_i64(ret, -1); /* start of the log */
    if (version >= 8) {
        bytes_i32(ret, 0);  /* errors of single records */
        bytes_i16(ret, -1); /* message */
    }
}

static void topic_refuse(struct wire *w, int16_t version, int16_t code, struct bytes *ret)
{
    size_t topic_n;
    const char *topic = wire_string(w, &topic_n);
    int32_t partitions_n = wire_i32(w);
    bytes_string(ret, topic, topic_n);
    bytes_i32(ret, partitions_n);
    for (int32_t i = 0; i < partitions_n && !w->bad; i++)
        partition_refuse(w, version, code, ret);
}

static void produce_refuse(struct wire *w, int16_t version, int16_t code, struct bytes *ret)
{
    (void)produce_enter(w);
    int32_t topics_n = wire_i32(w);
    bytes_i32(ret, topics_n);
    for (int32_t i = 0; i < topics_n && !w->bad; i++)
        topic_refuse(w, version, code, ret);
    bytes_i32(ret, 0); /* throttle */
}

/* From version 2 on, header and body end in a list of tagged fields: ours is empty. */
static void init_producer_id_refuse(int16_t version, int16_t code, struct bytes *ret)
{
    if (version >= 2)
        bytes_i8(ret, 0);
    bytes_i32(ret, 0); /* throttle */
    bytes_i16(ret, code);
    bytes_i64(ret, -1);
    bytes_i16(ret, -1);
    if (version >= 2)
        bytes_i8(ret, 0);
}

bool kafka_refuse(const uint8_t *frame, size_t n, int16_t code, struct bytes *ret)
{
    struct request r;
    struct wire w = header_read(frame, n, &r);
    size_t start = ret->n;
    bytes_i32(ret, 0);
    bytes_i32(ret, r.correlation);
    if (!w.bad && produce_is_known(&r))
        produce_refuse(&w, r.version, code, ret);
    else if (!w.bad && r.key == KAFKA_INIT_PRODUCER_ID && r.version >= 0 && r.version <= 4)
        init_producer_id_refuse(r.version, code, ret);
    else
        w.bad = true;
    if (w.bad) {
        ret->n = start;
        return false;
    }
    wire_put_i32(ret->list + start, (int32_t)(ret->n - start - 4));
    return true;
}

/* --- replies of the broker ---------------------------------------------------------------------------------------- */

/* Pass by what the broker says of single records. */
static void record_errors_skip(struct wire *w)
{
    size_t n;
    int32_t errors_n = wire_i32(w);
    for (int32_t i = 0; i < errors_n && !w->bad; i++) {
        (void)wire_i32(w);
        (void)wire_string(w, &n);
    }
    (void)wire_string(w, &n);
}

/* Returns the place of its error code, NULL if it ends too early. */
static const uint8_t *partition_pass(struct wire *w, int16_t version)
{
    (void)wire_i32(w);
    const uint8_t *code = wire_skip(w, 2);
    (void)wire_skip(w, version >= 5 ? 24 : 16);
    if (version >= 8)
        record_errors_skip(w);
    return w->bad ? NULL : code;
}

unsigned kafka_spoil(uint8_t *frame, size_t n, int16_t version, int16_t code)
{
    struct wire w = wire_over(frame, n);
    unsigned spoiled = 0;
    if (version < FIRST_PRODUCE || version > LAST_PRODUCE)
        return 0;
    (void)wire_i64(&w); /* length, correlation */
    int32_t topics_n = wire_i32(&w);
    for (int32_t t = 0; t < topics_n && !w.bad; t++) {
        size_t name_n;
        (void)wire_string(&w, &name_n);
        int32_t partitions_n = wire_i32(&w);
        for (int32_t p = 0; p < partitions_n && !w.bad; p++) {
            const uint8_t *place = partition_pass(&w, version);
            if (place == NULL)
                break;
            wire_put_i16(frame + (place - frame), code);
            wire_put_i64(frame + (place - frame) + 2, -1);
            spoiled++;
        }
    }
    return spoiled;
}
