/* SPDX-License-Identifier: BSD-2-Clause */
/* What the edges tell, told to the relay: one small function an event. */
#include <stdio.h>
#include <string.h>

#include "relay/app/daemon_state.h"
#include "relay/app/notify.h"

/* --- database ----------------------------------------------------------------------------------------------------- */

static void on_connected(void *data)
{
    struct daemon *d = data;

    daemon_tell_connected(d);
    relay_on_connected(d->relay, daemon_now(d));
}

static void on_lost(void *data, const char *reason)
{
    struct daemon *d = data;

    daemon_tell_lost(d, reason);
    d->topic.asked = false;
    relay_on_database_lost(d->relay, daemon_now(d));
}

static void on_failed(void *data, enum relay_action_type what, const char *reason)
{
    struct daemon *d = data;

    daemon_tell_statement(d, what, reason);
    if (what == RELAY_TOPIC)
        d->topic.asked = false;
    relay_on_failed(d->relay, daemon_now(d), what);
}

static void on_holder(void *data, int64_t beat, uint64_t beat_ttl_ms)
{
    struct daemon *d = data;

    relay_on_holder(d->relay, daemon_now(d), beat, beat_ttl_ms);
}

static void on_lease(void *data, const struct relay_saved *saved, const char *holder)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_LEASE_TAKE, NULL);
    if (saved == NULL && !d->waiting_told)
        LOG(d->log, LOG_LEVEL_INFO, "another relay holds the lease, waiting", LOG_TEXT("holder", holder));
    d->waiting_told = saved == NULL;
    d->lease_until_ms = saved != NULL ? d->lease_asked_ms + d->config->lease_ttl_ms : 0;
    d->beaten_acked_rows = d->acked_rows;
    relay_on_lease(d->relay, daemon_now(d), d->lease_asked_ms, saved);
}

static void on_beaten(void *data, bool held, struct relay_token token, int64_t last_id)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_LEASE_BEAT, NULL);
    d->lease_until_ms = held ? d->lease_asked_ms + d->config->lease_ttl_ms : 0;
    if (held)
        d->beaten_acked_rows = d->acked_rows;
    relay_on_beaten(d->relay, daemon_now(d), d->lease_asked_ms, held, token, last_id);
}

static void on_released(void *data)
{
    struct daemon *d = data;

    relay_on_released(d->relay, daemon_now(d));
}

static void count_slots(struct daemon *d, const struct relay_read *read, const row_slot *slots)
{
    uint64_t rows = 0;

    for (uint32_t i = 0; i < read->rows_n; i++)
        rows += slots[i] != ROW_NO_SLOT;
    stats_count_fetched(d->stats, rows);
}

static void on_fetched(void *data, const struct relay_read *read, row_slot *ret_slots)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_FETCH, NULL);
    relay_on_fetched(d->relay, daemon_now(d), read, ret_slots);
    count_slots(d, read, ret_slots);
}

static void on_caught_up(void *data, const struct relay_read *read, row_slot *ret_slots)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_CATCH_UP, NULL);
    relay_on_caught_up(d->relay, daemon_now(d), read, ret_slots);
    count_slots(d, read, ret_slots);
}

static void on_patrolled(void *data, const struct relay_read *read)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_PATROL, NULL);
    relay_on_patrolled(d->relay, daemon_now(d), read);
}

static void on_writers(void *data, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n, bool complete)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_WRITERS, NULL);
    relay_on_writers(d->relay, daemon_now(d), last_id, writers, writers_n, complete);
}

static void on_flushed(void *data, struct relay_token token, uint64_t flush_lsn)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_FLUSH, NULL);
    relay_on_flushed(d->relay, daemon_now(d), token, flush_lsn);
}

static void on_marked(void *data, const int64_t *missed, uint32_t missed_n)
{
    struct daemon *d = data;
    const int64_t *ids;
    const struct row_event_id *event_ids;
    uint32_t n = relay_marks(d->relay, &ids, &event_ids);

    daemon_tell_statement(d, RELAY_MARK, NULL);
    stats_count_marked(d->stats, n);
    if (daemon_now(d) >= d->lease_until_ms)
        stats_count_superseded(d->stats, n);
    relay_on_marked(d->relay, daemon_now(d), missed, missed_n);
}

static void on_saved(void *data, bool fenced)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_SAVE, NULL);
    relay_on_saved(d->relay, daemon_now(d), fenced);
}

/* The question about a topic is answered; partitions 0: it is not there. */
static void topic_answer(struct daemon *d, int32_t pinned_n, int32_t actual_n)
{
    d->topic.asked = false;
    relay_on_topic(d->relay, daemon_now(d), d->topic.number, pinned_n, actual_n, d->topic.message_bytes_max);
}

static void on_pinned(void *data, uint32_t topic, int32_t pinned_n)
{
    struct daemon *d = data;

    daemon_tell_statement(d, RELAY_TOPIC, NULL);
    if (!d->topic.asked || d->topic.number != topic)
        return; /* asked before a connection was lost */
    if (d->topic.actual_n < pinned_n)
        snprintf(d->topic.reason, sizeof d->topic.reason,
                 "it has %d partitions, fewer than the %d that its keys are spread over; add partitions", d->topic.actual_n, pinned_n);
    else if (d->topic.actual_n > pinned_n)
        LOG(d->log, LOG_LEVEL_WARNING, "topic has more partitions than its keys are spread over",
            LOG_TEXT("topic", outbox_topic(d->outbox, topic)), LOG_NUMBER("partitions", d->topic.actual_n), LOG_NUMBER("pinned", pinned_n));
    topic_answer(d, pinned_n, d->topic.actual_n);
}

static void on_warning(void *data, const char *sentence)
{
    struct daemon *d = data;

    LOG(d->log, LOG_LEVEL_WARNING, "database warning", LOG_TEXT("reason", sentence));
}

const struct outbox_callbacks *daemon_outbox_callbacks(void)
{
    static const struct outbox_callbacks callbacks = {
        .on_connected = on_connected,
        .on_lost = on_lost,
        .on_failed = on_failed,
        .on_holder = on_holder,
        .on_lease = on_lease,
        .on_beaten = on_beaten,
        .on_released = on_released,
        .on_fetched = on_fetched,
        .on_caught_up = on_caught_up,
        .on_patrolled = on_patrolled,
        .on_writers = on_writers,
        .on_flushed = on_flushed,
        .on_marked = on_marked,
        .on_saved = on_saved,
        .on_pinned = on_pinned,
        .on_warning = on_warning,
    };

    return &callbacks;
}

/* --- Kafka -------------------------------------------------------------------------------------------------------- */

static void on_delivered(void *data, enum relay_session session, row_slot slot, row_slot later_slot)
{
    struct daemon *d = data;
    uint64_t now_ms = daemon_now(d);
    struct outbox_row row;

    (void)session;
    if (later_slot != ROW_NO_SLOT) {
        outbox_expect(d->outbox, later_slot);
        relay_expect(d->relay, later_slot);
    }
    outbox_row(d->outbox, slot, &row);
    stats_count_published(d->stats, row.topic, d->real_ms - row.created_ms);
    d->acked_rows++;
    outbox_drop(d->outbox, slot);
    relay_on_delivered(d->relay, now_ms, slot);
}

static void on_refused(void *data, enum relay_session session, row_slot slot, enum relay_fault fault, const char *code)
{
    struct daemon *d = data;

    if (fault != RELAY_FAULT_SESSION)
        daemon_tell_code(d, session, code);
    if (strcmp(code, "_PURGE_QUEUE") != 0) /* it never left: a second hand-over is no second copy */
        stats_count_republished(d->stats, 1);
    relay_on_refused(d->relay, daemon_now(d), slot, fault);
}

static void on_broken(void *data, enum relay_session session, enum relay_fault fault, const char *code, const char *reason)
{
    struct daemon *d = data;

    daemon_tell_code(d, session, code);
    LOG(d->log, LOG_LEVEL_DEBUG, "session error", LOG_TEXT("session", daemon_session_word(session)), LOG_TEXT("code", code),
        LOG_TEXT("reason", reason));
    relay_on_session_broken(d->relay, daemon_now(d), session, fault);
}

static void on_closed(void *data, enum relay_session session)
{
    struct daemon *d = data;

    relay_on_session_closed(d->relay, daemon_now(d), session);
}

static void on_topic(void *data, uint32_t topic, int32_t partitions_n, uint32_t message_bytes_max, const char *reason)
{
    struct daemon *d = data;

    if (!d->topic.asked || d->topic.number != topic)
        return; /* asked before a connection was lost */
    d->topic.actual_n = partitions_n;
    d->topic.message_bytes_max = message_bytes_max;
    snprintf(d->topic.reason, sizeof d->topic.reason, "%s", reason != NULL ? reason : "");
    if (partitions_n > 0)
        outbox_pin(d->outbox, topic, partitions_n);
    else
        topic_answer(d, 0, 0);
}

static void on_idle_limit(void *data, uint64_t expiration_ms)
{
    struct daemon *d = data;

    relay_on_idle_limit(d->relay, daemon_now(d), expiration_ms);
}

static void on_reachable(void *data, bool reachable, const char *reason)
{
    struct daemon *d = data;
    bool was_up = d->kafka_up;

    d->kafka_up = reachable;
    if (reachable)
        LOG_EVENT(d->log, LOG_LEVEL_INFO, d->kafka_known ? "kafka back" : "kafka reached");
    else
        LOG(d->log, LOG_LEVEL_ERROR,
            !d->kafka_known ? "kafka not reached"
            : was_up        ? "kafka lost"
                            : "kafka still lost",
            LOG_TEXT("reason", reason));
    d->kafka_known |= reachable;
}

static void on_log(void *data, enum producer_log_level level, const char *facility, const char *text)
{
    static const enum log_level levels[] = {
        [PRODUCER_LOG_ERROR] = LOG_LEVEL_WARNING, /* what it means is told as a transition; this is the detail */
        [PRODUCER_LOG_WARNING] = LOG_LEVEL_WARNING,
        [PRODUCER_LOG_INFO] = LOG_LEVEL_INFO,
        [PRODUCER_LOG_DEBUG] = LOG_LEVEL_DEBUG,
    };
    struct daemon *d = data;

    LOG(d->log, levels[level], "librdkafka", LOG_TEXT("facility", facility), LOG_TEXT("text", text));
}

const struct producer_callbacks *daemon_producer_callbacks(void)
{
    static const struct producer_callbacks callbacks = {
        .on_delivered = on_delivered,
        .on_refused = on_refused,
        .on_broken = on_broken,
        .on_closed = on_closed,
        .on_topic = on_topic,
        .on_idle_limit = on_idle_limit,
        .on_reachable = on_reachable,
        .on_log = on_log,
    };

    return &callbacks;
}
