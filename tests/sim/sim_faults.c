/* SPDX-License-Identifier: BSD-2-Clause */
/* What goes wrong, and when. Each seed has favourites, so that every pair of faults meets often in some seeds. */
#include "tests/sim/sim.h"

static void on_fault(struct sim *sim, const struct event *event);

/* --- relay processes ---------------------------------------------------------------------------------------------- */

static void on_wake_up(struct sim *sim, const struct event *event)
{
    struct process *p = &sim->processes[event->a];
    if (p->alive && p->paused && p->life == event->b)
        process_wake(sim, p);
}

static void on_another(struct sim *sim, const struct event *event)
{
    (void)event;
    process_start(sim);
}

static void pause_one(struct sim *sim, struct process *p)
{
    if (p->paused || p->stopping)
        return;
    sim_fired(sim, FAULT_PAUSE);
    process_pause(sim, p);
    struct event *event = sim_at(sim, sim->now + sim_between(sim, 20, 2 * sim->limits.lease_ttl_ms), on_wake_up);
    event->a = (uint32_t)(p - sim->processes);
    event->b = p->life;
    sim_at(sim, sim->now + sim_below(sim, 300), on_another);
}

static void break_one(struct sim *sim, struct session *session)
{
    if (session->open && !session->closing)
        sim_fired(sim, FAULT_FATAL);
    session_break(sim, session);
}

static void hit_process(struct sim *sim, enum fault fault)
{
    struct process *p = process_any(sim);
    if (!p)
        return;
    switch ((int)fault) {
    case FAULT_KILL:
        sim_fired(sim, fault);
        process_kill(sim, p);
        break;
    case FAULT_STOP:
        if (p->paused || p->stopping)
            break;
        sim_fired(sim, fault);
        process_stop(sim, p);
        break;
    case FAULT_PAUSE:
        pause_one(sim, p);
        break;
    case FAULT_CONNECTION:
        if (p->connected)
            sim_fired(sim, fault);
        connection_lose(sim, p);
        break;
    case FAULT_FATAL:
        break_one(sim, &p->sessions[sim_chance(sim, 300) ? RELAY_PROBE : RELAY_MAIN]);
        break;
    default:
        break;
    }
}

static void arm_outcome(struct sim *sim)
{
    static const enum relay_action_type types[] = {RELAY_MARK,       RELAY_MARK,       RELAY_SAVE,    RELAY_SAVE,  RELAY_LEASE_TAKE,
                                                   RELAY_LEASE_BEAT, RELAY_LEASE_TAKE, RELAY_WRITERS, RELAY_FETCH, RELAY_FLUSH};
    struct process *p = process_any(sim);
    if (!p)
        return;
    p->lose_outcome = true;
    p->lose_type = types[sim_below(sim, sizeof types / sizeof types[0])];
}

/* --- the database ------------------------------------------------------------------------------------------------- */

static void go_down(struct sim *sim, bool pooled)
{
    sim->db_down_until = sim->now + (pooled ? sim_between(sim, 1, 60) : sim_between(sim, 1, 400));
    for (uint32_t i = 0; i < PROCESSES && !pooled; i++)
        if (sim->processes[i].alive)
            connection_lose(sim, &sim->processes[i]);
}

static void on_promote(struct sim *sim, const struct event *event)
{
    bool pooled = event->a;
    sim_fired(sim, pooled ? FAULT_FAILOVER_POOLED : FAULT_FAILOVER);
    go_down(sim, pooled);
    database_fail_over(sim);
}

/* Is there a relay that will notice that the sequence stands below the highest id that it saw? */
static bool somebody_reads(const struct sim *sim)
{
    for (uint32_t i = 0; i < PROCESSES; i++)
        if (sim->processes[i].alive && relay_view(sim->processes[i].relay).highest > 0)
            return true;
    return false;
}

static void hit_database(struct sim *sim, enum fault fault)
{
    if (sim->standby_cut || sim->now < sim->db_down_until)
        return;
    switch ((int)fault) {
    case FAULT_CRASH:
    case FAULT_CRASH_POOLED:
        if (fault == FAULT_CRASH_POOLED && sim_chance(sim, 500)) {
            sim->crash_at_flush = true;
            break;
        }
        sim_fired(sim, fault);
        go_down(sim, fault == FAULT_CRASH_POOLED);
        database_crash(sim);
        break;
    case FAULT_FAILOVER:
    case FAULT_FAILOVER_POOLED:
        if (sim->writers_wait) /* a failover that undoes what the relay did about the sequence is nobody's promise */
            break;
        database_cut(sim);
        sim_at(sim, sim->now + sim_between(sim, 1, sim_chance(sim, 500) ? 100 : 1000), on_promote)->a = fault == FAULT_FAILOVER_POOLED;
        break;
    case FAULT_TRUNCATE:
    case FAULT_RESTARTED:
        if (fault == FAULT_RESTARTED && !somebody_reads(sim))
            break;
        if (database_truncate(sim, fault == FAULT_TRUNCATE))
            sim_fired(sim, fault);
        else
            sim_at(sim, sim->now + 1, on_fault)->a = fault;
        break;
    default:
        break;
    }
}

/* Somebody's UPDATE. */
static void unmark_one(struct sim *sim)
{
    uint32_t first = sim->rows_n ? sim_below(sim, sim->rows_n) : 0;
    for (uint32_t i = 0; i < sim->rows_n; i++) {
        uint32_t n = (first + i) % sim->rows_n;
        if (sim->db.state[n] != ROW_COMMITTED || !sim->db.sent[n])
            continue;
        sim_fired(sim, FAULT_UNMARKED);
        TRACE(sim, "row %u (id %lld) is marked unsent", n, (long long)sim->rows[n].id);
        sim->db.sent[n] = false;
        sim->rows[n].excused = sim->rows[n].misplaced = true;
        return;
    }
}

/* --- Kafka -------------------------------------------------------------------------------------------------------- */

static void hit_kafka(struct sim *sim, enum fault fault)
{
    uint32_t t = sim_below(sim, TOPICS);
    struct partition *partition = &sim->partitions[t][sim_below(sim, sim->topics[t].partitions)];
    switch ((int)fault) {
    case FAULT_STUCK:
        partition->stuck_until = sim->now + sim_between(sim, 50, 2500);
        break;
    case FAULT_LEADER:
        partition->refuses_until = sim->now + sim_between(sim, 5, 300);
        break;
    case FAULT_TOPIC:
        sim->topics[t].missing_until = sim->now + sim_between(sim, 50, 1500);
        break;
    case FAULT_FORBIDDEN:
        sim->topics[t].forbidden_until = sim->now + sim_between(sim, 50, 2500);
        break;
    case FAULT_AWAY:
        if (sim->away_until < sim->now)
            sim->away_until = sim->now + sim_between(sim, 50, 3000);
        break;
    default:
        break;
    }
    sim_fired(sim, fault);
}

static void on_fault(struct sim *sim, const struct event *event)
{
    enum fault fault = (enum fault)event->a;
    switch (fault) {
    case FAULT_KILL:
    case FAULT_STOP:
    case FAULT_PAUSE:
    case FAULT_CONNECTION:
    case FAULT_FATAL:
        hit_process(sim, fault);
        break;
    case FAULT_CRASH:
    case FAULT_CRASH_POOLED:
    case FAULT_FAILOVER:
    case FAULT_FAILOVER_POOLED:
    case FAULT_TRUNCATE:
    case FAULT_RESTARTED:
        hit_database(sim, fault);
        break;
    case FAULT_STUCK:
    case FAULT_LEADER:
    case FAULT_TOPIC:
    case FAULT_FORBIDDEN:
    case FAULT_AWAY:
        hit_kafka(sim, fault);
        break;
    case FAULT_FEWER: /* counted when somebody asks */
        sim->topics[sim_below(sim, TOPICS)].fewer_until = sim->now + sim_between(sim, 100, 1500);
        break;
    case FAULT_OUTCOME: /* these when they happen */
        arm_outcome(sim);
        break;
    case FAULT_ROW:
        sim->next_row_refused = true;
        break;
    case FAULT_POISON:
        sim->next_row_poison = sim->poisons_n++ < POISONS_MAX;
        break;
    case FAULT_LONG_WRITER:
        sim->next_writer_long = true;
        break;
    case FAULT_EARLY_ID:
        sim->next_ids_early = sim->next_writer_long = true;
        break;
    case FAULT_UNMARKED:
        unmark_one(sim);
        break;
    case FAULT_UNPUBLISHED:
        sim->next_unpublished = true;
        break;
    case FAULT_STATEMENT:
    case FAULT_SLOW:
    case FAULT_REPLY:
    case FAULT_SESSION_OPEN:
    case FAULT_FORGOTTEN:
    case FAULTS:
        break;
    }
}

/* --- the plan ----------------------------------------------------------------------------------------------------- */

static void on_over(struct sim *sim, const struct event *event)
{
    (void)event;
    uint32_t fired = 0;
    for (uint32_t f = 0; f < FAULTS; f++)
        fired += sim->fired[f];
    if (fired < 5) { /* too little went wrong so far */
        sim_at(sim, sim->now + 1, on_fault)->a = FAULT_KILL;
        sim_at(sim, sim->now + 300, on_over);
        return;
    }
    TRACE(sim, "the faults are over");
    sim->faults_over = true;
    sim->next_unpublished = sim->next_row_refused = sim->next_row_poison = sim->next_ids_early = sim->next_writer_long =
        sim->crash_at_flush = false;
    for (uint32_t i = 0; i < PROCESSES; i++)
        sim->processes[i].lose_outcome = false;
}

/* Somebody runs always, and nobody is told to stop twice. */
static void on_keep_running(struct sim *sim, const struct event *event)
{
    (void)event;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < PROCESSES; i++)
        alive += sim->processes[i].alive;
    if (alive == 0 && !sim->stopped_by && sim_chance(sim, 300))
        process_start(sim);
    if (sim->writers_wait && sim->now > sim->writers_wait_since + 2000 && sim->db.floor == 0 && !somebody_reads(sim))
        sim->writers_wait = false; /* there is nothing to be noticed */
    struct process *p = process_any(sim);
    if (alive == 2 && !p->paused && sim_chance(sim, 20)) {
        if (sim_chance(sim, 500))
            process_kill(sim, p);
        else
            process_stop(sim, p);
    }
    sim_at(sim, sim->now + (sim->now < sim->away_until ? 500 : 20), on_keep_running);
}

/* The topic gets one partition more, once its count is pinned. */
static void on_grow(struct sim *sim, const struct event *event)
{
    struct topic *topic = &sim->topics[event->a];
    topic->grown = topic->pinned > 0;
    if (!topic->grown)
        sim_at(sim, sim->now + 50, on_grow)->a = event->a;
}

static void on_outage(struct sim *sim, const struct event *event)
{
    (void)event;
    sim_fired(sim, FAULT_AWAY);
    sim->away_until = sim->now + OUTAGE_MS;
}

/* The broker goes away in the middle of the work, and meanwhile relays and database have their own troubles. */
static void outage_start(struct sim *sim)
{
    static const enum fault planned[] = {FAULT_KILL, FAULT_STOP, FAULT_PAUSE, FAULT_CRASH, FAULT_CONNECTION, FAULT_OUTCOME, FAULT_TOPIC};
    sim_at(sim, sim_between(sim, 500, 4000), on_outage);
    for (uint32_t i = 0; i < 20; i++)
        sim_at(sim, 100 + sim_below(sim, (uint32_t)OUTAGE_MS), on_fault)->a = planned[sim_below(sim, sizeof planned / sizeof planned[0])];
    for (uint32_t t = 0; t < TOPICS; t++)
        sim_at(sim, 2000, on_grow)->a = t;
    sim->faults_end = OUTAGE_MS + 5000;
    sim_at(sim, sim->faults_end, on_over);
    sim_at(sim, 0, on_keep_running);
}

void faults_start(struct sim *sim)
{
    if (sim->outage) {
        outage_start(sim);
        return;
    }
    static const enum fault planned[] = {FAULT_KILL,      FAULT_STOP,        FAULT_PAUSE,      FAULT_CRASH,       FAULT_CRASH_POOLED,
                                         FAULT_FAILOVER,  FAULT_TRUNCATE,    FAULT_CONNECTION, FAULT_OUTCOME,     FAULT_FAILOVER_POOLED,
                                         FAULT_STUCK,     FAULT_LONG_WRITER, FAULT_TOPIC,      FAULT_FEWER,       FAULT_ROW,
                                         FAULT_RESTARTED, FAULT_FATAL,       FAULT_LEADER,     FAULT_UNPUBLISHED, FAULT_POISON,
                                         FAULT_FORBIDDEN, FAULT_AWAY,        FAULT_EARLY_ID,   FAULT_UNMARKED};
    const uint32_t planned_n = sizeof planned / sizeof planned[0];
    enum fault favourites[3];
    for (uint32_t i = 0; i < 3; i++)
        favourites[i] = planned[sim_below(sim, planned_n)];
    uint32_t n = sim_between(sim, 10, 40);
    sim->faults_end = sim_between(sim, 1500, 6000) * (sim->mix.expiration_ms ? 3 : 1);
    for (uint32_t i = 0; i < n; i++) {
        enum fault fault = sim_chance(sim, 650) ? favourites[sim_below(sim, 3)] : planned[sim_below(sim, planned_n)];
        sim_at(sim, sim_between(sim, 50, (uint32_t)sim->faults_end), on_fault)->a = fault;
    }
    for (uint32_t t = 0; t < TOPICS; t++)
        sim_at(sim, sim_below(sim, (uint32_t)sim->faults_end), on_grow)->a = t;
    sim_at(sim, sim->faults_end + 2600, on_over);
    sim_at(sim, 0, on_keep_running);
}
