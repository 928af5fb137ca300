/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL: rows, their sequence, the lease, what is saved; and what a statement does at its moment at the server. */
#include <assert.h>
#include <string.h>

#include "tests/explore/explore.h"

static event_set set_of(uint8_t event)
{
    return (event_set)(1u << event);
}

/* The event that has this id now, or had it, or will. */
static uint8_t event_at(const struct world *w, unsigned id)
{
    uint8_t event = (uint8_t)(id - 1);

    return w->database.second & set_of(event) ? (uint8_t)(event + IDS_MAX) : event;
}

event_set database_events(const struct world *w)
{
    event_set events = 0;

    for (unsigned id = 1; id <= w->database.last_id; id++)
        events |= set_of(event_at(w, id));
    return events;
}

/* --- writers ------------------------------------------------------------------------------------------------------ */

bool database_draw(struct world *w)
{
    struct database *db = &w->database;
    size_t rows = strlen(explore_play->keys);

    if (db->last_id >= rows)
        return false;
    /* Whoever writes a row of the key has its lock. */
    for (unsigned id = 1; id <= db->last_id; id++)
        if (explore_play->keys[id - 1] == explore_play->keys[db->last_id] && (db->open & set_of(event_at(w, id))))
            return false;
    db->last_id++;
    db->open |= set_of(event_at(w, db->last_id));
    return true;
}

bool database_commit(struct world *w, uint8_t event, bool flushed)
{
    struct database *db = &w->database;

    if (!(db->open & set_of(event)))
        return false;
    db->open &= (event_set)~set_of(event);
    db->committed |= set_of(event);
    db->insert_lsn++;
    if (flushed)
        (void)database_flush(w);
    return true;
}

bool database_roll_back(struct world *w, uint8_t event)
{
    struct database *db = &w->database;

    if (!(db->open & set_of(event)) || w->rollbacks == 0)
        return false;
    w->rollbacks--;
    db->open &= (event_set)~set_of(event);
    return true;
}

bool database_flush(struct world *w)
{
    struct database *db = &w->database;

    if (db->flush_lsn == db->insert_lsn && db->sent_flushed == db->sent && db->last_id_flushed == db->last_id)
        return false;
    db->flush_lsn = db->insert_lsn;
    db->committed_flushed = db->committed;
    db->sent_flushed = db->sent;
    db->last_id_flushed = db->last_id;
    return true;
}

/* What was not flushed is lost, ids and marks too; positions in the WAL go on from where they stood, with another history. */
bool database_crash(struct world *w, bool pooled)
{
    struct database *db = &w->database;
    event_set gone = db->committed & (event_set)~db->committed_flushed;

    if (w->crashes == 0)
        return false;
    w->crashes--;
    db->lost |= gone | db->open;
    db->open = 0;
    db->committed = db->committed_flushed;
    db->sent = db->sent_flushed;
    for (unsigned id = db->last_id_flushed + 1u; id <= db->last_id; id++) {
        if (db->second & set_of((uint8_t)(id - 1))) /* a third event has no number: this id is not given out again */
            db->last_id_flushed = (uint8_t)id;
        else
            db->second |= set_of((uint8_t)(id - 1));
    }
    db->last_id = db->last_id_flushed;
    db->flush_lsn = db->insert_lsn;
    db->incarnation = 0;
    if (pooled)
        return true;
    memset(w->statements, 0, sizeof w->statements);
    for (unsigned i = 0; i < RELAYS; i++)
        (void)relay_lose_database(w, i, true);
    return true;
}

/* --- reads -------------------------------------------------------------------------------------------------------- */

static bool is_asked_for(const struct read_statement *read, unsigned id)
{
    if (read->type != RELAY_FETCH)
        return id >= read->from && id <= read->upto;
    return id > read->from || (read->gaps >> (id - 1) & 1) != 0;
}

static void read_rows(const struct world *w, struct read_statement *read)
{
    const struct database *db = &w->database;
    unsigned n = 0;

    for (unsigned id = 1; id <= db->last_id && n < read->rows; id++) {
        event_set event = set_of(event_at(w, id));
        bool is_settled = (db->sent & event) != 0;

        if (!is_asked_for(read, id) || !(db->committed & event) || (is_settled && id > read->settled_upto))
            continue;
        if (is_settled)
            read->settled |= event;
        else
            read->seen |= event;
        n++;
        read->whole_upto = n == read->rows ? (uint8_t)id : 0;
    }
}

void database_read(struct world *w, struct read_statement *read)
{
    const struct database *db = &w->database;

    if (read->type == RELAY_WRITERS && read->phase == SENT) {
        read->last_id = db->last_id;
        read->phase = READ;
        return;
    }
    read->phase = DONE;
    if (read->type == RELAY_WRITERS) {
        read->writers = db->open;
        return;
    }
    read->token = db->incarnation;
    read->insert_lsn = db->insert_lsn;
    read->flush_lsn = db->flush_lsn;
    read_rows(w, read);
    read->from = read->upto = read->settled_upto = read->rows = read->gaps = 0;
}

/* --- writes ------------------------------------------------------------------------------------------------------- */

void database_mark(struct world *w, struct write_statement *mark)
{
    struct database *db = &w->database;
    event_set hit = mark->marked & db->committed & database_events(w);

    judge_mark(w, hit);
    mark->missed = mark->marked & (event_set)~hit;
    db->sent |= hit;
    mark->marked = 0;
    mark->phase = DONE;
}

void database_save(struct world *w, struct write_statement *save)
{
    struct database *db = &w->database;

#ifdef MUTANT_SAVE_LEASE_ONLY
    save->fenced = db->lease != save->token;
#else
    save->fenced = db->lease != save->token || db->incarnation != save->token;
#endif
    for (unsigned i = 0; i < RECORDS && !save->fenced; i++) {
        if (!(save->changed >> i & 1))
            continue;
        db->first_ids[i] = save->first_ids[i];
        db->attempts[i] = save->attempts[i];
    }
    if (!save->fenced) {
        db->floor = save->floor;
        (void)database_flush(w); /* it commits with `local` */
        judge_saved(w);
    }
    *save = (struct write_statement){.phase = DONE, .fenced = save->fenced};
}

bool database_grants(const struct world *w, unsigned relay)
{
    const struct database *db = &w->database;

    return db->lease == 0 || db->lease_over || db->lease_relay == relay + 1;
}

bool database_take(struct world *w, uint8_t token, unsigned relay)
{
    struct database *db = &w->database;

    if (!database_grants(w, relay))
        return false;
    db->lease = db->incarnation = token;
    db->lease_relay = relay == RELAYS ? 0 : (uint8_t)(relay + 1);
    db->lease_over = false;
    if (db->last_id < db->floor) {
        db->floor = 0;
        memset(db->first_ids, 0, sizeof db->first_ids);
        memset(db->attempts, 0, sizeof db->attempts);
    }
    (void)database_flush(w);
    return true;
}

bool database_beat(struct world *w, uint8_t token)
{
    if (w->database.lease != token)
        return false;
    w->database.lease_over = false;
    return true;
}

uint8_t token_unused(const struct world *w)
{
    for (uint8_t token = 1;; token++) {
        bool used = token == w->database.lease || token == w->database.incarnation;

        for (unsigned i = 0; i < RELAYS; i++) {
            const struct process *p = &w->relays[i];

            used |= token == cores_token(p->core) || token == p->lease_token || token == p->save.token || token == p->read.token;
        }
        for (unsigned i = 0; i < LATE_MAX; i++)
            used |= w->statements[i].type != 0 && token == w->statements[i].statement.token;
        if (!used)
            return token;
    }
}

/* --- late statements ---------------------------------------------------------------------------------------------- */

static int late_compare(const struct late_statement *a, const struct late_statement *b)
{
    return memcmp(a, b, sizeof *a);
}

void database_late(struct world *w, enum relay_action_type type, const struct write_statement *statement)
{
    struct late_statement late = {.type = (uint8_t)type, .statement = *statement};
    struct late_statement *last = &w->statements[LATE_MAX - 1];

    /* Writes that cannot have an effect any more are not kept. */
    if (type == RELAY_MARK && (late.statement.marked & (event_set)~w->database.sent) == 0)
        return;
    if (type == RELAY_SAVE && late.statement.token != w->database.lease)
        return;
    if (last->type != 0)
        return;
    *last = late;
    for (unsigned i = LATE_MAX - 1; i > 0 && (w->statements[i - 1].type == 0 || late_compare(&w->statements[i - 1], &late) > 0); i--) {
        w->statements[i] = w->statements[i - 1];
        w->statements[i - 1] = late;
    }
}
