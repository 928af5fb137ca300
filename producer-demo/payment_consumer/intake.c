/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/intake.h"

#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/delivery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FIRST_WAIT_MS 50 /* for the first record of a batch */
#define NEXT_WAIT_MS  5  /* for each further one */

struct intake {
    const struct consumer_settings *settings;
    rd_kafka_t *consumer;
    rd_kafka_topic_partition_list_t *done; /* where the group may go on, by partition */
    bool changed;                          /* `done`, since it was committed */
    int64_t committed_ms;
    unsigned assignments;
    struct delivery **batch; /* being read */
    int batch_n;
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void batch_drop(struct intake *intake)
{
    for (int i = 0; i < intake->batch_n; i++)
        free(intake->batch[i]);
    intake->batch_n = 0;
}

static void done_forget(struct intake *intake)
{
    rd_kafka_topic_partition_list_destroy(intake->done);
    intake->done = rd_kafka_topic_partition_list_new(12);
    intake->changed = false;
}

/* Called by rd_kafka_consumer_poll and rd_kafka_consumer_close. Partitions are taken away: what is done is committed for the next owner, what was
 * read and is not done is his. */
static void on_rebalance(rd_kafka_t *consumer, rd_kafka_resp_err_t event, rd_kafka_topic_partition_list_t *partitions, void *context)
{
    struct intake *intake = context;

    if (event == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        (void)rd_kafka_assign(consumer, partitions);
        intake->assignments++;
        return;
    }
    intake_commit(intake, true);
    done_forget(intake);
    batch_drop(intake);
    (void)rd_kafka_assign(consumer, NULL);
}

static _Noreturn void refuse_settings(const char *why)
{
    (void)fprintf(stderr, "payment-consumer: --kafka, --group: %s\n", why);
    exit(2);
}

static rd_kafka_t *consumer_new(struct intake *intake)
{
    const char *const properties[][2] = {
        {"bootstrap.servers", intake->settings->kafka},
        {"group.id", intake->settings->group},
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"auto.offset.reset", "earliest"},
        {"fetch.wait.max.ms", "50"},
        {"session.timeout.ms", "6000"},
        {"heartbeat.interval.ms", "500"},
        {"socket.nagle.disable", "true"},
        {"topic.metadata.refresh.interval.ms", "5000"},
        {"reconnect.backoff.max.ms", "1000"},
        {"isolation.level", "read_committed"},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char why[256];
    rd_kafka_t *consumer;

    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (rd_kafka_conf_set(conf, properties[i][0], properties[i][1], why, sizeof why) != RD_KAFKA_CONF_OK)
            refuse_settings(why);
    rd_kafka_conf_set_opaque(conf, intake);
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (!consumer)
        refuse_settings(why);
    (void)rd_kafka_poll_set_consumer(consumer);
    return consumer;
}

struct intake *intake_open(const struct consumer_settings *settings)
{
    struct intake *intake = calloc(1, sizeof *intake);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_resp_err_t failed;

    if (!intake)
        abort();
    intake->settings = settings;
    intake->done = rd_kafka_topic_partition_list_new(12);
    intake->committed_ms = now_ms();
    intake->consumer = consumer_new(intake);
    (void)rd_kafka_topic_partition_list_add(topics, settings->topic, RD_KAFKA_PARTITION_UA);
    failed = rd_kafka_subscribe(intake->consumer, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    if (failed)
        refuse_settings(rd_kafka_err2str(failed));
    return intake;
}

rd_kafka_t *intake_consumer(const struct intake *intake)
{
    return intake->consumer;
}

unsigned intake_assignments(const struct intake *intake)
{
    return intake->assignments;
}

int intake_read(struct intake *intake, struct delivery ***ret_batch)
{
    rd_kafka_message_t *message;
    int64_t max = intake->settings->batch;
    int n;

    intake->batch = malloc((size_t)max * sizeof(struct delivery *));
    if (!intake->batch)
        abort();
    while (intake->batch_n < max &&
           (message = rd_kafka_consumer_poll(intake->consumer, intake->batch_n == 0 ? FIRST_WAIT_MS : NEXT_WAIT_MS)) != NULL) {
        if (!message->err)
            intake->batch[intake->batch_n++] = delivery_read(message);
        rd_kafka_message_destroy(message); /* an error is librdkafka's to mend; it logs it */
    }
    *ret_batch = intake->batch;
    n = intake->batch_n;
    intake->batch = NULL;
    intake->batch_n = 0;
    return n;
}

void intake_done(struct intake *intake, struct delivery *const *batch, int n)
{
    for (int i = 0; i < n; i++) {
        rd_kafka_topic_partition_t *partition;

        if (batch[i]->copied)
            continue;
        partition = rd_kafka_topic_partition_list_find(intake->done, intake->settings->topic, batch[i]->partition);
        if (!partition) {
            partition = rd_kafka_topic_partition_list_add(intake->done, intake->settings->topic, batch[i]->partition);
            partition->offset = 0;
        }
        if (partition->offset <= batch[i]->offset)
            partition->offset = batch[i]->offset + 1;
        intake->changed = true;
    }
}

void intake_commit(struct intake *intake, bool now)
{
    rd_kafka_resp_err_t failed;

    if (!intake->changed || (!now && now_ms() < intake->committed_ms + intake->settings->commit_interval_ms))
        return;
    intake->committed_ms = now_ms();
    if (points_pass(POINT_BEFORE_OFFSETS))
        return; /* as if the broker had not answered: the next time commits them */
    failed = rd_kafka_commit(intake->consumer, intake->done, 0);
    intake->changed = failed != RD_KAFKA_RESP_ERR_NO_ERROR;
    if (failed)
        (void)fprintf(stderr, "payment-consumer: offsets were not committed, their records may come again: %s\n", rd_kafka_err2str(failed));
    (void)points_pass(POINT_AFTER_OFFSETS);
}

void intake_close(struct intake *intake, bool commit)
{
    if (commit)
        intake_commit(intake, true);
    intake->changed = false;
    (void)rd_kafka_consumer_close(intake->consumer);
    rd_kafka_destroy(intake->consumer);
    rd_kafka_topic_partition_list_destroy(intake->done);
    free(intake);
}

static enum offsets_result offsets_judge(rd_kafka_resp_err_t failed)
{
    if (!failed)
        return OFFSETS_COMMITTED;
    (void)fprintf(stderr, "payment-consumer: offsets were not committed: %s\n", rd_kafka_err2str(failed));
    return failed == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION || failed == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
                   failed == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS || failed == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID ||
                   failed == RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST
               ? OFFSETS_GONE
               : OFFSETS_LATER;
}

enum offsets_result offsets_commit(struct worker *worker, struct delivery *const *batch, int n)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(12);
    struct intake intake = {.settings = worker->settings, .consumer = worker->consumer, .done = list};
    enum offsets_result result = OFFSETS_COMMITTED;

    intake_done(&intake, batch, n);
    if (intake.changed && points_pass(POINT_BEFORE_OFFSETS))
        result = OFFSETS_LATER;
    else if (intake.changed)
        result = offsets_judge(rd_kafka_commit(worker->consumer, list, 0));
    if (result == OFFSETS_COMMITTED && intake.changed && points_pass(POINT_AFTER_OFFSETS))
        result = OFFSETS_LATER; /* as if the answer had been lost */
    rd_kafka_topic_partition_list_destroy(list);
    return result;
}
