/* SPDX-License-Identifier: BSD-2-Clause */
/* The judge. It sees what the relay cannot: which rows really committed, what is really in the log. Each check has a name. */
#include <string.h>

#include "tests/sim/sim.h"

/* --- the log ------------------------------------------------------------------------------------------------------ */

static void judge_order(struct sim *sim, uint32_t n)
{
    const struct sim_row *row = &sim->rows[n];
    if (row->key == KEY_NONE)
        return;
    const struct sim_key *key = &sim->keys[row->key];
    for (uint32_t i = 0; i < key->rows_n && key->rows[i] < n; i++) {
        uint32_t earlier = key->rows[i];
        if (sim->rows[earlier].misplaced)
            continue;
        if (sim->db.state[earlier] == ROW_COMMITTED && sim->rows[earlier].copies == 0)
            sim_violation(sim, "order", "row %u (id %lld) of key %u is in the log, row %u (id %lld) is not", n, (long long)row->id,
                          row->key, earlier, (long long)sim->rows[earlier].id);
    }
}

void oracle_appended(struct sim *sim, uint32_t n, uint32_t topic, uint32_t partition)
{
    struct sim_row *row = &sim->rows[n];
    sim->checks++;
    if (row->topic != topic || row->place != (int32_t)partition)
        sim_violation(sim, "identity", "row %u belongs to %u/%d and is in %u/%u", n, row->topic, row->place, topic, partition);
    if (sim->db.state[n] == ROW_OPEN || sim->db.state[n] == ROW_ROLLED_BACK)
        sim_violation(sim, "phantom", "row %u is in the log and never committed", n);
    if (row->copies && !row->excused)
        sim_violation(sim, "duplicate", "row %u (id %lld) is in the log twice, and nothing happened to it", n, (long long)row->id);
    if (!row->copies && sim->db.state[n] == ROW_COMMITTED)
        judge_order(sim, n);
    row->copies++;
}

void oracle_excuse_life(struct sim *sim, uint32_t life)
{
    for (uint32_t n = 0; n < sim->rows_n; n++)
        if (sim->rows[n].handed_life == life && !sim->db.sent[n])
            sim->rows[n].excused = true;
}

void oracle_excuse_others(struct sim *sim, uint32_t life)
{
    for (uint32_t n = 0; n < sim->rows_n; n++)
        if (sim->rows[n].handed_life && sim->rows[n].handed_life != life && !sim->db.sent[n])
            sim->rows[n].excused = true;
}

/* --- the database ------------------------------------------------------------------------------------------------- */

void oracle_marked(struct sim *sim, uint32_t n)
{
    sim->checks++;
    if (!sim->rows[n].copies)
        sim_violation(sim, "lying_mark", "row %u (id %lld) is marked and not in the log", n, (long long)sim->rows[n].id);
}

void oracle_delivered(struct sim *sim, const struct process *p, uint32_t n)
{
    sim->rows[n].acked_life = p->life;
    if (sim->db.state[n] != ROW_COMMITTED)
        oracle_lost(sim, n);
}

void oracle_lost(struct sim *sim, uint32_t n)
{
    struct sim_row *row = &sim->rows[n];
    sim->checks++;
    row->phantom_life = row->acked_life;
    if (row->copies && sim->limits.durability == RELAY_DURABILITY_REPLICATED && sim->db.state[n] != ROW_TRUNCATED)
        sim_violation(sim, "phantom", "row %u (id %lld) is in the log, and was lost although it had to be replicated", n,
                      (long long)row->id);
}

void oracle_mark_answered(struct sim *sim, const struct process *p, const struct statement *s)
{
    for (uint32_t i = 0, missed = 0; i < s->n; i++) {
        struct sim_row *row = &sim->rows[s->marked[i]];
        if (missed < s->missed && s->missed_rows[missed] == s->marked[i]) {
            missed++;
            continue;
        }
        if (row->acked_life == p->life)
            row->acked_life = 0;
        if (row->phantom_life == p->life)
            row->phantom_life = 0;
    }
}

/* Whatever it was told of: the row itself is at fault, and not another one of its batch. */
void oracle_refused(struct sim *sim, uint32_t n, enum relay_fault why)
{
    struct sim_row *row = &sim->rows[n];
    row->refusals += (why == RELAY_FAULT_ROW || why == RELAY_FAULT_SIZE) && row->refused_why && !row->refused_by_client;
}

static uint32_t refusals_of(const struct sim *sim, uint64_t hash)
{
    uint32_t refusals = 0;
    for (uint32_t n = 0; n < sim->rows_n; n++)
        if (sim->rows[n].refusals && row_waits_with(sim, n) == hash)
            refusals += sim->rows[n].refusals;
    return refusals;
}

/* No outage and no neighbour costs a key an attempt. */
static void judge_attempts(struct sim *sim, uint64_t hash, uint32_t attempts)
{
    sim->checks++;
    if (attempts && attempts > refusals_of(sim, hash))
        sim_violation(sim, "charge", "key %llx is charged %u attempts, and its rows were refused %u times", (unsigned long long)hash,
                      attempts, refusals_of(sim, hash));
}

void oracle_charged(struct sim *sim, const struct saved_change *change)
{
    judge_attempts(sim, change->key_hash, change->attempts);
}

static bool is_phantom(const struct sim *sim, uint32_t n)
{
    uint8_t state = sim->db.state[n];
    return sim->rows[n].copies && (state == ROW_LOST || state == ROW_LOST_IN_FAILOVER || state == ROW_TRUNCATED);
}

/* A mark may hold two pairs of one id; which of them was missed is not told, and so the other may be named. */
static uint32_t same_id(const struct sim *sim, const struct process *p, uint32_t n)
{
    for (uint32_t other = 0; !is_phantom(sim, n) && other < n; other++)
        if (sim->rows[other].id == sim->rows[n].id && sim->rows[other].phantom_life == p->life)
            return other;
    return n;
}

static void judge_phantom(struct sim *sim, const struct process *p, uint32_t n)
{
    n = same_id(sim, p, n);
    struct sim_row *row = &sim->rows[n];
    if (!is_phantom(sim, n))
        sim_violation(sim, "phantom_told", "row %u (id %lld) is told to be a phantom, and is none", n, (long long)row->id);
    if (row->phantom_life == p->life)
        row->phantom_life = row->acked_life = 0;
}

void oracle_noted(struct sim *sim, struct process *p, const struct relay_action *note)
{
    sim->checks++;
    if (note->note == RELAY_NOTE_PHANTOM) {
        judge_phantom(sim, p, row_of_event_id(note->event_id));
    } else if (note->note == RELAY_NOTE_PATROL_FOUND) {
        uint32_t n = row_of_event_id(note->event_id);
        if (!sim->rows[n].misplaced)
            sim_violation(sim, "patrol", "row %u (id %lld) is found by the patrol, and was nobody's mistake", n,
                          (long long)sim->rows[n].id);
    } else if (note->note == RELAY_NOTE_DROPPED) {
        for (uint32_t n = 0; n < sim->rows_n; n++)
            if (sim->rows[n].phantom_life == p->life)
                sim->rows[n].phantom_life = 0;
    }
}

/* In an orderly way, with everything marked. */
void oracle_exits(struct sim *sim, const struct process *p)
{
    for (uint32_t n = 0; n < sim->rows_n; n++)
        if (sim->rows[n].phantom_life == p->life)
            sim_violation(sim, "phantom_untold", "row %u (id %lld) was acknowledged and lost, and the relay never said so", n,
                          (long long)sim->rows[n].id);
}

static bool is_covered(const struct sim *sim, const struct sim_row *row)
{
    const int64_t *records = sim->db.records[row->topic];
    bool waits_for_partition = row->place >= (int32_t)sim->topics[row->topic].partitions;
    for (int32_t i = 0; i < RECORDS_MAX; i++) {
        bool about_it = i - 2 == RELAY_WHOLE_TOPIC || i - 2 == row->place || (i - 2 == RELAY_UNPLACED && waits_for_partition);
        if (about_it && records[i] && records[i] <= row->id)
            return true;
    }
    uint64_t hash = row_waits_with(sim, (uint32_t)(row - sim->rows));
    for (uint32_t i = 0; i < SAVED_KEYS_MAX; i++)
        if (sim->db.keys[i].hash == hash && sim->db.keys[i].first_id <= row->id)
            return true;
    return false;
}

void oracle_saved(struct sim *sim, const char *when)
{
    sim->checks++;
    for (uint32_t n = 0; n < sim->rows_n; n++) {
        const struct sim_row *row = &sim->rows[n];
        bool unsettled = sim->db.state[n] == ROW_OPEN || (sim->db.state[n] == ROW_COMMITTED && !sim->db.sent[n]);
        if (unsettled && row->id <= sim->db.floor && !row->misplaced && !is_covered(sim, row))
            sim_violation(sim, "floor", "%s: row %u, id %lld of %u/%d, is not settled, the floor is %lld and no record covers it", when, n,
                          (long long)row->id, row->topic, row->place, (long long)sim->db.floor);
    }
}

/* --- the core's actions ------------------------------------------------------------------------------------------- */

static void judge_durable(struct sim *sim, uint32_t n)
{
    uint8_t state = sim->db.state[n];
    if (state == ROW_OPEN || state == ROW_ROLLED_BACK || state == ROW_LOST)
        sim_violation(sim, "phantom", "row %u (id %lld) is handed over and %s", n, (long long)sim->rows[n].id,
                      state == ROW_LOST ? "was lost in a crash" : "never committed");
    if (state == ROW_COMMITTED && sim->rows[n].commit_lsn > sim->db.flush_lsn)
        sim_violation(sim, "barrier", "row %u (id %lld) is handed over and not flushed", n, (long long)sim->rows[n].id);
    if (state == ROW_COMMITTED && sim->limits.durability == RELAY_DURABILITY_REPLICATED && sim->rows[n].commit_lsn > sim->db.replicated_lsn)
        sim_violation(sim, "replicated", "row %u (id %lld) is handed over and not replicated", n, (long long)sim->rows[n].id);
}

/* A key is in one session at a time: two producers have no order. */
static void judge_sessions(struct sim *sim, const struct process *p, const struct relay_action *action)
{
    uint32_t key = sim->rows[p->slots[action->slot].row].key;
    if (sim->rows[p->slots[action->slot].row].misplaced) /* its order is lost already */
        return;
    for (uint32_t i = 0; key != KEY_NONE && i < WINDOW_MAX; i++)
        if (p->slots[i].handed && p->slots[i].session != action->session && sim->rows[p->slots[i].row].key == key)
            sim_violation(sim, "two_sessions", "row %u is handed over, and row %u of its key is in the other session",
                          p->slots[action->slot].row, p->slots[i].row);
}

void oracle_published(struct sim *sim, struct process *p, const struct relay_action *action)
{
    sim->checks++;
    const struct sim_slot *slot = action->slot < WINDOW_MAX ? &p->slots[action->slot] : NULL;
    if (!slot || !slot->used || !slot->bytes) {
        sim_violation(sim, "bytes", "slot %u is handed over without its bytes", action->slot);
        return;
    }
    const struct sim_row *row = &sim->rows[slot->row];
    if (slot->handed || slot->delivered)
        sim_violation(sim, "protocol", "slot %u is handed over twice", action->slot);
    const struct session *session = &p->sessions[action->session];
    if (!session->open || session->closing)
        sim_violation(sim, "protocol", "slot %u is handed over without a session", action->slot);
    if (!p->granted || sim->now >= p->deadline)
        sim_violation(sim, "lease", "slot %u is handed over after the deadline of the lease", action->slot);
    if (action->topic >= LENT_MAX || p->topic_of[action->topic] != row->topic || action->partition != row->place) {
        sim_violation(sim, "identity", "row %u belongs to %u/%d and is handed over to another", slot->row, row->topic, row->place);
        return;
    }
    if (row->place >= (int32_t)sim->topics[row->topic].partitions + sim->topics[row->topic].grown)
        sim_violation(sim, "identity", "row %u is handed over to partition %d, which does not exist", slot->row, row->place);
    const struct client_lane *lane = &session->lanes[row->topic][row->place];
    judge_sessions(sim, p, action);
    if (lane->handed >= sim->limits.lane_rows)
        sim_violation(sim, "lane_share", "%u rows of %u/%d are handed over at once", lane->handed + 1, row->topic, row->place);
    if (lane->acks == 0 && lane->handed > 0)
        sim_violation(sim, "cold_lane", "a second row of %u/%d before the first acknowledgement", row->topic, row->place);
    judge_durable(sim, slot->row);
}

#define BIT(type) (1u << (type))

void oracle_action(struct sim *sim, struct process *p, const struct relay_action *action)
{
    const uint32_t single = BIT(RELAY_CONNECT) | BIT(RELAY_LEASE_TAKE) | BIT(RELAY_LEASE_BEAT) | BIT(RELAY_LEASE_RELEASE) |
                            BIT(RELAY_FETCH) | BIT(RELAY_CATCH_UP) | BIT(RELAY_PATROL) | BIT(RELAY_WRITERS) | BIT(RELAY_FLUSH) |
                            BIT(RELAY_MARK) | BIT(RELAY_SAVE) | BIT(RELAY_TOPIC);
    const uint32_t reads = BIT(RELAY_FETCH) | BIT(RELAY_CATCH_UP) | BIT(RELAY_PATROL) | BIT(RELAY_WRITERS);
    const uint32_t sessions = BIT(RELAY_SESSION_OPEN) | BIT(RELAY_SESSION_CLOSE);
    uint32_t bit = BIT(action->type);
    sim->checks++;
    if (bit & sessions) {
        if (p->sessions_outstanding[action->session])
            sim_violation(sim, "protocol", "two actions of session %d are outstanding", (int)action->session);
        p->sessions_outstanding[action->session] |= bit;
    }
    if ((bit & single) == 0)
        return;
    if (p->outstanding & bit)
        sim_violation(sim, "protocol", "two of action %d are outstanding", (int)action->type);
    if ((bit & reads) && (p->outstanding & reads))
        sim_violation(sim, "protocol", "two reads are outstanding");
    if ((action->type == RELAY_FETCH || action->type == RELAY_PATROL) && !p->granted)
        sim_violation(sim, "lease", "a fetch without the lease");
    p->outstanding |= bit;
}

void oracle_admitted(struct sim *sim, struct process *p, row_slot n, uint32_t row)
{
    if (n >= sim->limits.window_rows) {
        sim_violation(sim, "window", "slot %u is outside of the window", n);
        return;
    }
    struct sim_slot *slot = &p->slots[n];
    if (slot->bytes || slot->handed)
        sim_violation(sim, "bytes", "slot %u is used again, its bytes have not ended", n);
    *slot = (struct sim_slot){.row = row, .bytes = true, .used = true};
    p->slot_bytes += sim->rows[row].bytes;
    if (p->slot_bytes > sim->limits.window_bytes + 4000) /* a read may bring one row more than its bytes */
        sim_violation(sim, "window", "%llu bytes are in the window", (unsigned long long)p->slot_bytes);
}

void oracle_bytes_end(struct sim *sim, struct process *p, row_slot n)
{
    struct sim_slot *slot = &p->slots[n];
    if (n >= WINDOW_MAX || !slot->bytes || slot->handed) {
        sim_violation(sim, "bytes", "the bytes of slot %u end twice, or while they are lent", n);
        return;
    }
    slot->bytes = false;
    p->slot_bytes -= sim->rows[slot->row].bytes;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static struct process *the_process(struct sim *sim)
{
    struct process *only = NULL;
    for (uint32_t i = 0; i < PROCESSES; i++) {
        if (!sim->processes[i].alive)
            continue;
        if (only)
            return NULL;
        only = &sim->processes[i];
    }
    return only;
}

/* Rows that wait for one that is refused until it is healed. */
static bool waits_for_poison(const struct sim *sim, uint32_t n)
{
    const struct sim_row *row = &sim->rows[n];
    if (row->key == KEY_NONE)
        return row->refused_until == UINT64_MAX;
    const struct sim_key *key = &sim->keys[row->key];
    for (uint32_t i = 0; i < key->rows_n && key->rows[i] <= n; i++)
        if (sim->rows[key->rows[i]].refused_until == UINT64_MAX && sim->db.state[key->rows[i]] == ROW_COMMITTED)
            return true;
    return false;
}

static const char *unpublished(struct sim *sim, uint32_t *ret_row)
{
    for (uint32_t n = 0; n < sim->rows_n; n++) {
        *ret_row = n;
        if (sim->db.state[n] == ROW_COMMITTED && !sim->rows[n].copies && !waits_for_poison(sim, n))
            return "a committed row is not in the log";
    }
    for (uint32_t n = 0; n < sim->rows_n; n++) {
        *ret_row = n;
        if (sim->db.state[n] == ROW_COMMITTED && !sim->db.sent[n] && !waits_for_poison(sim, n))
            return "a row is not marked";
    }
    return NULL;
}

bool oracle_isolated(struct sim *sim)
{
    uint32_t row = 0;
    return unpublished(sim, &row) == NULL;
}

static const char *unfinished(struct sim *sim, uint32_t *ret_row)
{
    const char *why = unpublished(sim, ret_row);
    if (why)
        return why;
    struct process *p = the_process(sim);
    if (!p)
        return "no relay runs, or two";
    struct relay_view view = relay_view(p->relay);
    if (view.open_gaps)
        return "a gap is open";
    if (view.behind_lanes || view.behind_topics || view.behind_keys)
        return "something is behind";
    if (view.window_rows)
        return "rows are in the window";
    if (sim->db.floor != view.highest || view.floor != view.highest)
        return "the floor is below the highest id";
    for (uint32_t t = 0; t < TOPICS; t++)
        for (uint32_t i = 0; i < RECORDS_MAX; i++)
            if (sim->db.records[t][i] && sim->limits.lanes_max >= 36) /* with fewer numbers one may be left for the next start */
                return "a record of something behind is saved";
    for (uint32_t i = 0; i < SAVED_KEYS_MAX; i++)
        if (sim->db.keys[i].hash)
            return "a record of a key is saved";
    return NULL;
}

bool oracle_finished(struct sim *sim)
{
    uint32_t row = 0;
    return unfinished(sim, &row) == NULL;
}

/* Called when the time is over. A row that the relay does not look for any more is lost; else it is late. */
void oracle_late(struct sim *sim)
{
    uint32_t row = 0;
    const char *why = unfinished(sim, &row);
    struct process *p = the_process(sim);
    struct relay_view view = p ? relay_view(p->relay) : (struct relay_view){0};
    bool at_rest = p && !view.open_gaps && !view.behind_lanes && !view.behind_topics && !view.behind_keys && !view.window_rows;
    bool lost = at_rest && !sim->rows[row].copies && sim->rows[row].id <= view.highest;
    sim_violation(sim,
                  lost          ? "loss"
                  : sim->healed ? "liveness"
                                : "isolation",
                  "%s: row %u id %lld; gaps %u, behind %u, %u and %u, window %u (%u handed), floor %lld, highest %lld, saved %lld",
                  why ? why : "?", row, (long long)sim->rows[row].id, view.open_gaps, view.behind_lanes, view.behind_topics,
                  view.behind_keys, view.window_rows, view.handed_rows, (long long)view.floor, (long long)view.highest,
                  (long long)sim->db.floor);
}

/* Did this seed ask for what a seed must ask for? */
void oracle_judge_simulator(struct sim *sim)
{
    uint32_t faults = 0, keys = 0;
    for (uint32_t f = 0; f < FAULTS; f++)
        faults += sim->fired[f];
    for (uint32_t k = 0; k < sim->keys_n; k++)
        keys += sim->keys[k].rows_n > 0;
    if (sim->rows_n < 200 || keys < 20 || sim->writers_n < 3 || faults < 5)
        sim_violation(sim, "simulator", "only %u rows, %u keys, %u writers, %u faults", sim->rows_n, keys, sim->writers_n, faults);
}
