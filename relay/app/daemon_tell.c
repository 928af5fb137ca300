/* SPDX-License-Identifier: BSD-2-Clause */
/* The log and the pages: one line a transition, in words for the person on call. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/app/daemon_state.h"
#include "relay/app/notify.h"

/* --- words -------------------------------------------------------------------------------------------------------- */

static const char *fault_word(enum relay_fault fault)
{
    switch (fault) {
    case RELAY_FAULT_NONE:
        return "none";
    case RELAY_FAULT_PASSING:
        return "no acknowledgement";
    case RELAY_FAULT_ROW:
        return "row refused";
    case RELAY_FAULT_SIZE:
        return "row too large";
    case RELAY_FAULT_TOPIC:
        return "topic not available";
    case RELAY_FAULT_SESSION:
        return "fatal error";
    }
    return "unknown";
}

static const char *statement_word(enum relay_action_type what)
{
    switch (what) {
    case RELAY_FETCH:
        return "fetch";
    case RELAY_CATCH_UP:
        return "catch-up";
    case RELAY_PATROL:
        return "patrol";
    case RELAY_WRITERS:
        return "writers";
    case RELAY_FLUSH:
        return "barrier";
    case RELAY_MARK:
        return "mark";
    case RELAY_SAVE:
        return "save";
    case RELAY_TOPIC:
        return "pin";
    case RELAY_LEASE_TAKE:
        return "take";
    case RELAY_LEASE_BEAT:
        return "beat";
    case RELAY_LEASE_RELEASE:
        return "release";
    case RELAY_WAIT:
    case RELAY_CONNECT:
    case RELAY_PUBLISH:
    case RELAY_DROP:
    case RELAY_FORGET:
    case RELAY_SESSION_OPEN:
    case RELAY_SESSION_CLOSE:
    case RELAY_NOTE:
    case RELAY_EXIT:
        break;
    }
    return "other";
}

const char *daemon_session_word(enum relay_session session)
{
    return session == RELAY_PROBE ? "probe" : "main";
}

/* --- errors of Kafka ---------------------------------------------------------------------------------------------- */

void daemon_tell_code(struct daemon *d, enum relay_session session, const char *code)
{
    stats_count_error(d->stats, code);
    snprintf(d->codes[session], sizeof d->codes[session], "%s", code);
    d->code = d->codes[session];
}

/* --- notes -------------------------------------------------------------------------------------------------------- */

static void tell_lane(struct daemon *d, const struct relay_action *n)
{
    bool behind = n->note == RELAY_NOTE_LANE_BEHIND;
    struct log_field fields[] = {LOG_TEXT("topic", outbox_topic(d->outbox, n->topic)),
                                 LOG_NUMBER("partition", n->partition),
                                 behind ? LOG_NUMBER("from_id", n->from) : (struct log_field){.name = NULL},
                                 LOG_TEXT("reason", fault_word(n->fault)),
                                 {.name = NULL}};

    log_write(d->log, behind ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO,
              behind ? "partition waits, other partitions go on" : "partition has caught up", fields);
}

static void tell_topic(struct daemon *d, const struct relay_action *n)
{
    const char *topic = outbox_topic(d->outbox, n->topic);
    char reason[200]; /* of a topic that a report closed before it was asked about again */

    snprintf(reason, sizeof reason, "a row was refused with %s; see that the topic exists, is ours to write, and has all its partitions",
             d->code != NULL ? d->code : "an error");
    if (n->note == RELAY_NOTE_TOPIC_OPEN)
        LOG(d->log, LOG_LEVEL_INFO, "topic open", LOG_TEXT("topic", topic), LOG_NUMBER("partitions", n->rows));
    else if (n->note == RELAY_NOTE_TOPIC_CLOSED)
        LOG(d->log, LOG_LEVEL_ERROR, "topic closed, its rows wait", LOG_TEXT("topic", topic),
            LOG_TEXT("reason", d->topic.number == n->topic && d->topic.reason[0] != '\0' ? d->topic.reason : reason));
    else if (n->note == RELAY_NOTE_TOPIC_BEHIND)
        LOG(d->log, LOG_LEVEL_WARNING, "topic waits, other topics go on", LOG_TEXT("topic", topic), LOG_NUMBER("from_id", n->from));
    else
        LOG(d->log, LOG_LEVEL_INFO, "topic has caught up", LOG_TEXT("topic", topic));
}

static void tell_session(struct daemon *d, const struct relay_action *n)
{
    bool ours = n->fault == RELAY_FAULT_PASSING; /* nobody refused anything */

    stats_count_session(d->stats, n->session, ours ? "limit" : d->codes[n->session]);
    LOG(d->log, ours ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "session ends, a new one begins",
        LOG_TEXT("session", daemon_session_word(n->session)),
        LOG_TEXT("reason", ours ? "its batches could be above a topic's limit, or partitions do not answer" : fault_word(n->fault)),
        LOG_TEXT("code", ours ? "" : d->codes[n->session]), LOG_NUMBER("rows_in_flight", n->rows));
}

/* The key itself is not told: it may be a secret. */
static void tell_key(struct daemon *d, const struct relay_action *n)
{
    const char *topic = outbox_topic(d->outbox, n->topic);

    if (n->note == RELAY_NOTE_KEY_BEHIND)
        LOG(d->log, LOG_LEVEL_WARNING, "key waits, other keys go on", LOG_TEXT("topic", topic), LOG_NUMBER("partition", n->partition),
            LOG_NUMBER("id", n->id), LOG_NUMBER("attempts", n->rows), LOG_TEXT("reason", fault_word(n->fault)));
    else if (n->note == RELAY_NOTE_KEYS_FULL)
        LOG(d->log, LOG_LEVEL_WARNING, "too many keys wait: the partition of this one waits instead", LOG_TEXT("topic", topic),
            LOG_NUMBER("partition", n->partition));
    else
        LOG(d->log, LOG_LEVEL_INFO, "key has caught up", LOG_TEXT("topic", topic));
}

/* One line for each event that is not where it should be. */
static void tell_event(struct daemon *d, const struct relay_action *n)
{
    bool phantom = n->note == RELAY_NOTE_PHANTOM;
    struct log_field topic = {.name = NULL}; /* that of a mark from before a crash is not known any more */
    char event_id[37];

    daemon_event_id_print(&n->event_id, event_id);
    if (phantom)
        stats_count_phantom(d->stats);
    else
        stats_count_patrol_found(d->stats);
    if (n->topic != UINT32_MAX)
        topic = LOG_TEXT("topic", outbox_topic(d->outbox, n->topic));
    LOG(d->log, LOG_LEVEL_ERROR,
        phantom ? "event was published, and the database does not have it" : "event was passed by, and is published now",
        LOG_NUMBER("id", n->id), LOG_TEXT("event_id", event_id), topic);
}

/* Rows that another relay, or a later read, may bring again although Kafka has them: what a duplicate is put down to. */
static void tell_over(struct daemon *d, const char *event)
{
    struct relay_view v = relay_view(d->relay);

    LOG(d->log, LOG_LEVEL_WARNING, event, LOG_NUMBER("rows_in_flight", v.handed_rows), LOG_NUMBER("rows_unmarked", v.acked_rows),
        LOG_NUMBER("rows_since_beat", d->acked_rows - d->beaten_acked_rows));
}

void daemon_tell_note(struct daemon *d, const struct relay_action *n)
{
    switch (n->note) {
    case RELAY_NOTE_LEASE_HELD:
        LOG(d->log, LOG_LEVEL_INFO, "lease held", LOG_NUMBER("floor", n->from));
        break;
    case RELAY_NOTE_LEASE_LOST:
        tell_over(d, "lease lost");
        break;
    case RELAY_NOTE_START_OVER:
        stats_count_start_over(d->stats);
        memset(d->blamed_ids, 0, sizeof d->blamed_ids);
        tell_over(d, "starting over: the database may have given ids to other events");
        break;
    case RELAY_NOTE_FLOOR_RESET:
        LOG_EVENT(d->log, LOG_LEVEL_ERROR, "the sequence stands below the saved floor: everything is read from the beginning");
        break;
    case RELAY_NOTE_LANE_BEHIND:
    case RELAY_NOTE_LANE_LIVE:
        tell_lane(d, n);
        break;
    case RELAY_NOTE_TOPIC_BEHIND:
    case RELAY_NOTE_TOPIC_LIVE:
    case RELAY_NOTE_TOPIC_OPEN:
    case RELAY_NOTE_TOPIC_CLOSED:
        tell_topic(d, n);
        break;
    case RELAY_NOTE_SESSION_BROKEN:
        tell_session(d, n);
        break;
    case RELAY_NOTE_WINDOW_STUCK:
        LOG(d->log, LOG_LEVEL_WARNING, "partitions that do not answer hold half of the window", LOG_NUMBER("rows_in_flight", n->rows));
        break;
    case RELAY_NOTE_KEY_BEHIND:
    case RELAY_NOTE_KEY_LIVE:
    case RELAY_NOTE_KEYS_FULL:
        tell_key(d, n);
        break;
    case RELAY_NOTE_PHANTOM:
    case RELAY_NOTE_PATROL_FOUND:
        tell_event(d, n);
        break;
    case RELAY_NOTE_GAPS_FULL:
        LOG_EVENT(d->log, LOG_LEVEL_WARNING, "too many open gaps: reading on waits until some close");
        break;
    case RELAY_NOTE_DROPPED:
        LOG(d->log, LOG_LEVEL_WARNING, "more happened than was told", LOG_NUMBER("lines", n->rows));
        break;
    }
}

/* --- transitions of the database ---------------------------------------------------------------------------------- */

void daemon_tell_connected(struct daemon *d)
{
    if (!d->database_known)
        LOG_EVENT(d->log, LOG_LEVEL_INFO, "database reached");
    else
        LOG(d->log, LOG_LEVEL_INFO, "database back", LOG_NUMBER("outage_ms", daemon_now(d) - d->database_lost_ms),
            LOG_NUMBER("attempts", d->connect_attempts));
    if (d->database_known)
        stats_count_reconnect(d->stats);
    if (!d->ready)
        notify_ready();
    d->ready = d->database_known = d->database_up = true;
    d->connect_attempts = 0;
}

void daemon_tell_lost(struct daemon *d, const char *reason)
{
    if (d->database_up || !d->database_known) {
        struct relay_view v = relay_view(d->relay);

        LOG(d->log, LOG_LEVEL_ERROR, d->database_known ? "database lost" : "database not reached", LOG_TEXT("reason", reason),
            LOG_NUMBER("rows_in_flight", v.handed_rows), LOG_NUMBER("rows_unmarked", v.acked_rows));
        d->database_lost_ms = daemon_now(d);
    } else {
        LOG(d->log, LOG_LEVEL_DEBUG, "database still lost", LOG_TEXT("reason", reason));
    }
    d->database_up = false;
    d->database_known = true;
    memset(d->failing, 0, sizeof d->failing);
}

void daemon_tell_statement(struct daemon *d, enum relay_action_type what, const char *reason)
{
    bool fails = reason != NULL;

    if (d->failing[what] == fails)
        return;
    d->failing[what] = fails;
    if (fails)
        LOG(d->log, LOG_LEVEL_WARNING, "statement failed, tried again", LOG_TEXT("statement", statement_word(what)),
            LOG_TEXT("reason", reason));
    else
        LOG(d->log, LOG_LEVEL_INFO, "statement works again", LOG_TEXT("statement", statement_word(what)));
}

void daemon_tell_unpublished(struct daemon *d, const struct relay_action *publish, const char *reason)
{
    int64_t *blamed_id = &d->blamed_ids[(uint64_t)publish->id % (sizeof d->blamed_ids / sizeof *d->blamed_ids)];

    if (publish->id == *blamed_id)
        return;
    *blamed_id = publish->id;
    LOG(d->log, LOG_LEVEL_ERROR, "row cannot be published, its key waits", LOG_NUMBER("id", publish->id),
        LOG_TEXT("topic", outbox_topic(d->outbox, publish->topic)), LOG_NUMBER("partition", publish->partition),
        LOG_TEXT("reason", reason));
}

/* --- pages -------------------------------------------------------------------------------------------------------- */

static unsigned answer(unsigned status, const char *text, char **ret_body, size_t *ret_body_n)
{
    *ret_body = strdup(text);
    *ret_body_n = *ret_body != NULL ? strlen(text) : 0;
    return status;
}

unsigned daemon_render(void *data, enum http_page page, char **ret_body, size_t *ret_body_n)
{
    struct daemon *d = data;
    struct stats_moment moment = {.view = relay_view(d->relay),
                                  .now_ms = daemon_now(d),
                                  .database_up = d->database_up,
                                  .kafka_up = d->kafka_up,
                                  .row_bytes = outbox_bytes(d->outbox),
                                  .log_lines_dropped = log_lines_dropped(d->log)};

    switch (page) {
    case HTTP_HEALTH:
        return answer(200, "ok\n", ret_body, ret_body_n); /* that this is answered at all is the proof: the loop turns */
    case HTTP_READY:
        if (d->ready)
            return answer(200, "ready\n", ret_body, ret_body_n);
        return answer(503, "the database was not reached yet\n", ret_body, ret_body_n);
    case HTTP_METRICS:
        if (stats_render(d->stats, &moment, ret_body, ret_body_n))
            return 200;
        break;
    }
    return answer(503, "out of memory\n", ret_body, ret_body_n);
}
