/* SPDX-License-Identifier: BSD-2-Clause */
/* Relay processes: what relay/app/daemon.c is to the real program. They perform the core's actions, and are killed, stopped or paused. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

static void run(struct sim *sim, struct process *p);

static int index_of(const struct sim *sim, const struct process *p)
{
    return (int)(p - sim->processes);
}

struct process *process_of(struct sim *sim, const struct event *event)
{
    struct process *p = &sim->processes[event->process];
    return p->alive && p->life == event->life ? p : NULL;
}

struct process *process_any(struct sim *sim)
{
    uint32_t first = sim_below(sim, PROCESSES);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct process *p = &sim->processes[(first + i) % PROCESSES];
        if (p->alive)
            return p;
    }
    return NULL;
}

static struct event *event_for(struct sim *sim, struct process *p, uint64_t at, event_run *run_it)
{
    struct event *event = sim_at(sim, at, run_it);
    event->process = index_of(sim, p);
    event->life = p->life;
    return event;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct process *process_start(struct sim *sim)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct process *p = &sim->processes[i];
        if (p->alive)
            continue;
        memset(p, 0, sizeof *p);
        memset(p->topic_of, 0xff, sizeof p->topic_of);
        memset(p->topic_number, 0xff, sizeof p->topic_number);
        p->alive = true;
        p->life = ++sim->lives_n;
        sim->limits.seed = sim->seed + p->life;
        p->relay = relay_new(&sim->limits, sim->now);
        if (!p->relay)
            abort();
        TRACE(sim, "process %u starts, life %u", i, p->life);
        process_pump(sim, p);
        return p;
    }
    return NULL;
}

static void end(struct process *p)
{
    relay_free(p->relay);
    p->relay = NULL;
    p->alive = p->paused = false;
}

void process_kill(struct sim *sim, struct process *p)
{
    TRACE(sim, "process %d is killed", index_of(sim, p));
    oracle_excuse_life(sim, p->life);
    end(p);
}

void process_stop(struct sim *sim, struct process *p)
{
    if (p->stopping)
        return;
    TRACE(sim, "process %d is told to stop", index_of(sim, p));
    p->stopping = true;
    p->stop_at = sim->now;
    relay_on_stop(p->relay, sim->now);
    process_pump(sim, p);
}

void process_pause(struct sim *sim, struct process *p)
{
    TRACE(sim, "process %d is paused", index_of(sim, p));
    p->paused = true;
}

void process_wake(struct sim *sim, struct process *p)
{
    TRACE(sim, "process %d wakes, %u events waited", index_of(sim, p), p->deferred_n);
    p->paused = false;
    p->woken_at = sim->now;
    uint32_t life = p->life;
    for (uint32_t i = 0; i < p->deferred_n && p->alive && p->life == life && !sim->over; i++) {
        struct event event = p->deferred[i];
        event.run(sim, &event);
    }
    p->deferred_n = 0;
}

/* --- actions ------------------------------------------------------------------------------------------------------ */

static void send_read(struct sim *sim, struct process *p, const struct relay_action *action)
{
    struct statement *s = statement_new(sim, p, action->type);
    s->from = action->from;
    s->upto = action->upto;
    s->settled_upto = action->settled_upto;
    s->rows = action->rows;
    s->bytes = action->bytes;
    if (action->type == RELAY_CATCH_UP) {
        s->topic_number = action->topic;
        s->topic = p->topic_of[action->topic];
    }
    if (action->type == RELAY_FETCH) {
        const int64_t *firsts, *lasts;
        s->n = relay_gaps(p->relay, &firsts, &lasts);
        memcpy(s->firsts, firsts, s->n * sizeof *firsts);
        memcpy(s->lasts, lasts, s->n * sizeof *lasts);
        TRACE(sim, "process %d fetches above %lld, %u gaps from %lld, %u rows", index_of(sim, p), (long long)s->from, s->n,
              s->n ? (long long)firsts[0] : 0, s->rows);
    } else if (action->type == RELAY_CATCH_UP) {
        TRACE(sim, "process %d catches up topic %u from %lld to %lld", index_of(sim, p), s->topic, (long long)s->from, (long long)s->upto);
    } else {
        TRACE(sim, "process %d patrols from %lld to %lld", index_of(sim, p), (long long)s->from, (long long)s->upto);
    }
    statement_send(sim, s);
}

static void send_mark(struct sim *sim, struct process *p)
{
    struct statement *s = statement_new(sim, p, RELAY_MARK);
    const int64_t *ids;
    const struct row_event_id *event_ids;
    s->n = relay_marks(p->relay, &ids, &event_ids);
    for (uint32_t i = 0; i < s->n; i++) {
        s->firsts[i] = ids[i];
        s->marked[i] = row_of_event_id(event_ids[i]);
    }
    TRACE(sim, "process %d marks %u from id %lld", index_of(sim, p), s->n, s->n ? (long long)ids[0] : 0);
    statement_send(sim, s);
}

static void send_save(struct sim *sim, struct process *p, const struct relay_action *action)
{
    struct statement *s = statement_new(sim, p, RELAY_SAVE);
    const struct relay_behind *changes;
    s->from = action->from;
    s->n = relay_saving(p->relay, &changes);
    if (s->n > CHANGES_MAX) {
        sim_violation(sim, "simulator", "too many changes in a save");
        s->n = 0;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        s->changes[i] = (struct saved_change){.topic = p->topic_of[changes[i].topic],
                                              .attempts = changes[i].attempts,
                                              .key_hash = changes[i].key_hash,
                                              .partition = changes[i].partition,
                                              .first_id = changes[i].first_id};
        TRACE(sim, "process %d saves behind %u/%d key %llx from %lld, %u attempts", index_of(sim, p), s->changes[i].topic,
              changes[i].partition, (unsigned long long)changes[i].key_hash, (long long)changes[i].first_id, changes[i].attempts);
    }
    TRACE(sim, "process %d saves floor %lld", index_of(sim, p), (long long)s->from);
    statement_send(sim, s);
}

static void send_plain(struct sim *sim, struct process *p, const struct relay_action *action)
{
    struct statement *s = statement_new(sim, p, action->type);
    s->force = action->force;
    if (action->type == RELAY_LEASE_TAKE)
        for (size_t i = 0; i < sizeof s->token.bytes; i++)
            s->token.bytes[i] = (unsigned char)sim_between(sim, 1, 255);
    statement_send(sim, s);
}

static void publish(struct sim *sim, struct process *p, const struct relay_action *action)
{
    oracle_published(sim, p, action);
    if (sim->over)
        return;
    struct sim_slot *slot = &p->slots[action->slot];
    struct sim_row *row = &sim->rows[slot->row];
    TRACE(sim, "process %d publishes slot %u row %u id %lld to %u/%d, session %d", index_of(sim, p), action->slot, slot->row,
          (long long)row->id, row->topic, action->partition, (int)action->session);
    bool refused = (sim->next_unpublished || sim_chance(sim, sim->mix.unpublished)) && !sim->faults_over;
    bool poison = row->refused_by_client && sim->now < row->refused_until;
    if (refused || poison) {
        static const enum relay_fault whys[] = {RELAY_FAULT_PASSING, RELAY_FAULT_TOPIC, RELAY_FAULT_SIZE, RELAY_FAULT_ROW};
        enum relay_fault why = poison ? row->refused_why : whys[sim_below(sim, 4)];
        sim->next_unpublished &= poison;
        sim_fired(sim, poison ? FAULT_POISON : FAULT_UNPUBLISHED);
        row->refusals += why == RELAY_FAULT_SIZE || why == RELAY_FAULT_ROW;
        relay_on_unpublished(p->relay, sim->now, action->slot, why);
        return;
    }
    slot->handed = true;
    slot->session = action->session;
    row->handed_life = p->life;
    if (sim->db.lease_life != p->life && sim->fired[FAULT_FAILOVER] + sim->fired[FAULT_FAILOVER_POOLED] > 0)
        row->excused = true; /* a failover forgot that the lease was renewed, and granted it to another */
    session_enqueue(sim, &p->sessions[action->session], action->slot, row->topic, (uint32_t)row->place);
}

static void on_session_answer(struct sim *sim, const struct event *event)
{
    struct process *p = process_of(sim, event);
    if (!p)
        return;
    enum relay_session which = (enum relay_session)event->a;
    process_answer_session(p, RELAY_SESSION_OPEN, which);
    if (!sim->faults_over && sim_chance(sim, sim->mix.open_fails)) {
        sim_fired(sim, FAULT_SESSION_OPEN);
        relay_on_session_failed(p->relay, sim->now, which);
    } else if (session_open(sim, p, which)) {
        if (which == RELAY_MAIN && sim->mix.expiration_ms)
            relay_on_idle_limit(p->relay, sim->now, sim->mix.expiration_ms);
        relay_on_session_open(p->relay, sim->now, which);
    }
    process_pump(sim, p);
}

static void forget_topic(struct process *p, uint32_t number)
{
    if (p->topic_of[number] < TOPICS)
        p->topic_number[p->topic_of[number]] = UINT32_MAX;
    p->topic_of[number] = UINT32_MAX;
}

static void perform(struct sim *sim, struct process *p, const struct relay_action *action)
{
    switch (action->type) {
    case RELAY_CONNECT:
        connection_open(sim, p);
        break;
    case RELAY_FETCH:
    case RELAY_CATCH_UP:
    case RELAY_PATROL:
        send_read(sim, p, action);
        break;
    case RELAY_LEASE_TAKE:
    case RELAY_LEASE_BEAT:
    case RELAY_LEASE_RELEASE:
    case RELAY_WRITERS:
    case RELAY_FLUSH:
        send_plain(sim, p, action);
        break;
    case RELAY_PUBLISH:
        publish(sim, p, action);
        break;
    case RELAY_DROP:
        TRACE(sim, "process %d drops slot %u", index_of(sim, p), action->slot);
        oracle_bytes_end(sim, p, action->slot);
        break;
    case RELAY_MARK:
        send_mark(sim, p);
        break;
    case RELAY_SAVE:
        send_save(sim, p, action);
        break;
    case RELAY_TOPIC:
        process_ask_topic(sim, p, action->topic);
        break;
    case RELAY_FORGET:
        forget_topic(p, action->topic);
        break;
    case RELAY_SESSION_OPEN:
        event_for(sim, p, sim->now + sim_below(sim, 10), on_session_answer)->a = action->session;
        break;
    case RELAY_SESSION_CLOSE:
        session_close(sim, &p->sessions[action->session]);
        break;
    case RELAY_NOTE:
        TRACE(sim, "process %d notes %d, fault %d, topic %u partition %d from %lld, %u rows", index_of(sim, p), (int)action->note,
              (int)action->fault, action->topic, action->partition, (long long)action->from, action->rows);
        oracle_noted(sim, p, action);
        break;
    case RELAY_WAIT:
    case RELAY_EXIT:
        break;
    }
}

void process_answer(struct sim *sim, struct process *p, enum relay_action_type type)
{
    (void)sim;
    p->outstanding &= ~(1u << type);
}

void process_answer_session(struct process *p, enum relay_action_type type, enum relay_session session)
{
    p->sessions_outstanding[session] &= ~(1u << type);
}

static void finish(struct sim *sim, struct process *p, const struct relay_action *action)
{
    TRACE(sim, "process %d exits, %u rows left", index_of(sim, p), action->rows);
    if (action->rows)
        oracle_excuse_life(sim, p->life);
    else
        oracle_exits(sim, p);
    for (uint32_t i = 0; i < WINDOW_MAX && sim->stopped_by; i++) /* at the end of a seed nothing waits any more */
        if (p->slots[i].bytes)
            sim_violation(sim, "bytes", "slot %u still has its bytes at the exit", i);
    end(p);
}

/* --- turns -------------------------------------------------------------------------------------------------------- */

static void on_wake(struct sim *sim, const struct event *event)
{
    struct process *p = process_of(sim, event);
    if (p && p->wake_at == event->c)
        run(sim, p);
}

static void wait_until(struct sim *sim, struct process *p, uint64_t until_ms)
{
    if (until_ms <= sim->now) {
        sim_violation(sim, "protocol", "a wait until %llu, which is over", (unsigned long long)until_ms);
        return;
    }
    if (until_ms == p->wake_at)
        return;
    p->wake_at = until_ms;
    if (until_ms < sim->now + 3600000)
        event_for(sim, p, until_ms, on_wake)->c = until_ms;
}

/* A copy goes on exactly as the original would. */
static void copy_now_and_then(struct sim *sim, struct process *p)
{
    if (!sim_chance(sim, 2))
        return;
    struct relay *copy = relay_new(&sim->limits, sim->now);
    if (!copy || relay_size(copy) != relay_size(p->relay)) {
        sim_violation(sim, "copy", "two relays with the same limits have not the same size");
        relay_free(copy);
        return;
    }
    relay_copy(copy, p->relay);
    if (relay_digest(copy, sim->now) != relay_digest(p->relay, sim->now))
        sim_violation(sim, "copy", "a copy has another digest");
    relay_free(p->relay);
    p->relay = copy;
}

static void run(struct sim *sim, struct process *p)
{
    uint32_t life = p->life;
    copy_now_and_then(sim, p);
    for (uint32_t turns = 0; !sim->over && p->alive && p->life == life; turns++) {
        struct relay_action action = relay_next(p->relay, sim->now);
        sim->steps++;
        if (turns > 10000)
            sim_violation(sim, "liveness", "the relay never waits");
        oracle_action(sim, p, &action);
        if (sim->over)
            return;
        if (action.type == RELAY_WAIT) {
            wait_until(sim, p, action.until_ms);
            return;
        }
        if (action.type == RELAY_EXIT) {
            finish(sim, p, &action);
            return;
        }
        perform(sim, p, &action);
    }
}

static void on_pump(struct sim *sim, const struct event *event)
{
    struct process *p = process_of(sim, event);
    if (!p)
        return;
    p->pump_at = 0;
    run(sim, p);
}

void process_pump(struct sim *sim, struct process *p)
{
    if (p->pump_at)
        return;
    if (!sim_chance(sim, sim->mix.pump_late)) {
        run(sim, p);
        return;
    }
    p->pump_at = sim->now + 1;
    event_for(sim, p, sim->now + sim_below(sim, 2), on_pump);
}
