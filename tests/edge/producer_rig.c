/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/edge/producer_rig.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what it tells ------------------------------------------------------------------------------------------------ */

static void report(struct rig *rig, enum relay_session session, row_slot slot, enum relay_fault fault)
{
    uint64_t until_ns = rig->work_ns > 0 ? uv_hrtime() + rig->work_ns : 0;

    while (until_ns > 0 && uv_hrtime() < until_ns)
        continue;
    rig->early |= rig->calling;
    rig->repeated |= rig->reports[slot]++ > 0;
    rig->confused |= rig->sessions[slot] != session;
    rig->faults[slot] = (unsigned char)fault;
    free(rig->payloads[slot]);
    rig->payloads[slot] = NULL;
}

static void on_delivered(void *data, enum relay_session session, row_slot slot, row_slot later_slot)
{
    struct rig *rig = data;

    (void)later_slot;

    report(rig, session, slot, RELAY_FAULT_NONE);
    rig->delivered_n++;
}

static void on_refused(void *data, enum relay_session session, row_slot slot, enum relay_fault fault, const char *code)
{
    struct rig *rig = data;

    report(rig, session, slot, fault);
    if (rig->refused_n++ == 0 || strcmp(rig->refused_code, "_PURGE_QUEUE") == 0) {
        rig->refused_fault = fault;
        snprintf(rig->refused_code, sizeof rig->refused_code, "%s", code);
    }
}

static void on_broken(void *data, enum relay_session session, enum relay_fault fault, const char *code, const char *reason)
{
    struct rig *rig = data;

    rig->early |= rig->calling;
    rig->broken_n++;
    rig->broken_by[session]++;
    rig->broken_fault = fault;
    snprintf(rig->broken_code, sizeof rig->broken_code, "%s", code);
    snprintf(rig->broken_reason, sizeof rig->broken_reason, "%s", reason);
}

static void on_freed(void *data)
{
    ((struct rig *)data)->freed_n++;
}

static void on_closed(void *data, enum relay_session session)
{
    struct rig *rig = data;

    rig->early |= rig->calling;
    rig->closed_n++;
    rig->closed_by[session]++;
    if (rig->ends_with_session)
        producer_free(rig->producer, on_freed, rig);
}

static void on_topic(void *data, uint32_t topic, int32_t partitions_n, uint32_t message_bytes_max, const char *reason)
{
    struct rig *rig = data;

    rig->early |= rig->calling;
    rig->topics_n++;
    rig->partitions_n[topic] = partitions_n;
    rig->message_bytes_max[topic] = message_bytes_max;
    snprintf(rig->topic_reason, sizeof rig->topic_reason, "%s", reason);
}

static void on_idle_limit(void *data, uint64_t expiration_ms)
{
    struct rig *rig = data;

    rig->early |= rig->calling;
    rig->idle_limit_n++;
    rig->idle_limit_ms = expiration_ms;
}

static void on_reachable(void *data, bool reachable, const char *reason)
{
    struct rig *rig = data;

    if (rig->reachable == 1 && reachable)
        test_fail(__FILE__, __LINE__, "reachable was told again without a change");
    rig->reachable_n += rig->reachable != (int)reachable; /* the cause of an outage may be told later */
    rig->reachable = reachable;
    snprintf(rig->reachable_reason, sizeof rig->reachable_reason, "%s", reason);
}

static void on_log(void *data, enum producer_log_level level, const char *facility, const char *text)
{
    struct rig *rig = data;

    (void)level;
    (void)facility;
    (void)text;
    rig->logs_n++;
    if (getenv("RIG_LOG") != NULL)
        printf("    %d %s %s\n", (int)level, facility, text);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static uint64_t cpu_ns(const struct rusage *usage)
{
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000 +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

/* Once a turn: all that passed since the last one. If another process had our processor meanwhile, that is not the turn's fault: then what
 * it computed counts. Waiting, for a name or a lock, gives the processor away freely and counts in full. */
static void on_turn(uv_prepare_t *turns)
{
    struct rig *rig = turns->data;
    struct rusage usage;
    uint64_t now_ns = uv_hrtime(), took_ns = now_ns - rig->turn_ns;

    CHECK_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
    if (usage.ru_nivcsw != rig->usage.ru_nivcsw)
        took_ns = cpu_ns(&usage) - cpu_ns(&rig->usage);
    if (took_ns > rig->longest_ns)
        rig->longest_ns = took_ns;
    rig->turn_ns = now_ns;
    rig->usage = usage;
}

/* The loop waits for nothing here, so that all of a turn's time is work. The pause between two calls is the waiter's. */
void rig_turn(struct rig *rig)
{
    rig->turn_ns = uv_hrtime();
    CHECK_EQ(getrusage(RUSAGE_THREAD, &rig->usage), 0);
    for (int i = 0; i < 4; i++)
        (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
}

struct rig *rig_new(const char *bootstrap, const char *const *extra)
{
    static const struct producer_callbacks callbacks = {on_delivered, on_refused,    on_broken,    on_closed,
                                                        on_topic,     on_idle_limit, on_reachable, on_log};
    struct producer_property properties[16] = {{"bootstrap.servers", bootstrap}};
    char texts[16][200], error[400] = "";
    size_t n = 1;
    struct rig *rig = calloc(1, sizeof *rig);

    CHECK(rig != NULL);
    for (; extra != NULL && extra[n - 1] != NULL; n++) {
        char *equals;

        CHECK(n < 16 && strlen(extra[n - 1]) < sizeof texts[0]);
        strcpy(texts[n], extra[n - 1]);
        equals = strchr(texts[n], '=');
        CHECK(equals != NULL);
        *equals = '\0';
        properties[n] = (struct producer_property){texts[n], equals + 1};
    }
    CHECK(producer_accepts(properties, n, error, sizeof error));
    rig->reports = calloc(RIG_ROWS, 1);
    rig->sessions = calloc(RIG_ROWS, 1);
    rig->faults = calloc(RIG_ROWS, 1);
    rig->reachable = -1;
    for (size_t i = 0; i < RIG_TOPICS; i++)
        rig->partitions_n[i] = -1;
    CHECK_EQ(uv_loop_init(&rig->loop), 0);
    CHECK_EQ(uv_prepare_init(&rig->loop, &rig->turns), 0);
    rig->turns.data = rig;
    CHECK_EQ(uv_prepare_start(&rig->turns, on_turn), 0);
    rig->producer = producer_new(&rig->loop, properties, n, RIG_TOPICS, RIG_ROWS, (uint64_t)RIG_ROWS * 1000, &callbacks, rig);
    CHECK(rig->producer != NULL);
    return rig;
}

void rig_free(struct rig *rig)
{
    CHECK(!rig->repeated && !rig->early && !rig->confused);
    if (!rig->ends_with_session) {
        producer_free(rig->producer, on_freed, rig);
        CHECK_EQ(rig->freed_n, 0);
    }
    uv_close((uv_handle_t *)&rig->turns, NULL);
    RIG_WAIT(rig, rig->freed_n > 0, 20);
    CHECK_EQ(rig->freed_n, 1);
    CHECK_EQ(uv_loop_close(&rig->loop), 0);
    for (size_t i = 0; i < RIG_ROWS; i++)
        free(rig->payloads[i]);
    free(rig->reports);
    free(rig->sessions);
    free(rig->faults);
    free(rig);
}

/* --- sessions and rows -------------------------------------------------------------------------------------------- */

void rig_open(struct rig *rig, uint64_t batch_bytes)
{
    char error[400] = "";

    if (!producer_open(rig->producer, rig->session, batch_bytes, error, sizeof error))
        test_fail(__FILE__, __LINE__, "no session: %s", error);
}

void rig_close(struct rig *rig)
{
    unsigned closed_n = rig->closed_by[rig->session];

    rig->calling = true;
    producer_close(rig->producer, rig->session);
    rig->calling = false;
    RIG_WAIT(rig, rig->closed_by[rig->session] > closed_n, 20);
    CHECK_EQ(rig->closed_by[rig->session], closed_n + 1);
}

struct producer_record rig_record(struct rig *rig, row_slot slot, const char *topic, int32_t partition, size_t payload_n)
{
    unsigned char *payload = malloc(payload_n + 1);

    CHECK(payload != NULL && slot < RIG_ROWS && rig->payloads[slot] == NULL && payload_n >= sizeof slot);
    memset(payload, (int)slot, payload_n);
    memcpy(payload, &slot, sizeof slot);
    rig->payloads[slot] = payload;
    rig->reports[slot] = 0;
    return (struct producer_record){.slot = slot,
                                    .topic = 0,
                                    .topic_name = topic,
                                    .partition = partition,
                                    .payload = payload,
                                    .payload_n = payload_n,
                                    .timestamp_ms = 1700000000000 + slot};
}

enum relay_fault rig_hand(struct rig *rig, const struct producer_record *record)
{
    const char *code = "";
    enum relay_fault fault;

    rig->calling = true;
    rig->sessions[record->slot] = (unsigned char)rig->session;
    fault = producer_publish(rig->producer, rig->session, record, &code);
    rig->calling = false;
    CHECK((fault == RELAY_FAULT_NONE) == (code[0] == '\0'));
    if (fault == RELAY_FAULT_NONE)
        return fault;
    free(rig->payloads[record->slot]);
    rig->payloads[record->slot] = NULL;
    return fault;
}

void rig_publish(struct rig *rig, row_slot slot, const char *topic, int32_t partition, size_t payload_n)
{
    struct producer_record record = rig_record(rig, slot, topic, partition, payload_n);

    CHECK_EQ(rig_hand(rig, &record), RELAY_FAULT_NONE);
}

uint32_t rig_reports_n(const struct rig *rig)
{
    return rig->delivered_n + rig->refused_n;
}

void rig_learn(struct rig *rig, const char *topic, int32_t partitions_n)
{
    unsigned topics_n = rig->topics_n;

    producer_learn(rig->producer, 0, topic);
    RIG_WAIT(rig, rig->topics_n > topics_n, 15);
    if (rig->partitions_n[0] != partitions_n)
        test_fail(__FILE__, __LINE__, "topic %s has %d partitions: %s", topic, (int)rig->partitions_n[0], rig->topic_reason);
}

/* --- the other side ----------------------------------------------------------------------------------------------- */

static rd_kafka_t *consumer_new(const char *bootstrap)
{
    static const char *const settings[][2] = {{"group.id", "test"},
                                              {"auto.offset.reset", "earliest"},
                                              {"enable.partition.eof", "true"},
                                              {"enable.auto.commit", "false"},
                                              {"log_level", "0"}};
    char error[300];
    rd_kafka_t *consumer;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    CHECK_EQ(rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof error), RD_KAFKA_CONF_OK);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        CHECK_EQ(rd_kafka_conf_set(conf, settings[i][0], settings[i][1], error, sizeof error), RD_KAFKA_CONF_OK);
    consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
    CHECK(consumer != NULL);
    return consumer;
}

unsigned rig_read(const char *bootstrap, const char *topic, int32_t partitions_n,
                  void (*on_message)(void *data, const struct rig_message *message), void *data)
{
    rd_kafka_t *consumer = consumer_new(bootstrap);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions_n);
    uint64_t until_ms = test_now_ms() + 60000;
    int32_t ended_n = 0;
    unsigned n = 0;

    for (int32_t partition = 0; partition < partitions_n; partition++)
        rd_kafka_topic_partition_list_add(list, topic, partition)->offset = RD_KAFKA_OFFSET_BEGINNING;
    CHECK_EQ(rd_kafka_assign(consumer, list), 0);
    rd_kafka_topic_partition_list_destroy(list);
    while (ended_n < partitions_n) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, 1000);

        CHECK(test_now_ms() < until_ms);
        if (m == NULL)
            continue;
        ended_n += m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
        if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            struct rig_message message = {m->partition, m->key, m->payload, m->key_len, m->len, rd_kafka_message_timestamp(m, NULL), m};

            n++;
            if (on_message != NULL)
                on_message(data, &message);
        }
        rd_kafka_message_destroy(m);
    }
    rd_kafka_destroy(consumer);
    return n;
}
