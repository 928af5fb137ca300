/* SPDX-License-Identifier: BSD-2-Clause */
/* Lanes and topics go behind, so that what cannot be published holds up nothing else; pages bring their rows when it can. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* --- going -------------------------------------------------------------------------------------------------------- */

uint32_t relay_record_over(const struct relay *r, uint32_t lane, int64_t id)
{
    uint32_t topic_record = relay_topic_record(r, topics_lane_topic(relay_topics(r), lane));

    if (!behind_admits(relay_behind_of(r), lane, id))
        return lane;
    return behind_admits(relay_behind_of(r), topic_record, id) ? BEHIND_NONE : topic_record;
}

/* Drop what waits in the lane; from where on its rows are not in the window then. */
static int64_t lane_empty_out(struct relay *r, uint32_t lane)
{
    const struct behind *b = relay_behind_of(r);
    uint32_t topic_record = relay_topic_record(r, topics_lane_topic(relay_topics(r), lane));
    int64_t from = relay_least(window_take(relay_window(r), lane), gaps_highest(relay_gaps_of(r)) + 1);

    /* What its topic's record did not admit is not in the window either. */
    return behind_is(b, topic_record) ? relay_least(from, behind_from(b, topic_record)) : from;
}

void relay_lane_goes_behind(struct relay *r, uint64_t now_ms, uint32_t lane, enum relay_fault fault, bool refused)
{
    struct behind *b = relay_behind_of(r);
    int64_t from = lane_empty_out(r, lane);
    bool is_new, counted = behind_is(b, lane) && behind_retry_ms(b, lane) > now_ms;
    uint64_t retry_ms = now_ms;

    if (counted) /* one refused batch is one failure, however many rows it had */
        retry_ms = behind_retry_ms(b, lane);
    else if (refused)
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

    for (uint32_t lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane)) {
        from = relay_least(from, window_take(relay_window(r), lane));
        if (!behind_is(b, lane))
            continue;
        from = relay_least(from, behind_from(b, lane));
        behind_dissolve(b, lane);
    }
    r->dirty = r->page_dirty = true;
    if (behind_go(b, relay_topic_record(r, topic), from, now_ms, false))
        relay_note(r, (struct relay_told){
                          .note = RELAY_NOTE_TOPIC_BEHIND, .fault = fault, .topic = topic, .partition = RELAY_WHOLE_TOPIC, .from = from});
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
        if (!behind_is(b, record))
            continue;
        if (record < r->limits.lanes_max) {
            behind_back(b, record, window_take(relay_window(r), record));
            continue;
        }
        for (uint32_t lane = topics_first_lane(t, record - r->limits.lanes_max); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane)) {
            if (!behind_is(b, lane))
                behind_back(b, record, window_take(relay_window(r), lane));
        }
    }
}

/* --- pages -------------------------------------------------------------------------------------------------------- */

static uint32_t record_topic(const struct relay *r, uint32_t record)
{
    return record < r->limits.lanes_max ? topics_lane_topic(relay_topics(r), record) : record - r->limits.lanes_max;
}

/* Could a page bring rows of this record into the window, and are they wanted there? */
static bool record_is_eligible(const struct relay *r, uint64_t now_ms, uint32_t record)
{
    const struct behind *b = relay_behind_of(r);
    const struct window *w = relay_window(r);

    if (!behind_is(b, record) || behind_from(b, record) > gaps_highest(relay_gaps_of(r)) || now_ms < behind_retry_ms(b, record) ||
        topics_state(relay_topics(r), record_topic(r, record)) != TOPICS_OPEN)
        return false;
    if (record >= r->limits.lanes_max)
        return true;
    if (behind_suspect(b, record))
        return window_lane_empty(w, record);
    return !window_lane_stuck(w, record) && window_lane_queued(w, record) < r->limits.lane_rows;
}

/* A record that has caught up with the highest id seen is live again, if there is reason to believe that its rows go through. */
static bool record_is_live_again(const struct relay *r, uint64_t now_ms, uint32_t record)
{
    const struct behind *b = relay_behind_of(r);

    if (!behind_is(b, record) || behind_from(b, record) <= gaps_highest(relay_gaps_of(r)) || now_ms < behind_retry_ms(b, record) ||
        topics_state(relay_topics(r), record_topic(r, record)) != TOPICS_OPEN)
        return false;
    return record >= r->limits.lanes_max || !behind_suspect(b, record) || window_lane_empty(relay_window(r), record);
}

static void records_go_live(struct relay *r, uint64_t now_ms)
{
    struct behind *b = relay_behind_of(r);

    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        bool is_lane = record < r->limits.lanes_max;

        if (!record_is_live_again(r, now_ms, record))
            continue;
        behind_catch_up(b, record);
        r->dirty = true;
        relay_note(r, (struct relay_told){.note = is_lane ? RELAY_NOTE_LANE_LIVE : RELAY_NOTE_TOPIC_LIVE,
                                          .topic = record_topic(r, record),
                                          .partition = is_lane ? topics_partition_of(relay_topics(r), record) : RELAY_WHOLE_TOPIC});
    }
}

/* The topic whose turn it is: the first with an eligible record after the one that had the last page. Also notes when it should be looked
 * for again though nothing happens. */
static uint32_t page_topic(struct relay *r, uint64_t now_ms)
{
    const struct behind *b = relay_behind_of(r);
    uint32_t next = TOPICS_NO_TOPIC, first = TOPICS_NO_TOPIC;

    r->page_due_ms = UINT64_MAX;
    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        uint32_t topic = record_topic(r, record);

        if (behind_is(b, record) && behind_retry_ms(b, record) > now_ms && behind_retry_ms(b, record) < r->page_due_ms)
            r->page_due_ms = behind_retry_ms(b, record);
        if (!record_is_eligible(r, now_ms, record))
            continue;
        if (topic < first)
            first = topic;
        if ((r->page_last_topic == TOPICS_NO_TOPIC || topic > r->page_last_topic) && topic < next)
            next = topic;
    }
    return next != TOPICS_NO_TOPIC ? next : first;
}

/* One page serves every record of a topic: whether it joins, and the lowest id from which one of them needs it. */
static int64_t page_gather(struct relay *r, uint64_t now_ms, uint32_t topic, bool *ret_suspects_only)
{
    struct behind *b = relay_behind_of(r);
    struct topics *t = relay_topics(r);
    uint32_t record = relay_topic_record(r, topic), lane = topics_first_lane(t, topic);
    int64_t from = INT64_MAX;

    *ret_suspects_only = true;
    for (;;) {
        if (record_is_eligible(r, now_ms, record)) {
            behind_page_join(b, record);
            from = relay_least(from, behind_from(b, record));
            *ret_suspects_only &= record == lane && behind_suspect(b, record);
        } else {
            behind_page_leave(b, record);
        }
        if (record == lane)
            lane = topics_next_lane(t, lane);
        if (lane == TOPICS_NO_LANE)
            return from;
        record = lane;
    }
}

/* Rows that a page asks for when each lane of it takes one row only. */
enum {
    SUSPECTS_PAGE_ROWS = 200
};

bool relay_next_page(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    int64_t from, highest = gaps_highest(relay_gaps_of(r));
    bool suspects_only;
    uint32_t topic, rows = r->limits.fetch_rows, room = window_room_rows(relay_window(r));

    if (behind_n(relay_behind_of(r)) == 0 || (!r->page_dirty && now_ms < r->page_due_ms) || !relay_has_room(r))
        return false;
    records_go_live(r, now_ms);
    topic = page_topic(r, now_ms);
    r->page_dirty = topic != TOPICS_NO_TOPIC;
    if (topic == TOPICS_NO_TOPIC)
        return false;
    from = page_gather(r, now_ms, topic, &suspects_only);
    if (suspects_only && rows > SUSPECTS_PAGE_ROWS)
        rows = SUSPECTS_PAGE_ROWS;
    r->page_topic = r->page_last_topic = topic;
    r->page_upto = relay_least(highest, from + (int64_t)r->limits.page_ids - 1);
    r->reading = RELAY_READING_PAGE;
    *ret_action = (struct relay_action){.type = RELAY_CATCH_UP,
                                        .topic = topic,
                                        .from = from,
                                        .upto = r->page_upto,
                                        .rows = rows < room ? rows : room,
                                        .bytes = relay_read_bytes(r)};
    return true;
}
