/* SPDX-License-Identifier: BSD-2-Clause */
/* What came of what a core wanted: answers of the database, reports of the producer. */
#include <string.h>

#include "tests/explore/explore.h"

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void lease_taken(struct world *w, unsigned relay, struct relay *r, uint64_t now_ms, uint8_t token)
{
    struct database *db = &w->database;
    struct relay_behind behind[RECORDS];
    struct relay_saved saved = {.token = token_of(token), .behind = behind};
    uint8_t floor = db->floor;

    saved.incarnation_lost = db->incarnation == 0;
    if (!database_take(w, token, relay)) {
        relay_on_lease(r, now_ms, now_ms, NULL);
        return;
    }
    saved.floor = db->floor;
    saved.last_id = db->last_id;
    saved.floor_reset = db->floor < floor;
    for (unsigned i = 0; i < RECORDS; i++) {
        static const int32_t partitions[] = {0, RELAY_WHOLE_TOPIC, RELAY_UNPLACED};

        if (db->first_ids[i] == 0)
            continue;
        behind[saved.behind_n++] = (struct relay_behind){.partition = i < 3 ? partitions[i] : RELAY_WHOLE_TOPIC,
                                                         .key_hash = i > 2 ? i - 2 : 0,
                                                         .first_id = db->first_ids[i],
                                                         .attempts = db->attempts[i]};
    }
    relay_on_lease(r, now_ms, now_ms, &saved);
}

bool relay_lease(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];
    uint8_t type = p->lease_type, token = p->lease_token;
    uint64_t now_ms;
    struct relay *r;

    if (type == 0 || (type == RELAY_LEASE_TAKE && !database_grants(w, relay)))
        return false;
    p->fresh = false;
    p->lease_type = p->lease_token = 0;
    r = cores_take(p->core, &now_ms);
    if (type == RELAY_LEASE_TAKE) {
        lease_taken(w, relay, r, now_ms, token);
    } else if (type == RELAY_LEASE_BEAT) {
        bool held = database_beat(w, token);

        relay_on_beaten(r, now_ms, now_ms, held, token_of(w->database.incarnation), w->database.last_id);
    } else {
        if (w->database.lease == token)
            w->database.lease = w->database.lease_relay = w->database.lease_over = 0;
        relay_on_released(r, now_ms);
    }
    relay_pump(w, relay, r, now_ms);
    return true;
}

bool relay_lease_unheard(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];

    if (p->lease_type != RELAY_LEASE_TAKE || !database_take(w, p->lease_token, relay))
        return false;
    p->lease_type = p->lease_token = 0;
    p->fresh = false;
    return relay_lose_database(w, relay, false);
}

static uint32_t rows_fill(const struct read_statement *read, struct row rows[EVENTS_MAX])
{
    uint32_t n = 0;

    for (unsigned i = 0; i < EVENTS_MAX; i++) {
        uint8_t event = (uint8_t)(i / 2 + i % 2 * IDS_MAX); /* by id */
        event_set set = (event_set)(1u << event);

        if (!((read->seen | read->settled) & set))
            continue;
        rows[n++] = (struct row){.id = id_of(event),
                                 .event_id = event_id_of(event),
                                 .key_hash = (uint64_t)(explore_play->keys[event % IDS_MAX] - 'A' + 1),
                                 .partition = -1,
                                 .bytes = 1,
                                 .settled = (read->settled & set) != 0};
    }
    return n;
}

static void writers_answer(struct relay *r, uint64_t now_ms, const struct read_statement *read)
{
    struct relay_writer writers[EVENTS_MAX];
    uint32_t n = 0;

    for (uint8_t event = 0; event < EVENTS_MAX; event++)
        if (read->writers >> event & 1)
            writers[n++] = (struct relay_writer){.vxid = event + 1u};
    relay_on_writers(r, now_ms, read->last_id, writers, n, true);
}

bool relay_read_answer(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];
    struct read_statement read = p->read;
    struct row rows[EVENTS_MAX];
    row_slot slots[EVENTS_MAX];
    struct relay_read answer = {.rows = rows, .upto = INT64_MAX};
    uint64_t now_ms;
    struct relay *r;

    if (read.phase != DONE)
        return false;
    memset(&p->read, 0, sizeof p->read);
    r = cores_take(p->core, &now_ms);
    answer.token = token_of(read.token);
    answer.insert_lsn = read.insert_lsn;
    answer.flush_lsn = read.flush_lsn;
    answer.rows_n = rows_fill(&read, rows);
    if (read.whole_upto != 0)
        answer.upto = read.whole_upto;
    if (read.type == RELAY_WRITERS)
        writers_answer(r, now_ms, &read);
    else if (read.type == RELAY_FETCH)
        relay_on_fetched(r, now_ms, &answer, slots);
    else if (read.type == RELAY_CATCH_UP)
        relay_on_caught_up(r, now_ms, &answer, slots);
    else
        relay_on_patrolled(r, now_ms, &answer);
    relay_pump(w, relay, r, now_ms);
    return true;
}

bool relay_mark_answer(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];
    int64_t missed[EVENTS_MAX];
    uint32_t n = 0;
    uint64_t now_ms;
    struct relay *r;

    if (p->mark.phase != DONE)
        return false;
    r = cores_take(p->core, &now_ms);
    for (unsigned i = 0; i < EVENTS_MAX; i++) {
        uint8_t event = (uint8_t)(i / 2 + i % 2 * IDS_MAX);

        if (p->mark.missed >> event & 1)
            missed[n++] = id_of(event);
    }
    memset(&p->mark, 0, sizeof p->mark);
    relay_on_marked(r, now_ms, missed, n);
    relay_pump(w, relay, r, now_ms);
    return true;
}

bool relay_save_answer(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];
    bool fenced = p->save.fenced;
    uint64_t now_ms;
    struct relay *r;

    if (p->save.phase != DONE)
        return false;
    memset(&p->save, 0, sizeof p->save);
    r = cores_take(p->core, &now_ms);
    relay_on_saved(r, now_ms, fenced);
    relay_pump(w, relay, r, now_ms);
    return true;
}

bool relay_flush(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];
    uint64_t now_ms;
    struct relay *r;

    if (p->flush == 0)
        return false;
    if (p->flush == 2)
        (void)database_flush(w);
    p->flush = 0;
    r = cores_take(p->core, &now_ms);
    relay_on_flushed(r, now_ms, token_of(w->database.incarnation), w->database.flush_lsn);
    relay_pump(w, relay, r, now_ms);
    return true;
}

bool relay_topic(struct world *w, unsigned relay)
{
    struct process *p = &w->relays[relay];
    uint64_t now_ms;
    struct relay *r;

    if (!p->asks_topic)
        return false;
    p->asks_topic = false;
    r = cores_take(p->core, &now_ms);
    relay_on_topic(r, now_ms, 0, 1, 1, 0);
    relay_pump(w, relay, r, now_ms);
    return true;
}

bool relay_fail(struct world *w, unsigned relay, enum relay_action_type type)
{
    struct process *p = &w->relays[relay];
    uint64_t now_ms;
    struct relay *r = cores_take(p->core, &now_ms);

    if (type == RELAY_MARK && p->mark.phase == SENT)
        memset(&p->mark, 0, sizeof p->mark);
    else if (type == RELAY_SAVE && p->save.phase == SENT)
        memset(&p->save, 0, sizeof p->save);
    else if (type == p->read.type && p->read.phase == SENT)
        memset(&p->read, 0, sizeof p->read);
    else
        return false;
    relay_on_failed(r, now_ms, type);
    relay_pump(w, relay, r, now_ms);
    return true;
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

/* Purge, report what is left, destroy. */
bool relay_session_close(struct world *w, unsigned relay, enum relay_session session)
{
    struct session *s = &w->relays[relay].sessions[session], left = *s;
    uint64_t now_ms;
    struct relay *r;

    if (s->state != SESSION_IS_CLOSING)
        return false;
    kafka_late(w, s);
    s->n = 0;
    for (unsigned i = 0; i < left.n; i++)
        relay_report(w, relay, session, left.event[i], RELAY_FAULT_SESSION);
    memset(s, 0, sizeof *s);
    r = cores_take(w->relays[relay].core, &now_ms);
    relay_on_session_closed(r, now_ms, session);
    relay_pump(w, relay, r, now_ms);
    return true;
}

void relay_report(struct world *w, unsigned relay, enum relay_session session, uint8_t event, enum relay_fault fault)
{
    uint64_t now_ms;
    struct relay *r = cores_take(w->relays[relay].core, &now_ms);
    row_slot slot = cores_slot(r, event);

    (void)session;
#ifdef MUTANT_MARK_BEFORE_REPORT
    if (slot == ROW_NO_SLOT)
        return;
#endif
    if (slot == ROW_NO_SLOT)
        explore_violation("report", "event %u is reported and was not handed", event);
    if (fault == RELAY_FAULT_NONE)
        relay_on_delivered(r, now_ms, slot);
    else
        relay_on_refused(r, now_ms, slot, fault);
    relay_pump(w, relay, r, now_ms);
}

void relay_session_broken(struct world *w, unsigned relay, enum relay_session session)
{
    uint64_t now_ms;
    struct relay *r = cores_take(w->relays[relay].core, &now_ms);

    relay_on_session_broken(r, now_ms, session, RELAY_FAULT_SESSION);
    relay_pump(w, relay, r, now_ms);
}
