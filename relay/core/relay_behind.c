/* SPDX-License-Identifier: BSD-2-Clause */
/* Lanes and topics go behind, so that what cannot be published holds up nothing else. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* --- going -------------------------------------------------------------------------------------------------------- */

bool relay_is_passed_by(const struct relay *r, uint32_t lane, uint32_t key, int64_t id)
{
    const struct behind *b = relay_behind_of(r);

    return behind_n(b) > 0 && ((key != KEYS_NONE && !behind_admits(b, relay_key_record(r, key), id)) || !behind_admits(b, lane, id) ||
                               !behind_admits(b, relay_topic_record(r, topics_lane_topic(relay_topics(r), lane)), id));
}

uint32_t relay_record_topic(const struct relay *r, uint32_t record)
{
    if (record < r->limits.lanes_max)
        return topics_lane_topic(relay_topics(r), record);
    record -= r->limits.lanes_max;
    return record < r->limits.topics_max ? record : keys_topic(relay_keys(r), record - r->limits.topics_max);
}

int64_t relay_lane_take(struct relay *r, uint32_t lane)
{
    struct window *w = relay_window(r);

    for (row_slot slot = window_lane_first(w, lane); slot != ROW_NO_SLOT && keys_n(relay_keys(r)) > 0; slot = window_lane_after(w, slot)) {
        uint32_t key = relay_key_of_slot(r, slot);

        if (key == KEYS_NONE)
            continue;
        keys_row_out(relay_keys(r), key);
        if (behind_is(relay_behind_of(r), relay_key_record(r, key)))
            behind_back(relay_behind_of(r), relay_key_record(r, key), window_id(w, slot));
    }
    return window_take(w, lane);
}

/* Drop what waits in the lane; from where on its rows are not in the window then. */
static int64_t lane_empty_out(struct relay *r, uint32_t lane)
{
    const struct behind *b = relay_behind_of(r);
    uint32_t topic_record = relay_topic_record(r, topics_lane_topic(relay_topics(r), lane));
    int64_t from = relay_least(relay_lane_take(r, lane), gaps_highest(relay_gaps_of(r)) + 1);

    /* What its topic's record did not admit is not in the window either. */
    return behind_is(b, topic_record) ? relay_least(from, behind_from(b, topic_record)) : from;
}

void relay_lane_goes_behind(struct relay *r, uint64_t now_ms, uint32_t lane, enum relay_fault fault, bool delayed)
{
    struct behind *b = relay_behind_of(r);
    int64_t from = lane_empty_out(r, lane);
    bool is_new, counted = behind_is(b, lane) && behind_retry_ms(b, lane) > now_ms;
    uint64_t retry_ms = now_ms;

    if (counted) /* one refused batch is one failure, however many rows it had */
        retry_ms = behind_retry_ms(b, lane);
    else if (delayed)
        retry_ms = now_ms + 1 + pace_backoff_ms(&r->pace, behind_attempts(b, lane));
    is_new = behind_go(b, lane, from, retry_ms, !counted);
    r->dirty = r->page_dirty = true;
    if (is_new)
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_LANE_BEHIND,
                                          .fault = fault,
                                          .topic = topics_lane_topic(relay_topics(r), lane),
                                          .partition = topics_partition_of(relay_topics(r), lane),
                                          .from = from});
}

void relay_topic_goes_behind(struct relay *r, uint64_t now_ms, uint32_t topic, enum relay_fault fault)
{
    struct behind *b = relay_behind_of(r);
    struct topics *t = relay_topics(r);
    int64_t from = gaps_highest(relay_gaps_of(r)) + 1;
    bool probing = false;

    for (uint32_t lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane)) {
        from = relay_least(from, relay_lane_take(r, lane));
        probing |= topics_lane_probe(t, lane) && window_lane_unacked(relay_window(r), lane) > 0;
        if (!behind_is(b, lane))
            continue;
        from = relay_least(from, behind_from(b, lane));
        behind_dissolve(b, lane);
    }
    r->dirty = r->page_dirty = true;
    if (behind_go(b, relay_topic_record(r, topic), from, now_ms, false))
        relay_note(r, (struct relay_told){
                          .note = RELAY_NOTE_TOPIC_BEHIND, .fault = fault, .topic = topic, .partition = RELAY_WHOLE_TOPIC, .from = from});
    if (probing) /* two sessions know no order: it goes on through the one that has rows of it */
        behind_probe(b, relay_topic_record(r, topic), 0);
}

void relay_topic_instead(struct relay *r, uint64_t now_ms, uint32_t lane)
{
    struct behind *b = relay_behind_of(r);
    int64_t from = behind_from(b, lane);

    behind_dissolve(b, lane);
    (void)behind_go(b, relay_topic_record(r, topics_lane_topic(relay_topics(r), lane)), from, now_ms, false);
}

void relay_behind_retake(struct relay *r)
{
    struct behind *b = relay_behind_of(r);
    struct topics *t = relay_topics(r);

    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        if (!behind_is(b, record) || relay_is_key_record(r, record))
            continue;
        if (record < r->limits.lanes_max) {
            behind_back(b, record, relay_lane_take(r, record));
            continue;
        }
        for (uint32_t lane = topics_first_lane(t, record - r->limits.lanes_max); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane)) {
            if (!behind_is(b, lane))
                behind_back(b, record, relay_lane_take(r, lane));
        }
    }
}
