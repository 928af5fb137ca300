/* SPDX-License-Identifier: BSD-2-Clause */
/* What the server keeps, and how it loses it. */
#include <string.h>

#include "tests/sim/sim.h"

struct relay_token token_none(void)
{
    return (struct relay_token){{0}};
}

bool token_equal(struct relay_token a, struct relay_token b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

struct row_event_id row_event_id(const struct sim *sim, uint32_t row)
{
    struct row_event_id event_id = {{0}};
    memcpy(event_id.bytes, &row, sizeof row);
    memcpy(event_id.bytes + 8, &sim->seed, sizeof sim->seed);
    event_id.bytes[7] = 0x40;
    return event_id;
}

uint32_t row_of_event_id(struct row_event_id event_id)
{
    uint32_t row;
    memcpy(&row, event_id.bytes, sizeof row);
    return row;
}

/* As the core has it: a row without a key waits for itself alone. */
uint64_t row_waits_with(const struct sim *sim, uint32_t n)
{
    struct row row = {.key_hash = sim->rows[n].key_hash, .event_id = row_event_id(sim, n)};
    return row_key(&row);
}

struct saved_key *database_key(struct sim *sim, uint64_t hash)
{
    struct saved_key *empty = NULL;
    for (uint32_t i = 0; i < SAVED_KEYS_MAX; i++) {
        struct saved_key *key = &sim->db.keys[i];
        if (key->hash == hash)
            return key;
        if (!key->hash && !empty)
            empty = key;
    }
    if (empty)
        return empty;
    sim_violation(sim, "simulator", "too many keys are saved");
    return &sim->db.keys[0];
}

void database_flush(struct sim *sim)
{
    sim->db.flush_lsn = sim->db.insert_lsn;
    sim->db.wal_n = 0;
}

static void wal_add(struct sim *sim, enum wal_type type, int64_t was)
{
    struct database *db = &sim->db;
    if (db->wal_n == WAL_MAX)
        database_flush(sim);
    db->insert_lsn += sim_between(sim, 50, 200);
    db->wal[db->wal_n++] = (struct wal_record){db->insert_lsn, type, was};
}

static void on_wal_writer(struct sim *sim, const struct event *event)
{
    (void)event;
    if (sim->now >= sim->db_down_until)
        database_flush(sim);
    sim_at(sim, sim->now + sim->mix.wal_flush_ms, on_wal_writer);
}

void database_start(struct sim *sim)
{
    struct database *db = &sim->db;
    memset(db, 0, sizeof *db);
    memset(db->by_id, 0xff, sizeof db->by_id);
    db->insert_lsn = db->flush_lsn = 1000;
    sim_at(sim, sim->mix.wal_flush_ms, on_wal_writer);
}

/* PostgreSQL logs a sequence some values ahead, so that a crash skips ids, or gives them out again if even that record is lost. */
int64_t database_draw(struct sim *sim, uint32_t row)
{
    struct database *db = &sim->db;
    if (db->sequence + 1 > db->logged) {
        wal_add(sim, WAL_SEQUENCE, db->logged);
        db->logged = db->sequence + sim->mix.sequence_ahead;
    }
    db->sequence++;
    if (db->sequence >= IDS_MAX) {
        sim_violation(sim, "simulator", "too many ids");
        return db->sequence = IDS_MAX - 1;
    }
    db->by_id[db->sequence] = (int16_t)row;
    db->state[row] = ROW_OPEN;
    db->sent[row] = false;
    return db->sequence;
}

void database_commit(struct sim *sim, const struct writer *writer)
{
    wal_add(sim, WAL_COMMIT, writer->tx);
    for (uint32_t i = 0; i < writer->rows_n; i++) {
        sim->db.state[writer->rows[i]] = ROW_COMMITTED;
        sim->rows[writer->rows[i]].commit_lsn = sim->db.insert_lsn;
    }
    if (writer->synchronous)
        database_flush(sim);
}

void database_roll_back(struct sim *sim, const struct writer *writer)
{
    for (uint32_t i = 0; i < writer->rows_n; i++)
        sim->db.state[writer->rows[i]] = ROW_ROLLED_BACK;
}

void database_mark(struct sim *sim, uint32_t row)
{
    if (sim->db.sent[row])
        return;
    sim->db.sent[row] = true;
    wal_add(sim, WAL_MARK, row);
    oracle_marked(sim, row);
}

static void lose_commit(struct sim *sim, uint32_t tx)
{
    for (uint32_t row = 0; row < sim->rows_n; row++)
        if (sim->rows[row].tx == tx && sim->db.state[row] == ROW_COMMITTED) {
            sim->db.state[row] = ROW_LOST;
            oracle_lost(sim, row);
        }
}

static void undo(struct sim *sim, const struct wal_record *record)
{
    switch (record->type) {
    case WAL_SEQUENCE:
        sim->db.logged = record->was;
        break;
    case WAL_COMMIT:
        lose_commit(sim, (uint32_t)record->was);
        break;
    case WAL_MARK:
        sim->db.sent[record->was] = false;
        sim->rows[record->was].excused = true;
        break;
    }
}

/* Open transactions end, the unlogged incarnation is empty, and everybody starts from what is on disk. */
static void restart(struct sim *sim)
{
    struct database *db = &sim->db;
    for (uint32_t row = 0; row < sim->rows_n; row++)
        if (db->state[row] == ROW_OPEN)
            db->state[row] = ROW_ROLLED_BACK;
    db->sequence = db->logged;
    for (int64_t id = db->sequence + 1; id < IDS_MAX; id++)
        db->by_id[id] = -1;
    db->incarnation = token_none();
    db->wal_n = 0;
    db->insert_lsn += 100;
    db->flush_lsn = db->insert_lsn;
    sim->db_epoch++;
    writers_abort(sim);
    oracle_saved(sim, "after a restart");
}

void database_crash(struct sim *sim)
{
    struct database *db = &sim->db;
    uint32_t survive = sim_chance(sim, 600) ? 0 : sim_between(sim, 0, db->wal_n);
    for (uint32_t i = db->wal_n; i > survive; i--)
        undo(sim, &db->wal[i - 1]);
    TRACE(sim, "database crashes, %u of %u unflushed records survive, sequence %lld", survive, db->wal_n, (long long)db->logged);
    db->insert_lsn = survive ? db->wal[survive - 1].lsn : db->flush_lsn;
    restart(sim);
}

void database_cut(struct sim *sim)
{
    database_flush(sim); /* only what is flushed is sent to it */
    memcpy(&sim->standby, &sim->db, sizeof sim->db);
    sim->standby_cut = true;
    TRACE(sim, "the standby is cut off, sequence %lld", (long long)sim->db.sequence);
}

void database_fail_over(struct sim *sim)
{
    struct database *db = &sim->db, *to = &sim->standby;
    for (uint32_t row = 0; row < sim->rows_n; row++) {
        bool replicated = to->state[row] == ROW_COMMITTED;
        if (replicated && db->sent[row] && !to->sent[row])
            sim->rows[row].excused = true;
        if (!replicated)
            to->state[row] = db->state[row] == ROW_COMMITTED ? ROW_LOST_IN_FAILOVER : db->state[row];
    }
    memcpy(db, to, sizeof *db);
    sim->standby_cut = false;
    for (uint32_t row = 0; row < sim->rows_n; row++)
        if (db->state[row] == ROW_LOST_IN_FAILOVER)
            oracle_lost(sim, row);
    TRACE(sim, "failover, sequence %lld", (long long)db->logged);
    restart(sim);
}

/* The trigger of the schema empties incarnation, position and behind in the same transaction. Without it (it was disabled) the relay must
 * see the sequence before ids are drawn again. */
bool database_truncate(struct sim *sim, bool trigger)
{
    struct database *db = &sim->db;
    for (uint32_t w = 0; w < sim->writers_n; w++)
        if (sim->writers[w].holds_table)
            return false;
    for (uint32_t row = 0; row < sim->rows_n; row++)
        if (db->state[row] == ROW_COMMITTED) {
            db->state[row] = ROW_TRUNCATED;
            oracle_lost(sim, row);
        }
    for (uint32_t w = 0; w < sim->writers_n; w++)
        if (sim->writers[w].early)
            sim->writers[w].commits = false; /* its ids are of another life of the table */
    memset(db->by_id, 0xff, sizeof db->by_id);
    db->sequence = db->logged = 0;
    if (trigger) {
        memset(db->records, 0, sizeof db->records);
        memset(db->keys, 0, sizeof db->keys);
        db->floor = 0;
        db->incarnation = token_none();
    }
    sim->writers_wait = !trigger;
    sim->writers_wait_since = sim->now;
    database_flush(sim);
    TRACE(sim, "TRUNCATE RESTART IDENTITY%s", trigger ? "" : " without the trigger");
    return true;
}
