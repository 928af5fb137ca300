/* SPDX-License-Identifier: BSD-2-Clause */
/* One session from its first event to its last report. A bad report or a fatal event makes it BROKEN; what ends it is producer_close. It is
 * purged then, and again with every tick, since a batch that was on its way back into librdkafka's queues escapes the first purge. When
 * the last row has had its report, the client is destroyed on a worker thread.
 */
#include <assert.h>
#include <string.h>

#include "relay/edge/producer_fault.h"
#include "relay/edge/producer_state.h"

#define TURN_NS   5000000 /* of reports in one turn of the loop, so that others get theirs */
#define TURN_ROWS 256     /* between two looks at the clock */
#define AHEAD     8       /* so many reports before its own a row is fetched into the processor */

/* --- does a broker answer? ---------------------------------------------------------------------------------------- */

static void on_answered(void *data, rd_kafka_resp_err_t error)
{
    struct session *s = data;

    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        s->doubt = true; /* asked again with the next tick */
        producer_silent(s->producer, error);
        return;
    }
    producer_reached(s->producer);
    session_ask(s);
}

void session_ask(struct session *s)
{
    if (s->doubt && (s->state == SESSION_OPEN || s->state == SESSION_BROKEN) && handle_ask(s->handle, on_answered, s))
        s->doubt = false;
}

void session_doubt(struct session *s)
{
    reach_doubt(&s->producer->reach, uv_now(s->producer->loop));
    s->doubt = true;
    session_ask(s);
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static row_slot slot_of(const rd_kafka_message_t *message)
{
    return (row_slot)(uintptr_t)message->_private;
}

/* `later`: a report that is told a few calls later, or NULL. */
static void tell_report(struct session *s, const rd_kafka_message_t *message, const rd_kafka_message_t *later)
{
    struct producer *p = s->producer;
    row_slot slot = slot_of(message);

    assert(s->handed > 0);
    s->handed--;
#ifdef MUTANT_MARK_BEFORE_REPORT
    return;
#endif
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        producer_reached(p);
        p->callbacks.on_delivered(p->data, s->which, slot, later != NULL ? slot_of(later) : ROW_NO_SLOT);
        return;
    }
    if (s->state == SESSION_OPEN)
        s->state = SESSION_BROKEN;
    p->callbacks.on_refused(p->data, s->which, slot, producer_fault(message->err), rd_kafka_err2name(message->err));
}

/* Returns false if time ran out before the last report of the event. */
static bool take_reports(struct session *s, uint64_t until_ns)
{
    const rd_kafka_message_t *messages[TURN_ROWS];
    size_t n;

    s->quiet_since_ms = uv_now(s->producer->loop);
    while ((n = rd_kafka_event_message_array(s->event, messages, TURN_ROWS)) > 0) {
        for (size_t i = 0; i < n; i++)
            tell_report(s, messages[i], i + AHEAD < n ? messages[i + AHEAD] : NULL);
        if (uv_hrtime() >= until_ns)
            return false;
    }
    return true;
}

/* It comes without a row and before the reports. */
static void take_fatal(struct session *s)
{
    const struct producer *p = s->producer;
    char reason[400] = "";
    rd_kafka_resp_err_t error = rd_kafka_fatal_error(handle_kafka(s->handle), reason, sizeof reason);

    if (s->state != SESSION_OPEN)
        return;
    s->state = SESSION_BROKEN;
    p->callbacks.on_broken(p->data, s->which, producer_fault(error), rd_kafka_err2name(error), reason);
}

static void take_error(struct session *s)
{
    struct producer *p = s->producer;
    rd_kafka_resp_err_t error = rd_kafka_event_error(s->event);
    const char *text = rd_kafka_event_error_string(s->event);

    if (rd_kafka_event_error_is_fatal(s->event) || error == RD_KAFKA_RESP_ERR__FATAL) {
        take_fatal(s);
        return;
    }
    if (producer_fault_is_connection(error)) {
        reach_trouble(&p->reach, error, text);
        session_doubt(s);
    }
    p->callbacks.on_log(p->data, producer_fault_is_connection(error) ? PRODUCER_LOG_DEBUG : PRODUCER_LOG_WARNING, rd_kafka_err2name(error),
                        text);
}

static void take_log(const struct session *s)
{
    const char *facility, *text;
    enum producer_log_level level = PRODUCER_LOG_DEBUG;
    int syslog_level;

    if (rd_kafka_event_log(s->event, &facility, &text, &syslog_level) != 0)
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
    s->producer->callbacks.on_log(s->producer->data, level, facility, text);
}

static bool take_event(struct session *s, uint64_t until_ns)
{
    switch (rd_kafka_event_type(s->event)) {
    case RD_KAFKA_EVENT_DR:
        return take_reports(s, until_ns);
    case RD_KAFKA_EVENT_ERROR:
        take_error(s);
        return true;
    case RD_KAFKA_EVENT_LOG:
        take_log(s);
        return true;
    default: /* none that was asked for */
        return true;
    }
}

bool session_take_events(struct session *s)
{
    uint64_t until_ns = uv_hrtime() + TURN_NS;

    while (s->state == SESSION_OPEN || s->state == SESSION_BROKEN || s->state == SESSION_CLOSING) {
        if (s->event == NULL)
            s->event = rd_kafka_queue_poll(handle_queue(s->handle), 0);
        if (s->event == NULL)
            return true;
        if (!take_event(s, until_ns))
            return false;
        rd_kafka_event_destroy(s->event);
        s->event = NULL;
        if (uv_hrtime() >= until_ns)
            return false;
    }
    return true;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

void session_purge(struct session *s)
{
    (void)rd_kafka_purge(handle_kafka(s->handle), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
}

void session_tell_closed(struct session *s)
{
    s->handle = NULL;
    s->state = SESSION_CLOSED;
    s->producer->callbacks.on_closed(s->producer->data, s->which);
}

static void on_ended(void *data, const struct handle *destroyed)
{
    producer_handle_ended(data, destroyed);
}

void session_end_when_told(struct session *s)
{
    struct producer *p = s->producer;

    if (s->state != SESSION_CLOSING || s->handed > 0 || s->event != NULL)
        return;
    s->state = SESSION_ENDING;
    p->ending_n++;
    handle_end(s->handle, on_ended, p);
    /* One client that hangs in the resolver is not waited for, so that a new session can be opened; a second one is. */
    if (p->ending_n == 1)
        session_tell_closed(s);
}
