/* SPDX-License-Identifier: BSD-2-Clause */
/* Looking at a relay: for metrics, and for tests that copy and compare whole relays. */
#include <assert.h>
#include <string.h>

#include "relay/core/digest.h"
#include "relay/core/relay_state.h"

struct relay_view relay_view(const struct relay *r)
{
    const struct window *w = relay_window(r);
    const struct gaps *g = relay_gaps_of(r);
    const struct behind *b = relay_behind_of(r);
    uint32_t behind_lanes = 0, behind_keys = 0;
    uint64_t oldest_key_ms = 0;

    for (uint32_t record = behind_first(b); record != BEHIND_NONE; record = behind_next(b, record)) {
        if (!behind_is(b, record))
            continue;
        behind_lanes += record < r->limits.lanes_max;
        if (relay_is_key_record(r, record)) {
            uint64_t since_ms = keys_since_ms(relay_keys(r), record - relay_key_record(r, 0));

            behind_keys++;
            if (oldest_key_ms == 0 || since_ms < oldest_key_ms)
                oldest_key_ms = since_ms;
        }
    }
    return (struct relay_view){
        .lease_held = r->lease.held,
        .session_open = r->sessions[RELAY_MAIN].state == SESSION_READY,
        .connected = r->database == RELAY_DATABASE_CONNECTED,
        .stopping = r->stopping,
        .drained = r->lease.held && r->idle && gaps_n(g) == 0 && window_rows(w) == 0,
        .window_rows = window_rows(w),
        .open_gaps = gaps_n(g),
        .behind_lanes = behind_lanes,
        .behind_topics = behind_n(b) - behind_lanes - behind_keys,
        .behind_keys = behind_keys,
        .oldest_key_ms = oldest_key_ms,
        .window_bytes = window_bytes(w),
        .handed_rows = window_handed(w),
        .acked_rows = window_acked(w) + (r->marking ? marks_n(relay_marks_of(r)) : 0),
        .floor = r->floor,
        .highest = gaps_highest(g),
        .oldest_gap_ms = gaps_oldest_ms(g),
    };
}

size_t relay_size(const struct relay *r)
{
    return r->size;
}

void relay_copy(struct relay *to, const struct relay *from)
{
    void *block = to->block;

    assert(to->size == from->size);
    memcpy(to, from, from->size);
    to->block = block;
}

static uint64_t digest_flags(const struct relay *r)
{
    const bool flags[] = {r->releasing,  r->read_void,    r->read_full, r->page_next, r->page_dirty, r->idle,  r->marks_first, r->flushing,
                          r->flush_void, r->flush_forced, r->marking,   r->saving,    r->save_void,  r->dirty, r->stopping,    r->exited};
    uint64_t bits = 0;

    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
        bits = bits << 1 | flags[i];
    return bits;
}

/* What is on its way, and what was marked last. */
static uint64_t digest_outstanding(const struct relay *r, uint64_t now_ms)
{
    const struct relay_behind *changes = relay_part(r, r->changes_at);
    const uint32_t *records = relay_part(r, r->change_records_at);
    uint64_t digest = 12;

    for (uint32_t i = 0; r->marking && i < marks_n(relay_marks_of(r)); i++)
        digest = digest_add(digest, (uint64_t)marks_ids(relay_marks_of(r))[i]);
    for (uint32_t i = 0; r->saving && i < r->changes_n; i++)
        digest = digest_add(digest_add(digest_add(digest, records[i]), (uint64_t)changes[i].first_id), changes[i].attempts);
    for (uint64_t i = r->pairs_n > r->limits.recent_rows ? r->pairs_n - r->limits.recent_rows : 0; i < r->pairs_n; i++) {
        const struct relay_pair *pair = (const struct relay_pair *)relay_part(r, r->pairs_at) + i % r->limits.recent_rows;

        digest = digest_add(digest_add(digest, (uint64_t)pair->id), pair->event_id.bytes[0]);
    }
    if (r->reading == RELAY_READING_FETCH && !r->read_settled)
        digest = digest_add(digest, (uint64_t)r->read_rows << 32 | r->read_gaps_n);
    if (r->reading == RELAY_READING_PATROL)
        digest = digest_add(digest, (uint64_t)r->patrol_upto);
    return digest_add(digest, r->reading == RELAY_READING_WRITERS ? now_ms - r->writers_asked_ms : 0);
}

static uint64_t digest_session(const struct relay *r, const struct relay_session_life *life, uint64_t now_ms)
{
    uint64_t digest = digest_add(digest_add(13, (uint64_t)life->state << 32 | life->attempts), life->opened_bytes);

    if (life->state == SESSION_READY)
        return digest_add_due(digest, life->busy_ms + r->limits.probe_rest_ms, now_ms);
    return digest_add_due(digest_add(digest, life->state == SESSION_CLOSED ? 0 : life->fault), life->open_ms, now_ms);
}

uint64_t relay_digest(const struct relay *r, uint64_t now_ms)
{
    const uint64_t values[] = {digest_flags(r),
                               (uint64_t)r->database << 8 | (uint64_t)r->reading,
                               (uint64_t)r->settled_upto,
                               (uint64_t)r->settled_none << 2 | (uint64_t)(r->settled_seen * 2 + r->read_settled),
                               (uint64_t)r->beat_highest,
                               (uint64_t)r->page_topic << 32 | r->page_last_topic,
                               (uint64_t)r->page_upto,
                               (uint64_t)r->floor,
                               r->saving ? (uint64_t)r->saving_floor : 0,
                               r->saving ? r->changes_n : 0,
                               (uint64_t)r->asked_topic << 32 | r->repeat_rows,
                               (uint64_t)r->again_n << 33 | (uint64_t)(r->phantoms_n - r->phantoms_told) << 1 | r->marking_again,
                               (uint64_t)r->connect_attempts << 32 | r->read_attempts,
                               (uint64_t)r->mark_attempts << 32 | r->flush_attempts,
                               (uint64_t)r->save_attempts << 32 |
                                   (r->settled_rows < r->limits.save_ids ? r->settled_rows : r->limits.save_ids),
                               r->session_bytes,
                               r->publish_run,
                               (uint64_t)r->patrol_at,
                               r->limits.patrol_ids > 0 ? (uint64_t)r->patrol_back : 0,
                               r->limits.patrol_ids > 0 ? (uint64_t)r->patrol_next_back : 0};
    const uint64_t dues_ms[] = {r->connect_ms,
                                r->page_due_ms,
                                r->writers_ms,
                                r->flush_ms,
                                r->force_until_ms,
                                r->mark_ms,
                                r->save_ms,
                                window_handed(relay_window(r)) > 0 || r->asked_topic != TOPICS_NO_TOPIC ? r->unknown_ms : 0,
                                r->stop_ms,
                                r->patrol_ms,
                                r->limits.patrol_ids > 0 ? r->patrol_turn_ms : 0,
                                r->acked_ms + r->limits.mark_delay_ms};
    uint64_t digest = 0;

    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        digest = digest_add(digest, digest_session(r, &r->sessions[i], now_ms));
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++)
        digest = digest_add(digest, values[i]);
    for (unsigned i = 0; i < sizeof dues_ms / sizeof *dues_ms; i++)
        digest = digest_add_due(digest, dues_ms[i], now_ms);
    digest = digest_add(digest, digest_outstanding(r, now_ms));
    digest = digest_add(digest, lease_digest(&r->lease, now_ms));
    digest = digest_add(digest, pace_digest(&r->pace, now_ms));
    digest = digest_add(digest, window_digest(relay_window(r), now_ms));
    digest = digest_add(digest, gaps_digest(relay_gaps_of(r), now_ms));
    digest = digest_add(digest, topics_digest(relay_topics(r), now_ms));
    digest = digest_add(digest, keys_digest(relay_keys(r)));
    return digest_add(digest, behind_digest(relay_behind_of(r), now_ms));
}
