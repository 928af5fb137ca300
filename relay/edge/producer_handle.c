/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/edge/producer_handle.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Long enough for a broker that is there, short enough for an orderly stop to wait for. */
#define ANSWER_MS 1000

struct handle {
    uv_loop_t *loop;
    rd_kafka_t *kafka;
    rd_kafka_queue_t *queue;
    rd_kafka_topic_t **topics; /* by their number; NULL: not used yet */
    uint32_t topics_max;

    uv_work_t work; /* a question, or the destruction */
    bool working;
    rd_kafka_resp_err_t answer_error;
    handle_on_answered on_answered;
    void *answered_data;

    bool ending;
    void (*on_ended)(void *data, const struct handle *h);
    void *ended_data;
};

struct handle *handle_new(uv_loop_t *loop, rd_kafka_conf_t *conf, uint32_t topics_max, int wakeup_fd, char *error, size_t error_size)
{
    static const uint64_t one = 1;
    char reason[400] = "out of memory";
    struct handle *h = calloc(1, sizeof *h);

    if (h == NULL || (h->topics = calloc(topics_max, sizeof *h->topics)) == NULL)
        goto failed;
    h->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (h->kafka == NULL)
        goto failed;
    h->loop = loop;
    h->topics_max = topics_max;
    h->work.data = h;
    h->queue = rd_kafka_queue_get_main(h->kafka);
    /* Both ends of an eventfd that does not block: a loop that is late never holds up librdkafka's threads. */
    rd_kafka_queue_io_event_enable(h->queue, wakeup_fd, &one, sizeof one);
    (void)rd_kafka_set_log_queue(h->kafka, h->queue);
    return h;

failed:
    snprintf(error, error_size, "the Kafka producer cannot be made (%s); check the settings kafka.*", reason);
    rd_kafka_conf_destroy(conf);
    if (h != NULL)
        free(h->topics);
    free(h);
    return NULL;
}

rd_kafka_t *handle_kafka(const struct handle *h)
{
    return h->kafka;
}

rd_kafka_queue_t *handle_queue(const struct handle *h)
{
    return h->queue;
}

rd_kafka_topic_t *handle_topic(struct handle *h, uint32_t topic, const char *name, bool *ret_new)
{
    assert(topic < h->topics_max && !h->ending);
    *ret_new = h->topics[topic] == NULL;
    if (*ret_new)
        h->topics[topic] = rd_kafka_topic_new(h->kafka, name, NULL);
    return h->topics[topic];
}

void handle_forget(struct handle *h, uint32_t topic)
{
    assert(topic < h->topics_max);
    if (h->topics[topic] != NULL)
        rd_kafka_topic_destroy(h->topics[topic]);
    h->topics[topic] = NULL;
}

/* --- on a worker thread ------------------------------------------------------------------------------------------- */

/* Runs on a worker thread, like every function named on_worker_... */
static void on_worker_ask(uv_work_t *work)
{
    struct handle *h = work->data;
    const struct rd_kafka_metadata *metadata = NULL;

    h->answer_error = rd_kafka_metadata(h->kafka, 0, NULL, &metadata, ANSWER_MS);
    if (metadata != NULL)
        rd_kafka_metadata_destroy(metadata);
}

static void on_worker_destroy(uv_work_t *work)
{
    struct handle *h = work->data;

    rd_kafka_destroy(h->kafka);
}

static void on_destroyed(uv_work_t *work, int status)
{
    struct handle *h = work->data;
    void (*on_ended)(void *data, const struct handle *ended) = h->on_ended;
    void *data = h->ended_data;

    assert(status == 0);
    free(h->topics);
    on_ended(data, h);
    free(h);
}

static void destroy(struct handle *h)
{
    h->working = true;
    (void)uv_queue_work(h->loop, &h->work, on_worker_destroy, on_destroyed);
}

static void on_answered(uv_work_t *work, int status)
{
    struct handle *h = work->data;

    assert(status == 0);
    h->working = false;
    if (h->ending)
        destroy(h);
    else
        h->on_answered(h->answered_data, h->answer_error);
}

bool handle_ask(struct handle *h, handle_on_answered answer, void *data)
{
    if (h->working)
        return false;
    h->working = true;
    h->on_answered = answer;
    h->answered_data = data;
    (void)uv_queue_work(h->loop, &h->work, on_worker_ask, on_answered);
    return true;
}

void handle_end(struct handle *h, void (*on_ended)(void *data, const struct handle *h), void *data)
{
    assert(!h->ending);
    h->ending = true;
    h->on_ended = on_ended;
    h->ended_data = data;
    for (uint32_t topic = 0; topic < h->topics_max; topic++)
        handle_forget(h, topic);
    rd_kafka_queue_io_event_enable(h->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(h->queue);
    h->queue = NULL;
    if (!h->working)
        destroy(h);
}
