/* SPDX-License-Identifier: BSD-2-Clause */
/* librdkafka as the edge drives it: messages are batched, up to five batches of a partition are in flight, what failed for a reason that
 * passes is sent again in the same batches, and after the first real failure nothing later is accepted (gapless). Each message is
 * reported once. */
#include <string.h>

#include "tests/sim/sim.h"

#define REPORT_DELIVERED RELAY_FAULT_NONE
#define REPORT_BROKEN    UINT32_MAX /* in the place of a slot */

static void on_lane_pump(struct sim *sim, const struct event *event);
static void on_resend(struct sim *sim, const struct event *event);

static uint32_t at_of(uint32_t message)
{
    return message % QUEUE_MAX;
}

static struct process *process_of_session(struct sim *sim, const struct session *session)
{
    return &sim->processes[session->process];
}

/* The session that `number` names; NULL: it is gone, or its process is. */
static struct session *session_of(struct sim *sim, const struct event *event, uint32_t number)
{
    struct process *p = process_of(sim, event);
    for (uint32_t i = 0; p && i < RELAY_SESSIONS; i++)
        if (p->sessions[i].number == number)
            return &p->sessions[i];
    return NULL;
}

static void lane_event(struct sim *sim, const struct session *session, uint32_t topic, uint32_t partition, uint64_t delay_ms,
                       event_run *run)
{
    struct event *event = sim_at(sim, sim->now + delay_ms, run);
    event->process = session->process;
    event->life = process_of_session(sim, session)->life;
    event->a = topic;
    event->b = partition;
    event->c = session->number;
}

/* --- reports ------------------------------------------------------------------------------------------------------ */

static void tell_report(struct sim *sim, struct process *p, struct session *session, row_slot n, enum relay_fault why)
{
    struct sim_slot *slot = &p->slots[n];
    struct sim_row *row = &sim->rows[slot->row];
    struct client_lane *lane = &session->lanes[row->topic][row->place];
    TRACE(sim, "process %d: report of slot %u row %u from session %d: %u", session->process, n, slot->row, (int)session->which,
          (uint32_t)why);
    slot->handed = false;
    lane->handed--;
    if (why == REPORT_DELIVERED) {
        lane->acks++;
        slot->delivered = true;
        oracle_bytes_end(sim, p, n);
        oracle_delivered(sim, p, slot->row);
        relay_on_delivered(p->relay, sim->now, n);
    } else {
        oracle_refused(sim, slot->row, why);
        relay_on_refused(p->relay, sim->now, n, why);
    }
}

static void on_report(struct sim *sim, const struct event *event)
{
    struct session *session = session_of(sim, event, (uint32_t)event->c);
    if (!session)
        return;
    struct process *p = process_of_session(sim, session);
    if (event->a == REPORT_BROKEN) {
        TRACE(sim, "process %d: session %d broken", event->process, (int)session->which);
        relay_on_session_broken(p->relay, sim->now, session->which, (enum relay_fault)event->b);
    } else {
        tell_report(sim, p, session, event->a, (enum relay_fault)event->b);
    }
    process_pump(sim, p);
}

static void report(struct sim *sim, struct session *session, uint32_t slot, uint32_t why)
{
    uint64_t at = sim->now + sim_below(sim, 3);
    if (at < session->report_after)
        at = session->report_after;
    session->report_after = at;
    struct event *event = sim_at(sim, at, on_report);
    event->process = session->process;
    event->life = process_of_session(sim, session)->life;
    event->a = slot;
    event->b = why;
    event->c = session->number;
}

static void resolve(struct sim *sim, struct session *session, struct client_lane *lane, uint32_t message, uint32_t why)
{
    if (lane->resolved[at_of(message)])
        return;
    lane->resolved[at_of(message)] = true;
    while (lane->first < lane->queued && lane->resolved[at_of(lane->first)])
        lane->first++;
    report(sim, session, lane->slot[at_of(message)], why);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* The broker gives the producer its number; nobody does while it is away. */
static void number_producer(struct sim *sim, struct session *session)
{
    if (session->pid || sim->now < sim->away_until)
        return;
    session->pid = ++sim->pids_n;
    for (uint32_t t = 0; t < TOPICS; t++)
        for (uint32_t i = 0; i < PARTITIONS_MAX; i++)
            session->lanes[t][i].pid = session->pid;
}

static void transmit(struct sim *sim, struct session *session, uint32_t topic, uint32_t partition, uint32_t i)
{
    struct client_lane *lane = &session->lanes[topic][partition];
    struct request *request = request_new(sim);
    number_producer(sim, session);
    request->process = session->process;
    request->life = process_of_session(sim, session)->life;
    request->session = session->number;
    request->sent_at = sim->now;
    request->pid = lane->pid;
    request->topic = topic;
    request->partition = partition;
    request->base = lane->requests[i].base;
    request->seq = request->base - lane->origin;
    request->n = lane->requests[i].n;
    request->attempt = lane->requests[i].attempt;
    for (uint32_t k = 0; k < request->n; k++)
        request->row[k] = lane->row[at_of(request->base + k)];
    lane->requests[i].retry = false;
    uint64_t at = sim->now + sim_latency(sim);
    if (at < lane->arrives_after)
        at = lane->arrives_after;
    lane->arrives_after = at;
    broker_send(sim, request, at);
}

static bool any_retry(const struct client_lane *lane)
{
    for (uint32_t i = 0; i < lane->requests_n; i++)
        if (lane->requests[i].retry)
            return true;
    return false;
}

static void lane_pump(struct sim *sim, struct session *session, uint32_t topic, uint32_t partition)
{
    struct client_lane *lane = &session->lanes[topic][partition];
    while (!session->fatal && !session->closing && lane->requests_n < IN_FLIGHT_MAX && lane->sent < lane->queued && !any_retry(lane)) {
        uint32_t n = lane->queued - lane->sent, most = sim_between(sim, 1, sim->mix.batch_max);
        uint32_t i = lane->requests_n++;
        lane->requests[i].base = lane->sent;
        lane->requests[i].n = n < most ? n : most;
        lane->requests[i].attempt = 0;
        lane->sent += lane->requests[i].n;
        transmit(sim, session, topic, partition, i);
    }
}

static void on_lane_pump(struct sim *sim, const struct event *event)
{
    struct session *session = session_of(sim, event, (uint32_t)event->c);
    if (!session)
        return;
    session->lanes[event->a][event->b].pump_due = false;
    lane_pump(sim, session, event->a, event->b);
}

static void on_resend(struct sim *sim, const struct event *event)
{
    struct session *session = session_of(sim, event, (uint32_t)event->c);
    if (!session)
        return;
    struct client_lane *lane = &session->lanes[event->a][event->b];
    lane->resend_due = false;
    if (session->fatal || session->closing)
        return;
    for (uint32_t i = 0; i < lane->requests_n; i++) {
        if (!lane->requests[i].retry)
            continue;
        lane->requests[i].attempt++;
        transmit(sim, session, event->a, event->b, i);
    }
}

/* Once nothing is in flight any more, everything that failed is sent again, in its order. */
static void resend_soon(struct sim *sim, struct session *session, uint32_t topic, uint32_t partition)
{
    struct client_lane *lane = &session->lanes[topic][partition];
    for (uint32_t i = 0; i < lane->requests_n; i++)
        if (!lane->requests[i].retry)
            return;
    if (!lane->requests_n || lane->resend_due)
        return;
    lane->resend_due = true;
    lane_event(sim, session, topic, partition, sim_between(sim, 2, 20), on_resend);
}

void session_enqueue(struct sim *sim, struct session *session, row_slot slot, uint32_t topic, uint32_t partition)
{
    const struct process *p = process_of_session(sim, session);
    struct client_lane *lane = &session->lanes[topic][partition];
    uint32_t i = at_of(lane->queued++);
    lane->slot[i] = slot;
    lane->row[i] = p->slots[slot].row;
    lane->resolved[i] = false;
    lane->handed++;
    if (lane->pump_due)
        return;
    lane->pump_due = true;
    lane_event(sim, session, topic, partition, sim_below(sim, 3), on_lane_pump);
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

void session_break(struct sim *sim, struct session *session)
{
    if (!session->open || session->fatal || session->closing)
        return;
    session->fatal = true;
    report(sim, session, REPORT_BROKEN, sim_chance(sim, 700) ? RELAY_FAULT_SESSION : RELAY_FAULT_PASSING);
}

static void remove_request(struct client_lane *lane, uint32_t i)
{
    lane->requests_n--;
    memmove(&lane->requests[i], &lane->requests[i + 1], (lane->requests_n - i) * sizeof lane->requests[0]);
}

static void refused(struct sim *sim, struct session *session, struct client_lane *lane, const struct request *request)
{
#ifdef MUTANT_NO_GAPLESS /* enable.gapless.guarantee=false: a new producer number, and what is queued goes on */
    if (lane->requests_n == 0) {
        lane->pid = ++sim->pids_n;
        lane->origin = lane->sent;
    } else {
        session_break(sim, session);
    }
#else
    session_break(sim, session);
#endif
    for (uint32_t k = 0; k < request->n; k++) {
        sim->rows[request->row[k]].excused |= request->attempt > 0; /* an earlier attempt may have been executed, its reply lost */
        resolve(sim, session, lane, request->base + k, request->why);
    }
}

static void retry_all(struct client_lane *lane)
{
    for (uint32_t i = 0; i < lane->requests_n; i++)
        lane->requests[i].retry = true;
}

static void handle_reply(struct sim *sim, struct session *session, struct client_lane *lane, const struct request *request, uint32_t i)
{
    switch (request->reply) {
    case REPLY_OK:
        remove_request(lane, i);
        for (uint32_t k = 0; k < request->n; k++)
            resolve(sim, session, lane, request->base + k, REPORT_DELIVERED);
        break;
    case REPLY_RETRY:
        lane->requests[i].retry = true;
        break;
    case REPLY_SEQUENCE: /* the oldest one cannot be out of order, if nothing went wrong */
        if (i == 0)
            session_break(sim, session);
        lane->requests[i].retry = true;
        break;
    case REPLY_LOST:
        retry_all(lane);
        break;
    case REPLY_REFUSED:
        remove_request(lane, i);
        refused(sim, session, lane, request);
        break;
    }
}

void session_reply(struct sim *sim, const struct event *event)
{
    struct request *request = &sim->requests[event->a];
    struct session *session = session_of(sim, event, request->session);
    request->used = false;
    if (!session || session->closing)
        return;
    struct client_lane *lane = &session->lanes[request->topic][request->partition];
    for (uint32_t i = 0; i < lane->requests_n; i++) {
        if (lane->requests[i].base != request->base || lane->requests[i].attempt != request->attempt || lane->requests[i].retry)
            continue;
        handle_reply(sim, session, lane, request, i);
        break;
    }
    resend_soon(sim, session, request->topic, request->partition);
    lane_pump(sim, session, request->topic, request->partition);
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

bool session_open(struct sim *sim, struct process *p, enum relay_session which)
{
    struct session *session = &p->sessions[which];
    memset(session, 0, sizeof *session);
    session->process = (int)(p - sim->processes);
    session->which = which;
    session->number = ++sim->sessions_n;
    session->open = true;
    if (sim->pids_n < PRODUCERS_MAX - 2)
        return true;
    sim_violation(sim, "simulator", "too many sessions");
    return false;
}

static void on_closed(struct sim *sim, const struct event *event)
{
    struct session *session = session_of(sim, event, (uint32_t)event->c);
    if (!session)
        return;
    struct process *p = process_of_session(sim, session);
    session->open = false;
    process_answer_session(p, RELAY_SESSION_CLOSE, session->which);
    relay_on_session_closed(p->relay, sim->now, session->which);
    process_pump(sim, p);
}

/* Purge: what was sent may be executed still. */
void session_close(struct sim *sim, struct session *session)
{
    session->closing = true;
    for (uint32_t t = 0; t < TOPICS; t++) {
        for (uint32_t i = 0; i < PARTITIONS_MAX; i++) {
            struct client_lane *lane = &session->lanes[t][i];
            for (uint32_t m = lane->first; m < lane->queued; m++) {
                if (lane->resolved[at_of(m)])
                    continue;
                sim->rows[lane->row[at_of(m)]].excused |= m < lane->sent;
                resolve(sim, session, lane, m, RELAY_FAULT_SESSION);
            }
        }
    }
    if (session->report_after < sim->now)
        session->report_after = sim->now;
    lane_event(sim, session, 0, 0, session->report_after - sim->now, on_closed);
}
