/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions that come while one is out wait and are asked together. A client is made for the first of them and kept for a while, since
 * making one costs more than a hundred answers. It knows nothing stale: rd_kafka_metadata always asks a broker. After a question that was
 * not answered it is given up, so that the next one begins with all of kafka.bootstrap.servers.
 */
#include "relay/edge/producer_learner.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/producer_conf.h"
#include "relay/edge/producer_fault.h"

#define METADATA_MS    5000  /* a TLS handshake over a long line takes one; a broker that is down need not be waited for longer */
#define BROKER_MS      1000  /* nobody waits for the idle limit, but a stop for the thread */
#define CONFIGS_MS     3000  /* the answer is of use but can be done without */
#define TOPICS_AT_ONCE 64    /* so that the last of a thousand topics does not hold up the first */
#define REST_MS        30000 /* without a question, after which the client is given up */
#define RETRY_MS       10000 /* after a question about the idle limit that was not answered */
#define IDLE_LIMIT     "producer.id.expiration.ms"

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
    learner_on_idle_limit on_idle_limit;
    void *data;

    struct question *waiting, **waiting_end;
    uint64_t asked_ms; /* when the last one was asked */
    bool limit_wanted; /* the idle limit is to be asked for */
    bool busy;         /* the worker thread is, and these are its own but for `forgotten`: */
    struct question *asked;
    bool limit_asked;
    uint64_t limit_ms;  /* 0: not told */
    rd_kafka_t *client; /* NULL: none */
    uv_work_t work;

    bool freed;
    void (*on_freed)(void *data);
    void *freed_data;
};

struct learner *learner_new(uv_loop_t *loop, const struct producer_property *properties, size_t properties_n, learner_on_learned on_learned,
                            learner_on_idle_limit on_idle_limit, void *data)
{
    struct learner *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    l->loop = loop;
    l->properties = properties;
    l->properties_n = properties_n;
    l->on_learned = on_learned;
    l->on_idle_limit = on_idle_limit;
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

static void give_up(struct learner *l);

void learner_free(struct learner *l, void (*on_freed)(void *data), void *data)
{
    l->freed = true;
    l->on_freed = on_freed;
    l->freed_data = data;
    if (!l->busy)
        give_up(l);
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

static void read_config(struct learner *l, const rd_kafka_ConfigResource_t *resource, const rd_kafka_ConfigEntry_t *entry)
{
    const char *name = rd_kafka_ConfigEntry_name(entry), *value = rd_kafka_ConfigEntry_value(entry);

    if (value == NULL)
        return;
    if (rd_kafka_ConfigResource_type(resource) == RD_KAFKA_RESOURCE_BROKER && strcmp(name, IDLE_LIMIT) == 0)
        l->limit_ms = strtoull(value, NULL, 10);
    if (rd_kafka_ConfigResource_type(resource) != RD_KAFKA_RESOURCE_TOPIC || strcmp(name, "max.message.bytes") != 0)
        return;
    for (struct question *q = l->asked; q != NULL; q = q->next)
        if (strcmp(rd_kafka_ConfigResource_name(resource), q->name) == 0)
            q->learned.message_bytes_max = (uint32_t)strtoul(value, NULL, 10);
}

static void read_configs(struct learner *l, rd_kafka_event_t *event)
{
    size_t resources_n = 0;
    const rd_kafka_DescribeConfigs_result_t *result = rd_kafka_event_DescribeConfigs_result(event);
    const rd_kafka_ConfigResource_t **resources = result != NULL ? rd_kafka_DescribeConfigs_result_resources(result, &resources_n) : NULL;

    for (size_t i = 0; i < resources_n; i++) {
        size_t entries_n = 0;
        const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resources[i], &entries_n);

        for (size_t j = 0; j < entries_n; j++)
            read_config(l, resources[i], entries[j]);
    }
}

static void ask_configs_of(struct learner *l, rd_kafka_ConfigResource_t **resources, size_t resources_n, int32_t broker)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(l->client);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(l->client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_event_t *event;

    (void)rd_kafka_AdminOptions_set_request_timeout(options, CONFIGS_MS, NULL, 0);
    if (broker >= 0)
        (void)rd_kafka_AdminOptions_set_broker(options, broker, NULL, 0);
    rd_kafka_DescribeConfigs(l->client, resources, resources_n, options, queue);
    event = rd_kafka_queue_poll(queue, CONFIGS_MS + 500);
    l->limit_asked &= event != NULL && !producer_fault_is_connection(rd_kafka_event_error(event));
    if (event != NULL) {
        read_configs(l, event);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_ConfigResource_destroy_array(resources, resources_n);
    rd_kafka_queue_destroy(queue);
}

/* A broker that does not allow or know the question is no error: the limits are not known then. */
static void ask_configs(struct learner *l, int32_t broker)
{
    rd_kafka_ConfigResource_t *resources[TOPICS_AT_ONCE + 1];
    size_t resources_n = 0;
    char id[16];

    snprintf(id, sizeof id, "%" PRId32, broker);
    for (struct question *q = l->asked; q != NULL; q = q->next)
        if (q->learned.partitions_n > 0)
            resources[resources_n++] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, q->name);
    l->limit_asked &= broker >= 0;
    if (l->limit_asked)
        resources[resources_n++] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_BROKER, id);
    if (resources_n > 0)
        ask_configs_of(l, resources, resources_n, broker);
}

/* Some broker, if no topic is asked for. */
static int32_t find_broker(rd_kafka_t *client)
{
    const struct rd_kafka_metadata *metadata = NULL;
    int32_t broker = -1;

    if (rd_kafka_metadata(client, 0, NULL, &metadata, BROKER_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return -1;
    broker = choose_broker(client, metadata);
    rd_kafka_metadata_destroy(metadata);
    return broker;
}

static bool make_client(struct learner *l)
{
    char error[400] = "", reason[400] = "";
    rd_kafka_conf_t *conf = producer_conf_new(l->properties, l->properties_n, error, sizeof error);

    l->client = conf != NULL ? rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof reason) : NULL;
    if (l->client != NULL) {
        (void)rd_kafka_set_log_queue(l->client, NULL); /* the one that is emptied here */
        return true;
    }
    for (struct question *q = l->asked; q != NULL; q = q->next)
        fail(q, RD_KAFKA_RESP_ERR__INVALID_ARG, conf != NULL ? reason : error);
    if (conf != NULL)
        rd_kafka_conf_destroy(conf);
    return false;
}

/* Errors of earlier questions are none of this one, and nobody else reads them. */
static void empty_queue(rd_kafka_t *client)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_get_main(client);
    rd_kafka_event_t *event;

    while ((event = rd_kafka_queue_poll(queue, 0)) != NULL)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
}

static void on_worker_ask(uv_work_t *work)
{
    struct learner *l = work->data;
    struct question *q = l->asked;
    int32_t broker = -1;

    l->limit_ms = 0;
    if (l->client == NULL && !make_client(l)) {
        l->limit_asked = false;
        return;
    }
    empty_queue(l->client);
    while (q != NULL && ask_metadata(l->client, q, &broker))
        q = q->next;
    if (q != NULL)
        fail_all(l->client, q);
    else if (broker < 0 && l->limit_asked)
        broker = find_broker(l->client);
    ask_configs(l, broker);
    if (broker >= 0 && q == NULL)
        return;
    rd_kafka_destroy(l->client);
    l->client = NULL;
}

static void on_worker_give_up(uv_work_t *work)
{
    struct learner *l = work->data;

    rd_kafka_destroy(l->client);
    l->client = NULL;
}

/* --- on the loop's thread ----------------------------------------------------------------------------------------- */

static void ask_next(struct learner *l);

static void on_asked(uv_work_t *work, int status)
{
    struct learner *l = work->data;
    struct question *answered = l->asked;

    assert(status == 0);
    l->asked = NULL;
    l->limit_wanted &= !l->limit_asked;
    if (l->limit_ms > 0 && !l->freed)
        l->on_idle_limit(l->data, l->limit_ms);
    for (struct question *q = answered; q != NULL; q = q->next)
        if (!q->forgotten && !l->freed)
            l->on_learned(l->data, &q->learned);
    free_questions(answered);
    l->busy = false;
    if (l->freed)
        give_up(l);
    else
        ask_next(l);
}

static void on_given_up(uv_work_t *work, int status)
{
    struct learner *l = work->data;

    assert(status == 0);
    l->busy = false;
    if (l->freed)
        end(l);
    else
        ask_next(l);
}

/* And if it is being freed, that is its end. */
static void give_up(struct learner *l)
{
    if (l->client != NULL) {
        l->busy = true;
        (void)uv_queue_work(l->loop, &l->work, on_worker_give_up, on_given_up);
    } else if (l->freed) {
        end(l);
    }
}

/* Moves up to TOPICS_AT_ONCE questions to the worker thread, and the one about the idle limit. */
static void ask(struct learner *l)
{
    struct question **last = &l->waiting;

    for (unsigned i = 0; i < TOPICS_AT_ONCE && *last != NULL; i++)
        last = &(*last)->next;
    l->asked = l->waiting;
    l->waiting = *last;
    *last = NULL;
    if (l->waiting == NULL)
        l->waiting_end = &l->waiting;
    l->limit_asked = l->limit_wanted;
    l->asked_ms = uv_now(l->loop);
    l->busy = true;
    (void)uv_queue_work(l->loop, &l->work, on_worker_ask, on_asked);
}

static void ask_next(struct learner *l)
{
    if (!l->busy && l->waiting != NULL)
        ask(l);
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

void learner_ask_idle_limit(struct learner *l)
{
    l->limit_wanted = true;
    if (!l->busy)
        ask(l);
}

void learner_tick(struct learner *l)
{
    uint64_t rested_ms = uv_now(l->loop) - l->asked_ms;

    if (l->busy)
        return;
    if (l->limit_wanted && rested_ms >= RETRY_MS)
        ask(l);
    else if (rested_ms >= REST_MS)
        give_up(l);
}
