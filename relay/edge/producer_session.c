/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/edge/producer_session.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Long enough for a broker that is there, short enough for an orderly stop to wait for. */
#define PROBE_MS 1000

struct session {
    uv_loop_t *loop;
    rd_kafka_t *client;
    rd_kafka_queue_t *queue;
    rd_kafka_topic_t **topics; /* by their number; NULL: not used yet */
    uint32_t topics_max;

    uv_work_t work; /* a probe, or the destruction */
    bool working;
    rd_kafka_resp_err_t probe_error;
    session_on_probed on_probed;
    void *probed_data;

    bool ending;
    void (*on_ended)(void *data, const struct session *s);
    void *ended_data;
};

struct session *session_new(uv_loop_t *loop, rd_kafka_conf_t *conf, uint32_t topics_max, int wakeup_fd, char *error, size_t error_size)
{
    static const uint64_t one = 1;
    char reason[400] = "out of memory";
    struct session *s = calloc(1, sizeof *s);

    if (s == NULL || (s->topics = calloc(topics_max, sizeof *s->topics)) == NULL)
        goto failed;
    s->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason);
    if (s->client == NULL)
        goto failed;
    s->loop = loop;
    s->topics_max = topics_max;
    s->work.data = s;
    s->queue = rd_kafka_queue_get_main(s->client);
    /* Both ends of an eventfd that does not block: a loop that is late never holds up librdkafka's threads. */
    rd_kafka_queue_io_event_enable(s->queue, wakeup_fd, &one, sizeof one);
    (void)rd_kafka_set_log_queue(s->client, s->queue);
    return s;

failed:
    snprintf(error, error_size, "the Kafka producer cannot be made (%s); check the settings kafka.*", reason);
    rd_kafka_conf_destroy(conf);
    if (s != NULL)
        free(s->topics);
    free(s);
    return NULL;
}

rd_kafka_t *session_client(const struct session *s)
{
    return s->client;
}

rd_kafka_queue_t *session_queue(const struct session *s)
{
    return s->queue;
}

rd_kafka_topic_t *session_topic(struct session *s, uint32_t topic, const char *name, bool *ret_new)
{
    assert(topic < s->topics_max && !s->ending);
    *ret_new = s->topics[topic] == NULL;
    if (*ret_new)
        s->topics[topic] = rd_kafka_topic_new(s->client, name, NULL);
    return s->topics[topic];
}

void session_forget(struct session *s, uint32_t topic)
{
    assert(topic < s->topics_max);
    if (s->topics[topic] != NULL)
        rd_kafka_topic_destroy(s->topics[topic]);
    s->topics[topic] = NULL;
}

/* --- on a worker thread ------------------------------------------------------------------------------------------- */

/* Runs on a worker thread, like every function named on_worker_... */
static void on_worker_probe(uv_work_t *work)
{
    struct session *s = work->data;
    const struct rd_kafka_metadata *metadata = NULL;

    s->probe_error = rd_kafka_metadata(s->client, 0, NULL, &metadata, PROBE_MS);
    if (metadata != NULL)
        rd_kafka_metadata_destroy(metadata);
}

static void on_worker_destroy(uv_work_t *work)
{
    struct session *s = work->data;

    rd_kafka_destroy(s->client);
}

static void on_destroyed(uv_work_t *work, int status)
{
    struct session *s = work->data;
    void (*on_ended)(void *data, const struct session *ended) = s->on_ended;
    void *data = s->ended_data;

    assert(status == 0);
    free(s->topics);
    on_ended(data, s);
    free(s);
}

static void destroy(struct session *s)
{
    s->working = true;
    (void)uv_queue_work(s->loop, &s->work, on_worker_destroy, on_destroyed);
}

static void on_probed(uv_work_t *work, int status)
{
    struct session *s = work->data;

    assert(status == 0);
    s->working = false;
    if (s->ending)
        destroy(s);
    else
        s->on_probed(s->probed_data, s->probe_error);
}

bool session_probe(struct session *s, session_on_probed answer, void *data)
{
    if (s->working)
        return false;
    s->working = true;
    s->on_probed = answer;
    s->probed_data = data;
    (void)uv_queue_work(s->loop, &s->work, on_worker_probe, on_probed);
    return true;
}

void session_end(struct session *s, void (*on_ended)(void *data, const struct session *s), void *data)
{
    assert(!s->ending);
    s->ending = true;
    s->on_ended = on_ended;
    s->ended_data = data;
    for (uint32_t topic = 0; topic < s->topics_max; topic++)
        session_forget(s, topic);
    rd_kafka_queue_io_event_enable(s->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(s->queue);
    s->queue = NULL;
    if (!s->working)
        destroy(s);
}
