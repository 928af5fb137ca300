/* SPDX-License-Identifier: BSD-2-Clause */
/* What only a real broker shows: sequences, sizes, kills, and what a consumer sees of a record. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/producer_record.h"
#include "tests/edge/producer_rig.h"
#include "tests/lib/services.h"

/* --- order and bytes ---------------------------------------------------------------------------------------------- */

enum {
    ROWS = 100000,
    PARTITIONS = 12
};

struct seen {
    int64_t last[PARTITIONS]; /* slot, first occurrences only */
    unsigned char *times;     /* of each slot */
    bool swapped, damaged;
    int64_t upto; /* slots below it count */
};

static void see(void *data, const struct rig_message *m)
{
    struct seen *seen = data;
    const unsigned char *bytes = m->payload;
    row_slot slot;

    memcpy(&slot, m->payload, sizeof slot);
    for (size_t i = sizeof slot; i < m->payload_n; i++)
        seen->damaged |= bytes[i] != (unsigned char)slot;
    seen->damaged |= slot >= seen->upto || (row_slot)m->partition != slot % PARTITIONS;
    seen->damaged |= m->timestamp_ms != 1700000000000 + slot;
    if (seen->damaged || seen->times[slot]++ > 0)
        return;
    seen->swapped |= seen->last[m->partition] >= (int64_t)slot;
    seen->last[m->partition] = slot;
}

static struct seen seen_new(int64_t upto)
{
    struct seen seen = {.times = calloc((size_t)upto, 1), .upto = upto};

    for (int p = 0; p < PARTITIONS; p++)
        seen.last[p] = -1;
    return seen;
}

static void check_topic(const char *bootstrap, const char *topic, int64_t rows_n, bool repeats)
{
    struct seen seen = seen_new(rows_n);
    unsigned n = rig_read(bootstrap, topic, PARTITIONS, see, &seen);

    CHECK(!seen.damaged && !seen.swapped);
    for (int64_t slot = 0; slot < rows_n; slot++)
        CHECK(seen.times[slot] > 0);
    CHECK(repeats || n == rows_n);
    free(seen.times);
}

TEST_WITHIN(producer_kafka_takes_rows_in_order, 120)
{
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, NULL);
    uint64_t begin_ms;

    kafka_topic_create(k.bootstrap, "t", PARTITIONS, NULL);
    rig_learn(rig, "t", PARTITIONS);
    CHECK_EQ(rig->message_bytes_max[0], 1048588);
    rig_open(rig, rig->message_bytes_max[0]);
    begin_ms = test_now_ms();
    for (row_slot slot = 0; slot < ROWS; slot++) {
        rig_publish(rig, slot, "t", (int32_t)(slot % PARTITIONS), slot % 10000 == 5000 ? 200000 : 100);
        if (slot % 500 == 0)
            rig_turn(rig);
    }
    RIG_WAIT(rig, rig->delivered_n == ROWS, 60);
    printf("    %d rows in %u ms, longest turn %.1f ms\n", (int)ROWS, (unsigned)(test_now_ms() - begin_ms), (double)rig->longest_ns / 1e6);
    CHECK(rig->longest_ns < 50000000);
    rig_close(rig);
    CHECK_EQ(rig->refused_n + rig->broken_n, 0);
    check_topic(k.bootstrap, "t", ROWS, false);
    rig_free(rig);
}

/* --- records ------------------------------------------------------------------------------------------------------ */

struct shapes {
    unsigned n;
    bool right[5];
};

static bool is_bytes(const void *bytes, size_t n, const char *wanted)
{
    return bytes != NULL && n == strlen(wanted) && memcmp(bytes, wanted, n) == 0;
}

static bool has_header(const struct rig_message *m, size_t i, const char *name, const char *wanted)
{
    rd_kafka_headers_t *headers;
    const char *got;
    const void *value;
    size_t value_n;

    return rd_kafka_message_headers(m->native, &headers) == 0 && rd_kafka_header_get_all(headers, i, &got, &value, &value_n) == 0 &&
           strcmp(got, name) == 0 && is_bytes(value, value_n, wanted);
}

static void see_shape(void *data, const struct rig_message *m)
{
    struct shapes *shapes = data;
    rd_kafka_headers_t *headers;
    bool bare = rd_kafka_message_headers(m->native, &headers) == RD_KAFKA_RESP_ERR__NOENT;

    if (shapes->n == 0) /* key and payload, headers in their order, empty ones too */
        shapes->right[0] = is_bytes(m->key, m->key_n, "key") && is_bytes(m->payload, m->payload_n, "payload") &&
                           has_header(m, 0, "id", "0123") && has_header(m, 1, "empty", "") && has_header(m, 2, "id2", "x") &&
                           m->timestamp_ms == 1234567890123;
    if (shapes->n == 1) /* tombstone */
        shapes->right[1] = is_bytes(m->key, m->key_n, "key") && m->payload == NULL && bare;
    if (shapes->n == 2) /* neither */
        shapes->right[2] = m->key == NULL && m->payload == NULL;
    if (shapes->n == 3) /* both empty, which is something else */
        shapes->right[3] = is_bytes(m->key, m->key_n, "") && is_bytes(m->payload, m->payload_n, "");
    if (shapes->n == 4) /* older than time itself */
        shapes->right[4] = m->timestamp_ms == 1;
    shapes->n++;
}

TEST_WITHIN(producer_kafka_keeps_the_shape_of_a_record, 60)
{
    static const struct producer_header headers[] = {{"id", 2, "0123", 4}, {"empty", 5, "", 0}, {"id2", 3, "x", 1}};
    const struct producer_record records[] = {
        {.slot = 0,
         .topic_name = "t",
         .key = "key",
         .key_n = 3,
         .payload = "payload",
         .payload_n = 7,
         .timestamp_ms = 1234567890123,
         .headers = headers,
         .headers_n = 3},
        {.slot = 1, .topic_name = "t", .key = "key", .key_n = 3, .timestamp_ms = 1},
        {.slot = 2, .topic_name = "t", .timestamp_ms = 1},
        {.slot = 3, .topic_name = "t", .key = "", .payload = "", .timestamp_ms = 1},
        {.slot = 4, .topic_name = "t", .payload = "x", .payload_n = 1, .timestamp_ms = -5},
    };
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, NULL);
    struct shapes shapes = {0};

    kafka_topic_create(k.bootstrap, "t", 1, NULL);
    rig_open(rig, 0);
    for (size_t i = 0; i < 5; i++)
        CHECK_EQ(rig_hand(rig, &records[i]), RELAY_FAULT_NONE);
    RIG_WAIT(rig, rig->delivered_n == 5, 15);
    CHECK_EQ(rig_read(k.bootstrap, "t", 1, see_shape, &shapes), 5);
    for (size_t i = 0; i < 5; i++)
        CHECK(shapes.right[i]);
    rig_close(rig);
    rig_free(rig);
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

/* The payload of the largest record that the guard lets through, and that the broker takes: to the byte. */
TEST_WITHIN(producer_kafka_refuses_what_is_too_large, 60)
{
    static const struct producer_header header = {"id", 2, "01234567-0123-0123-0123-012345678901", 36};
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, NULL);
    struct producer_record record;
    size_t most = 9000;

    kafka_topic_create(k.bootstrap, "small", 1, "max.message.bytes=10000");
    rig_learn(rig, "small", 1);
    CHECK_EQ(rig->message_bytes_max[0], 10000);
    rig_open(rig, 0);
    record = rig_record(rig, 0, "small", 0, 11000);
    record.key = "a key", record.key_n = 5;
    record.headers = &header, record.headers_n = 1;
    for (;; most++) {
        record.payload_n = most + 1;
        if (record_batch_bytes(&record) > 10000)
            break;
    }
    CHECK_EQ(rig_hand(rig, &record), RELAY_FAULT_SIZE);
    CHECK_EQ(rig_reports_n(rig), 0);

    /* It was in no sequence, and the session goes on with the largest that is not. */
    record.payload = rig_record(rig, 1, "small", 0, most).payload;
    record.slot = 1;
    record.payload_n = most;
    CHECK_EQ(rig_hand(rig, &record), RELAY_FAULT_NONE);
    RIG_WAIT(rig, rig->delivered_n == 1, 15);

    /* The same one byte larger, where the limit is not known: the broker says no. */
    producer_forget(rig->producer, 0);
    record.payload = rig_record(rig, 2, "small", 0, most + 1).payload;
    record.slot = 2;
    record.payload_n = most + 1;
    CHECK_EQ(rig_hand(rig, &record), RELAY_FAULT_NONE);
    RIG_WAIT(rig, rig->refused_n == 1, 15);
    CHECK_EQ(rig->refused_fault, RELAY_FAULT_SIZE);
    rig_close(rig);

    /* And what the client's own limit does not let through. */
    rig_open(rig, 0);
    record = rig_record(rig, 3, "small", 0, producer_message_bytes_max(rig->producer));
    CHECK_EQ(rig_hand(rig, &record), RELAY_FAULT_SIZE);
    rig_close(rig);
    rig_free(rig);
}

/* Nothing of a partition overtakes a refused row, though it was on its way already. */
TEST_WITHIN(producer_kafka_lets_nothing_overtake_a_refused_row, 60)
{
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, (const char *[]){"batch.num.messages=1", NULL});
    uint64_t until_ms;

    kafka_topic_create(k.bootstrap, "small", 1, "max.message.bytes=10000");
    rig_open(rig, 0);
    rig_publish(rig, 0, "small", 0, 100);
    RIG_WAIT(rig, rig->delivered_n == 1, 15);
    for (row_slot slot = 1; slot < 100; slot++)
        rig_publish(rig, slot, "small", 0, slot == 50 ? 20000 : 100);
    RIG_WAIT(rig, rig->refused_n > 0, 15);
    until_ms = test_now_ms() + 2000; /* for what would overtake, if our purge did not come in its way */
    RIG_WAIT(rig, rig_reports_n(rig) == 100 || test_now_ms() > until_ms, 15);
    rig_close(rig);
    CHECK_EQ(rig->faults[50], RELAY_FAULT_SIZE);
    for (row_slot slot = 50; slot < 100; slot++)
        CHECK(rig->faults[slot] != RELAY_FAULT_NONE);
    CHECK_EQ(rig_read(k.bootstrap, "small", 1, NULL, NULL), 50);
    rig_free(rig);
}

/* Rows that fit one by one must not be refused because many were put together (design review, 13). */
static struct rig *publish_many(const struct kafka *k, uint64_t batch_bytes)
{
    struct rig *rig = rig_new(k->bootstrap, NULL);

    rig_open(rig, batch_bytes);
    rig_publish(rig, 0, "narrow", 0, 300);
    RIG_WAIT(rig, rig->delivered_n == 1, 15);
    for (row_slot slot = 1; slot < 5000; slot++)
        rig_publish(rig, slot, "narrow", 0, 300);
    RIG_WAIT(rig, rig->delivered_n == 5000 || rig->refused_n > 0, 30);
    rig_close(rig);
    return rig;
}

TEST_WITHIN(producer_kafka_batches_stay_below_the_topics_limit, 60)
{
    struct kafka k = kafka_start();
    struct rig *rig;

    kafka_topic_create(k.bootstrap, "narrow", 1, "max.message.bytes=50000");
    rig = publish_many(&k, 0); /* librdkafka's own batches are too large: else this test shows nothing */
    CHECK_EQ(rig->refused_fault, RELAY_FAULT_SIZE);
    rig_free(rig);
    rig = publish_many(&k, 50000);
    CHECK_EQ(rig->refused_n + rig->broken_n, 0);
    rig_free(rig);
}

/* --- topics ------------------------------------------------------------------------------------------------------- */

TEST_WITHIN(producer_kafka_topic_that_is_made_later, 60)
{
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, (const char *[]){"topic.metadata.propagation.max.ms=1000", NULL});

    rig_learn(rig, "later", 0);
    CHECK(strstr(rig->topic_reason, "topic \"later\" does not exist") != NULL);
    rig_learn(rig, "no/name", 0);
    CHECK(strstr(rig->topic_reason, "cannot be the name") != NULL);
    rig_open(rig, 0);
    rig_publish(rig, 0, "later", 3, 100);
    RIG_WAIT(rig, rig->refused_n == 1, 30);
    CHECK_EQ(rig->refused_fault, RELAY_FAULT_TOPIC);
    rig_close(rig);

    kafka_topic_create(k.bootstrap, "later", 4, NULL);
    rig_learn(rig, "later", 4);
    rig_open(rig, 0);
    rig_publish(rig, 0, "later", 3, 100);
    RIG_WAIT(rig, rig->delivered_n == 1, 15);
    rig_close(rig);
    CHECK(rig->longest_ns < 50000000);
    rig_free(rig);
}

static void add_partitions(const char *bootstrap, const char *topic, size_t partitions_n)
{
    char error[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_NewPartitions_t *change = rd_kafka_NewPartitions_new(topic, partitions_n, error, sizeof error);
    rd_kafka_t *client;
    rd_kafka_queue_t *queue;
    rd_kafka_event_t *event;

    CHECK_EQ(rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof error), RD_KAFKA_CONF_OK);
    client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    CHECK(client != NULL && change != NULL);
    queue = rd_kafka_queue_new(client);
    rd_kafka_CreatePartitions(client, &change, 1, NULL, queue);
    event = rd_kafka_queue_poll(queue, 15000);
    CHECK(event != NULL && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewPartitions_destroy(change);
    rd_kafka_destroy(client);
}

static bool lands(struct rig *rig, row_slot slot, const char *topic, int32_t partition)
{
    struct producer_record record = rig_record(rig, slot, topic, partition, 100);
    enum relay_fault fault = rig_hand(rig, &record);

    CHECK(fault == RELAY_FAULT_NONE || fault == RELAY_FAULT_TOPIC);
    return fault == RELAY_FAULT_NONE;
}

/* librdkafka would look for new partitions after minutes only. A refused row is in no sequence: the session goes on. */
TEST_WITHIN(producer_kafka_finds_new_partitions, 60)
{
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, NULL);

    kafka_topic_create(k.bootstrap, "grows", 2, NULL);
    rig_open(rig, 0);
    rig_publish(rig, 0, "grows", 1, 100);
    RIG_WAIT(rig, rig->delivered_n == 1, 15);
    CHECK(!lands(rig, 1, "grows", 3));
    add_partitions(k.bootstrap, "grows", 4);
    RIG_WAIT(rig, lands(rig, 1, "grows", 3), 15);
    RIG_WAIT(rig, rig->delivered_n == 2, 15);
    CHECK_EQ(rig->refused_n + rig->broken_n, 0);
    rig_close(rig);
    rig_free(rig);
}

/* --- for how long a silent producer is remembered ----------------------------------------------------------------- */

TEST_WITHIN(producer_kafka_tells_when_it_forgets_producers, 60)
{
    struct kafka k = kafka_start_with("producer.id.expiration.ms=77777");
    struct rig *rig = rig_new(k.bootstrap, NULL);

    kafka_topic_create(k.bootstrap, "t", 1, NULL);
    rig_learn(rig, "t", 1);
    CHECK_EQ(rig->idle_limit_n, 0);
    rig_open(rig, 0);
    RIG_WAIT(rig, rig->idle_limit_n == 1, 15);
    CHECK_EQ(rig->idle_limit_ms, 77777);
    rig_learn(rig, "t", 1);
    CHECK_EQ(rig->message_bytes_max[0], 1048588); /* both questions go together */
    rig_close(rig);
    rig->session = RELAY_PROBE;
    rig_open(rig, 0);
    rig_learn(rig, "t", 1);
    CHECK_EQ(rig->idle_limit_n, 1);
    rig_close(rig);
    rig->session = RELAY_MAIN;
    rig_open(rig, 0);
    RIG_WAIT(rig, rig->idle_limit_n == 2, 15);
    rig_close(rig);
    CHECK(rig->longest_ns < 50000000);
    rig_free(rig);
}

/* It is asked for again when the broker is there. */
TEST_WITHIN(producer_kafka_tells_it_when_it_is_back, 90)
{
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, NULL);

    kafka_kill(&k);
    rig_open(rig, 0);
    RIG_WAIT(rig, rig->reachable == 0, 30);
    kafka_restart(&k);
    RIG_WAIT(rig, rig->idle_limit_n == 1, 40);
    CHECK_EQ(rig->idle_limit_ms, 86400000);
    rig_close(rig);
    rig_free(rig);
}

static int32_t learned(struct rig *rig, const char *topic)
{
    unsigned topics_n = rig->topics_n;

    producer_learn(rig->producer, 0, topic);
    RIG_WAIT(rig, rig->topics_n > topics_n, 15);
    return rig->partitions_n[0];
}

/* Who may not describe the broker's settings is not told, and can do everything else. */
TEST_WITHIN(producer_kafka_keeps_it_from_who_may_not_know, 60)
{
    struct kafka k =
        kafka_start_secure("SASL_PLAINTEXT", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
                                             "super.users=User:ANONYMOUS\n"
                                             "listener.name.relay.sasl.enabled.mechanisms=PLAIN\n"
                                             "listener.name.relay.plain.sasl.jaas.config=org.apache.kafka.common.security.plain."
                                             "PlainLoginModule required user_relay=\"secret\";");
    struct rig *rig = rig_new(k.secure, (const char *[]){"security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=relay",
                                                         "sasl.password=secret", NULL});
    unsigned topics_n;

    kafka_topic_create(k.bootstrap, "t", 1, NULL);
    kafka_acl_add(k.bootstrap, (struct kafka_acl){.user = "relay", .topic = "t", .operation = "WRITE"});
    WAIT_UNTIL(learned(rig, "t") == 1, 20);
    rig_open(rig, 0);
    rig_publish(rig, 0, "t", 0, 100);
    RIG_WAIT(rig, rig->delivered_n == 1, 15);
    topics_n = rig->topics_n;
    rig_learn(rig, "t", 1); /* after the question that the session asked */
    CHECK_EQ(rig->topics_n, topics_n + 1);
    CHECK_EQ(rig->idle_limit_n, 0);
    CHECK_EQ(rig->message_bytes_max[0], 0);
    rig_close(rig);
    rig_free(rig);
}

/* --- a broker that is killed -------------------------------------------------------------------------------------- */

/* As the core does: one row a partition until its first report, the rest afterwards; all that is not reported good goes again. */
static void publish_rest(struct rig *rig, const unsigned char *good, row_slot rows_n)
{
    uint32_t delivered_n = rig->delivered_n, cold_n = 0;
    bool cold[PARTITIONS] = {false};

    for (int round = 0; round < 2; round++) {
        for (row_slot slot = 0; slot < rows_n; slot++) {
            struct producer_record record;
            int32_t partition = (int32_t)(slot % PARTITIONS);

            if (good[slot] || (round == 0) == cold[partition] || (round == 1 && rig->payloads[slot] != NULL) ||
                (round == 1 && rig->reports[slot] > 0 && rig->faults[slot] == RELAY_FAULT_NONE))
                continue;
            cold[partition] |= round == 0;
            cold_n += round == 0;
            record = rig_record(rig, slot, "t", partition, 200);
            if (rig_hand(rig, &record) != RELAY_FAULT_NONE)
                return;
        }
        if (round == 0)
            RIG_WAIT(rig, rig->delivered_n == delivered_n + cold_n || rig->refused_n + rig->broken_n > 0, 60);
        if (rig->refused_n + rig->broken_n > 0)
            return;
    }
}

TEST_WITHIN(producer_kafka_survives_kills_of_the_broker, 180)
{
    enum {
        KILL_ROWS = 20000
    };
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, NULL);
    unsigned char *good = calloc(KILL_ROWS, 1);
    uint32_t good_n = 0;
    unsigned sessions_n = 0, kills_n = 0;

    kafka_topic_create(k.bootstrap, "t", PARTITIONS, NULL);
    while (good_n < KILL_ROWS) {
        CHECK(++sessions_n < 10);
        rig->delivered_n = rig->refused_n = rig->broken_n = 0;
        memset(rig->reports, 0, RIG_ROWS);
        rig_open(rig, 0);
        publish_rest(rig, good, KILL_ROWS);
        if (kills_n++ < 2) {
            kafka_kill(&k); /* while most rows have no report yet */
            RIG_WAIT(rig, rig->reachable == 0, 30);
            kafka_restart(&k);
        }
        RIG_WAIT(rig, rig->delivered_n + good_n == KILL_ROWS || rig->refused_n + rig->broken_n > 0, 60);
        rig_close(rig);
        for (row_slot slot = 0; slot < KILL_ROWS; slot++) {
            CHECK(good[slot] ? rig->reports[slot] == 0 : rig->reports[slot] <= 1);
            good[slot] |= rig->reports[slot] == 1 && rig->faults[slot] == RELAY_FAULT_NONE;
        }
        good_n = 0;
        for (row_slot slot = 0; slot < KILL_ROWS; slot++)
            good_n += good[slot];
    }
    printf("    %u sessions, %u rows twice\n", sessions_n, rig_read(k.bootstrap, "t", PARTITIONS, NULL, NULL) - KILL_ROWS);
    check_topic(k.bootstrap, "t", KILL_ROWS, true);
    CHECK(rig->longest_ns < 50000000);
    free(good);
    rig_free(rig);
}
