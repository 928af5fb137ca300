/* SPDX-License-Identifier: BSD-2-Clause */
/* Catching up: pages bring the rows of what is behind when they can be published. One page serves all records of a topic. What may be
 * refused comes through the probe lanes, a few rows at a time. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* --- who may catch up --------------------------------------------------------------------------------------------- */

static bool lane_is_clear(const struct relay *r, uint32_t lane)
{
    return lane == TOPICS_NO_LANE || window_lane_unacked(relay_window(r), lane) == 0;
}

static bool topic_is_clear(const struct relay *r, uint32_t topic)
{
    const struct topics *t = relay_topics(r);

    for (uint32_t lane = topics_first_lane(t, topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane)) {
        if (!lane_is_clear(r, lane))
            return false;
    }
    return true;
}

/* Is nothing of it under way whose outcome must be known first? */
static bool record_is_free(const struct relay *r, uint32_t record)
{
    const struct behind *b = relay_behind_of(r);

    if (relay_is_key_record(r, record)) /* what stops all of a topic has precedence over what stops one key */
        return keys_idle(relay_keys(r), record - relay_key_record(r, 0)) &&
               !behind_probes(b, relay_topic_record(r, relay_record_topic(r, record)));
    if (behind_probes(b, record))
        return record < r->limits.lanes_max ? lane_is_clear(r, record) && lane_is_clear(r, relay_lane_probe(r, record))
                                            : topic_is_clear(r, relay_record_topic(r, record));
    return !behind_suspect(b, record) || window_lane_empty(relay_window(r), record); /* a topic that is suspect is probed */
}

static bool record_may_go_on(const struct relay *r, uint64_t now_ms, uint32_t record)
{
    return behind_is(relay_behind_of(r), record) && now_ms >= behind_retry_ms(relay_behind_of(r), record) &&
           topics_state(relay_topics(r), relay_record_topic(r, record)) == TOPICS_OPEN && record_is_free(r, record);
}

/* Could a page bring rows of this record into the window, and are they wanted there? */
static bool record_is_eligible(const struct relay *r, uint64_t now_ms, uint32_t record)
{
    const struct window *w = relay_window(r);

    if (behind_from(relay_behind_of(r), record) > gaps_highest(relay_gaps_of(r)) || !record_may_go_on(r, now_ms, record))
        return false;
    return record >= r->limits.lanes_max || behind_suspect(relay_behind_of(r), record) ||
           (!window_lane_stuck(w, record) && window_lane_queued(w, record) < r->limits.lane_rows);
}

static void record_tell_live(struct relay *r, uint32_t record)
{
    bool is_lane = record < r->limits.lanes_max;

    relay_note(r, (struct relay_told){.note = is_lane                          ? RELAY_NOTE_LANE_LIVE
                                              : relay_is_key_record(r, record) ? RELAY_NOTE_KEY_LIVE
                                                                               : RELAY_NOTE_TOPIC_LIVE,
                                      .topic = relay_record_topic(r, record),
                                      .partition = is_lane ? topics_partition_of(relay_topics(r), record) : RELAY_WHOLE_TOPIC});
}

/* A record that has caught up with the highest id seen is live again, if there is reason to believe that its rows go through. */
static void records_go_live(struct relay *r, uint64_t now_ms)
{
    struct behind *b = relay_behind_of(r);

    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        if (!behind_is(b, record))
            continue;
        if (record < r->limits.lanes_max)
            relay_suspicion_ends(r, record, false);
        if (behind_from(b, record) <= gaps_highest(relay_gaps_of(r)) || !record_may_go_on(r, now_ms, record))
            continue;
        behind_catch_up(b, record);
        r->dirty = true;
        record_tell_live(r, record);
    }
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

/* The topic whose turn it is: the first with an eligible record after the one that had the last page. Also notes when it should be looked
 * for again though nothing happens. */
static uint32_t page_topic(struct relay *r, uint64_t now_ms)
{
    const struct behind *b = relay_behind_of(r);
    uint32_t next = TOPICS_NO_TOPIC, first = TOPICS_NO_TOPIC;

    r->page_due_ms = UINT64_MAX;
    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        uint32_t topic;

        if (behind_is(b, record) && behind_retry_ms(b, record) > now_ms && behind_retry_ms(b, record) < r->page_due_ms)
            r->page_due_ms = behind_retry_ms(b, record);
        if (!record_is_eligible(r, now_ms, record))
            continue;
        topic = relay_record_topic(r, record);
        if (topic < first)
            first = topic;
        if ((r->page_last_topic == TOPICS_NO_TOPIC || topic > r->page_last_topic) && topic < next)
            next = topic;
    }
    return next != TOPICS_NO_TOPIC ? next : first;
}

/* Every eligible record of the topic joins; returns the lowest id from which one of them needs the page. `ret_few`: all of them take a few
 * rows only. */
static int64_t page_gather(struct relay *r, uint64_t now_ms, uint32_t topic, bool *ret_few)
{
    struct behind *b = relay_behind_of(r);
    int64_t from = INT64_MAX;

    *ret_few = true;
    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        if (!record_is_eligible(r, now_ms, record) || relay_record_topic(r, record) != topic) {
            behind_page_leave(b, record);
            continue;
        }
        behind_page_join(b, record);
        from = relay_least(from, behind_from(b, record));
        *ret_few &= behind_suspect(b, record);
    }
    return from;
}

/* Rows that a page asks for when each record of it takes a few only. */
enum {
    FEW_ROWS = 200
};

bool relay_next_page(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    int64_t from, highest = gaps_highest(relay_gaps_of(r));
    bool few;
    uint32_t topic, rows = r->limits.fetch_rows, room = window_room_rows(relay_window(r));

    if (behind_n(relay_behind_of(r)) == 0 || (!r->page_dirty && now_ms < r->page_due_ms) || !relay_has_room(r))
        return false;
    records_go_live(r, now_ms);
    topic = page_topic(r, now_ms);
    r->page_dirty = topic != TOPICS_NO_TOPIC;
    if (topic == TOPICS_NO_TOPIC)
        return false;
    from = page_gather(r, now_ms, topic, &few);
    if (few && rows > FEW_ROWS)
        rows = FEW_ROWS;
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

/* --- taking ------------------------------------------------------------------------------------------------------- */

/* The records that a row belongs to. */
struct page_row {
    const struct row *row;
    uint32_t lane, topic_record, key, key_record;
};

static struct page_row page_row_of(struct relay *r, uint64_t now_ms, const struct row *row)
{
    struct page_row p = {.row = row, .lane = relay_lane_of(r, now_ms, row), .key_record = BEHIND_NONE};

    p.topic_record = relay_topic_record(r, row->topic);
    p.key = relay_key_of(r, row);
    if (p.key != KEYS_NONE)
        p.key_record = relay_key_record(r, p.key);
    return p;
}

static bool page_has(const struct relay *r, uint32_t record, int64_t id)
{
    return record != BEHIND_NONE && behind_page_has(relay_behind_of(r), record) && id >= behind_from(relay_behind_of(r), record);
}

static bool passed_by(const struct relay *r, uint32_t record, int64_t id)
{
    return record != BEHIND_NONE && !behind_admits(relay_behind_of(r), record, id) && !behind_page_has(relay_behind_of(r), record);
}

/* The records that take part and would go one step too far stop before this row. */
static void page_stop(struct relay *r, const struct page_row *p)
{
    const uint32_t records[] = {p->key_record, p->lane, p->topic_record};
    struct behind *b = relay_behind_of(r);

    for (unsigned i = 0; i < sizeof records / sizeof *records; i++) {
        if (page_has(r, records[i], p->row->id))
            behind_page_move(b, records[i], p->row->id);
    }
}

/* Is this row one too many for what goes a few rows at a time? */
static bool page_is_full(const struct relay *r, const struct page_row *p)
{
    const struct behind *b = relay_behind_of(r);
    const struct window *w = relay_window(r);
    uint32_t probe = relay_lane_probe(r, p->lane);
    uint32_t probing = probe == TOPICS_NO_LANE ? 0 : window_lane_unacked(w, probe);

    if (page_has(r, p->key_record, p->row->id) && !keys_idle(relay_keys(r), p->key))
        return true;
    if (page_has(r, p->topic_record, p->row->id) && behind_probes(b, p->topic_record))
        return !topic_is_clear(r, p->row->topic);
    if (!page_has(r, p->lane, p->row->id))
        return false;
    if (behind_probes(b, p->lane) && topics_partition_of(relay_topics(r), p->lane) != TOPICS_UNPLACED)
        return probe != TOPICS_NO_LANE && probing >= window_lane_share(w, probe);
    return behind_suspect(b, p->lane) && !window_lane_empty(w, p->lane);
}

/* What stops all of a lane has precedence over what stops one key: a key whose lane is probed is tried again later. */
static bool key_gives_way(struct relay *r, uint64_t now_ms, const struct page_row *p)
{
    struct behind *b = relay_behind_of(r);

    if (!page_has(r, p->key_record, p->row->id) || !behind_probes(b, p->lane) ||
        topics_partition_of(relay_topics(r), p->lane) == TOPICS_UNPLACED)
        return false;
    behind_page_move(b, p->key_record, p->row->id);
    behind_wait(b, p->key_record, now_ms + 1 + pace_backoff_ms(&r->pace, 0));
    return true;
}

/* The row into the window, if it is wanted now. Returns false if there is no room: the page ends before it. */
static bool page_take_row(struct relay *r, uint64_t now_ms, const struct page_row *p, const struct relay_read *read, row_slot *ret_slot)
{
    int64_t id = p->row->id;
    uint32_t to;

    if (passed_by(r, p->lane, id) || passed_by(r, p->topic_record, id)) {
        /* It comes with those; its key must not go past it. */
        if (page_has(r, p->key_record, id))
            behind_page_move(relay_behind_of(r), p->key_record, id);
        return true;
    }
    if (passed_by(r, p->key_record, id) || key_gives_way(r, now_ms, p))
        return true;
    if (window_knows(relay_window(r), p->row))
        return true;
    if (page_is_full(r, p)) {
        page_stop(r, p);
        return true;
    }
#ifndef MUTANT_PAGE_TAKES_GAP
    if (gaps_open_at(relay_gaps_of(r), id))
        return true; /* an earlier row of its transaction may lie below: the next fetch brings both */
#endif
    /* A live lane's row that is not in the window was lost by somebody's mistake, or its partition's lane changed: take it. */
    to = relay_lane_to(r, p->lane, p->key);
    if (to == TOPICS_NO_LANE)
        return false;
    if (to != p->lane && !page_has(r, p->key_record, id) && !page_has(r, p->lane, id) && !page_has(r, p->topic_record, id))
        return true; /* but not past rows that are on their way through the main session: the patrol finds it later */
    *ret_slot = relay_row_admit(r, p->row, to, p->key, read);
    return true;
}

/* Rows of one page, in id order, into the window while there is room. Returns the id up to which the page counts. */
static int64_t page_take(struct relay *r, uint64_t now_ms, const struct relay_read *read, row_slot *ret_slots)
{
    const struct window *w = relay_window(r);

    for (uint32_t i = 0; i < read->rows_n; i++) {
        struct page_row p = page_row_of(r, now_ms, &read->rows[i]);

        if (p.lane == TOPICS_NO_LANE || window_room_rows(w) == 0 || window_room_bytes(w) == 0 ||
            !page_take_row(r, now_ms, &p, read, &ret_slots[i]))
            return read->rows[i].id - 1;
    }
    return read->upto;
}

void relay_on_caught_up(struct relay *r, uint64_t now_ms, const struct relay_read *read, row_slot *ret_slots)
{
    struct behind *b = relay_behind_of(r);
    int64_t upto;

    assert(r->reading == RELAY_READING_PAGE);
    for (uint32_t i = 0; i < read->rows_n; i++)
        ret_slots[i] = ROW_NO_SLOT;
    if (!relay_read_counts(r, now_ms, read->token) || r->stopping) {
        window_forget(relay_window(r));
        return;
    }
    upto = relay_least(page_take(r, now_ms, read, ret_slots), r->page_upto);
    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        if (behind_page_has(b, record) && relay_record_topic(r, record) == r->page_topic && upto >= behind_from(b, record))
            behind_page_move(b, record, upto + 1);
    }
    relay_read_flushed(r, read);
    window_forget(relay_window(r));
    r->page_topic = TOPICS_NO_TOPIC;
    r->dirty = true;
}
