/* SPDX-License-Identifier: BSD-2-Clause */
/* Sessions, reports, and the topics that rows go to. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* --- sessions ----------------------------------------------------------------------------------------------------- */

void relay_break_session(struct relay *r, enum relay_session session, enum relay_fault fault)
{
    struct relay_session_life *life = &r->sessions[session];

    if (life->state != SESSION_READY)
        return;
    life->state = SESSION_BROKEN;
    relay_note(r, (struct relay_told){
                      .note = RELAY_NOTE_SESSION_BROKEN, .session = session, .fault = fault, .rows = window_handed(relay_window(r))});
}

static bool session_is_wanted(const struct relay *r, uint64_t now_ms, enum relay_session session)
{
    return session == RELAY_MAIN && lease_is_valid(&r->lease, now_ms) && !r->stopping;
}

static bool next_session(struct relay *r, uint64_t now_ms, enum relay_session session, struct relay_action *ret_action)
{
    struct relay_session_life *life = &r->sessions[session];

    if (life->state == SESSION_READY && r->stopping && window_handed(relay_window(r)) == 0)
        life->state = SESSION_BROKEN; /* nothing is in it any more: an orderly end */
    if (life->state == SESSION_BROKEN) {
        life->state = SESSION_CLOSING;
        *ret_action = (struct relay_action){.type = RELAY_SESSION_CLOSE, .session = session};
        return true;
    }
    if (life->state != SESSION_CLOSED || now_ms < life->open_ms || !session_is_wanted(r, now_ms, session))
        return false;
    life->state = SESSION_OPENING;
    life->opened_bytes = r->session_bytes;
    *ret_action = (struct relay_action){.type = RELAY_SESSION_OPEN, .session = session, .bytes = r->session_bytes};
    return true;
}

bool relay_next_session(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    return next_session(r, now_ms, RELAY_MAIN, ret_action) || next_session(r, now_ms, RELAY_PROBE, ret_action);
}

static void session_wait(struct relay *r, uint64_t now_ms, enum relay_session session)
{
    struct relay_session_life *life = &r->sessions[session];

    life->state = SESSION_CLOSED;
    life->open_ms = now_ms + pace_backoff_ms(&r->pace, life->attempts++);
}

void relay_on_session_open(struct relay *r, uint64_t now_ms, enum relay_session session)
{
    (void)now_ms;
    assert(r->sessions[session].state == SESSION_OPENING);
    r->sessions[session].state = SESSION_READY;
}

void relay_on_session_failed(struct relay *r, uint64_t now_ms, enum relay_session session)
{
    assert(r->sessions[session].state == SESSION_OPENING);
    session_wait(r, now_ms, session);
}

void relay_on_session_broken(struct relay *r, uint64_t now_ms, enum relay_session session, enum relay_fault why)
{
    (void)now_ms;
    relay_break_session(r, session, why);
}

void relay_on_session_closed(struct relay *r, uint64_t now_ms, enum relay_session session)
{
    assert(r->sessions[session].state == SESSION_CLOSING && window_handed(relay_window(r)) == 0);
    window_cold(relay_window(r));
    relay_behind_retake(r);
    r->page_dirty = true;
    session_wait(r, now_ms, session);
}

void relay_on_idle_limit(struct relay *r, uint64_t now_ms, uint64_t expiration_ms)
{
    (void)now_ms;
    if (expiration_ms / 4 < r->limits.idle_cold_ms)
        r->limits.idle_cold_ms = (uint32_t)(expiration_ms / 4);
}

/* --- reports ------------------------------------------------------------------------------------------------------ */

void relay_on_delivered(struct relay *r, uint64_t now_ms, row_slot slot)
{
#ifdef MUTANT_MARK_BEFORE_REPORT
    return;
#endif
    uint32_t lane = window_lane(relay_window(r), slot), topic = topics_lane_topic(relay_topics(r), lane);

    if (window_acked(relay_window(r)) == 0)
        r->acked_ms = now_ms;
    window_ack(relay_window(r), now_ms, slot);
    behind_acked(relay_behind_of(r), lane);
    topics_acked(relay_topics(r), topic);
    r->sessions[RELAY_MAIN].attempts = 0;
    r->page_dirty = true;
}

static void topic_close(struct relay *r, uint64_t now_ms, uint32_t topic, enum relay_fault fault)
{
    struct topics *t = relay_topics(r);

    if (topics_state(t, topic) != TOPICS_CLOSED)
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_TOPIC_CLOSED, .topic = topic, .fault = fault});
    topics_close(t, now_ms, topic, 1 + pace_backoff_ms(&r->pace, topics_attempts(t, topic)));
    for (uint32_t lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane))
        window_lane_pause(relay_window(r), lane, true);
    relay_topic_goes_behind(r, now_ms, topic, fault);
}

/* What a refusal says about the row's lane or topic. */
static void blame(struct relay *r, uint64_t now_ms, uint32_t lane, enum relay_fault why)
{
    uint32_t topic = topics_lane_topic(relay_topics(r), lane);

    switch (why) {
    case RELAY_FAULT_SIZE: /* the topic's limit may not be what it was: lowered, or raised for this very row */
        if (topics_state(relay_topics(r), topic) == TOPICS_OPEN)
            topics_ask_again(relay_topics(r), now_ms, topic, 0);
        relay_lane_goes_behind(r, now_ms, lane, why, true);
        break;
    case RELAY_FAULT_ROW:
        relay_lane_goes_behind(r, now_ms, lane, why, true);
        break;
    case RELAY_FAULT_TOPIC:
        if (topics_state(relay_topics(r), topic) == TOPICS_OPEN)
            topic_close(r, now_ms, topic, why);
        break;
    case RELAY_FAULT_NONE:
    case RELAY_FAULT_PASSING:
    case RELAY_FAULT_SESSION:
        break;
    }
}

/* Not seen since the start over: the next fetch brings it, and with it the earlier rows of its lane, which were dropped. */
static void row_return(struct relay *r, row_slot slot)
{
    if (window_id(relay_window(r), slot) > gaps_highest(relay_gaps_of(r)))
        window_abandon(relay_window(r), slot);
    else
        window_return(relay_window(r), slot);
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

void relay_on_refused(struct relay *r, uint64_t now_ms, row_slot slot, enum relay_fault why)
{
#ifdef MUTANT_MARK_BEFORE_REPORT
    return;
#endif
    row_return(r, slot);
    relay_break_session(r, RELAY_MAIN, why);
    if (why == RELAY_FAULT_SIZE)
        batches_shrink(r, window_lane(relay_window(r), slot));
    blame(r, now_ms, window_lane(relay_window(r), slot), why);
}

void relay_on_unpublished(struct relay *r, uint64_t now_ms, row_slot slot, enum relay_fault why)
{
#ifdef MUTANT_MARK_BEFORE_REPORT
    return;
#endif
    row_return(r, slot);
    if (why == RELAY_FAULT_SESSION || why == RELAY_FAULT_PASSING)
        relay_break_session(r, RELAY_MAIN, why);
    blame(r, now_ms, window_lane(relay_window(r), slot), why);
    /* Its topic may be behind already: it must not wait here and pass by the rows that are. */
    relay_behind_retake(r);
}

/* --- publishing --------------------------------------------------------------------------------------------------- */

bool relay_next_publish(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    struct window *w = relay_window(r);
    struct topics *t = relay_topics(r);
    row_slot slot;

    while (r->sessions[RELAY_MAIN].state == SESSION_READY && !r->stopping && lease_is_valid(&r->lease, now_ms) &&
           window_hand(w, now_ms, &slot)) {
        uint32_t lane = window_lane(w, slot), topic = topics_lane_topic(t, lane);
        int32_t partition = topics_partition(t, topic, window_wish(w, slot), window_spread(w, slot));

        if (topics_exists(t, topic, partition)) {
            *ret_action = (struct relay_action){.type = RELAY_PUBLISH,
                                                .slot = slot,
                                                .next_slot = window_next(w),
                                                .topic = topic,
                                                .partition = partition,
                                                .id = window_id(w, slot),
                                                .event_id = window_event_id(w, slot)};
            if (ret_action->next_slot != ROW_NO_SLOT)
                window_expect(w, ret_action->next_slot);
#ifdef MUTANT_MARK_BEFORE_REPORT
            window_ack(w, now_ms, slot);
#endif
            return true;
        }
        /* It waits until there is such a partition; so do the others of its kind, and nobody else. */
        window_return(w, slot);
        relay_lane_goes_behind(r, now_ms, lane, RELAY_FAULT_ROW, true);
        topics_ask_again(t, now_ms, topic, pace_backoff_ms(&r->pace, behind_attempts(relay_behind_of(r), lane)));
    }
    return false;
}

void relay_find_stuck(struct relay *r, uint64_t now_ms)
{
    struct window *w = relay_window(r);
    struct topics *t = relay_topics(r);
    uint32_t lane;

    while ((lane = window_find_stuck(w, now_ms, r->limits.stuck_ms)) != WINDOW_NO_LANE) {
        window_stick(w, lane);
        if (r->lease.held && !r->stopping)
            relay_lane_goes_behind(r, now_ms, lane, RELAY_FAULT_PASSING, false);
    }
    if (window_is_mostly_stuck(w) && r->sessions[RELAY_MAIN].state == SESSION_READY && !r->stopping) {
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_WINDOW_STUCK, .rows = window_handed(w)});
        relay_break_session(r, RELAY_MAIN, RELAY_FAULT_PASSING);
    }
    if (now_ms < r->unknown_ms || !r->lease.held || r->stopping)
        return;
    r->unknown_ms = now_ms + r->limits.stuck_ms;
    for (uint32_t topic = 0; topic < r->limits.topics_max; topic++) {
        if (topics_state(t, topic) == TOPICS_ASKING && topics_age(t, now_ms, topic) >= r->limits.stuck_ms &&
            !behind_is(relay_behind_of(r), relay_topic_record(r, topic)))
            relay_topic_goes_behind(r, now_ms, topic, RELAY_FAULT_PASSING);
    }
}

/* --- topics ------------------------------------------------------------------------------------------------------- */

/* When numbers run short: one whose topic has nothing left here. */
static bool forget_topic(struct relay *r, struct relay_action *ret_action)
{
    struct topics *t = relay_topics(r);
    uint32_t topic = topics_next_used(t, r->asked_topic);
    uint32_t lane;

    if (topic == TOPICS_NO_TOPIC || !behind_is_clear(relay_behind_of(r), relay_topic_record(r, topic)))
        return false;
    for (lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane)) {
        if (!window_lane_empty(relay_window(r), lane) || !behind_is_clear(relay_behind_of(r), lane))
            return false;
    }
    while ((lane = topics_first_lane(t, topic)) != TOPICS_NO_LANE)
        topics_remove_lane(t, lane);
    topics_forget(t, topic);
    *ret_action = (struct relay_action){.type = RELAY_FORGET, .topic = topic};
    return true;
}

bool relay_next_topic(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    if (r->stopping || r->database != RELAY_DATABASE_CONNECTED || !r->lease.held)
        return false;
    if (topics_used(relay_topics(r)) > r->limits.topics_max / 4 * 3 && forget_topic(r, ret_action))
        return true;
    if (r->asked_topic != TOPICS_NO_TOPIC || now_ms < topics_ask_due_ms(relay_topics(r)))
        return false;
    r->asked_topic = topics_ask(relay_topics(r), now_ms);
    if (r->asked_topic == TOPICS_NO_TOPIC)
        return false;
    *ret_action = (struct relay_action){.type = RELAY_TOPIC, .topic = r->asked_topic};
    return true;
}

void relay_topic_void(struct relay *r, uint64_t now_ms)
{
    if (r->asked_topic == TOPICS_NO_TOPIC)
        return;
    topics_answered(relay_topics(r));
    topics_ask_again(relay_topics(r), now_ms, r->asked_topic, pace_backoff_ms(&r->pace, 0));
    r->asked_topic = TOPICS_NO_TOPIC;
}

/* Rows that waited for their topic go to the lanes of their partitions. */
static void rows_place(struct relay *r, uint64_t now_ms, uint32_t topic)
{
    struct window *w = relay_window(r);
    uint32_t from = topics_find_lane(relay_topics(r), topic, TOPICS_UNPLACED);
    row_slot next;

    if (from == TOPICS_NO_LANE)
        return;
    for (row_slot slot = window_lane_first(w, from); slot != ROW_NO_SLOT; slot = next) {
        struct row row = {.topic = topic, .partition = window_wish(w, slot), .spread = window_spread(w, slot)};
        uint32_t lane = relay_lane_of(r, now_ms, &row);

        next = window_lane_after(w, slot);
        if (lane == TOPICS_NO_LANE) { /* no number is left: its rows must not pass by each other, in lanes and beside them */
            relay_topic_goes_behind(r, now_ms, topic, RELAY_FAULT_PASSING);
            return;
        }
        if (lane != from)
            window_move(w, slot, lane);
    }
}

/* A lane that is behind takes its rows back: while the topic was not known, the tail could not tell whose they were. */
static void records_place(struct relay *r, uint64_t now_ms, uint32_t topic)
{
    struct topics *t = relay_topics(r);

    for (uint32_t lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane)) {
        if (!behind_is(relay_behind_of(r), lane))
            continue;
        behind_back(relay_behind_of(r), lane, window_take(relay_window(r), lane));
        if (!topics_places(t, topic, topics_partition_of(t, lane)))
            relay_topic_instead(r, now_ms, lane);
    }
}

static void topic_open(struct relay *r, uint64_t now_ms, uint32_t topic, int32_t pinned_n, int32_t actual_n, uint32_t message_bytes_max)
{
    struct topics *t = relay_topics(r);
    bool is_new = topics_state(t, topic) != TOPICS_OPEN;
    uint32_t least_bytes, unplaced;

    topics_open(t, topic, pinned_n, actual_n, message_bytes_max);
    unplaced = topics_find_lane(t, topic, TOPICS_UNPLACED);
    if (topics_wants_place(t, topic) &&
        (unplaced == TOPICS_NO_LANE || (window_lane_empty(relay_window(r), unplaced) && !behind_is(relay_behind_of(r), unplaced))))
        topics_place(t, topic);
    rows_place(r, now_ms, topic);
    records_place(r, now_ms, topic);
    for (uint32_t lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane))
        window_lane_pause(relay_window(r), lane, false);
    r->page_dirty = true;
    if (is_new)
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_TOPIC_OPEN, .topic = topic, .rows = (uint32_t)pinned_n});
    least_bytes = topics_message_bytes_max(t);
    if (least_bytes > 0 && least_bytes < r->session_bytes) {
        /* A batch of small rows above the topic's limit would be refused for ever. */
        r->session_bytes = least_bytes;
        relay_break_session(r, RELAY_MAIN, RELAY_FAULT_PASSING);
    }
}

void relay_on_topic(struct relay *r, uint64_t now_ms, uint32_t topic, int32_t pinned_n, int32_t actual_n, uint32_t message_bytes_max)
{
    assert(topic == r->asked_topic);
    r->asked_topic = TOPICS_NO_TOPIC;
    topics_answered(relay_topics(r));
    if (actual_n <= 0 || actual_n < pinned_n)
        topic_close(r, now_ms, topic, RELAY_FAULT_TOPIC);
    else
        topic_open(r, now_ms, topic, pinned_n, actual_n, message_bytes_max);
}

uint64_t relay_publish_due_ms(const struct relay *r, uint64_t now_ms)
{
    uint64_t due_ms = window_stuck_due_ms(relay_window(r), r->limits.stuck_ms);

    if (r->sessions[RELAY_MAIN].state == SESSION_CLOSED && lease_is_valid(&r->lease, now_ms) && !r->stopping &&
        r->sessions[RELAY_MAIN].open_ms < due_ms)
        due_ms = r->sessions[RELAY_MAIN].open_ms;
    if (r->asked_topic == TOPICS_NO_TOPIC && topics_ask_due_ms(relay_topics(r)) < due_ms)
        due_ms = topics_ask_due_ms(relay_topics(r));
    return due_ms;
}
