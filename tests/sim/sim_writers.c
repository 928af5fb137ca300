/* SPDX-License-Identifier: BSD-2-Clause */
/* The services. Each transaction keeps the writer contract: lock the key, then INSERT, which locks the table before it draws the id;
 * both locks are kept to the end. Its transaction number may be older than its locks. */
#include <string.h>

#include "tests/sim/sim.h"

static void on_step(struct sim *sim, const struct event *event);

static void step_in(struct sim *sim, struct writer *w, uint64_t delay_ms)
{
    struct event *event = sim_at(sim, sim->now + delay_ms, on_step);
    event->a = (uint32_t)(w - sim->writers);
    event->b = w->epoch;
}

/* The last rows are written when the faults are over. */
static uint32_t rows_allowed(const struct sim *sim)
{
    return sim->faults_over ? sim->rows_target : sim->rows_target - 40;
}

static void forget_locks(struct sim *sim, struct writer *w)
{
    int me = (int)(w - sim->writers);
    for (uint32_t k = 0; k < sim->keys_n; k++)
        if (sim->keys[k].owner == me)
            sim->keys[k].owner = NOBODY;
    w->holds_table = w->early = false;
    w->xid = 0;
    w->rows_n = 0;
    w->step = WRITER_IDLE;
}

static void think(struct sim *sim, struct writer *w)
{
    forget_locks(sim, w);
    step_in(sim, w, sim_between(sim, 1, 2 * sim->mix.think_ms));
}

static void begin(struct sim *sim, struct writer *w)
{
    if (sim->rows_n >= rows_allowed(sim) || sim->now < sim->db_down_until || sim->writers_wait) {
        if (!writers_done(sim))
            step_in(sim, w, sim->now < sim->away_until ? 2000 : 20);
        return;
    }
    w->tx = ++sim->txs_n;
    w->rows_wanted = sim_chance(sim, sim->mix.many_rows) ? sim_between(sim, 4, TX_ROWS_MAX) : sim_between(sim, 1, 3);
    w->commits = !sim_chance(sim, sim->mix.rolled_back);
    w->synchronous = !sim_chance(sim, sim->mix.asynchronous);
    w->early = sim->next_ids_early;
    if (w->early) {
        sim->next_ids_early = false;
        sim_fired(sim, FAULT_EARLY_ID);
    }
    if (sim_chance(sim, sim->mix.early_xid))
        w->xid = ++sim->xids_n;
    w->key = w->last_key = KEY_NONE;
    w->step = WRITER_LOCKS_KEY;
    step_in(sim, w, sim_below(sim, 6));
}

static void finish(struct sim *sim, struct writer *w)
{
    if (w->commits)
        database_commit(sim, w);
    else
        database_roll_back(sim, w);
    TRACE(sim, "writer %d: transaction %u %s, %u rows", (int)(w - sim->writers), w->tx, w->commits ? "commits" : "rolls back", w->rows_n);
    think(sim, w);
}

static void lock_key(struct sim *sim, struct writer *w)
{
    int me = (int)(w - sim->writers);
    if (w->key == KEY_NONE) {
        if (sim_chance(sim, sim->mix.keyless)) {
            w->step = WRITER_LOCKS_TABLE;
            step_in(sim, w, sim_below(sim, 3));
            return;
        }
        if (w->last_key != KEY_NONE && sim_chance(sim, sim->mix.same_key))
            w->key = w->last_key;
        else
            w->key = sim_chance(sim, 400) ? sim_below(sim, 6) : sim_below(sim, sim->keys_n);
        w->last_key = w->key;
        w->waits_since = sim->now;
    }
    struct sim_key *key = &sim->keys[w->key];
    if (key->owner != NOBODY && key->owner != me) {
        if (sim->now - w->waits_since > 300) { /* perhaps a deadlock */
            w->commits = false;
            finish(sim, w);
        } else {
            w->active = true;
            step_in(sim, w, sim_between(sim, 1, 4));
        }
        return;
    }
    key->owner = me;
    w->step = WRITER_LOCKS_TABLE;
    step_in(sim, w, sim_below(sim, 4));
}

static void lock_table(struct sim *sim, struct writer *w)
{
    if (sim->writers_wait) {
        step_in(sim, w, 10);
        return;
    }
    w->holds_table = !w->early;
    if (!w->xid)
        w->xid = ++sim->xids_n;
    w->step = WRITER_DRAWS;
    step_in(sim, w, sim_below(sim, 3));
}

static uint32_t new_row(struct sim *sim, struct writer *w)
{
    uint32_t n = sim->rows_n++;
    struct sim_row *row = &sim->rows[n];
    memset(row, 0, sizeof *row);
    row->key = w->key;
    row->tx = w->tx;
    row->xid = w->xid;
    row->bytes = 200 + sim_below(sim, sim_chance(sim, 100) ? 3000 : 200);
    row->wish = -1;
    if (w->key == KEY_NONE) {
        struct row_event_id event_id = row_event_id(sim, n);
        row->topic = sim_below(sim, TOPICS);
        row->spread = hash_murmur2(event_id.bytes, sizeof event_id.bytes);
    } else {
        struct sim_key *key = &sim->keys[w->key];
        row->topic = key->topic;
        row->spread = key->spread;
        row->key_hash = key->hash;
        row->wish = key->wish;
        if (key->rows_n < KEY_ROWS_MAX)
            key->rows[key->rows_n++] = n;
    }
    if (sim->next_row_refused) {
        sim->next_row_refused = false;
        row->refused_until = sim->now + sim_between(sim, 100, 2000);
        row->refused_why = sim_chance(sim, 500) ? RELAY_FAULT_ROW : RELAY_FAULT_SIZE;
    }
    if (sim->next_row_poison) {
        sim->next_row_poison = false;
        row->refused_until = UINT64_MAX;
        row->refused_by_client = sim_chance(sim, 300);
        row->refused_why = sim_chance(sim, 500) ? RELAY_FAULT_ROW : RELAY_FAULT_SIZE;
    }
    row->misplaced = w->early;
    row->place = row->wish >= 0 ? row->wish : hash_partition(row->spread, (int32_t)sim->topics[row->topic].partitions);
    row->id = database_draw(sim, n);
    TRACE(sim, "writer %d: transaction %u draws id %lld for row %u, key %u -> %u/%d", (int)(w - sim->writers), w->tx, (long long)row->id, n,
          row->key, row->topic, row->place);
    return n;
}

static uint64_t hold_ms(struct sim *sim)
{
    if (sim->next_writer_long) {
        sim->next_writer_long = false;
        sim_fired(sim, FAULT_LONG_WRITER);
        return sim_between(sim, 500, 3000);
    }
    return sim_chance(sim, sim->mix.held_long) ? sim_between(sim, 30, 600) : sim_below(sim, 12);
}

static void draw(struct sim *sim, struct writer *w)
{
    if (sim->rows_n == ROWS_MAX) {
        finish(sim, w);
        return;
    }
    w->rows[w->rows_n++] = new_row(sim, w);
    bool last = w->rows_n == w->rows_wanted;
    w->key = KEY_NONE;
    w->step = last ? WRITER_ENDS : WRITER_LOCKS_KEY;
    if (!last && sim_chance(sim, sim->mix.pauses))
        step_in(sim, w, sim_between(sim, 20, 400));
    else
        step_in(sim, w, last ? hold_ms(sim) : sim_below(sim, sim_chance(sim, sim->mix.apart) ? 60 : 4));
}

static void on_step(struct sim *sim, const struct event *event)
{
    struct writer *w = &sim->writers[event->a];
    if (w->epoch != event->b)
        return;
    w->acts++;
    w->active = false;
    switch (w->step) {
    case WRITER_IDLE:
        begin(sim, w);
        break;
    case WRITER_LOCKS_KEY:
        lock_key(sim, w);
        break;
    case WRITER_LOCKS_TABLE:
        lock_table(sim, w);
        break;
    case WRITER_DRAWS:
        draw(sim, w);
        break;
    case WRITER_ENDS:
        finish(sim, w);
        break;
    }
}

void writers_abort(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->writers_n; i++) {
        struct writer *w = &sim->writers[i];
        w->epoch++;
        forget_locks(sim, w);
        step_in(sim, w, sim_between(sim, 1, 100));
    }
}

void writers_heal(struct sim *sim)
{
    TRACE(sim, "poison is healed");
    for (uint32_t n = 0; n < sim->rows_n; n++)
        sim->rows[n].refused_until = 0;
    sim->healed = true;
}

bool writers_done(const struct sim *sim)
{
    if (!sim->faults_over || sim->rows_n < sim->rows_target)
        return false;
    for (uint32_t i = 0; i < sim->writers_n; i++)
        if (sim->writers[i].step != WRITER_IDLE)
            return false;
    return true;
}

static void name_key(struct sim *sim, uint32_t k)
{
    struct sim_key *key = &sim->keys[k];
    char topic[3] = "t0", name[4] = "k00";
    topic[1] = (char)('0' + k % TOPICS);
    name[1] = (char)('0' + k / 10);
    name[2] = (char)('0' + k % 10);
    key->topic = k % TOPICS;
    key->spread = hash_murmur2(name, 3);
    key->hash = hash_key(topic, 2, name, 3);
    key->wish = k % 13 == 5 ? (int32_t)sim_below(sim, sim->topics[key->topic].partitions + 1) : -1; /* the last one comes later */
    key->owner = NOBODY;
    key->rows_n = 0;
}

void writers_start(struct sim *sim)
{
    sim->keys_n = sim_between(sim, 24, KEYS_MAX);
    sim->writers_n = sim_between(sim, 3, WRITERS_MAX - 1);
    sim->rows_target = sim_between(sim, 250, 500);
    for (uint32_t k = 0; k < sim->keys_n; k++)
        name_key(sim, k);
    memset(sim->writers, 0, sizeof sim->writers);
    for (uint32_t w = 0; w < sim->writers_n; w++)
        step_in(sim, &sim->writers[w], sim_below(sim, 100));
}
