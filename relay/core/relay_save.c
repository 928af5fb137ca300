/* SPDX-License-Identifier: BSD-2-Clause */
/* What is written to the database of the floor and the records; and the barrier that waits for its WAL. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* --- barrier ------------------------------------------------------------------------------------------------------ */

/* For so long after a plain reading did not do, the WAL is flushed at once: in a drain our own asynchronous marks are always in the way. */
enum {
    FORCE_MS = 100
};

bool relay_next_flush(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    if (r->database != RELAY_DATABASE_CONNECTED || r->flushing || !r->lease.held || r->stopping || now_ms < r->flush_ms ||
        !window_waits_for_flush(relay_window(r)))
        return false;
    r->flushing = true;
    r->flush_void = false;
    r->flush_forced = now_ms < r->force_until_ms || r->limits.durability == RELAY_DURABILITY_REPLICATED;
    *ret_action = (struct relay_action){.type = RELAY_FLUSH, .force = r->flush_forced};
    return true;
}

void relay_on_flushed(struct relay *r, uint64_t now_ms, struct relay_token token, uint64_t flush_lsn)
{
    assert(r->flushing);
    r->flushing = false;
    r->flush_attempts = 0;
    if (r->flush_void)
        return;
#ifndef MUTANT_BARRIER_NO_TOKEN
    if (!lease_has(&r->lease, token)) {
        relay_start_over(r, now_ms, false);
        return;
    }
#endif
    window_flushed(relay_window(r), flush_lsn);
    if (!r->flush_forced && window_waits_for_flush(relay_window(r)))
        r->force_until_ms = now_ms + FORCE_MS;
}

/* --- saves -------------------------------------------------------------------------------------------------------- */

static bool save_is_due(const struct relay *r, uint64_t now_ms)
{
    if (!r->dirty || r->saving || r->database != RELAY_DATABASE_CONNECTED || !lease_is_valid(&r->lease, now_ms))
        return false;
    if (r->stopping) /* the last one, of everything */
        return window_handed(relay_window(r)) == 0 && window_acked(relay_window(r)) == 0 && !r->marking &&
               r->save_attempts < RELAY_LAST_SAVES && (r->save_attempts == 0 || now_ms >= r->save_ms);
    return now_ms >= r->save_ms || (r->settled_rows >= r->limits.save_ids && r->save_attempts == 0);
}

/* The smallest id of a topic that is in the window. */
static int64_t topic_first(const struct relay *r, uint32_t topic, const int64_t *firsts)
{
    int64_t first = INT64_MAX;

    for (uint32_t lane = topics_first_lane(relay_topics(r), topic); lane != TOPICS_NO_LANE; lane = topics_next_lane(relay_topics(r), lane))
        first = relay_least(first, firsts[lane]);
    return first;
}

/* Everything up to it is settled, or a record covers it. */
static int64_t floor_of(const struct relay *r, const int64_t *firsts)
{
    const struct behind *b = relay_behind_of(r);
    int64_t floor = gaps_closed_upto(relay_gaps_of(r));

    for (uint32_t lane = 0; lane < topics_lanes_top(relay_topics(r)); lane++) {
        uint32_t main_lane;

        if (firsts[lane] == INT64_MAX)
            continue;
        main_lane = relay_lane_main(r, lane);
        /* Rows of keys in a probe lane are covered too, but not told apart here: the floor waits for them. */
        if ((main_lane != TOPICS_NO_LANE && behind_covers(b, main_lane)) ||
            behind_covers(b, relay_topic_record(r, topics_lane_topic(relay_topics(r), lane))))
            continue;
        floor = relay_least(floor, firsts[lane] - 1);
    }
    return floor > r->floor ? floor : r->floor;
}

/* The smallest id of a record's rows in the window. */
static int64_t record_first(const struct relay *r, uint32_t record, const int64_t *firsts)
{
    uint32_t probe;

    if (relay_is_key_record(r, record))
        return keys_first(relay_keys(r), record - relay_key_record(r, 0));
    if (record >= r->limits.lanes_max)
        return topic_first(r, relay_record_topic(r, record), firsts);
    probe = relay_lane_probe(r, record);
    return probe != TOPICS_NO_LANE ? relay_least(firsts[record], firsts[probe]) : firsts[record];
}

/* Only a key's are saved: those of lanes and topics say how long to wait, and waiting begins anew with each start. */
static uint32_t record_attempts(const struct relay *r, uint32_t record)
{
    return relay_is_key_record(r, record) ? behind_attempts(relay_behind_of(r), record) : 0;
}

static void change_add(struct relay *r, uint32_t record, int64_t first_id)
{
    struct relay_behind *change = (struct relay_behind *)relay_part(r, r->changes_at) + r->changes_n;
    bool is_lane = record < r->limits.lanes_max, is_key = relay_is_key_record(r, record);

    *change = (struct relay_behind){
        .topic = relay_record_topic(r, record),
        .partition = is_lane ? topics_partition_of(relay_topics(r), record) : RELAY_WHOLE_TOPIC,
        .key_hash = is_key ? keys_hash(relay_keys(r), record - relay_key_record(r, 0)) : 0,
        .first_id = first_id,
        .attempts = record_attempts(r, record),
    };
    ((uint32_t *)relay_part(r, r->change_records_at))[r->changes_n++] = record;
    /* Until the answer nobody knows what is saved of it; and its number must not be given away. */
    behind_on_saved(relay_behind_of(r), record, BEHIND_UNKNOWN, 0);
}

static void changes_gather(struct relay *r, const int64_t *firsts)
{
    struct behind *b = relay_behind_of(r);
    uint32_t next;

    r->changes_n = 0;
    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = next) {
        int64_t first_id;

        next = behind_next(b, record);
        first_id = behind_save(b, record, record_first(r, record, firsts), r->saving_floor);
        if (!behind_is_saved(b, record, first_id, record_attempts(r, record)))
            change_add(r, record, first_id);
        else if (first_id == 0)
            behind_on_saved(b, record, 0, 0);
    }
#ifdef MUTANT_FLOOR_ALONE
    r->changes_n = 0;
#endif
    relay_keys_sweep(r);
}

static void keys_see_firsts(struct relay *r)
{
    struct keys *k = relay_keys(r);
    struct window *w = relay_window(r);

    keys_firsts_begin(k);
    for (row_slot slot = 0; keys_n(k) > 0 && slot < r->limits.window_rows; slot++) {
        uint32_t key = window_unsettled(w, slot) ? relay_key_of_slot(r, slot) : KEYS_NONE;

        if (key != KEYS_NONE)
            keys_first_see(k, key, window_id(w, slot));
    }
}

bool relay_next_save(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    int64_t *firsts = relay_part(r, r->firsts_at);

    if (!save_is_due(r, now_ms))
        return false;
    window_firsts(relay_window(r), firsts, topics_lanes_top(relay_topics(r)));
    keys_see_firsts(r);
    r->saving_floor = floor_of(r, firsts);
    changes_gather(r, firsts);
    r->dirty = false;
    r->settled_rows = 0;
    r->save_ms = now_ms + r->limits.save_ms;
    if (r->changes_n == 0 && r->saving_floor == r->floor)
        return false;
    r->saving = true;
    r->save_void = false;
    *ret_action = (struct relay_action){.type = RELAY_SAVE, .from = r->saving_floor, .rows = r->changes_n};
    return true;
}

uint32_t relay_saving(const struct relay *r, const struct relay_behind **ret_changes)
{
    assert(r->saving);
    *ret_changes = relay_part(r, r->changes_at);
    return r->changes_n;
}

void relay_on_saved(struct relay *r, uint64_t now_ms, bool fenced)
{
    const struct relay_behind *changes = relay_part(r, r->changes_at);
    const uint32_t *records = relay_part(r, r->change_records_at);

    assert(r->saving);
    r->saving = false;
    r->save_attempts = 0;
    if (r->save_void)
        return;
    if (fenced) {
        relay_start_over(r, now_ms, true);
        return;
    }
    r->floor = r->saving_floor;
    for (uint32_t i = 0; i < r->changes_n; i++)
        behind_on_saved(relay_behind_of(r), records[i], changes[i].first_id, changes[i].attempts);
    relay_keys_sweep(r);
    /* What went on meanwhile, or became clear by this save, is seen next time. */
    if (r->changes_n > 0 || behind_first(relay_behind_of(r)) != BEHIND_NONE)
        r->dirty = true;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

uint64_t relay_save_due_ms(const struct relay *r)
{
    uint64_t due_ms = relay_mark_due_ms(r);

    if (r->dirty && !r->saving && r->save_ms < due_ms)
        due_ms = r->save_ms;
    if (!r->flushing && r->flush_attempts > 0 && window_waits_for_flush(relay_window(r)) && r->flush_ms < due_ms)
        due_ms = r->flush_ms;
    return due_ms;
}
