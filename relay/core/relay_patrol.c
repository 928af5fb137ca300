/* SPDX-License-Identifier: BSD-2-Clause */
/* The patrol: looks again at ids below the floor. What is unsettled there, and is neither in the window nor behind, was lost by somebody's
 * mistake (a writer that drew its id too early, a row that was marked unsent): its key waits from it on, and so it is published. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* A pass over everything is followed by a rest of so many pages. */
enum {
    PASS_REST_PAGES = 60
};

void relay_patrol_restart(struct relay *r, uint64_t now_ms)
{
    int64_t back = r->floor - (int64_t)r->limits.patrol_back_ids;

    r->patrol_at = 0;
    r->patrol_back = back > 0 ? back : 0;
    r->patrol_next_back = r->floor;
    r->patrol_turn_ms = now_ms + r->limits.patrol_back_ms;
    r->patrol_ms = r->limits.patrol_ids > 0 ? now_ms + r->limits.patrol_ms : UINT64_MAX;
}

bool relay_next_patrol(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    int64_t upto;

    if (now_ms < r->patrol_ms)
        return false;
    if (now_ms >= r->patrol_turn_ms) {
        r->patrol_back = r->patrol_next_back;
        r->patrol_next_back = r->floor;
        r->patrol_turn_ms = now_ms + r->limits.patrol_back_ms;
    }
    if (r->patrol_at == 0)
        r->patrol_at = r->patrol_back + 1;
    if (r->patrol_at > r->floor) {
        r->patrol_at = 0;
        r->patrol_ms = now_ms + (uint64_t)r->limits.patrol_ms * PASS_REST_PAGES;
        return false;
    }
    r->patrol_ms = now_ms + r->limits.patrol_ms;
    upto = relay_least(r->patrol_at + (int64_t)r->limits.patrol_ids - 1, r->floor);
    r->patrol_upto = upto;
    r->reading = RELAY_READING_PATROL;
    *ret_action = (struct relay_action){.type = RELAY_PATROL, .from = r->patrol_at, .upto = upto, .rows = r->limits.fetch_rows};
    return true;
}

/* Everything at or below the floor is settled, in the window of what is behind, or behind; this row is none of these. Returns false if
 * nobody can tell yet: its topic is not known, and so not which lane's record covers it. */
static bool row_find(struct relay *r, uint64_t now_ms, const struct row *row)
{
    uint32_t lane = relay_lane_of(r, now_ms, row);

    if (topics_state(relay_topics(r), row->topic) == TOPICS_ASKING)
        return false;
    if (lane == TOPICS_NO_LANE || topics_state(relay_topics(r), row->topic) != TOPICS_OPEN || window_knows(relay_window(r), row) ||
        relay_is_passed_by(r, lane, relay_key_of(r, row), row->id))
        return true;
#ifdef MUTANT_PATROL_COUNTS_ONLY
    return true;
#endif
    if (relay_key_waits(r, now_ms, lane, row)) /* if not, it is found again in the next pass */
        relay_note(r, (struct relay_told){.note = RELAY_NOTE_PATROL_FOUND, .topic = row->topic, .id = row->id, .event_id = row->event_id});
    return true;
}

void relay_on_patrolled(struct relay *r, uint64_t now_ms, const struct relay_read *read)
{
    assert(r->reading == RELAY_READING_PATROL);
    r->patrol_waits = false;
    if (relay_read_counts(r, now_ms, read->token)) {
        r->patrol_at = relay_least(read->upto, r->patrol_upto) + 1;
        for (uint32_t i = 0; i < read->rows_n && !r->stopping; i++) {
            if (row_find(r, now_ms, &read->rows[i]))
                continue;
            r->patrol_at = read->rows[i].id; /* the next page begins here */
            r->patrol_waits = true;
            break;
        }
    }
    window_forget(relay_window(r));
}
