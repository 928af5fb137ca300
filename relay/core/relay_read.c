/* SPDX-License-Identifier: BSD-2-Clause */
/* The lease, the reads that it allows, and what they bring. */
#include <assert.h>
#include <string.h>

#include "relay/core/relay_state.h"

/* --- the lease ---------------------------------------------------------------------------------------------------- */

void relay_start_over(struct relay *r, uint64_t now_ms, bool lease_was_lost)
{
    if (r->lease.held)
        relay_note(r, (struct relay_told){.note = lease_was_lost ? RELAY_NOTE_LEASE_LOST : RELAY_NOTE_START_OVER});
    window_start_over(relay_window(r));
    gaps_reset(relay_gaps_of(r), 0);
    behind_reset(relay_behind_of(r));
    keys_reset(relay_keys(r));
    lease_lost(&r->lease, now_ms, false);
    r->read_void = r->reading != RELAY_READING_NOTHING;
    r->flush_void = r->flushing;
    r->save_void = r->saving;
    r->idle = r->dirty = false;
    r->page_topic = TOPICS_NO_TOPIC;
}

/* A lane with nothing in it gives its number away; it costs no more than a cold start when it comes back. */
static uint32_t free_lane_number(struct relay *r)
{
    uint32_t top = topics_lanes_top(relay_topics(r));

    for (uint32_t i = 0; i < top; i++) {
        uint32_t lane = r->idle_lane++ % top;

        if (topics_lane_used(relay_topics(r), lane) && window_lane_empty(relay_window(r), lane) &&
            behind_is_clear(relay_behind_of(r), lane)) {
            topics_remove_lane(relay_topics(r), lane);
            return lane;
        }
    }
    return TOPICS_NO_LANE;
}

uint32_t relay_lane_numbered(struct relay *r, uint32_t topic, int32_t partition, bool probe)
{
    struct topics *t = relay_topics(r);
    uint32_t lane = (probe ? topics_find_probe : topics_find_lane)(t, topic, partition);

    if (lane != TOPICS_NO_LANE)
        return lane;
    lane = (probe ? topics_add_probe : topics_add_lane)(t, topic, partition);
    if (lane == TOPICS_NO_LANE && free_lane_number(r) != TOPICS_NO_LANE)
        lane = (probe ? topics_add_probe : topics_add_lane)(t, topic, partition);
    if (lane == TOPICS_NO_LANE)
        return lane;
    window_lane_open(relay_window(r), lane, partition == TOPICS_UNPLACED, probe);
    window_lane_pause(relay_window(r), lane, topics_state(t, topic) != TOPICS_OPEN);
    return lane;
}

/* Bring a saved record back for its lane or topic. */
static void record_load(struct relay *r, uint64_t now_ms, const struct relay_behind *saved)
{
    uint32_t lane;

    topics_use(relay_topics(r), now_ms, saved->topic);
    if (saved->key_hash != 0) {
        relay_key_load(r, now_ms, saved);
        return;
    }
    if (saved->partition == RELAY_WHOLE_TOPIC) {
        behind_load(relay_behind_of(r), relay_topic_record(r, saved->topic), saved->first_id, 0);
        return;
    }
    lane = relay_lane_numbered(r, saved->topic, saved->partition, false);
    if (lane == TOPICS_NO_LANE) { /* the record of its topic covers it; the saved one is found again at the next start */
        (void)behind_go(relay_behind_of(r), relay_topic_record(r, saved->topic), saved->first_id, now_ms, false);
        return;
    }
    behind_load(relay_behind_of(r), lane, saved->first_id, 0);
    /* Unplaced: partitions may have been added since, nobody can tell which lanes its rows are of. Or its rows go elsewhere now. */
    if (saved->partition == TOPICS_UNPLACED || !topics_places(relay_topics(r), saved->topic, saved->partition))
        relay_topic_instead(r, now_ms, lane);
}

/* Lanes that stuck while the lease was not ours: their rows must not fill the window now. */
static void stuck_lanes_go_behind(struct relay *r, uint64_t now_ms)
{
    for (uint32_t lane = 0; lane < topics_lanes_top(relay_topics(r)); lane++) {
        if (topics_lane_used(relay_topics(r), lane) && window_lane_stuck(relay_window(r), lane) &&
            !topics_lane_probe(relay_topics(r), lane) && !behind_is(relay_behind_of(r), lane))
            relay_lane_goes_behind(r, now_ms, lane, RELAY_FAULT_PASSING, false);
    }
}

/* Rows are on their way through the probe session still, and nobody remembers why: their lanes go on there, since two sessions know no
 * order. */
static void probed_lanes_go_behind(struct relay *r, uint64_t now_ms)
{
    struct topics *t = relay_topics(r);

    for (uint32_t lane = 0; lane < topics_lanes_top(t); lane++) {
        uint32_t main_lane;

        if (!topics_lane_used(t, lane) || !topics_lane_probe(t, lane) || window_lane_unacked(relay_window(r), lane) == 0)
            continue;
        main_lane = relay_lane_numbered(r, topics_lane_topic(t, lane), topics_partition_of(t, lane), false);
        if (main_lane == TOPICS_NO_LANE) {
            relay_topic_goes_behind(r, now_ms, topics_lane_topic(t, lane), RELAY_FAULT_PASSING);
            behind_probe(relay_behind_of(r), relay_topic_record(r, topics_lane_topic(t, lane)), 0);
            continue;
        }
        relay_lane_goes_behind(r, now_ms, main_lane, RELAY_FAULT_PASSING, false);
        behind_probe(relay_behind_of(r), main_lane, 0);
    }
}

void relay_on_holder(struct relay *r, uint64_t now_ms, int64_t beat, uint64_t beat_ttl_ms)
{
    lease_seen(&r->lease, now_ms, beat, beat_ttl_ms);
}

void relay_on_lease(struct relay *r, uint64_t now_ms, uint64_t asked_at_ms, const struct relay_saved *saved)
{
    r->connect_attempts = 0;
    if (lease_answer_is_stale(&r->lease))
        return;
    if (saved == NULL) {
        lease_refused(&r->lease, now_ms);
        return;
    }
    lease_granted(&r->lease, asked_at_ms, saved->token);
    gaps_reset(relay_gaps_of(r), saved->floor);
    behind_reset(relay_behind_of(r));
    keys_reset(relay_keys(r));
    for (uint32_t i = 0; i < saved->behind_n; i++)
        record_load(r, now_ms, &saved->behind[i]);
    stuck_lanes_go_behind(r, now_ms);
#ifndef MUTANT_OVER_FORGETS_PROBES
    probed_lanes_go_behind(r, now_ms);
#endif
    r->floor = saved->floor;
    r->settled_upto = saved->last_id;
    r->settled_none = 0;
    r->settled_seen = false;
    if (saved->incarnation_lost)
        relay_marks_again(r);
    r->marks_first = window_acked(relay_window(r)) > 0 || r->marking || r->again_n > 0;
    r->dirty = true;
    r->page_dirty = true;
    pace_read_now(&r->pace, now_ms);
    relay_patrol_restart(r, now_ms);
    relay_note(r, (struct relay_told){.note = RELAY_NOTE_LEASE_HELD, .from = saved->floor});
    if (saved->floor_reset)
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_FLOOR_RESET});
}

void relay_on_beaten(struct relay *r, uint64_t now_ms, uint64_t asked_at_ms, bool held, struct relay_token token, int64_t last_id)
{
    if (lease_answer_is_stale(&r->lease))
        return;
    lease_kept(&r->lease, asked_at_ms);
    /* A fetch on another connection may have seen ids that were drawn after the beat had read the sequence. */
    if (!held)
        relay_start_over(r, now_ms, true);
    else if (!lease_has(&r->lease, token) || last_id < r->beat_highest)
        relay_start_over(r, now_ms, false);
}

/* --- lanes of rows ------------------------------------------------------------------------------------------------ */

uint32_t relay_lane_of(struct relay *r, uint64_t now_ms, const struct row *row)
{
    struct topics *t = relay_topics(r);
    int32_t partition;
    uint32_t lane;

    topics_use(t, now_ms, row->topic);
    partition = topics_lane_partition(t, row->topic, row->partition, row->spread);
    lane = topics_find_lane(t, row->topic, partition);
    return lane != TOPICS_NO_LANE ? lane : relay_lane_numbered(r, row->topic, partition, false);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

bool relay_has_room(const struct relay *r)
{
    const struct relay_limits *l = &r->limits;
    uint32_t rows = l->fetch_rows < l->window_rows / 4 ? l->fetch_rows : l->window_rows / 4;
    uint64_t bytes = l->fetch_bytes < l->window_bytes / 4 ? l->fetch_bytes : l->window_bytes / 4;

    /* While marks are behind, more rows would only wait, and get cold. */
    if (window_acked(relay_window(r)) >= l->mark_rows)
        return false;
    /* A quarter of a small window will do: rows of stuck lanes may hold half of it. */
    return window_room_rows(relay_window(r)) >= (rows > 0 ? rows : 1) && window_room_bytes(relay_window(r)) >= bytes;
}

uint64_t relay_read_bytes(const struct relay *r)
{
    uint64_t room = window_room_bytes(relay_window(r));

    return r->limits.fetch_bytes < room ? r->limits.fetch_bytes : room;
}

static bool fetch_is_due(const struct relay *r, uint64_t now_ms)
{
    return !r->marks_first && (now_ms >= pace_read_due_ms(&r->pace) || (gaps_wants_read(relay_gaps_of(r)) && r->read_attempts == 0));
}

/* Settled rows are asked for as long as they come, because a read that brings them too is dearer. After so many reads without any they are
 * left to be gaps, until a read leaves so many gaps that settled rows must be among them. */
enum {
    SETTLED_NONE = 2
};

static void settled_learn(struct relay *r, bool any_settled)
{
    if (r->read_settled) {
        r->settled_seen = any_settled;
        r->settled_none = any_settled ? 0 : r->settled_none + 1;
    } else if (gaps_n(relay_gaps_of(r)) > r->read_gaps_n + r->read_rows / 4) {
        r->settled_none = 0;
    }
}

static void fetch_begin(struct relay *r, struct relay_action *ret_action)
{
    struct gaps *g = relay_gaps_of(r);
    int64_t highest = gaps_highest(g);
    bool settled_too = r->settled_upto > highest && r->settled_none < SETTLED_NONE;
    uint32_t wanted = settled_too && r->settled_seen ? r->limits.settled_rows : r->limits.fetch_rows;
    uint32_t room = window_room_rows(relay_window(r));

    r->read_settled = settled_too;
    r->read_gaps_n = gaps_n(g);
    r->read_rows = wanted < room ? wanted : room;
    if (gaps_full(g, r->read_rows) && r->read_full)
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_GAPS_FULL});
    r->read_full = !gaps_full(g, r->read_rows);
#ifdef MUTANT_TAIL_ALONE
    r->gaps_alone = !r->gaps_alone;
    r->read_full = !r->gaps_alone;
#endif
    gaps_read_begin(g);
    r->reading = RELAY_READING_FETCH;
    *ret_action = (struct relay_action){.type = RELAY_FETCH,
                                        .from = r->read_full ? highest : INT64_MAX,
                                        .settled_upto = settled_too ? r->settled_upto : 0,
                                        .rows = r->read_rows,
                                        .bytes = relay_read_bytes(r)};
}

uint32_t relay_gaps(const struct relay *r, const int64_t **ret_firsts, const int64_t **ret_lasts)
{
    uint32_t n = gaps_ranges(relay_gaps_of(r), ret_firsts, ret_lasts);

#ifdef MUTANT_TAIL_ALONE
    if (!r->gaps_alone)
        return 0;
#endif
    return n;
}

static bool writers_are_due(const struct relay *r, uint64_t now_ms)
{
    return now_ms >= r->writers_ms && gaps_wants_writers(relay_gaps_of(r), now_ms, r->limits.gap_age_ms);
}

bool relay_next_read(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    bool fetch_due, is_page;

    if (r->database != RELAY_DATABASE_CONNECTED || r->reading != RELAY_READING_NOTHING || r->stopping || !lease_is_valid(&r->lease, now_ms))
        return false;
    r->read_void = false;
    if (writers_are_due(r, now_ms)) {
        gaps_writers_begin(relay_gaps_of(r));
        r->writers_asked_ms = now_ms;
        r->reading = RELAY_READING_WRITERS;
        *ret_action = (struct relay_action){.type = RELAY_WRITERS};
        return true;
    }
    if (!r->marks_first && r->read_attempts == 0 && relay_next_patrol(r, now_ms, ret_action))
        return true;
    fetch_due = fetch_is_due(r, now_ms);
    if (r->read_attempts > 0 && !fetch_due) /* a read failed: the others of its kind wait as long */
        return false;
    is_page = (r->page_next || !fetch_due) && !r->marks_first && relay_next_page(r, now_ms, ret_action);
    if (!is_page && (!fetch_due || !relay_has_room(r)))
        return false;
    if (!is_page)
        fetch_begin(r, ret_action);
    r->page_next = !is_page;
    pace_read_sent(&r->pace, now_ms);
    return true;
}

uint64_t relay_read_due_ms(const struct relay *r)
{
    uint64_t due_ms = pace_read_due_ms(&r->pace), writers_ms = gaps_wants_writers_due_ms(relay_gaps_of(r), r->limits.gap_age_ms);

    if (r->reading != RELAY_READING_NOTHING)
        return UINT64_MAX;
    if (writers_ms != UINT64_MAX && writers_ms < r->writers_ms)
        writers_ms = r->writers_ms;
    if (r->marks_first || !relay_has_room(r))
        due_ms = UINT64_MAX;
    if (!r->marks_first && r->read_attempts == 0 && r->patrol_ms < due_ms)
        due_ms = r->patrol_ms;
    if (writers_ms < due_ms)
        due_ms = writers_ms;
    return behind_n(relay_behind_of(r)) > 0 && r->page_due_ms < due_ms ? r->page_due_ms : due_ms;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void slots_clear(row_slot *slots, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        slots[i] = ROW_NO_SLOT;
}

/* A row of a gap that shows below `from` of what goes one row at a time: that goes back to it, and a page brings it in its turn. */
static bool row_goes_back(struct relay *r, uint32_t lane, uint32_t key, int64_t id)
{
    struct behind *b = relay_behind_of(r);
    uint32_t topic_record = relay_topic_record(r, topics_lane_topic(relay_topics(r), lane));
    bool back = false;

    if (behind_n(b) == 0)
        return false;
    if (key != KEYS_NONE && behind_is(b, relay_key_record(r, key))) {
        behind_back(b, relay_key_record(r, key), id);
        back = true;
    }
    if (behind_probes(b, lane)) {
        behind_back(b, lane, id);
        back = true;
    }
    if (behind_probes(b, topic_record)) {
        behind_back(b, topic_record, id);
        back = true;
    }
    return back;
}

row_slot relay_row_admit(struct relay *r, const struct row *row, uint32_t lane, uint32_t key, const struct relay_read *read)
{
    if (key != KEYS_NONE)
        keys_rows_in(relay_keys(r), key, 1);
    return window_admit(relay_window(r), row, lane, r->limits.durability != RELAY_DURABILITY_OFF ? read->insert_lsn : 0);
}

/* See and admit the rows; returns up to which id the read counts as whole, and how many rows were wanted. */
static int64_t fetch_take(struct relay *r, uint64_t now_ms, const struct relay_read *read, row_slot *ret_slots, uint32_t *ret_wanted,
                          uint32_t *ret_settled)
{
    *ret_wanted = *ret_settled = 0;
    for (uint32_t i = 0; i < read->rows_n; i++) {
        const struct row *row = &read->rows[i];
        uint32_t lane = row->settled ? 0 : relay_lane_of(r, now_ms, row), key = KEYS_NONE;

        if (lane == TOPICS_NO_LANE)
            return row->id - 1;
        if (!gaps_read_see(relay_gaps_of(r), now_ms, row->id))
            return row->id - 1;
        *ret_settled += row->settled;
        *ret_wanted += row->settled;
        if (row->settled || window_knows(relay_window(r), row))
            continue;
        key = relay_key_of(r, row);
#ifdef MUTANT_KEY_TAIL_ADMITTED
        if (relay_is_passed_by(r, lane, KEYS_NONE, row->id) || row_goes_back(r, lane, KEYS_NONE, row->id))
            continue;
#else
        if (relay_is_passed_by(r, lane, key, row->id) || row_goes_back(r, lane, key, row->id))
            continue;
#endif
        ret_slots[i] = relay_row_admit(r, row, lane, key, read);
        ++*ret_wanted;
    }
    return read->upto;
}

/* Only a flush on the standbys counts, where that is wanted. */
void relay_read_flushed(struct relay *r, const struct relay_read *read)
{
#ifndef MUTANT_REPLICATED_AS_LOCAL
    if (r->limits.durability != RELAY_DURABILITY_REPLICATED)
#endif
        window_flushed(relay_window(r), read->flush_lsn);
}

bool relay_read_counts(struct relay *r, uint64_t now_ms, struct relay_token token)
{
    r->reading = RELAY_READING_NOTHING;
    r->read_attempts = 0;
    r->page_dirty = true;
    if (r->read_void)
        return false;
    if (lease_has(&r->lease, token))
        return true;
    relay_start_over(r, now_ms, false);
    return false;
}

void relay_on_fetched(struct relay *r, uint64_t now_ms, const struct relay_read *read, row_slot *ret_slots)
{
    uint32_t wanted, settled;
    int64_t upto, closed_upto = gaps_closed_upto(relay_gaps_of(r));

    assert(r->reading == RELAY_READING_FETCH);
    slots_clear(ret_slots, read->rows_n);
    if (!relay_read_counts(r, now_ms, read->token)) {
        window_forget(relay_window(r));
        return;
    }
    if (r->stopping) {
        gaps_read_fail(relay_gaps_of(r));
        window_forget(relay_window(r));
        return;
    }
    upto = fetch_take(r, now_ms, read, ret_slots, &wanted, &settled);
    gaps_read_end(relay_gaps_of(r), upto);
    settled_learn(r, settled > 0);
    relay_read_flushed(r, read);
    window_forget(relay_window(r));
    if (wanted > 0 || gaps_closed_upto(relay_gaps_of(r)) != closed_upto)
        r->dirty = true;
    r->idle = upto == INT64_MAX && wanted == 0 && r->read_full;
    pace_read_answered(&r->pace, now_ms, wanted > 0, upto != INT64_MAX);
}

void relay_on_writers(struct relay *r, uint64_t now_ms, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n,
                      bool complete)
{
    struct gaps *g = relay_gaps_of(r);
    uint64_t took_ms = now_ms - r->writers_asked_ms, rest_ms = took_ms * 99;

    assert(r->reading == RELAY_READING_WRITERS);
    r->reading = RELAY_READING_NOTHING;
    if (rest_ms > r->limits.backoff_max_ms) /* a question that took long once does not keep the gaps open for minutes */
        rest_ms = r->limits.backoff_max_ms;
    r->writers_ms = now_ms + (rest_ms > r->limits.writers_min_ms ? rest_ms : r->limits.writers_min_ms);
    if (r->read_void)
        return;
    if (complete)
        gaps_writers_end(g, last_id, writers, writers_n);
    else
        gaps_writers_fail(g);
}
