/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks: everything acknowledged meanwhile, by pair. And the last of them, kept: after a crash or a failover they are marked again, because the
 * database may have lost them; what it then does not have at all was published and is lost there: a phantom. */
#include <assert.h>

#include "relay/core/relay_state.h"

/* --- the last marks ------------------------------------------------------------------------------------------------ */

static struct relay_pair *pair_at(const struct relay *r, uint64_t number)
{
    return (struct relay_pair *)relay_part(r, r->pairs_at) + number % r->limits.recent_rows;
}

static void pair_keep(struct relay *r, int64_t id, struct row_event_id event_id)
{
    if (r->limits.recent_rows > 0)
        *pair_at(r, r->pairs_n++) = (struct relay_pair){.id = id, .event_id = event_id};
}

void relay_marks_again(struct relay *r)
{
    r->again_n = r->pairs_n < r->limits.recent_rows ? (uint32_t)r->pairs_n : r->limits.recent_rows;
}

static void marks_gather_again(struct relay *r)
{
    struct marks *m = relay_marks_of(r);

    for (uint32_t i = 0; i < r->again_n && i < r->limits.mark_rows; i++) {
        uint64_t number = r->pairs_n - r->again_n + i;

        marks_add(m, (row_slot)(number % r->limits.recent_rows), pair_at(r, number)->id);
    }
    marks_sort(m);
    for (uint32_t i = 0; i < marks_n(m); i++)
        marks_event_ids(m)[i] = pair_at(r, marks_slot(m, i))->event_id;
}

/* --- marking ------------------------------------------------------------------------------------------------------- */

uint64_t relay_mark_due_ms(const struct relay *r)
{
    uint64_t due_ms = r->acked_ms + r->limits.mark_delay_ms;

    if (r->marking || (window_acked(relay_window(r)) == 0 && r->again_n == 0))
        return UINT64_MAX;
    if (window_acked(relay_window(r)) >= r->limits.mark_rows_min || r->stopping || r->marks_first)
        due_ms = 0;
    return due_ms > r->mark_ms ? due_ms : r->mark_ms;
}

/* So many marks before its turn a row is fetched into the processor: more than elsewhere, since these loops do little with each. */
enum {
    MARKS_AHEAD = 16
};

static void mark_expect(const struct relay *r, uint32_t i)
{
    if (i < marks_n(relay_marks_of(r)))
        window_expect(relay_window(r), marks_slot(relay_marks_of(r), i));
}

static void marks_gather(struct relay *r)
{
    struct window *w = relay_window(r);
    struct marks *m = relay_marks_of(r);
    row_slot slot;

    while (marks_n(m) < r->limits.mark_rows && window_mark(w, &slot))
        marks_add(m, slot, window_id(w, slot));
    marks_sort(m);
    for (uint32_t i = 0; i < marks_n(m); i++) {
        mark_expect(r, i + MARKS_AHEAD);
        marks_event_ids(m)[i] = window_event_id(w, marks_slot(m, i));
    }
}

bool relay_next_mark(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    struct marks *m = relay_marks_of(r);

    if (r->database != RELAY_DATABASE_CONNECTED || now_ms < relay_mark_due_ms(r))
        return false;
    marks_reset(m);
    r->marking_again = r->again_n > 0;
    if (r->marking_again)
        marks_gather_again(r);
    else
        marks_gather(r);
    r->marking = true;
    r->acked_ms = now_ms;
    *ret_action = (struct relay_action){.type = RELAY_MARK, .rows = marks_n(m), .force = r->marking_again || r->repeat_rows > 0};
    return true;
}

uint32_t relay_marks(const struct relay *r, const int64_t **ret_ids, const struct row_event_id **ret_event_ids)
{
    const struct marks *m = relay_marks_of(r);

    assert(r->marking);
    *ret_ids = marks_ids(m);
    *ret_event_ids = marks_event_ids(m);
    return marks_n(m);
}

/* --- the answer ---------------------------------------------------------------------------------------------------- */

/* They are told one after the other: all are pulled before the next mark is. */
static void phantoms_keep(struct relay *r, const int64_t *missed, uint32_t missed_n)
{
    const struct marks *m = relay_marks_of(r);
    struct relay_phantom *phantoms = relay_part(r, r->phantoms_at);
    uint32_t at = 0;

    r->phantoms_n = missed_n;
    r->phantoms_told = 0;
    for (uint32_t i = 0; i < missed_n; i++, at++) {
        while (marks_ids(m)[at] != missed[i]) {
            at++;
            assert(at < marks_n(m));
        }
        phantoms[i] = (struct relay_phantom){.id = missed[i], .event_id = marks_event_ids(m)[at], .topic = TOPICS_NO_TOPIC};
        if (!r->marking_again)
            phantoms[i].topic = topics_lane_topic(relay_topics(r), window_lane(relay_window(r), marks_slot(m, at)));
    }
}

bool relay_next_phantom(struct relay *r, struct relay_action *ret_action)
{
    const struct relay_phantom *phantom = (const struct relay_phantom *)relay_part(r, r->phantoms_at) + r->phantoms_told;

#ifdef MUTANT_PHANTOMS_UNTOLD
    return false;
#endif
    if (r->phantoms_told == r->phantoms_n)
        return false;
    r->phantoms_told++;
    *ret_action = (struct relay_action){
        .type = RELAY_NOTE, .note = RELAY_NOTE_PHANTOM, .topic = phantom->topic, .id = phantom->id, .event_id = phantom->event_id};
    return true;
}

static void rows_marked(struct relay *r)
{
    struct marks *m = relay_marks_of(r);
    bool remember = r->reading != RELAY_READING_NOTHING && r->reading != RELAY_READING_WRITERS;

#ifdef MUTANT_IGNORE_MARKS
    remember = false;
#endif
    for (uint32_t i = 0; i < marks_n(m); i++) {
        mark_expect(r, i + MARKS_AHEAD);
        pair_keep(r, marks_ids(m)[i], marks_event_ids(m)[i]);
        window_marked(relay_window(r), marks_slot(m, i), remember);
    }
    r->settled_rows += marks_n(m);
    r->repeat_rows -= r->repeat_rows < marks_n(m) ? r->repeat_rows : marks_n(m);
}

void relay_on_marked(struct relay *r, uint64_t now_ms, const int64_t *missed, uint32_t missed_n)
{
    (void)now_ms;
    assert(r->marking && missed_n <= marks_n(relay_marks_of(r)));
    phantoms_keep(r, missed, missed_n);
    if (r->marking_again)
        r->again_n -= marks_n(relay_marks_of(r));
    else
        rows_marked(r);
    r->marking = false;
    r->mark_attempts = 0;
    r->dirty = true;
    if (window_acked(relay_window(r)) == 0 && r->again_n == 0)
        r->marks_first = false;
}

void relay_unmark(struct relay *r, uint64_t now_ms)
{
    struct marks *m = relay_marks_of(r);

    if (!r->marking)
        return;
    r->marking = false;
    if (r->marking_again)
        return;
    for (uint32_t i = 0; i < marks_n(m); i++)
        window_unmarked(relay_window(r), marks_slot(m, i));
    r->acked_ms = now_ms;
    r->repeat_rows = window_acked(relay_window(r));
}
