/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/daemon_faults.h"

#ifdef FAULTS
#include <stdio.h>

#include "relay/app/faults.h"

#define REASON "fault point"

/* The callbacks behind the points, and whether a lost event is still to take its connections along. Of the whole process, as a fault is. */
static struct outbox_callbacks outbox_real;
static struct producer_callbacks producer_real;
static bool losing;

/* --- events of the database: one that is lost takes the connections along, but not from within its own call --------- */

static bool event_lost(const char *point)
{
    bool lost = faults_at(point);

    losing |= lost;
    return lost;
}

static void on_connected(void *data)
{
    if (!event_lost("on-connected"))
        outbox_real.on_connected(data);
}

static void on_lost(void *data, const char *reason)
{
    (void)faults_at("on-lost");
    losing = false;
    outbox_real.on_lost(data, reason);
}

static void on_failed(void *data, enum relay_action_type what, const char *reason)
{
    (void)faults_at("on-failed");
    outbox_real.on_failed(data, what, reason);
}

static void on_lease(void *data, const struct relay_saved *saved, const char *holder)
{
    if (!event_lost("on-lease"))
        outbox_real.on_lease(data, saved, holder);
}

static void on_beaten(void *data, bool held, struct relay_token token, int64_t last_id)
{
    if (!event_lost("on-beaten"))
        outbox_real.on_beaten(data, held, token, last_id);
}

static void on_released(void *data)
{
    if (!event_lost("on-released"))
        outbox_real.on_released(data);
}

static void rows_refuse(const struct relay_read *read, row_slot *ret_slots)
{
    for (uint32_t i = 0; i < read->rows_n; i++)
        ret_slots[i] = ROW_NO_SLOT;
}

static void on_fetched(void *data, const struct relay_read *read, row_slot *ret_slots)
{
    if (event_lost("on-fetched"))
        rows_refuse(read, ret_slots);
    else
        outbox_real.on_fetched(data, read, ret_slots);
}

static void on_caught_up(void *data, const struct relay_read *read, row_slot *ret_slots)
{
    if (event_lost("on-caught-up"))
        rows_refuse(read, ret_slots);
    else
        outbox_real.on_caught_up(data, read, ret_slots);
}

static void on_patrolled(void *data, const struct relay_read *read)
{
    if (!event_lost("on-patrolled"))
        outbox_real.on_patrolled(data, read);
}

static void on_writers(void *data, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n, bool complete)
{
    if (!event_lost("on-writers"))
        outbox_real.on_writers(data, last_id, writers, writers_n, complete);
}

static void on_flushed(void *data, struct relay_token token, uint64_t flush_lsn)
{
    if (!event_lost("on-flushed"))
        outbox_real.on_flushed(data, token, flush_lsn);
}

static void on_marked(void *data, const int64_t *missed, uint32_t missed_n)
{
    if (!event_lost("on-marked"))
        outbox_real.on_marked(data, missed, missed_n);
}

static void on_saved(void *data, bool fenced)
{
    if (!event_lost("on-saved"))
        outbox_real.on_saved(data, fenced);
}

static void on_pinned(void *data, uint32_t topic, int32_t pinned_n)
{
    if (!event_lost("on-pinned"))
        outbox_real.on_pinned(data, topic, pinned_n);
}

const struct outbox_callbacks *daemon_fault_outbox(const struct outbox_callbacks *callbacks)
{
    static struct outbox_callbacks faulty;

    outbox_real = faulty = *callbacks;
    faulty.on_connected = on_connected;
    faulty.on_lost = on_lost;
    faulty.on_failed = on_failed;
    faulty.on_lease = on_lease;
    faulty.on_beaten = on_beaten;
    faulty.on_released = on_released;
    faulty.on_fetched = on_fetched;
    faulty.on_caught_up = on_caught_up;
    faulty.on_patrolled = on_patrolled;
    faulty.on_writers = on_writers;
    faulty.on_flushed = on_flushed;
    faulty.on_marked = on_marked;
    faulty.on_saved = on_saved;
    faulty.on_pinned = on_pinned;
    return &faulty;
}

/* --- events of Kafka ---------------------------------------------------------------------------------------------- */

static void on_refused(void *data, enum relay_session session, row_slot slot, enum relay_fault fault, const char *code)
{
    (void)faults_at("on-refused");
    producer_real.on_refused(data, session, slot, fault, code);
}

/* The row is in the log, and the report says that nobody knows. */
static void on_delivered(void *data, enum relay_session session, row_slot slot, row_slot later_slot)
{
    if (faults_at("on-delivered"))
        on_refused(data, session, slot, RELAY_FAULT_PASSING, "_MSG_TIMED_OUT");
    else
        producer_real.on_delivered(data, session, slot, later_slot);
}

static void on_broken(void *data, enum relay_session session, enum relay_fault fault, const char *code, const char *reason)
{
    (void)faults_at("on-broken");
    producer_real.on_broken(data, session, fault, code, reason);
}

static void on_closed(void *data, enum relay_session session)
{
    (void)faults_at("on-closed");
    producer_real.on_closed(data, session);
}

static void on_topic(void *data, uint32_t topic, int32_t partitions_n, uint32_t message_bytes_max, const char *reason)
{
    if (faults_at("on-topic"))
        producer_real.on_topic(data, topic, 0, 0, REASON);
    else
        producer_real.on_topic(data, topic, partitions_n, message_bytes_max, reason);
}

static void on_idle_limit(void *data, uint64_t expiration_ms)
{
    (void)faults_at("on-idle-limit");
    producer_real.on_idle_limit(data, expiration_ms);
}

static void on_reachable(void *data, bool reachable, const char *reason)
{
    (void)faults_at("on-reachable");
    producer_real.on_reachable(data, reachable, reason);
}

const struct producer_callbacks *daemon_fault_producer(const struct producer_callbacks *callbacks)
{
    static struct producer_callbacks faulty;

    producer_real = faulty = *callbacks;
    faulty.on_delivered = on_delivered;
    faulty.on_refused = on_refused;
    faulty.on_broken = on_broken;
    faulty.on_closed = on_closed;
    faulty.on_topic = on_topic;
    faulty.on_idle_limit = on_idle_limit;
    faulty.on_reachable = on_reachable;
    return &faulty;
}

/* --- actions ------------------------------------------------------------------------------------------------------ */

static const char *action_name(enum relay_action_type type)
{
    static const char *const names[] = {[RELAY_CONNECT] = "connect",
                                        [RELAY_LEASE_TAKE] = "take",
                                        [RELAY_LEASE_BEAT] = "beat",
                                        [RELAY_LEASE_RELEASE] = "release",
                                        [RELAY_FETCH] = "fetch",
                                        [RELAY_CATCH_UP] = "catch-up",
                                        [RELAY_PATROL] = "patrol",
                                        [RELAY_WRITERS] = "writers",
                                        [RELAY_FLUSH] = "flush",
                                        [RELAY_PUBLISH] = "publish",
                                        [RELAY_DROP] = "drop",
                                        [RELAY_MARK] = "mark",
                                        [RELAY_SAVE] = "save",
                                        [RELAY_TOPIC] = "topic",
                                        [RELAY_FORGET] = "forget",
                                        [RELAY_SESSION_OPEN] = "session-open",
                                        [RELAY_SESSION_CLOSE] = "session-close",
                                        [RELAY_NOTE] = "note",
                                        [RELAY_EXIT] = "exit"};

    return names[type];
}

static bool action_at(const struct relay_action *action, const char *side)
{
    char name[40];

    (void)snprintf(name, sizeof name, "%s.%s", action_name(action->type), side);
    return faults_at(name);
}

static void topic_fail(struct daemon *d, const struct relay_action *action)
{
    d->topic.asked = true;
    d->topic.number = action->topic;
    stats_name_topic(d->stats, action->topic, outbox_topic(d->outbox, action->topic));
    producer_real.on_topic(d, action->topic, 0, 0, REASON);
}

bool daemon_fault_before(struct daemon *d, const struct relay_action *action)
{
    if (!action_at(action, "before"))
        return false;
    switch (action->type) {
    case RELAY_CONNECT:
        on_lost(d, REASON);
        break;
    case RELAY_TOPIC:
        topic_fail(d, action);
        break;
    case RELAY_PUBLISH:
        relay_on_unpublished(d->relay, daemon_now(d), action->slot, RELAY_FAULT_PASSING);
        break;
    case RELAY_SESSION_OPEN:
        relay_on_session_failed(d->relay, daemon_now(d), action->session);
        break;
    case RELAY_LEASE_TAKE:
    case RELAY_LEASE_BEAT:
    case RELAY_LEASE_RELEASE:
    case RELAY_FETCH:
    case RELAY_CATCH_UP:
    case RELAY_PATROL:
    case RELAY_WRITERS:
    case RELAY_FLUSH:
    case RELAY_MARK:
    case RELAY_SAVE:
        on_failed(d, action->type, REASON);
        break;
    case RELAY_WAIT:
    case RELAY_DROP:
    case RELAY_FORGET:
    case RELAY_SESSION_CLOSE:
    case RELAY_NOTE:
    case RELAY_EXIT:
        return false;
    }
    return true;
}

void daemon_fault_after(struct daemon *d, const struct relay_action *action)
{
    if (!action_at(action, "after"))
        return;
    if (action->type == RELAY_PUBLISH || action->type == RELAY_SESSION_OPEN)
        on_broken(d, action->session, RELAY_FAULT_SESSION, "_FATAL", REASON);
    else
        outbox_lose(d->outbox, REASON);
}

void daemon_fault_turn(struct daemon *d)
{
    if (losing)
        outbox_lose(d->outbox, REASON);
    losing = false;
}
#endif
