/* SPDX-License-Identifier: BSD-2-Clause */
/* The two sessions: when they open, and how they end. The main one is open as long as the lease is ours; the probe session while there is
 * something to probe. */
#include <assert.h>

#include "relay/core/relay_state.h"

void relay_break_session(struct relay *r, enum relay_session session, enum relay_fault fault)
{
    struct relay_session_life *life = &r->sessions[session];

    if (life->state != SESSION_READY)
        return;
    life->state = SESSION_BROKEN;
    life->fault = fault;
    relay_note(r, (struct relay_told){.note = RELAY_NOTE_SESSION_BROKEN,
                                      .session = session,
                                      .fault = fault,
                                      .rows = window_handed_of(relay_window(r), session == RELAY_PROBE)});
}

static bool session_is_wanted(const struct relay *r, uint64_t now_ms, enum relay_session session)
{
    return lease_is_valid(&r->lease, now_ms) && !r->stopping && (session == RELAY_MAIN || window_unacked_of(relay_window(r), true) > 0);
}

/* When a session with nothing in it ends in an orderly way. */
static uint64_t session_rest_ms(const struct relay *r, enum relay_session session)
{
    const struct relay_session_life *life = &r->sessions[session];

    if (life->state != SESSION_READY || window_handed_of(relay_window(r), session == RELAY_PROBE) > 0)
        return UINT64_MAX;
    if (r->stopping)
        return 0;
    return session == RELAY_MAIN || window_unacked_of(relay_window(r), true) > 0 ? UINT64_MAX : life->busy_ms + r->limits.probe_rest_ms;
}

static bool next_session(struct relay *r, uint64_t now_ms, enum relay_session session, struct relay_action *ret_action)
{
    struct relay_session_life *life = &r->sessions[session];

    if (now_ms >= session_rest_ms(r, session)) {
        life->state = SESSION_BROKEN;
        life->fault = RELAY_FAULT_NONE;
    }
    if (life->state == SESSION_BROKEN) {
        life->state = SESSION_CLOSING;
        *ret_action = (struct relay_action){.type = RELAY_SESSION_CLOSE, .session = session};
        return true;
    }
    if (life->state != SESSION_CLOSED || now_ms < life->open_ms || !session_is_wanted(r, now_ms, session))
        return false;
    life->state = SESSION_OPENING;
    life->opened_bytes = r->session_bytes;
    *ret_action = (struct relay_action){.type = RELAY_SESSION_OPEN, .session = session, .bytes = r->session_bytes};
    return true;
}

bool relay_next_session(struct relay *r, uint64_t now_ms, struct relay_action *ret_action)
{
    return next_session(r, now_ms, RELAY_MAIN, ret_action) || next_session(r, now_ms, RELAY_PROBE, ret_action);
}

/* A session that ended because of a row or a topic is no reason to wait: what is at fault waits by itself. */
static void session_wait(struct relay *r, uint64_t now_ms, enum relay_session session, enum relay_fault fault)
{
    struct relay_session_life *life = &r->sessions[session];
    bool blamed = fault == RELAY_FAULT_ROW || fault == RELAY_FAULT_SIZE || fault == RELAY_FAULT_TOPIC;

    life->state = SESSION_CLOSED;
    life->open_ms = now_ms;
    if (fault != RELAY_FAULT_NONE)
        life->open_ms += pace_backoff_ms(&r->pace, blamed ? 0 : life->attempts++);
}

void relay_on_session_open(struct relay *r, uint64_t now_ms, enum relay_session session)
{
    assert(r->sessions[session].state == SESSION_OPENING);
    r->sessions[session].state = SESSION_READY;
    r->sessions[session].busy_ms = now_ms;
}

void relay_on_session_failed(struct relay *r, uint64_t now_ms, enum relay_session session)
{
    assert(r->sessions[session].state == SESSION_OPENING);
    session_wait(r, now_ms, session, RELAY_FAULT_SESSION);
}

void relay_on_session_broken(struct relay *r, uint64_t now_ms, enum relay_session session, enum relay_fault why)
{
    (void)now_ms;
    relay_break_session(r, session, why);
}

void relay_on_session_closed(struct relay *r, uint64_t now_ms, enum relay_session session)
{
    assert(r->sessions[session].state == SESSION_CLOSING && window_handed_of(relay_window(r), session == RELAY_PROBE) == 0);
    window_cold(relay_window(r), session == RELAY_PROBE);
    relay_behind_retake(r);
    r->page_dirty = true;
    session_wait(r, now_ms, session, r->sessions[session].fault);
}

void relay_on_idle_limit(struct relay *r, uint64_t now_ms, uint64_t expiration_ms)
{
    (void)now_ms;
    if (expiration_ms / 4 < r->limits.idle_cold_ms)
        r->limits.idle_cold_ms = (uint32_t)(expiration_ms / 4);
    window_set_idle_cold(relay_window(r), r->limits.idle_cold_ms);
}

uint64_t relay_session_due_ms(const struct relay *r, uint64_t now_ms)
{
    uint64_t due_ms = UINT64_MAX;

    for (unsigned i = 0; i < RELAY_SESSIONS; i++) {
        uint64_t rest_ms = session_rest_ms(r, (enum relay_session)i);

        if (rest_ms < due_ms)
            due_ms = rest_ms;
        if (r->sessions[i].state == SESSION_CLOSED && session_is_wanted(r, now_ms, (enum relay_session)i) &&
            r->sessions[i].open_ms < due_ms)
            due_ms = r->sessions[i].open_ms;
    }
    return due_ms;
}
