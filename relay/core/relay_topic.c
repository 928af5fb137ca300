/* SPDX-License-Identifier: BSD-2-Clause */
/* The topics that rows go to: what is known of them, and the breaker that closes them. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* --- closing ------------------------------------------------------------------------------------------------------ */

void relay_topic_close(struct relay *r, uint64_t now_ms, uint32_t topic, enum relay_fault fault)
{
    struct topics *t = relay_topics(r);

    /* While it is probed, nobody was told that it was open again. */
    if (topics_state(t, topic) != TOPICS_CLOSED && !behind_probes(relay_behind_of(r), relay_topic_record(r, topic)))
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_TOPIC_CLOSED, .topic = topic, .fault = fault});
    topics_close(t, now_ms, topic, 1 + pace_backoff_ms(&r->pace, topics_attempts(t, topic)));
    for (uint32_t lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane))
        window_lane_pause(relay_window(r), lane, true);
    relay_topic_goes_behind(r, now_ms, topic, fault);
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
    for (uint32_t key = 0; key < keys_top(relay_keys(r)); key++) {
        if (keys_used(relay_keys(r), key) && keys_topic(relay_keys(r), key) == topic)
            return false;
    }
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
    if (topics_used(relay_topics(r)) > r->limits.topics_max / 4 * 3 && !r->patrol_waits && forget_topic(r, ret_action))
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
        behind_back(relay_behind_of(r), lane, relay_lane_take(r, lane));
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
    if (is_new && !behind_probes(relay_behind_of(r), relay_topic_record(r, topic)))
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
        relay_topic_close(r, now_ms, topic, RELAY_FAULT_TOPIC);
    else
        topic_open(r, now_ms, topic, pinned_n, actual_n, message_bytes_max);
}
