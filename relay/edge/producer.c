/* SPDX-License-Identifier: BSD-2-Clause */
/* The happy path: producer_publish hands a row, its report comes as an event, drain() tells it.
 *
 * What goes wrong: a bad report or a fatal event makes the session BROKEN, and nothing more is handed. producer_close purges it, and again
 * with every tick, since a batch that was on its way back into librdkafka's queues escapes the first purge. When the last row has had its
 * report, the client is destroyed on a worker thread.
 */
#include "relay/edge/producer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "relay/edge/producer_conf.h"
#include "relay/edge/producer_fault.h"
#include "relay/edge/producer_learner.h"
#include "relay/edge/producer_reach.h"
#include "relay/edge/producer_record.h"
#include "relay/edge/producer_session.h"

#define TURN_NS   5000000 /* of reports in one turn of the loop, so that others get theirs */
#define TURN_ROWS 256     /* between two looks at the clock */
#define TICK_MS   500     /* safety: a lost wake-up, a purge that something escaped, a broker that is back */

enum state {
    CLOSED,
    OPEN,
    BROKEN,
    CLOSING, /* purged; reports are missing */
    ENDING   /* all reports were told; two clients are being destroyed, and one is waited for */
};

struct producer {
    uv_loop_t *loop;
    struct producer_callbacks callbacks;
    void *data;
    struct producer_property *properties;
    size_t properties_n;
    uint32_t topics_max, queue_rows, message_bytes_max;
    uint64_t queue_bytes;
    uint32_t *limits; /* the largest batch of each topic, by its number; 0: not known */
    struct learner *learner;

    int wakeup_fd;
    uv_poll_t wakeup;
    uv_idle_t more; /* runs while a turn was too short for all events */
    uv_timer_t tick;

    enum state state;
    struct session *session; /* NULL: closed */
    rd_kafka_event_t *event; /* reports of it are still to be told */
    uint32_t handed;         /* rows without a report */
    unsigned ending_n;       /* sessions whose clients are being destroyed */

    struct reach reach;
    bool doubt; /* a broker is to be asked */

    unsigned parts; /* of ours on the loop, while it is being freed */
    bool freed;
    void (*on_freed)(void *data);
    void *freed_data;
};

/* --- reachable or not --------------------------------------------------------------------------------------------- */

static void tell_reach(struct producer *p, bool changed, const char *reason)
{
    if (changed)
        p->callbacks.on_reachable(p->data, reach_is_good(&p->reach), reason);
}

static void reached(struct producer *p)
{
    tell_reach(p, reach_answered(&p->reach), "a Kafka broker answers");
}

static void probe(struct producer *p);

static void on_probed(void *data, rd_kafka_resp_err_t error)
{
    struct producer *p = data;
    char reason[500];

    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        p->doubt = true; /* asked again with the next tick */
        tell_reach(p, reach_silent(&p->reach, uv_now(p->loop), error, reason, sizeof reason), reason);
        return;
    }
    reached(p);
    if (p->doubt)
        probe(p);
}

static void probe(struct producer *p)
{
    if ((p->state == OPEN || p->state == BROKEN) && session_probe(p->session, on_probed, p))
        p->doubt = false;
}

/* Ask a broker for the metadata of all topics in use, until an answer to a question that was asked after this comes. */
static void doubt(struct producer *p)
{
    reach_doubt(&p->reach, uv_now(p->loop));
    p->doubt = true;
    probe(p);
}

static void on_learned(void *data, const struct learned *learned)
{
    struct producer *p = data;

    if (!producer_fault_is_connection(learned->error))
        reached(p);
    else if (p->session == NULL)
        tell_reach(p, reach_lost(&p->reach), learned->reason);
    else
        doubt(p);
    if (learned->partitions_n > 0)
        p->limits[learned->topic] = learned->message_bytes_max;
    p->callbacks.on_topic(p->data, learned->topic, learned->partitions_n, learned->message_bytes_max, learned->reason);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static void tell_report(struct producer *p, const rd_kafka_message_t *message)
{
    row_slot slot = (row_slot)(uintptr_t)message->_private;

    assert(p->handed > 0);
    p->handed--;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        p->callbacks.on_delivered(p->data, slot);
        return;
    }
    if (p->state == OPEN)
        p->state = BROKEN;
    p->callbacks.on_refused(p->data, slot, producer_fault(message->err), rd_kafka_err2name(message->err));
}

/* Returns false if time ran out before the last report of the event. */
static bool take_reports(struct producer *p, uint64_t until_ns)
{
    const rd_kafka_message_t *message;
    unsigned n = 0;

    while ((message = rd_kafka_event_message_next(p->event)) != NULL) {
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            reached(p);
        tell_report(p, message);
        if (++n % TURN_ROWS == 0 && uv_hrtime() >= until_ns)
            return false;
    }
    return true;
}

/* It comes without a row and before the reports. */
static void take_fatal(struct producer *p)
{
    char reason[400] = "";
    rd_kafka_resp_err_t error = rd_kafka_fatal_error(session_client(p->session), reason, sizeof reason);

    if (p->state != OPEN)
        return;
    p->state = BROKEN;
    p->callbacks.on_broken(p->data, producer_fault(error), rd_kafka_err2name(error), reason);
}

static void take_error(struct producer *p)
{
    rd_kafka_resp_err_t error = rd_kafka_event_error(p->event);
    const char *text = rd_kafka_event_error_string(p->event);

    if (rd_kafka_event_error_is_fatal(p->event) || error == RD_KAFKA_RESP_ERR__FATAL) {
        take_fatal(p);
        return;
    }
    if (producer_fault_is_connection(error)) {
        reach_trouble(&p->reach, error, text);
        doubt(p);
    }
    p->callbacks.on_log(p->data, producer_fault_is_connection(error) ? PRODUCER_LOG_DEBUG : PRODUCER_LOG_WARNING, rd_kafka_err2name(error),
                        text);
}

static void take_log(struct producer *p)
{
    const char *facility, *text;
    enum producer_log_level level = PRODUCER_LOG_DEBUG;
    int syslog_level;

    if (rd_kafka_event_log(p->event, &facility, &text, &syslog_level) != 0)
        return;
    if (syslog_level <= 3)
        level = PRODUCER_LOG_ERROR;
    else if (syslog_level == 4)
        level = PRODUCER_LOG_WARNING;
    else if (syslog_level <= 6)
        level = PRODUCER_LOG_INFO;
    /* One line for each attempt to connect, where on_reachable tells the outage; and a warning of what we force. */
    if (strcmp(facility, "FAIL") == 0 || strstr(text, "enable.gapless.guarantee is experimental") != NULL)
        level = PRODUCER_LOG_DEBUG;
    p->callbacks.on_log(p->data, level, facility, text);
}

static bool take_event(struct producer *p, uint64_t until_ns)
{
    switch (rd_kafka_event_type(p->event)) {
    case RD_KAFKA_EVENT_DR:
        return take_reports(p, until_ns);
    case RD_KAFKA_EVENT_ERROR:
        take_error(p);
        return true;
    case RD_KAFKA_EVENT_LOG:
        take_log(p);
        return true;
    default: /* none that was asked for */
        return true;
    }
}

/* Returns false if there may be more. */
static bool take_events(struct producer *p)
{
    uint64_t until_ns = uv_hrtime() + TURN_NS;

    while (p->state == OPEN || p->state == BROKEN || p->state == CLOSING) {
        if (p->event == NULL)
            p->event = rd_kafka_queue_poll(session_queue(p->session), 0);
        if (p->event == NULL)
            return true;
        if (!take_event(p, until_ns))
            return false;
        rd_kafka_event_destroy(p->event);
        p->event = NULL;
        if (uv_hrtime() >= until_ns)
            return false;
    }
    return true;
}

/* --- the end of a session ----------------------------------------------------------------------------------------- */

static void on_more(uv_idle_t *more);
static void free_part(void *data);

static void tell_closed(struct producer *p)
{
    p->session = NULL;
    p->state = CLOSED;
    p->callbacks.on_closed(p->data);
}

static void on_ended(void *data, const struct session *ended)
{
    struct producer *p = data;

    p->ending_n--;
    if (p->freed)
        free_part(p);
    else if (p->session == ended)
        tell_closed(p);
}

static void end_when_told(struct producer *p)
{
    if (p->state != CLOSING || p->handed > 0 || p->event != NULL)
        return;
    p->state = ENDING;
    p->ending_n++;
    session_end(p->session, on_ended, p);
    /* One client that hangs in the resolver is not waited for, so that a new session can be opened; a second one is. */
    if (p->ending_n == 1)
        tell_closed(p);
}

static void purge(struct producer *p)
{
    (void)rd_kafka_purge(session_client(p->session), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

void producer_close(struct producer *p)
{
    assert(p->state == OPEN || p->state == BROKEN);
    p->state = CLOSING;
    purge(p);
    /* Not from here: no callback comes before this returns. */
    (void)uv_idle_start(&p->more, on_more);
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

static void drain(struct producer *p)
{
    if (!take_events(p))
        (void)uv_idle_start(&p->more, on_more);
    else
        (void)uv_idle_stop(&p->more);
    end_when_told(p);
}

static void on_more(uv_idle_t *more)
{
    drain(more->data);
}

static void on_wakeup(uv_poll_t *wakeup, int status, int events)
{
    struct producer *p = wakeup->data;
    uint64_t count;

    (void)status;
    (void)events;
    /* Before the queue is read: what comes after this read wakes again. */
    (void)!read(p->wakeup_fd, &count, sizeof count);
    drain(p);
}

static void on_tick(uv_timer_t *tick)
{
    struct producer *p = tick->data;

    if (p->state == CLOSING)
        purge(p);
    drain(p);
    if (p->doubt)
        probe(p);
}

/* --- open and publish --------------------------------------------------------------------------------------------- */

bool producer_open(struct producer *p, uint64_t batch_bytes, char *error, size_t error_size)
{
    rd_kafka_conf_t *conf;

    assert(p->state == CLOSED && p->handed == 0 && p->event == NULL);
    conf = producer_conf_new_session(p->properties, p->properties_n, p->queue_rows, p->queue_bytes, batch_bytes, error, error_size);
    if (conf == NULL)
        return false;
    p->session = session_new(p->loop, conf, p->topics_max, p->wakeup_fd, error, error_size);
    if (p->session == NULL)
        return false;
    p->state = OPEN;
    doubt(p); /* so that an outage is seen without a row to publish */
    return true;
}

static enum relay_fault not_handed(struct producer *p, rd_kafka_resp_err_t error, const char **ret_code)
{
    assert(error != RD_KAFKA_RESP_ERR__QUEUE_FULL);
    *ret_code = rd_kafka_err2name(error);
    /* What this client knows of the topics may be old; nothing else would refresh it for minutes. */
    if (producer_fault(error) == RELAY_FAULT_TOPIC)
        doubt(p);
    return producer_fault(error);
}

enum relay_fault producer_publish(struct producer *p, const struct producer_record *record, const char **ret_code)
{
    rd_kafka_topic_t *topic;
    rd_kafka_resp_err_t error;
    uint32_t limit;
    bool is_new;

    assert(p->state != CLOSED && record->topic < p->topics_max && record->partition >= 0);
    limit = p->limits[record->topic];
    if (p->state != OPEN)
        return not_handed(p, RD_KAFKA_RESP_ERR__STATE, ret_code);
    if (limit > 0 && record_batch_bytes(record) > limit)
        return not_handed(p, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, ret_code);
    topic = session_topic(p->session, record->topic, record->topic_name, &is_new);
    if (topic == NULL)
        return not_handed(p, RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, ret_code);
    if (is_new)
        doubt(p); /* librdkafka asks by itself, but if it has no broker yet, again after a second only */
    error = record_hand(session_client(p->session), topic, record);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return not_handed(p, error, ret_code);
    p->handed++;
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
    if (p->session != NULL && p->state != ENDING)
        session_forget(p->session, topic);
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
    p->limits = calloc(topics_max, sizeof *p->limits);
    p->properties = producer_conf_copy_properties(properties, properties_n);
    if (p->limits == NULL || p->properties == NULL)
        goto failed;
    p->properties_n = properties_n;
    p->message_bytes_max = producer_conf_message_bytes_max(properties, properties_n);
    p->learner = learner_new(loop, p->properties, p->properties_n, on_learned, p);
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

static void on_handle_closed(uv_handle_t *handle)
{
    free_part(handle->data);
}

void producer_free(struct producer *p, void (*on_freed)(void *data), void *data)
{
    assert(p->state == CLOSED);
    p->freed = true;
    p->on_freed = on_freed;
    p->freed_data = data;
    p->parts = 4 + p->ending_n;
    uv_close((uv_handle_t *)&p->wakeup, on_handle_closed);
    uv_close((uv_handle_t *)&p->more, on_handle_closed);
    uv_close((uv_handle_t *)&p->tick, on_handle_closed);
    learner_free(p->learner, free_part, p);
}
