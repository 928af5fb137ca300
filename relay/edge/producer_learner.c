/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions that come while one is out wait and are asked together. */
#include "relay/edge/producer_learner.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/producer_conf.h"
#include "relay/edge/producer_fault.h"

#define METADATA_MS    5000 /* a TLS handshake over a long line takes one; a broker that is down need not be waited for longer */
#define CONFIGS_MS     3000 /* the answer is of use but can be done without */
#define TOPICS_AT_ONCE 64   /* so that the last of a thousand topics does not hold up the first */

struct question {
    struct question *next;
    bool forgotten;
    struct learned learned;
    char name[]; /* of the topic */
};

struct learner {
    uv_loop_t *loop;
    const struct producer_property *properties;
    size_t properties_n;
    learner_on_learned on_learned;
    void *data;

    struct question *waiting, **waiting_end;
    struct question *asked; /* with the worker thread, and its own until it is done, but for `forgotten` */
    bool asking;
    uv_work_t work;

    bool freed;
    void (*on_freed)(void *data);
    void *freed_data;
};

struct learner *learner_new(uv_loop_t *loop, const struct producer_property *properties, size_t properties_n, learner_on_learned on_learned,
                            void *data)
{
    struct learner *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    l->loop = loop;
    l->properties = properties;
    l->properties_n = properties_n;
    l->on_learned = on_learned;
    l->data = data;
    l->waiting_end = &l->waiting;
    l->work.data = l;
    return l;
}

static void free_questions(struct question *q)
{
    while (q != NULL) {
        struct question *next = q->next;

        free(q);
        q = next;
    }
}

static void end(struct learner *l)
{
    void (*on_freed)(void *data) = l->on_freed;
    void *data = l->freed_data;

    free_questions(l->waiting);
    free(l);
    on_freed(data);
}

void learner_free(struct learner *l, void (*on_freed)(void *data), void *data)
{
    l->freed = true;
    l->on_freed = on_freed;
    l->freed_data = data;
    if (!l->asking)
        end(l);
}

/* --- on a worker thread ------------------------------------------------------------------------------------------- */

static void fail(struct question *q, rd_kafka_resp_err_t error, const char *reason)
{
    q->learned.error = error;
    q->learned.partitions_n = 0;
    snprintf(q->learned.reason, sizeof q->learned.reason, "topic \"%.249s\" cannot be learned: %.400s", q->name, reason);
}

/* Metadata that did not come says "timed out"; why is told by the events that came meanwhile. */
static void find_cause(rd_kafka_t *client, rd_kafka_resp_err_t *error, char *ret_reason, size_t reason_size)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_get_main(client);
    rd_kafka_event_t *event;

    snprintf(ret_reason, reason_size, "%s", rd_kafka_err2str(*error));
    while ((event = rd_kafka_queue_poll(queue, 0)) != NULL) {
        rd_kafka_resp_err_t cause = rd_kafka_event_error(event);

        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR && producer_fault_is_connection(cause) &&
            cause != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
            *error = cause;
            snprintf(ret_reason, reason_size, "%s", rd_kafka_event_error_string(event));
        }
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
}

static void read_metadata(struct question *q, const struct rd_kafka_metadata *metadata)
{
    struct learned *learned = &q->learned;

    learned->error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    for (int i = 0; i < metadata->topic_cnt; i++) {
        const struct rd_kafka_metadata_topic *topic = &metadata->topics[i];

        if (strcmp(topic->topic, q->name) != 0)
            continue;
        learned->error = topic->err;
        learned->partitions_n = topic->err == RD_KAFKA_RESP_ERR_NO_ERROR ? topic->partition_cnt : 0;
    }
    if (learned->partitions_n == 0)
        producer_fault_topic_sentence(learned->error, q->name, learned->reason, sizeof learned->reason);
}

/* A broker to ask for more: the controller, which is alive, or any (the mock cluster names a controller that does not exist). */
static int32_t choose_broker(rd_kafka_t *client, const struct rd_kafka_metadata *metadata)
{
    int32_t controller = rd_kafka_controllerid(client, 0);

    for (int i = 0; i < metadata->broker_cnt; i++)
        if (metadata->brokers[i].id == controller)
            return controller;
    return metadata->broker_cnt > 0 ? metadata->brokers[0].id : -1;
}

/* Returns false if no broker answers: then the other topics need not be asked for. `ret_broker` becomes the one to ask for more. */
static bool ask_metadata(rd_kafka_t *client, struct question *q, int32_t *ret_broker)
{
    const struct rd_kafka_metadata *metadata = NULL;
    /* A name that librdkafka does not take, or takes here and refuses later. */
    rd_kafka_topic_t *topic = q->name[0] != '\0' ? rd_kafka_topic_new(client, q->name, NULL) : NULL;
    rd_kafka_resp_err_t error;

    if (topic == NULL) {
        q->learned.error = RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
        producer_fault_topic_sentence(q->learned.error, q->name, q->learned.reason, sizeof q->learned.reason);
        return true;
    }
    error = rd_kafka_metadata(client, 0, topic, &metadata, METADATA_MS);
    rd_kafka_topic_destroy(topic);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        read_metadata(q, metadata);
        *ret_broker = choose_broker(client, metadata);
        rd_kafka_metadata_destroy(metadata);
        return true;
    }
    q->learned.error = error;
    return false;
}

static void fail_all(rd_kafka_t *client, struct question *unanswered)
{
    char cause[250], reason[400];
    rd_kafka_resp_err_t error = unanswered->learned.error;

    find_cause(client, &error, cause, sizeof cause);
    producer_fault_sentence(error, cause, reason, sizeof reason);
    for (struct question *q = unanswered; q != NULL; q = q->next)
        fail(q, error, reason);
}

static void read_configs(struct question *asked, rd_kafka_event_t *event)
{
    size_t resources_n = 0;
    const rd_kafka_DescribeConfigs_result_t *result = rd_kafka_event_DescribeConfigs_result(event);
    const rd_kafka_ConfigResource_t **resources = result != NULL ? rd_kafka_DescribeConfigs_result_resources(result, &resources_n) : NULL;

    for (size_t i = 0; i < resources_n; i++) {
        size_t entries_n = 0;
        const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resources[i], &entries_n);

        for (size_t j = 0; j < entries_n; j++)
            for (struct question *q = asked; q != NULL; q = q->next)
                if (strcmp(rd_kafka_ConfigEntry_name(entries[j]), "max.message.bytes") == 0 &&
                    strcmp(rd_kafka_ConfigResource_name(resources[i]), q->name) == 0)
                    q->learned.message_bytes_max = (uint32_t)strtoul(rd_kafka_ConfigEntry_value(entries[j]), NULL, 10);
    }
}

/* A broker that does not allow or know the question is no error: the limit is not known then. */
static void ask_configs(rd_kafka_t *client, struct question *asked, int32_t broker)
{
    rd_kafka_ConfigResource_t *resources[TOPICS_AT_ONCE];
    size_t resources_n = 0;
    rd_kafka_queue_t *queue;
    rd_kafka_AdminOptions_t *options;
    rd_kafka_event_t *event;

    for (struct question *q = asked; q != NULL; q = q->next)
        if (q->learned.partitions_n > 0)
            resources[resources_n++] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, q->name);
    if (resources_n == 0)
        return;
    queue = rd_kafka_queue_new(client);
    options = rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    (void)rd_kafka_AdminOptions_set_request_timeout(options, CONFIGS_MS, NULL, 0);
    if (broker >= 0)
        (void)rd_kafka_AdminOptions_set_broker(options, broker, NULL, 0);
    rd_kafka_DescribeConfigs(client, resources, resources_n, options, queue);
    event = rd_kafka_queue_poll(queue, CONFIGS_MS + 500);
    if (event != NULL) {
        read_configs(asked, event);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy_array(resources, resources_n);
    rd_kafka_queue_destroy(queue);
}

static void on_worker_ask(uv_work_t *work)
{
    struct learner *l = work->data;
    char error[400] = "", reason[400] = "";
    rd_kafka_conf_t *conf = producer_conf_new(l->properties, l->properties_n, error, sizeof error);
    rd_kafka_t *client = conf != NULL ? rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason) : NULL;
    struct question *q = l->asked;
    int32_t broker = -1;

    if (client == NULL) {
        for (; q != NULL; q = q->next)
            fail(q, RD_KAFKA_RESP_ERR__INVALID_ARG, conf != NULL ? reason : error);
        if (conf != NULL)
            rd_kafka_conf_destroy(conf);
        return;
    }
    while (q != NULL && ask_metadata(client, q, &broker))
        q = q->next;
    if (q != NULL)
        fail_all(client, q);
    ask_configs(client, l->asked, broker);
    rd_kafka_destroy(client);
}

/* --- on the loop's thread ----------------------------------------------------------------------------------------- */

static void ask_next(struct learner *l);

static void on_asked(uv_work_t *work, int status)
{
    struct learner *l = work->data;
    struct question *answered = l->asked;

    assert(status == 0);
    l->asked = NULL;
    for (struct question *q = answered; q != NULL; q = q->next)
        if (!q->forgotten && !l->freed)
            l->on_learned(l->data, &q->learned);
    free_questions(answered);
    l->asking = false;
    if (l->freed)
        end(l);
    else
        ask_next(l);
}

/* Moves up to TOPICS_AT_ONCE questions to the worker thread, if it is idle. */
static void ask_next(struct learner *l)
{
    struct question **last = &l->waiting;

    if (l->asking || l->waiting == NULL)
        return;
    for (unsigned i = 0; i < TOPICS_AT_ONCE && *last != NULL; i++)
        last = &(*last)->next;
    l->asked = l->waiting;
    l->waiting = *last;
    *last = NULL;
    if (l->waiting == NULL)
        l->waiting_end = &l->waiting;
    l->asking = true;
    (void)uv_queue_work(l->loop, &l->work, on_worker_ask, on_asked);
}

void learner_ask(struct learner *l, uint32_t topic, const char *name)
{
    size_t name_n = strlen(name);
    struct question *q = calloc(1, sizeof *q + name_n + 1);

    if (q == NULL)
        abort(); /* a topic that is never answered for would stand still unseen */
    q->learned.topic = topic;
    memcpy(q->name, name, name_n);
    *l->waiting_end = q;
    l->waiting_end = &q->next;
    ask_next(l);
}

void learner_forget(struct learner *l, uint32_t topic)
{
    for (struct question *q = l->waiting; q != NULL; q = q->next)
        q->forgotten |= q->learned.topic == topic;
    for (struct question *q = l->asked; q != NULL; q = q->next)
        q->forgotten |= q->learned.topic == topic;
}
