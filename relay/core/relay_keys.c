/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys that wait, and the probe lanes through which goes what may be refused. */
#include <assert.h>

#include "relay/core/hash.h"
#include "relay/core/relay_state.h"

/* --- lanes -------------------------------------------------------------------------------------------------------- */

uint32_t relay_lane_main(const struct relay *r, uint32_t lane)
{
    const struct topics *t = relay_topics(r);

    return topics_lane_probe(t, lane) ? topics_find_lane(t, topics_lane_topic(t, lane), topics_partition_of(t, lane)) : lane;
}

uint32_t relay_lane_probe(const struct relay *r, uint32_t lane)
{
    const struct topics *t = relay_topics(r);

    return topics_find_probe(t, topics_lane_topic(t, lane), topics_partition_of(t, lane));
}

/* Rows that wait for their topic to be known, or for their partition to exist, go one at a time anyway. */
uint32_t relay_lane_to(struct relay *r, uint32_t lane, uint32_t key)
{
    const struct behind *b = relay_behind_of(r);
    struct topics *t = relay_topics(r);
    uint32_t topic = topics_lane_topic(t, lane);
    bool probes = behind_probes(b, lane) || behind_probes(b, relay_topic_record(r, topic)) ||
                  (key != KEYS_NONE && behind_is(b, relay_key_record(r, key)));

#ifdef MUTANT_PROBE_IN_MAIN
    probes = false;
#endif
    if (!probes || topics_partition_of(t, lane) == TOPICS_UNPLACED)
        return lane;
    return relay_lane_numbered(r, topic, topics_partition_of(t, lane), true);
}

void relay_suspicion_ends(struct relay *r, uint32_t lane, bool acked)
{
    struct behind *b = relay_behind_of(r);
    uint32_t probe;

    if (lane == TOPICS_NO_LANE) /* it is not behind: its number was given away */
        return;
    probe = relay_lane_probe(r, lane);
#ifdef MUTANT_LANE_LIVE_BEFORE_SUSPECTS
    if (behind_probes(b, lane)) {
        behind_acked(b, lane);
        return;
    }
#endif
    if (!behind_probes(b, lane) || behind_from(b, lane) <= behind_probe_upto(b, lane) || (behind_probe_upto(b, lane) == 0 && !acked) ||
        window_lane_unacked(relay_window(r), lane) > 0 || (probe != TOPICS_NO_LANE && window_lane_unacked(relay_window(r), probe) > 0))
        return;
    behind_acked(b, lane);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

uint32_t relay_key_of(const struct relay *r, const struct row *row)
{
    return keys_n(relay_keys(r)) > 0 ? keys_find(relay_keys(r), row_key(row)) : KEYS_NONE;
}

uint32_t relay_key_of_slot(const struct relay *r, row_slot slot)
{
    return keys_n(relay_keys(r)) > 0 ? keys_find(relay_keys(r), window_key(relay_window(r), slot)) : KEYS_NONE;
}

void relay_keys_sweep(struct relay *r)
{
    struct keys *k = relay_keys(r);

    for (uint32_t key = 0; keys_n(k) > 0 && key < keys_top(k); key++) {
        if (keys_used(k, key) && behind_is_clear(relay_behind_of(r), relay_key_record(r, key)))
            keys_remove(k, key);
    }
}

/* The number of a key, found or given; KEYS_NONE: none is left. */
static uint32_t key_numbered(struct relay *r, uint64_t now_ms, uint32_t topic, uint64_t hash)
{
    struct keys *k = relay_keys(r);
    uint32_t key = keys_find(k, hash);

    if (key != KEYS_NONE)
        return key;
    key = keys_add(k, now_ms, topic, hash);
    if (key != KEYS_NONE)
        keys_rows_in(k, key, window_unacked_of_key(relay_window(r), hash));
    return key;
}

/* Drop the queued rows of a key; the smallest of their ids. */
static int64_t key_take(struct relay *r, uint32_t lane, uint32_t key)
{
    struct window *w = relay_window(r);
    uint64_t hash = keys_hash(relay_keys(r), key);

    if (lane == TOPICS_NO_LANE)
        return INT64_MAX;
    for (row_slot slot = window_lane_first(w, lane); slot != ROW_NO_SLOT; slot = window_lane_after(w, slot)) {
        if (window_key(w, slot) == hash)
            keys_row_out(relay_keys(r), key);
    }
    return window_take_key(w, lane, hash);
}

static void key_goes_behind(struct relay *r, uint64_t now_ms, uint32_t lane, uint32_t key, int64_t from, enum relay_fault fault)
{
    struct behind *b = relay_behind_of(r);
    struct topics *t = relay_topics(r);
    uint32_t record = relay_key_record(r, key);
    uint64_t retry_ms = now_ms;
    bool failed = fault != RELAY_FAULT_NONE;

    from = relay_least(from, key_take(r, relay_lane_main(r, lane), key));
    from = relay_least(from, key_take(r, relay_lane_probe(r, lane), key));
    if (failed)
        retry_ms += 1 + pace_backoff_ms(&r->pace, behind_attempts(b, record));
    (void)behind_go(b, record, from, retry_ms, failed);
    r->dirty = r->page_dirty = true;
    relay_note(r, (struct relay_told){.note = RELAY_NOTE_KEY_BEHIND,
                                      .fault = fault,
                                      .topic = topics_lane_topic(t, lane),
                                      .partition = topics_partition_of(t, lane),
                                      .rows = behind_attempts(b, record),
                                      .id = from});
}

/* Too many keys wait: the lane of this one does instead, and is tried again one row at a time. */
static void lane_instead(struct relay *r, uint64_t now_ms, uint32_t lane, int64_t from, enum relay_fault fault)
{
    uint32_t main_lane = relay_lane_main(r, lane);
    struct topics *t = relay_topics(r);

    relay_note(r, (struct relay_told){
                      .note = RELAY_NOTE_KEYS_FULL, .topic = topics_lane_topic(t, lane), .partition = topics_partition_of(t, lane)});
    if (main_lane == TOPICS_NO_LANE) {
        relay_topic_goes_behind(r, now_ms, topics_lane_topic(t, lane), fault);
        behind_back(relay_behind_of(r), relay_topic_record(r, topics_lane_topic(t, lane)), from);
        return;
    }
    relay_lane_goes_behind(r, now_ms, main_lane, fault, true);
    if (topics_lane_probe(t, lane))
        from = relay_least(from, relay_lane_take(r, lane));
    behind_back(relay_behind_of(r), main_lane, from);
    behind_probe(relay_behind_of(r), main_lane, 0);
}

/* The slot is dropped; its key is told. */
static void slot_abandon(struct relay *r, row_slot slot)
{
    uint32_t key = relay_key_of_slot(r, slot);

    if (key != KEYS_NONE)
        keys_row_out(relay_keys(r), key);
    window_abandon(relay_window(r), slot);
}

void relay_row_return(struct relay *r, row_slot slot)
{
    /* Not seen since the start over: the next fetch brings it, and with it the earlier rows of its lane, which were dropped. */
    if (window_id(relay_window(r), slot) > gaps_highest(relay_gaps_of(r)))
        slot_abandon(r, slot);
    else
        window_return(relay_window(r), slot);
}

void relay_key_fails(struct relay *r, uint64_t now_ms, row_slot slot, enum relay_fault fault)
{
    uint32_t lane = window_lane(relay_window(r), slot), key;
    uint64_t hash = window_key(relay_window(r), slot);
    int64_t id = window_id(relay_window(r), slot);

    if (id > gaps_highest(relay_gaps_of(r))) { /* as above: it is brought again, and fails again */
        slot_abandon(r, slot);
        return;
    }
    key = key_numbered(r, now_ms, topics_lane_topic(relay_topics(r), lane), hash);
    slot_abandon(r, slot);
    if (key == KEYS_NONE)
        lane_instead(r, now_ms, lane, id, fault);
    else
        key_goes_behind(r, now_ms, lane, key, id, fault);
}

bool relay_key_waits(struct relay *r, uint64_t now_ms, uint32_t lane, const struct row *row)
{
    uint32_t key = key_numbered(r, now_ms, row->topic, row_key(row));

    if (key == KEYS_NONE)
        return false;
    key_goes_behind(r, now_ms, lane, key, row->id, RELAY_FAULT_NONE);
    return true;
}

void relay_key_load(struct relay *r, uint64_t now_ms, const struct relay_behind *saved)
{
    uint32_t key = key_numbered(r, now_ms, saved->topic, saved->key_hash);

    if (key == KEYS_NONE) /* the record of its topic covers it; the saved one is found again at the next start */
        (void)behind_go(relay_behind_of(r), relay_topic_record(r, saved->topic), saved->first_id, now_ms, false);
    else
        behind_load(relay_behind_of(r), relay_key_record(r, key), saved->first_id, saved->attempts);
}
