/* SPDX-License-Identifier: BSD-2-Clause */
/* Start at relay_next: the order of its questions is the order of importance. */
#include "relay/core/relay.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "relay/core/relay_state.h"

struct relay_limits relay_limits_default(void)
{
    return (struct relay_limits){
        .fetch_rows = 2000, /* beyond it a statement gets no cheaper per row, and results get too large to wait for */
        .fetch_bytes = 8u << 20,
        .window_rows = 50000, /* a broker 100 ms away at 500 000 rows/s */
        .window_bytes = 64u << 20,
        .lane_rows = 10000, /* five fetches */
        .lanes_max = 16384,
        .topics_max = 1024,
        .ranges_max = 65536, /* a fetch that carries them all takes 0.15 s: no more would be useful */
        .writers_max = 2048,
        .settled_rows = 20000, /* 10 ms a statement */
        .page_ids = 100000,    /* 20 ms a statement where all are settled */
        .mark_rows = 20000,    /* 50 ms a statement */
        .mark_rows_min = 1000, /* a statement for fewer is dearer per row... */
        .mark_delay_ms = 10,   /* ...but a crash repeats what is not marked */
        .poll_min_ms = 1,
        .poll_max_ms = 50,
        .gap_age_ms = 100,     /* most gaps are transactions that are about to commit */
        .writers_min_ms = 250, /* pg_locks costs 1-3 ms with thousands of locks */
        .save_ms = 1000,       /* a restart reads what was settled since */
        .save_ids = 200000,
        .stuck_ms = 1000,
        .lease_ttl_ms = 10000,
        .lease_margin_ms = 2000,
        .backoff_min_ms = 100,
        .backoff_max_ms = 30000,
        .shutdown_ms = 10000,
        .batch_bytes = 1000000,
        .durability = RELAY_DURABILITY_LOCAL,
        .keys_max = 4096,
        .probe_rest_ms = 10000,
        .idle_cold_ms = 6 * 3600 * 1000, /* a quarter of a broker's default */
        .patrol_ids = 50000,             /* 10 ms a statement */
        .patrol_ms = 1000,
        .patrol_back_ms = 3600 * 1000,
        .patrol_back_ids = 1000000,
        .recent_rows = 20000, /* what a standby lags behind, and half a megabyte */
        .seed = 1,
    };
}

enum {
    CACHE_LINE = 64
};

/* --- life --------------------------------------------------------------------------------------------------------- */

/* Reserve `size` bytes of the block, from a cache line's beginning on; returns where. */
static size_t part_reserve(size_t *total, size_t size)
{
    size_t at = (*total + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);

    *total = at + size;
    return at;
}

static void relay_lay_out(struct relay *r)
{
    const struct relay_limits *l = &r->limits;
    size_t total = sizeof *r;

    r->window_at = part_reserve(&total, window_size(l->window_rows, l->lanes_max));
    r->gaps_at = part_reserve(&total, gaps_size(l->ranges_max, l->writers_max));
    r->topics_at = part_reserve(&total, topics_size(l->topics_max, l->lanes_max));
    r->behind_at = part_reserve(&total, behind_size(l->lanes_max + l->topics_max + l->keys_max));
    r->keys_at = part_reserve(&total, keys_size(l->keys_max));
    r->marks_at = part_reserve(&total, marks_size(l->mark_rows));
    r->pairs_at = part_reserve(&total, l->recent_rows * sizeof(struct relay_pair));
    r->phantoms_at = part_reserve(&total, l->mark_rows * sizeof(struct relay_phantom));
    r->firsts_at = part_reserve(&total, l->lanes_max * sizeof(int64_t));
    r->changes_at = part_reserve(&total, (l->lanes_max + l->topics_max + l->keys_max) * sizeof(struct relay_behind));
    r->change_records_at = part_reserve(&total, (l->lanes_max + l->topics_max + l->keys_max) * sizeof(uint32_t));
    r->size = total;
}

struct relay *relay_new(const struct relay_limits *limits, uint64_t now_ms)
{
    struct relay plan = {.limits = *limits}, *r;
    const struct relay_limits *l = &plan.limits;

    assert(l->fetch_rows > 0 && l->fetch_rows <= l->window_rows && l->mark_rows > 0 && l->page_ids > 0);
    /* A read that brings only gaps must fit, or the tail would stop for good. */
    assert(l->ranges_max > l->fetch_rows && l->ranges_max > l->settled_rows);
    relay_lay_out(&plan);
    plan.block = calloc(1, plan.size + CACHE_LINE);
    if (plan.block == NULL)
        return NULL;
    r = (struct relay *)(((uintptr_t)plan.block + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1));
    *r = plan;
    (void)window_init(relay_window(r), l->window_rows, l->window_bytes, l->lanes_max, l->lane_rows);
    (void)gaps_init(relay_gaps_of(r), l->ranges_max, l->writers_max, 0);
    (void)topics_init(relay_topics(r), l->topics_max, l->lanes_max);
    (void)behind_init(relay_behind_of(r), l->lanes_max + l->topics_max + l->keys_max);
    (void)keys_init(relay_keys(r), l->keys_max);
    window_set_idle_cold(relay_window(r), l->idle_cold_ms);
    (void)marks_init(relay_marks_of(r), l->mark_rows);
    lease_init(&r->lease, l->lease_ttl_ms, l->lease_margin_ms);
    pace_init(&r->pace, l->poll_min_ms, l->poll_max_ms, l->backoff_min_ms, l->backoff_max_ms, l->seed, now_ms);
    r->asked_topic = r->page_topic = r->page_last_topic = TOPICS_NO_TOPIC;
    r->session_bytes = l->batch_bytes;
    r->read_full = true;
    return r;
}

void relay_free(struct relay *r)
{
    if (r != NULL)
        free(r->block);
}

/* --- notes -------------------------------------------------------------------------------------------------------- */

void relay_note(struct relay *r, struct relay_told told)
{
    if (r->notes_n == RELAY_NOTES_MAX) {
        r->notes_lost++;
        return;
    }
    r->notes[(r->notes_first + r->notes_n++) % RELAY_NOTES_MAX] = told;
}

static bool next_note(struct relay *r, struct relay_action *ret_action)
{
    struct relay_told told = {.note = RELAY_NOTE_DROPPED, .rows = r->notes_lost};

    if (r->notes_n > 0) {
        told = r->notes[r->notes_first];
        r->notes_first = (r->notes_first + 1) % RELAY_NOTES_MAX;
        r->notes_n--;
    } else if (r->notes_lost > 0) {
        r->notes_lost = 0;
    } else {
        return false;
    }
    *ret_action = (struct relay_action){.type = RELAY_NOTE,
                                        .note = told.note,
                                        .fault = told.fault,
                                        .session = told.session,
                                        .id = told.id,
                                        .event_id = told.event_id,
                                        .topic = told.topic,
                                        .rows = told.rows,
                                        .partition = told.partition,
                                        .from = told.from};
    return true;
}

/* --- the database's connections and the lease ---------------------------------------------------------------------- */

void relay_on_connected(struct relay *r, uint64_t now_ms)
{
    assert(r->database == RELAY_DATABASE_CONNECTING);
    r->database = RELAY_DATABASE_CONNECTED;
    lease_lost(&r->lease, now_ms, true);
}

void relay_on_database_lost(struct relay *r, uint64_t now_ms)
{
    assert(r->database != RELAY_DATABASE_LOST);
    relay_unmark(r, now_ms);
    relay_topic_void(r, now_ms);
    relay_start_over(r, now_ms, r->lease.held);
    r->reading = RELAY_READING_NOTHING;
    r->flushing = r->saving = r->releasing = false;
    window_forget(relay_window(r));
    lease_lost(&r->lease, now_ms, true);
    r->database = RELAY_DATABASE_LOST;
    r->connect_ms = now_ms + pace_backoff_ms(&r->pace, r->connect_attempts++);
}

static bool next_connection(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    if (r->database == RELAY_DATABASE_LOST && now_ms >= r->connect_ms) {
        r->database = RELAY_DATABASE_CONNECTING;
        *ret_action = (struct relay_action){.type = RELAY_CONNECT};
        return true;
    }
    if (r->database != RELAY_DATABASE_CONNECTED || !lease_is_due(&r->lease, now_ms) || (r->stopping && (!r->lease.held || r->releasing)))
        return false;
    lease_asked(&r->lease);
    r->beat_highest = gaps_highest(relay_gaps_of(r));
    *ret_action = (struct relay_action){.type = r->lease.held ? RELAY_LEASE_BEAT : RELAY_LEASE_TAKE,
                                        .from = r->lease.held ? 0 : lease_silent_beat(&r->lease, now_ms)};
    return true;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

void relay_on_stop(struct relay *r, uint64_t now_ms)
{
    if (r->stopping)
        return;
    r->stopping = true;
    r->stop_ms = now_ms + r->limits.shutdown_ms;
}

void relay_on_released(struct relay *r, uint64_t now_ms)
{
    assert(r->releasing);
    lease_lost(&r->lease, now_ms, false);
}

/* Rows whose fate is not in the database yet. */
static uint32_t rows_unsettled(const struct relay *r)
{
    return window_handed(relay_window(r)) + window_acked(relay_window(r)) + (r->marking ? marks_n(relay_marks_of(r)) : 0);
}

static bool next_end(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    uint32_t unsettled = rows_unsettled(r);
    bool at_rest, connected = r->database == RELAY_DATABASE_CONNECTED;

    if (!r->stopping)
        return false;
    at_rest = unsettled == 0 && r->reading == RELAY_READING_NOTHING && r->sessions[RELAY_MAIN].state == SESSION_CLOSED &&
              r->sessions[RELAY_PROBE].state == SESSION_CLOSED;
    if (at_rest && connected && r->lease.held && !r->lease.asking && !r->saving && (!r->dirty || r->save_attempts >= RELAY_LAST_SAVES) &&
        !r->releasing) {
        r->releasing = true;
        *ret_action = (struct relay_action){.type = RELAY_LEASE_RELEASE};
        return true;
    }
    if (now_ms < r->stop_ms && !(at_rest && (!connected || !r->lease.held) && !r->lease.asking && !r->saving))
        return false;
    r->exited = true;
    *ret_action = (struct relay_action){.type = RELAY_EXIT, .rows = unsettled};
    return true;
}

/* --- what to do next ---------------------------------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a_ms, uint64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

/* When something happens by time alone. */
static uint64_t due_ms(const struct relay *r, uint64_t now_ms)
{
    uint64_t due = r->stopping ? r->stop_ms : UINT64_MAX;

    if (r->database == RELAY_DATABASE_LOST)
        return earlier(earlier(due, r->connect_ms), relay_publish_due_ms(r, now_ms));
    if (!r->stopping || r->lease.held)
        due = earlier(due, lease_due_ms(&r->lease));
    due = earlier(due, relay_save_due_ms(r));
    if (r->lease.held && !r->stopping)
        due = earlier(due, relay_read_due_ms(r));
    return earlier(due, relay_publish_due_ms(r, now_ms));
}

static struct relay_action relay_wait(const struct relay *r, uint64_t now_ms)
{
    uint64_t due = due_ms(r, now_ms);

    /* What is due now and was not done waits for something else to happen. */
    return (struct relay_action){.type = RELAY_WAIT, .until_ms = due > now_ms ? due : now_ms + r->limits.poll_max_ms};
}

struct relay_action relay_next(struct relay *r, uint64_t now_ms)
{
    struct relay_action action;

    if (r->exited)
        return (struct relay_action){.type = RELAY_WAIT, .until_ms = UINT64_MAX};
    if (r->publish_run > 0 && relay_next_publish(r, now_ms, &action)) {
        r->publish_run--;
        return action;
    }
    r->publish_run = 0;
    action = (struct relay_action){.type = RELAY_DROP};
    if (r->lease.held && !lease_is_valid(&r->lease, now_ms) && !r->stopping)
        relay_start_over(r, now_ms, true);
    relay_find_stuck(r, now_ms);
    if (next_note(r, &action) || relay_next_phantom(r, &action) || window_drop(relay_window(r), &action.slot))
        return action;
    if (next_connection(r, now_ms, &action) || relay_next_session(r, now_ms, &action))
        return action;
    /* Reads before publishing: the database works while we do. */
    if (relay_next_read(r, now_ms, &action) || relay_next_flush(r, now_ms, &action) || relay_next_mark(r, now_ms, &action))
        return action;
    if (relay_next_topic(r, now_ms, &action))
        return action;
    if (relay_next_publish(r, now_ms, &action)) {
        r->publish_run = RELAY_PUBLISH_RUN;
        return action;
    }
    if (relay_next_save(r, now_ms, &action) || next_end(r, now_ms, &action))
        return action;
    if (next_note(r, &action)) /* what was noted while the questions were asked */
        return action;
    return relay_wait(r, now_ms);
}

/* --- failed statements -------------------------------------------------------------------------------------------- */

static void read_failed(struct relay *r, uint64_t now_ms, bool is_fetch)
{
    r->reading = RELAY_READING_NOTHING;
    window_forget(relay_window(r));
    if (is_fetch && !r->read_void)
        gaps_read_fail(relay_gaps_of(r));
    r->pace.next_ms = now_ms + pace_backoff_ms(&r->pace, r->read_attempts++);
    r->page_due_ms = r->pace.next_ms;
}

void relay_on_failed(struct relay *r, uint64_t now_ms, enum relay_action_type what)
{
    uint64_t lease_retry_ms = now_ms + pace_backoff_ms(&r->pace, 0);

    switch (what) {
    case RELAY_FETCH:
    case RELAY_CATCH_UP:
        assert(r->reading == (what == RELAY_FETCH ? RELAY_READING_FETCH : RELAY_READING_PAGE));
        read_failed(r, now_ms, what == RELAY_FETCH);
        break;
    case RELAY_PATROL:
        assert(r->reading == RELAY_READING_PATROL);
        read_failed(r, now_ms, false);
        break;
    case RELAY_WRITERS:
        relay_on_writers(r, now_ms, 0, NULL, 0, false);
        break;
    case RELAY_MARK:
        relay_unmark(r, now_ms);
        r->mark_ms = now_ms + pace_backoff_ms(&r->pace, r->mark_attempts++);
        break;
    case RELAY_FLUSH:
        assert(r->flushing);
        r->flushing = false;
        r->flush_ms = now_ms + pace_backoff_ms(&r->pace, r->flush_attempts++);
        break;
    case RELAY_SAVE:
        assert(r->saving);
        r->saving = false;
        r->dirty = true; /* what it held is not saved yet */
        r->save_ms = now_ms + pace_backoff_ms(&r->pace, r->save_attempts++);
        break;
    case RELAY_LEASE_TAKE:
    case RELAY_LEASE_BEAT:
        lease_failed(&r->lease, lease_retry_ms);
        break;
    case RELAY_LEASE_RELEASE:
        relay_on_released(r, now_ms); /* it will run out by itself */
        break;
    case RELAY_TOPIC:
        relay_topic_void(r, now_ms);
        break;
    case RELAY_WAIT:
    case RELAY_CONNECT:
    case RELAY_PUBLISH:
    case RELAY_DROP:
    case RELAY_FORGET:
    case RELAY_SESSION_OPEN:
    case RELAY_SESSION_CLOSE:
    case RELAY_NOTE:
    case RELAY_EXIT:
        assert(false && "not a statement");
    }
}
