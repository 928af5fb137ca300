/* SPDX-License-Identifier: BSD-2-Clause */
/* What each statement does at its one moment at the server: the model of the SQL in relay/edge. Mutants of a statement are here, because
 * here the statement is. */
#include <string.h>

#include "tests/sim/sim.h"

struct reading {
    struct statement *s;
    uint32_t rows_max;
    uint64_t bytes_max, bytes;
    bool cut;
    uint64_t xmin;
};

static uint64_t oldest_xid(const struct sim *sim)
{
    uint64_t oldest = sim->xids_n + 1;
    for (uint32_t w = 0; w < sim->writers_n; w++)
        if (sim->writers[w].xid && sim->writers[w].xid < oldest)
            oldest = sim->writers[w].xid;
    return oldest;
}

static bool visible(const struct sim *sim, const struct reading *reading, uint32_t row)
{
#ifdef MUTANT_XID_BELOW_XMIN
    if (sim->rows[row].xid >= reading->xmin)
        return false;
#else
    (void)reading;
#endif
    return sim->db.state[row] == ROW_COMMITTED;
}

/* Ids from `first` to `last`, until the limit is reached. */
static void read_range(struct sim *sim, struct reading *reading, int64_t first, int64_t last, int64_t settled_upto, int topic)
{
    struct statement *s = reading->s;
    if (last > sim->db.sequence)
        last = sim->db.sequence;
    for (int64_t id = first < 1 ? 1 : first; id <= last && !reading->cut; id++) {
        int16_t row = sim->db.by_id[id];
        if (row < 0 || !visible(sim, reading, (uint32_t)row))
            continue;
        if (topic >= 0 && sim->rows[row].topic != (uint32_t)topic)
            continue;
        bool settled = sim->db.sent[row];
        if (settled && id > settled_upto)
            continue;
        s->read[s->read_n] = (uint32_t)row;
        s->settled[s->read_n++] = settled;
        if (!settled)
            reading->bytes += sim->rows[row].bytes;
        reading->cut = s->read_n == reading->rows_max || reading->bytes >= reading->bytes_max;
        s->whole_upto = id;
    }
}

static struct reading begin_read(struct sim *sim, struct statement *s)
{
    struct reading reading = {.s = s, .rows_max = s->rows < READ_MAX ? s->rows : READ_MAX, .bytes_max = s->bytes, .xmin = oldest_xid(sim)};
    s->seen = sim->db.incarnation;
    s->insert_lsn = sim->db.insert_lsn;
    s->flush_lsn = sim->db.flush_lsn;
    s->whole_upto = 0;
    return reading;
}

static void fetch(struct sim *sim, struct statement *s)
{
    struct reading reading = begin_read(sim, s);
    for (uint32_t i = 0; i < s->n && !reading.cut; i++)
        read_range(sim, &reading, s->firsts[i], s->lasts[i], s->settled_upto, -1);
    if (s->from < INT64_MAX)
        read_range(sim, &reading, s->from + 1, INT64_MAX, s->settled_upto, -1);
    if (!reading.cut)
        s->whole_upto = INT64_MAX;
}

static void catch_up(struct sim *sim, struct statement *s)
{
    struct reading reading = begin_read(sim, s);
    read_range(sim, &reading, s->from, s->upto, 0, (int)s->topic);
    if (!reading.cut)
        s->whole_upto = INT64_MAX;
}

static void patrol(struct sim *sim, struct statement *s)
{
    struct reading reading = begin_read(sim, s);
    reading.bytes_max = UINT64_MAX;
    read_range(sim, &reading, s->from, s->upto, 0, -1);
    if (!reading.cut)
        s->whole_upto = INT64_MAX;
}

static void mark(struct sim *sim, struct statement *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t row = s->marked[i];
        bool there = sim->db.state[row] == ROW_COMMITTED && sim->rows[row].id == s->firsts[i];
        if (there)
            database_mark(sim, row);
        else {
            s->missed_rows[s->missed] = row;
            s->missed_ids[s->missed++] = s->firsts[i];
        }
    }
}

static void save_change(struct sim *sim, const struct saved_change *change)
{
    if (!change->key_hash) {
        sim->db.records[change->topic][change->partition + 2] = change->first_id;
        return;
    }
    oracle_charged(sim, change);
    *database_key(sim, change->key_hash) = change->first_id ? (struct saved_key){.topic = change->topic,
                                                                                 .attempts = change->attempts,
                                                                                 .hash = change->key_hash,
                                                                                 .first_id = change->first_id}
                                                            : (struct saved_key){0};
}

static void save(struct sim *sim, struct statement *s)
{
    struct database *db = &sim->db;
    s->held = token_equal(db->lease, s->token) && token_equal(db->incarnation, s->token);
#ifdef MUTANT_SAVE_LEASE_ONLY
    s->held = token_equal(db->lease, s->token);
#endif
    if (!s->held)
        return;
    db->floor = s->from;
    for (uint32_t i = 0; i < s->n; i++)
        save_change(sim, &s->changes[i]);
    database_flush(sim);
    TRACE(sim, "saved: floor %lld, %u changes", (long long)db->floor, s->n);
    oracle_saved(sim, "after a save");
}

static void take(struct sim *sim, struct statement *s)
{
    struct database *db = &sim->db;
    s->granted = sim->now >= db->lease_until || db->lease_life == s->life;
    if (!s->granted)
        return;
    sim->writers_wait = false;
    oracle_excuse_others(sim, s->life); /* their rows may be published by this one as well */
    db->lease = db->incarnation = s->token;
    db->lease_life = s->life;
    db->lease_until = sim->now + sim->limits.lease_ttl_ms;
    if (db->sequence < db->floor) {
        db->floor = 0;
        memset(db->records, 0, sizeof db->records);
        memset(db->keys, 0, sizeof db->keys);
        s->floor_reset = true;
    }
    database_flush(sim);
    s->floor = db->floor;
    s->last_id = db->sequence;
    memcpy(s->records, db->records, sizeof s->records);
    memcpy(s->keys, db->keys, sizeof s->keys);
    TRACE(sim, "lease granted to life %u, floor %lld, sequence %lld", s->life, (long long)db->floor, (long long)db->sequence);
}

static void beat(struct sim *sim, struct statement *s)
{
    struct database *db = &sim->db;
    s->held = token_equal(db->lease, s->token);
    if (s->held)
        db->lease_until = sim->now + sim->limits.lease_ttl_ms;
    s->seen = db->incarnation;
    s->last_id = db->sequence;
    database_flush(sim);
}

static void release(struct sim *sim, struct statement *s)
{
    if (token_equal(sim->db.lease, s->token))
        sim->db.lease_until = 0;
    database_flush(sim);
}

static void flush(struct sim *sim, struct statement *s)
{
    bool waits = s->force && sim->limits.durability == RELAY_DURABILITY_REPLICATED;
    if (waits && sim->standby_cut) { /* for a standby that does not answer: until the statement's time is over */
        s->failed = true;
        return;
    }
    if (s->force)
        database_flush(sim);
    if (waits)
        sim->db.replicated_lsn = sim->db.insert_lsn;
    s->seen = sim->db.incarnation;
    s->flush_lsn = sim->db.flush_lsn;
}

static void pin(struct sim *sim, struct statement *s)
{
    struct topic *topic = &sim->topics[s->topic];
    if (!topic->pinned && s->actual_n > 0)
        topic->pinned = s->actual_n;
    s->pinned_n = topic->pinned;
}

void statement_read_sequence(struct sim *sim, struct statement *s)
{
    s->last_id = sim->db.sequence;
}

void statement_read_holders(struct sim *sim, struct statement *s)
{
    for (uint32_t w = 0; w < sim->writers_n; w++) {
        const struct writer *writer = &sim->writers[w];
        bool quiet = sim->mix.states_seen && !writer->active;
        if (!writer->holds_table)
            continue;
        if (s->writers_n == sim->limits.writers_max)
            s->complete = false;
        else
            s->writers[s->writers_n++] = (struct relay_writer){.vxid = writer->tx, .quiet_since = quiet ? writer->acts : 0};
    }
}

void statement_execute(struct sim *sim, struct statement *s)
{
    switch ((int)s->type) {
    case RELAY_FETCH:
        fetch(sim, s);
        break;
    case RELAY_CATCH_UP:
        catch_up(sim, s);
        break;
    case RELAY_PATROL:
        patrol(sim, s);
        break;
    case RELAY_MARK:
        mark(sim, s);
        break;
    case RELAY_SAVE:
        save(sim, s);
        break;
    case RELAY_LEASE_TAKE:
        take(sim, s);
        break;
    case RELAY_LEASE_BEAT:
        beat(sim, s);
        break;
    case RELAY_LEASE_RELEASE:
        release(sim, s);
        break;
    case RELAY_FLUSH:
        flush(sim, s);
        break;
    case RELAY_TOPIC:
        pin(sim, s);
        break;
    default:
        sim_violation(sim, "simulator", "no such statement");
    }
}
