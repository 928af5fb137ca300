/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions are opened and rows are handed here; what comes back is told by producer_session.c. One wake-up serves both sessions. */
#include "relay/edge/producer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "relay/edge/producer_conf.h"
#include "relay/edge/producer_fault.h"
#include "relay/edge/producer_learner.h"
#include "relay/edge/producer_record.h"
#include "relay/edge/producer_state.h"

#define TICK_MS  500  /* safety: a lost wake-up, a purge that something escaped, a broker that is back */
#define QUIET_MS 2000 /* without a report of what was handed: longer than a broker's ordinary pause */

/* --- reachable or not --------------------------------------------------------------------------------------------- */

static void tell_reach(struct producer *p, bool changed, const char *reason)
{
    if (changed)
        p->callbacks.on_reachable(p->data, reach_is_good(&p->reach), reason);
}

void producer_reached(struct producer *p)
{
    tell_reach(p, reach_answered(&p->reach), "a Kafka broker answers");
}

void producer_silent(struct producer *p, rd_kafka_resp_err_t error)
{
    char reason[500];

    tell_reach(p, reach_silent(&p->reach, uv_now(p->loop), error, reason, sizeof reason), reason);
}

/* A broker that is frozen keeps its connections and says nothing, so that librdkafka sees an error after a minute only. */
static void doubt_silence(struct session *s)
{
    uint64_t now_ms = uv_now(s->producer->loop);

    if (s->handed == 0 || s->state != SESSION_OPEN || now_ms - s->quiet_since_ms < QUIET_MS)
        return;
    s->quiet_since_ms = now_ms;
    session_doubt(s);
}

static struct session *open_session(struct producer *p)
{
    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        if (p->sessions[i].state == SESSION_OPEN || p->sessions[i].state == SESSION_BROKEN)
            return &p->sessions[i];
    return NULL;
}

static void on_learned(void *data, const struct learned *learned)
{
    struct producer *p = data;
    struct session *s = open_session(p);

    if (!producer_fault_is_connection(learned->error))
        producer_reached(p);
    else if (s == NULL)
        tell_reach(p, reach_lost(&p->reach), learned->reason);
    else
        session_doubt(s);
    if (learned->partitions_n > 0)
        p->limits[learned->topic] = learned->message_bytes_max;
    p->callbacks.on_topic(p->data, learned->topic, learned->partitions_n, learned->message_bytes_max, learned->reason);
}

static void on_idle_limit(void *data, uint64_t expiration_ms)
{
    struct producer *p = data;

    p->callbacks.on_idle_limit(p->data, expiration_ms);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void drain(struct producer *p)
{
    bool more = false;

    for (unsigned i = 0; i < RELAY_SESSIONS; i++) {
        more |= !session_take_events(&p->sessions[i]);
        session_end_when_told(&p->sessions[i]);
    }
    if (more)
        producer_look_again(p);
    else
        (void)uv_idle_stop(&p->more);
}

static void on_more(uv_idle_t *more)
{
    drain(more->data);
}

void producer_look_again(struct producer *p)
{
    (void)uv_idle_start(&p->more, on_more);
}

static void on_wakeup(uv_poll_t *wakeup, int status, int events)
{
    struct producer *p = wakeup->data;
    uint64_t count;

    (void)status;
    (void)events;
    /* Before the queues are read: what comes after this read wakes again. */
    (void)!read(p->wakeup_fd, &count, sizeof count);
    drain(p);
}

static void on_tick(uv_timer_t *tick)
{
    struct producer *p = tick->data;

    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        if (p->sessions[i].state == SESSION_CLOSING)
            session_purge(&p->sessions[i]);
    drain(p);
    if (p->freed) /* by a callback, which the end of a session may have called; then the learner may be gone */
        return;
    for (unsigned i = 0; i < RELAY_SESSIONS; i++) {
        doubt_silence(&p->sessions[i]);
        session_ask(&p->sessions[i]);
    }
    learner_tick(p->learner);
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

bool producer_open(struct producer *p, enum relay_session session, uint64_t batch_bytes, char *error, size_t error_size)
{
    struct session *s = &p->sessions[session];
    struct producer_queue queue = {.session = session, .rows = p->queue_rows, .bytes = p->queue_bytes, .batch_bytes = batch_bytes};
    rd_kafka_conf_t *conf;

    assert(s->state == SESSION_CLOSED && s->handed == 0 && s->event == NULL);
    conf = producer_conf_new_session(p->properties, p->properties_n, &queue, error, error_size);
    if (conf == NULL)
        return false;
    s->handle = handle_new(p->loop, conf, p->topics_max, p->wakeup_fd, error, error_size);
    if (s->handle == NULL)
        return false;
    s->state = SESSION_OPEN;
    session_doubt(s); /* so that an outage is seen without a row to publish */
    if (session == RELAY_MAIN)
        learner_ask_idle_limit(p->learner);
    return true;
}

void producer_close(struct producer *p, enum relay_session session)
{
    struct session *s = &p->sessions[session];

    assert(s->state == SESSION_OPEN || s->state == SESSION_BROKEN);
    s->state = SESSION_CLOSING;
    session_purge(s);
    /* Not from here: no callback comes before this returns. */
    producer_look_again(p);
}

bool producer_is_closed(const struct producer *p)
{
    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        if (p->sessions[i].state != SESSION_CLOSED)
            return false;
    return true;
}

/* --- publish ------------------------------------------------------------------------------------------------------ */

static enum relay_fault not_handed(struct session *s, rd_kafka_resp_err_t error, const char **ret_code)
{
    assert(error != RD_KAFKA_RESP_ERR__QUEUE_FULL);
    *ret_code = rd_kafka_err2name(error);
    /* What this client knows of the topics may be old; nothing else would refresh it for minutes. */
    if (producer_fault(error) == RELAY_FAULT_TOPIC)
        session_doubt(s);
    return producer_fault(error);
}

enum relay_fault producer_publish(struct producer *p, enum relay_session session, const struct producer_record *record,
                                  const char **ret_code)
{
    struct session *s = &p->sessions[session];
    rd_kafka_topic_t *topic;
    rd_kafka_resp_err_t error;
    uint32_t limit;
    bool is_new;

    assert(s->state != SESSION_CLOSED && record->topic < p->topics_max && record->partition >= 0);
    limit = p->limits[record->topic];
    if (s->state != SESSION_OPEN)
        return not_handed(s, RD_KAFKA_RESP_ERR__STATE, ret_code);
    if (limit > 0 && record_batch_bytes(record) > limit)
        return not_handed(s, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, ret_code);
    topic = handle_topic(s->handle, record->topic, record->topic_name, &is_new);
    if (topic == NULL)
        return not_handed(s, RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, ret_code);
    if (is_new)
        session_doubt(s); /* librdkafka asks by itself, but if it has no broker yet, again after a second only */
    error = record_hand(handle_kafka(s->handle), topic, record);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return not_handed(s, error, ret_code);
    if (s->handed++ == 0)
        s->quiet_since_ms = uv_now(p->loop);
    return RELAY_FAULT_NONE;
}

/* --- topics ------------------------------------------------------------------------------------------------------- */

void producer_learn(struct producer *p, uint32_t topic, const char *name)
{
    assert(topic < p->topics_max);
    learner_ask(p->learner, topic, name);
}

void producer_forget(struct producer *p, uint32_t topic)
{
    assert(topic < p->topics_max);
    learner_forget(p->learner, topic);
    p->limits[topic] = 0;
    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        if (p->sessions[i].state != SESSION_CLOSED && p->sessions[i].state != SESSION_ENDING)
            handle_forget(p->sessions[i].handle, topic);
}

uint32_t producer_message_bytes_max(const struct producer *p)
{
    return p->message_bytes_max;
}

/* --- new and free ------------------------------------------------------------------------------------------------- */

static void free_memory(struct producer *p)
{
    producer_conf_free_properties(p->properties, p->properties_n);
    free(p->limits);
    free(p);
}

static bool start(struct producer *p)
{
    p->wakeup_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (p->wakeup_fd < 0)
        return false;
    (void)uv_poll_init(p->loop, &p->wakeup, p->wakeup_fd);
    (void)uv_idle_init(p->loop, &p->more);
    (void)uv_timer_init(p->loop, &p->tick);
    p->wakeup.data = p->more.data = p->tick.data = p;
    (void)uv_poll_start(&p->wakeup, UV_READABLE, on_wakeup);
    (void)uv_timer_start(&p->tick, on_tick, TICK_MS, TICK_MS);
    return true;
}

struct producer *producer_new(struct uv_loop_s *loop, const struct producer_property *properties, size_t properties_n, uint32_t topics_max,
                              uint32_t queue_rows, uint64_t queue_bytes, const struct producer_callbacks *callbacks, void *data)
{
    struct producer *p = calloc(1, sizeof *p);

    if (p == NULL)
        return NULL;
    p->loop = loop;
    p->callbacks = *callbacks;
    p->data = data;
    p->topics_max = topics_max;
    p->queue_rows = queue_rows;
    p->queue_bytes = queue_bytes;
    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        p->sessions[i] = (struct session){.producer = p, .which = (enum relay_session)i};
    p->limits = calloc(topics_max, sizeof *p->limits);
    p->properties = producer_conf_copy_properties(properties, properties_n);
    if (p->limits == NULL || p->properties == NULL)
        goto failed;
    p->properties_n = properties_n;
    p->message_bytes_max = producer_conf_message_bytes_max(properties, properties_n);
    p->learner = learner_new(loop, p->properties, p->properties_n, on_learned, on_idle_limit, p);
    if (p->learner == NULL)
        goto failed;
    if (start(p))
        return p;
    free(p->learner);

failed:
    free_memory(p);
    return NULL;
}

static void free_part(void *data)
{
    struct producer *p = data;
    void (*on_freed)(void *data) = p->on_freed;
    void *freed_data = p->freed_data;

    if (--p->parts > 0)
        return;
    (void)close(p->wakeup_fd);
    free_memory(p);
    on_freed(freed_data);
}

void producer_handle_ended(struct producer *p, const struct handle *destroyed)
{
    p->ending_n--;
    if (p->freed) {
        free_part(p);
        return;
    }
    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        if (p->sessions[i].handle == destroyed)
            session_tell_closed(&p->sessions[i]);
}

static void on_handle_closed(uv_handle_t *handle)
{
    free_part(handle->data);
}

void producer_free(struct producer *p, void (*on_freed)(void *data), void *data)
{
    assert(producer_is_closed(p));
    p->freed = true;
    p->on_freed = on_freed;
    p->freed_data = data;
    p->parts = 4 + p->ending_n;
    uv_close((uv_handle_t *)&p->wakeup, on_handle_closed);
    uv_close((uv_handle_t *)&p->more, on_handle_closed);
    uv_close((uv_handle_t *)&p->tick, on_handle_closed);
    learner_free(p->learner, free_part, p);
}
