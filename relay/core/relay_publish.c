/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows to the producer, and what is reported of them. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* A lane belongs to one session. */
static enum relay_session session_of(const struct relay *r, uint32_t lane)
{
    return topics_lane_probe(relay_topics(r), lane) ? RELAY_PROBE : RELAY_MAIN;
}

/* --- reports ------------------------------------------------------------------------------------------------------ */

/* Is none of the topic's rows on its way through the probe session? Until then no other row of their keys may go through the main one. */
static bool probes_are_clear(const struct relay *r, uint32_t topic)
{
    const struct topics *t = relay_topics(r);

    for (uint32_t lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane)) {
        if (topics_lane_probe(t, lane) && window_lane_unacked(relay_window(r), lane) > 0)
            return false;
    }
    return true;
}

/* Something of what is behind was acknowledged. */
static void acked_behind(struct relay *r, uint32_t lane, uint32_t key)
{
    struct behind *b = relay_behind_of(r);
    uint32_t topic = topics_lane_topic(relay_topics(r), lane), topic_record = relay_topic_record(r, topic);
    uint32_t main_lane = relay_lane_main(r, lane);
    bool probe = lane != main_lane;

    if (probe && key != KEYS_NONE)
        behind_acked(b, relay_key_record(r, key));
    if (main_lane != TOPICS_NO_LANE && behind_probes(b, main_lane))
        relay_suspicion_ends(r, main_lane, true);
    else
        behind_acked(b, lane);
    if (probe && behind_probes(b, topic_record) && probes_are_clear(r, topic)) {
        behind_acked(b, topic_record);
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_TOPIC_OPEN, .topic = topic, .rows = topics_pinned(relay_topics(r), topic)});
    }
}

void relay_expect(const struct relay *r, row_slot slot)
{
    window_expect(relay_window(r), slot);
}

void relay_on_delivered(struct relay *r, uint64_t now_ms, row_slot slot)
{
#ifdef MUTANT_MARK_BEFORE_REPORT
    return;
#endif
    uint32_t lane = window_lane(relay_window(r), slot), topic = topics_lane_topic(relay_topics(r), lane);
    uint32_t key = relay_key_of_slot(r, slot);

    if (window_acked(relay_window(r)) == 0)
        r->acked_ms = now_ms;
    pace_acked(&r->pace, now_ms, window_lane_waited_ms(relay_window(r), now_ms, lane), r->limits.stuck_ms);
    window_ack(relay_window(r), now_ms, slot);
    if (key != KEYS_NONE)
        keys_row_out(relay_keys(r), key);
    if (behind_n(relay_behind_of(r)) > 0)
        acked_behind(r, lane, key);
    topics_acked(relay_topics(r), topic);
    r->sessions[session_of(r, lane)].attempts = 0;
    r->page_dirty = true;
}

/* The topic's limit may not be what it was: lowered, or raised for this very row. */
static void learn_limit(struct relay *r, uint64_t now_ms, uint32_t lane, enum relay_fault why)
{
    uint32_t topic = topics_lane_topic(relay_topics(r), lane);

    if (why == RELAY_FAULT_SIZE && topics_state(relay_topics(r), topic) == TOPICS_OPEN)
        topics_ask_again(relay_topics(r), now_ms, topic, 0);
}

/* What a refusal says about the row's lane or topic. */
static void blame(struct relay *r, uint64_t now_ms, uint32_t lane, int64_t id, enum relay_fault why)
{
    struct topics *t = relay_topics(r);
    uint32_t topic = topics_lane_topic(t, lane);

    switch (why) {
    case RELAY_FAULT_SIZE:
    case RELAY_FAULT_ROW:
        learn_limit(r, now_ms, lane, why);
        if (topics_lane_probe(t, lane))
            break; /* one row at a time now: that will tell */
        relay_lane_goes_behind(r, now_ms, lane, why, false);
        behind_probe(relay_behind_of(r), lane, id);
        if (relay_lane_probe(r, lane) != TOPICS_NO_LANE)
            window_lane_doubt(relay_window(r), relay_lane_probe(r, lane));
        break;
    case RELAY_FAULT_TOPIC:
        if (topics_state(t, topic) != TOPICS_OPEN)
            break;
        relay_topic_close(r, now_ms, topic, why);
        behind_probe(relay_behind_of(r), relay_topic_record(r, topic), 0);
        break;
    case RELAY_FAULT_NONE:
    case RELAY_FAULT_PASSING:
    case RELAY_FAULT_SESSION:
        break;
    }
}

/* Where nobody tells us the topic's limit, smaller batches find it: once a session, and not for a row that is tried alone. Below this a
 * batch is as small as that of Kafka's own clients, and it is a row that is too large. */
enum {
    SESSION_BYTES_MIN = 16384
};

static void batches_shrink(struct relay *r, uint32_t lane)
{
    bool is_known = topics_limit(relay_topics(r), topics_lane_topic(relay_topics(r), lane)) > 0;

    if (!is_known && !behind_is(relay_behind_of(r), lane) && r->session_bytes == r->sessions[RELAY_MAIN].opened_bytes &&
        r->session_bytes / 2 >= SESSION_BYTES_MIN)
        r->session_bytes /= 2;
}

/* Was the row the only one that could be meant? */
static bool row_was_alone(const struct relay *r, uint32_t lane)
{
    const struct topics *t = relay_topics(r);

#ifdef MUTANT_CHARGE_BATCH
    return true;
#endif
    return (topics_lane_probe(t, lane) || topics_partition_of(t, lane) == TOPICS_UNPLACED) && window_lane_alone(relay_window(r), lane);
}

static bool is_of_row(enum relay_fault why)
{
    return why == RELAY_FAULT_ROW || why == RELAY_FAULT_SIZE;
}

void relay_on_refused(struct relay *r, uint64_t now_ms, row_slot slot, enum relay_fault why)
{
#ifdef MUTANT_MARK_BEFORE_REPORT
    return;
#endif
    uint32_t lane = window_lane(relay_window(r), slot);
    int64_t id = window_id(relay_window(r), slot);

    relay_break_session(r, session_of(r, lane), why);
    if (is_of_row(why) || why == RELAY_FAULT_TOPIC) /* the fatal error that comes first does not say so */
        r->sessions[session_of(r, lane)].fault = why;
    if (is_of_row(why) && row_was_alone(r, lane)) {
        learn_limit(r, now_ms, lane, why);
        relay_key_fails(r, now_ms, slot, why);
        relay_suspicion_ends(r, relay_lane_main(r, lane), false);
        return;
    }
    relay_row_return(r, slot);
    if (why == RELAY_FAULT_SIZE)
        batches_shrink(r, lane);
    blame(r, now_ms, lane, id, why);
}

void relay_on_unpublished(struct relay *r, uint64_t now_ms, row_slot slot, enum relay_fault why)
{
#ifdef MUTANT_MARK_BEFORE_REPORT
    return;
#endif
    uint32_t lane = window_lane(relay_window(r), slot);
    int64_t id = window_id(relay_window(r), slot);

    if (is_of_row(why)) {
        learn_limit(r, now_ms, lane, why);
        relay_key_fails(r, now_ms, slot, why);
    } else {
        relay_row_return(r, slot);
        if (why == RELAY_FAULT_SESSION || why == RELAY_FAULT_PASSING)
            relay_break_session(r, session_of(r, lane), why);
        blame(r, now_ms, lane, id, why);
    }
    /* Its topic may be behind already: it must not wait here and pass by the rows that are. */
    relay_behind_retake(r);
}

/* --- publishing --------------------------------------------------------------------------------------------------- */

/* Its partition does not exist (any more): it waits until there is one; so do the others of its kind, and nobody else. */
static void row_has_no_partition(struct relay *r, uint64_t now_ms, row_slot slot)
{
    uint32_t lane = window_lane(relay_window(r), slot), main_lane = relay_lane_main(r, lane), key = relay_key_of_slot(r, slot);
    uint32_t topic = topics_lane_topic(relay_topics(r), lane), attempts = 0, delay_ms;
    int64_t from;

    window_return(relay_window(r), slot);
    from = lane != main_lane ? relay_lane_take(r, lane) : INT64_MAX;
    if (main_lane == TOPICS_NO_LANE)
        main_lane = relay_lane_numbered(r, topic, topics_partition_of(relay_topics(r), lane), false);
    if (main_lane != TOPICS_NO_LANE) {
        relay_lane_goes_behind(r, now_ms, main_lane, RELAY_FAULT_ROW, true);
        behind_back(relay_behind_of(r), main_lane, from);
        attempts = behind_attempts(relay_behind_of(r), main_lane);
    }
    delay_ms = pace_backoff_ms(&r->pace, attempts);
    if (key != KEYS_NONE && behind_is(relay_behind_of(r), relay_key_record(r, key)))
        behind_wait(relay_behind_of(r), relay_key_record(r, key), now_ms + 1 + delay_ms);
    topics_ask_again(relay_topics(r), now_ms, topic, delay_ms);
}

static bool next_publish(struct relay *r, uint64_t now_ms, enum relay_session session, struct relay_action *ret_action)
{
    struct window *w = relay_window(r);
    struct topics *t = relay_topics(r);
    row_slot slot;

    while (r->sessions[session].state == SESSION_READY && window_hand(w, now_ms, session == RELAY_PROBE, &slot)) {
        uint32_t lane = window_lane(w, slot), topic = topics_lane_topic(t, lane);
        int32_t partition = topics_partition(t, topic, window_wish(w, slot), window_spread(w, slot));

        if (!topics_exists(t, topic, partition)) {
            row_has_no_partition(r, now_ms, slot);
            continue;
        }
        *ret_action = (struct relay_action){.type = RELAY_PUBLISH,
                                            .session = session,
                                            .slot = slot,
                                            .next_slot = window_next(w),
                                            .later_slot = window_later(w),
                                            .topic = topic,
                                            .partition = partition,
                                            .id = window_id(w, slot),
                                            .event_id = window_event_id(w, slot)};
        r->sessions[session].busy_ms = now_ms;
#ifdef MUTANT_MARK_BEFORE_REPORT
        window_ack(w, now_ms, slot);
#endif
        return true;
    }
    return false;
}

bool relay_next_publish(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    if (r->stopping || !lease_is_valid(&r->lease, now_ms))
        return false;
    return next_publish(r, now_ms, RELAY_PROBE, ret_action) || next_publish(r, now_ms, RELAY_MAIN, ret_action);
}

/* Nothing of a lane was acknowledged for so long that the broker may have forgotten the producer, while rows of it are under way: only a new
 * session is safe then. */
static void silent_sessions_end(struct relay *r, uint64_t now_ms)
{
    for (uint32_t lane = 0; lane < topics_lanes_top(relay_topics(r)); lane++) {
        if (topics_lane_used(relay_topics(r), lane) && window_lane_silent(relay_window(r), now_ms, lane))
            relay_break_session(r, session_of(r, lane), RELAY_FAULT_PASSING);
    }
}

static uint64_t patience_ms(const struct relay *r)
{
    return pace_patience_ms(&r->pace, r->limits.stuck_ms, r->sessions[RELAY_MAIN].attempts);
}

void relay_find_stuck(struct relay *r, uint64_t now_ms)
{
    struct window *w = relay_window(r);
    struct topics *t = relay_topics(r);
    uint32_t lane;

    while ((lane = window_find_stuck(w, now_ms, patience_ms(r))) != WINDOW_NO_LANE) {
        window_stick(w, lane);
        if (r->lease.held && !r->stopping && !topics_lane_probe(t, lane)) /* what is probed is behind already */
            relay_lane_goes_behind(r, now_ms, lane, RELAY_FAULT_PASSING, false);
    }
    if (window_is_mostly_stuck(w) && r->sessions[RELAY_MAIN].state == SESSION_READY && !r->stopping) {
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_WINDOW_STUCK, .rows = window_handed(w)});
        relay_break_session(r, RELAY_MAIN, RELAY_FAULT_PASSING);
    }
    if (now_ms < r->unknown_ms)
        return;
    r->unknown_ms = now_ms + r->limits.stuck_ms;
    silent_sessions_end(r, now_ms);
    if (!r->lease.held || r->stopping)
        return;
    for (uint32_t topic = 0; topic < r->limits.topics_max; topic++) {
        if (topics_state(t, topic) == TOPICS_ASKING && topics_age(t, now_ms, topic) >= r->limits.stuck_ms &&
            !behind_is(relay_behind_of(r), relay_topic_record(r, topic)))
            relay_topic_goes_behind(r, now_ms, topic, RELAY_FAULT_PASSING);
    }
}

uint64_t relay_publish_due_ms(const struct relay *r, uint64_t now_ms)
{
    uint64_t due_ms = window_stuck_due_ms(relay_window(r), patience_ms(r)), session_ms = relay_session_due_ms(r, now_ms);

    if (session_ms < due_ms)
        due_ms = session_ms;
    if (r->asked_topic == TOPICS_NO_TOPIC && topics_ask_due_ms(relay_topics(r)) < due_ms)
        due_ms = topics_ask_due_ms(relay_topics(r));
    return due_ms;
}
