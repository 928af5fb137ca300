/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the producer, for producer.c and producer_session.c only. */
#ifndef RELAY_EDGE_PRODUCER_STATE_H
#define RELAY_EDGE_PRODUCER_STATE_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "relay/edge/producer.h"
#include "relay/edge/producer_handle.h"
#include "relay/edge/producer_reach.h"

struct learner;

enum session_state {
    SESSION_CLOSED,
    SESSION_OPEN,
    SESSION_BROKEN,
    SESSION_CLOSING, /* purged; reports are missing */
    SESSION_ENDING   /* all reports were told; its client is being destroyed, and waited for */
};

struct session {
    struct producer *producer;
    enum relay_session which;
    enum session_state state;
    struct handle *handle;   /* NULL: closed */
    rd_kafka_event_t *event; /* reports of it are still to be told */
    uint32_t handed;         /* rows without a report */
    uint64_t quiet_since_ms; /* no report came since then, nor was nothing handed */
    bool doubt;              /* a broker is to be asked */
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

    struct session sessions[RELAY_SESSIONS];
    unsigned ending_n; /* clients that are being destroyed */
    struct reach reach;

    unsigned parts; /* of ours on the loop, while it is being freed */
    bool freed;
    void (*on_freed)(void *data);
    void *freed_data;
};

/* --- producer.c --------------------------------------------------------------------------------------------------- */

void producer_reached(struct producer *p);                                      /* A broker answered. */
void producer_silent(struct producer *p, rd_kafka_resp_err_t error);            /* A question was not answered. */
void producer_look_again(struct producer *p);                                   /* There may be events: in a turn of the loop, soon. */
void producer_handle_ended(struct producer *p, const struct handle *destroyed); /* One of ending_n. */

/* --- producer_session.c ------------------------------------------------------------------------------------------- */

/* Ask a broker for the metadata of all topics in use, until an answer to a question that was asked after this comes. */
void session_doubt(struct session *s);
void session_ask(struct session *s); /* The question, if it is due. */

/* Tell what librdkafka has told. Returns false if there may be more. */
bool session_take_events(struct session *s);
void session_purge(struct session *s); /* So that nothing is left without a report. */
/* When everything of a closing session has been told, destroy its client. */
void session_end_when_told(struct session *s);
void session_tell_closed(struct session *s);

#endif
