/* SPDX-License-Identifier: BSD-2-Clause */
/* The way of a statement: sent, executed at one moment at the server, answered; and the connections that it goes over. A connection
 * works on one statement at a time. Behind a pooler a connection outlives its server; what was not executed yet waits. */
#include <string.h>

#include "tests/sim/sim.h"

enum connection {
    CONNECTION_READ,
    CONNECTION_MARK,
    CONNECTION_LEASE
};

static enum connection connection_of(enum relay_action_type type)
{
    if (type == RELAY_FETCH || type == RELAY_CATCH_UP || type == RELAY_WRITERS || type == RELAY_PATROL)
        return CONNECTION_READ;
    if (type == RELAY_LEASE_TAKE || type == RELAY_LEASE_BEAT || type == RELAY_LEASE_RELEASE)
        return CONNECTION_LEASE;
    return CONNECTION_MARK;
}

struct statement *statement_new(struct sim *sim, struct process *p, enum relay_action_type type)
{
    for (uint32_t i = 0; i < STATEMENTS_MAX; i++) {
        struct statement *s = &sim->statements[i];
        if (s->used)
            continue;
        s->used = true;
        s->failed = s->lost = s->granted = s->held = s->floor_reset = s->force = false;
        s->reaches = sim_chance(sim, 700);
        s->type = type;
        s->process = (int)(p - sim->processes);
        s->life = p->life;
        s->connection = p->connection;
        s->token = p->token;
        s->asked_at = sim->now;
        s->n = s->read_n = s->missed = s->writers_n = 0;
        s->complete = true;
        return s;
    }
    sim_violation(sim, "simulator", "too many statements");
    sim->statements[0].used = true;
    return &sim->statements[0];
}

static bool lives(struct sim *sim, const struct statement *s)
{
    const struct process *p = &sim->processes[s->process];
    return p->alive && p->life == s->life && p->connected && p->connection == s->connection;
}

static void on_answer(struct sim *sim, const struct event *event)
{
    struct statement *s = &sim->statements[event->a];
    struct process *p = &sim->processes[s->process];
    if (lives(sim, s) && !s->lost)
        process_tell(sim, p, s);
    s->used = false;
}

static void answer(struct sim *sim, struct statement *s)
{
    struct process *p = &sim->processes[s->process];
    enum connection on = connection_of(s->type);
    uint64_t at = sim->now + sim_latency(sim);
    if (lives(sim, s)) {
        if (at < p->answer_after[on])
            at = p->answer_after[on];
        p->answer_after[on] = at;
    }
    struct event *event = sim_at(sim, at, on_answer);
    event->process = s->process;
    event->life = s->life;
    event->a = (uint32_t)(s - sim->statements);
}

/* Is the server there to execute `s`, and did it get it? If not, `s` waits or is forgotten. */
static bool server_has(struct sim *sim, struct statement *s, event_run *again)
{
    if (!lives(sim, s) && !s->reaches) {
        s->used = false;
        return false;
    }
    if (sim->now >= sim->db_down_until)
        return true;
    struct event *event = sim_at(sim, sim->db_down_until, again);
    event->a = (uint32_t)(s - sim->statements);
    return false;
}

static bool outcome_lost(struct sim *sim, struct statement *s)
{
    struct process *p = &sim->processes[s->process];
    if (!lives(sim, s) || !p->lose_outcome || p->lose_type != s->type)
        return false;
    p->lose_outcome = false;
    sim_fired(sim, FAULT_OUTCOME);
    if (s->type != RELAY_WRITERS && sim_chance(sim, 600))
        statement_execute(sim, s);
    TRACE(sim, "process %d: the outcome of statement type %d is lost", s->process, (int)s->type);
    connection_lose(sim, p);
    s->used = false;
    return true;
}

static void on_holders(struct sim *sim, const struct event *event)
{
    struct statement *s = &sim->statements[event->a];
    if (!server_has(sim, s, on_holders))
        return;
    statement_read_holders(sim, s);
    answer(sim, s);
}

static void read_writers(struct sim *sim, struct statement *s)
{
    statement_read_sequence(sim, s);
    sim_at(sim, sim->now + sim_below(sim, sim_chance(sim, 200) ? 60 : 4), on_holders)->a = (uint32_t)(s - sim->statements);
}

/* The server dies just before it would say how far the WAL is flushed: what the rows wait for is gone with it. */
static void crash_first(struct sim *sim, const struct statement *s)
{
    if (!sim->crash_at_flush || s->type != RELAY_FLUSH || sim->standby_cut || sim->now < sim->db_down_until)
        return;
    sim->crash_at_flush = false;
    sim_fired(sim, FAULT_CRASH_POOLED);
    sim->db_down_until = sim->now + sim_between(sim, 1, 60);
    database_crash(sim);
}

static void on_execute(struct sim *sim, const struct event *event)
{
    struct statement *s = &sim->statements[event->a];
    crash_first(sim, s);
    if (!server_has(sim, s, on_execute) || outcome_lost(sim, s))
        return;
    if (s->failed) {
        sim_fired(sim, FAULT_STATEMENT);
        answer(sim, s);
    } else if (s->type == RELAY_WRITERS) {
        read_writers(sim, s);
    } else {
        statement_execute(sim, s);
        answer(sim, s);
    }
}

static uint64_t slowness(struct sim *sim)
{
    if (sim->faults_over || !sim_chance(sim, sim->mix.statement_slow))
        return 0;
    sim_fired(sim, FAULT_SLOW);
    return sim_between(sim, 20, sim_chance(sim, 200) ? 1500 : 200);
}

void statement_send(struct sim *sim, struct statement *s)
{
    struct process *p = &sim->processes[s->process];
    if (!p->connected) { /* lost, and the relay was not told yet */
        s->used = false;
        return;
    }
    uint64_t *busy = &p->busy_until[connection_of(s->type)];
    uint64_t at = sim->now + sim_latency(sim);
    if (at < *busy)
        at = *busy;
    *busy = at += slowness(sim);
    s->failed = s->type != RELAY_TOPIC && !sim->faults_over && sim_chance(sim, sim->mix.statement_fails);
    sim_at(sim, at, on_execute)->a = (uint32_t)(s - sim->statements);
}

static void on_lost(struct sim *sim, const struct event *event)
{
    struct process *p = process_of(sim, event);
    if (!p)
        return;
    p->connecting = false;
    p->outstanding = 0;
    TRACE(sim, "process %d is told that the database is lost", event->process);
    relay_on_database_lost(p->relay, sim->now);
    process_topic_lost(p);
    process_pump(sim, p);
}

static void on_opened(struct sim *sim, const struct event *event)
{
    struct process *p = process_of(sim, event);
    if (!p)
        return;
    if (sim->now < sim->db_down_until) {
        on_lost(sim, event);
        return;
    }
    p->connecting = false;
    p->connected = true;
    memset(p->busy_until, 0, sizeof p->busy_until);
    memset(p->answer_after, 0, sizeof p->answer_after);
    process_answer(sim, p, RELAY_CONNECT);
    relay_on_connected(p->relay, sim->now);
    process_pump(sim, p);
}

static void tell_at(struct sim *sim, struct process *p, uint64_t at, event_run *run)
{
    struct event *event = sim_at(sim, at, run);
    event->process = (int)(p - sim->processes);
    event->life = p->life;
}

void connection_open(struct sim *sim, struct process *p)
{
    p->connecting = true;
    p->connected = false;
    p->connection++;
    tell_at(sim, p, sim->now + sim_between(sim, 1, 10), on_opened);
}

void connection_lose(struct sim *sim, struct process *p)
{
    if (!p->connected)
        return;
    p->connected = false;
    p->connection++;
    tell_at(sim, p, sim->now + sim_below(sim, 6), on_lost);
}
