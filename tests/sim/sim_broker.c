/* SPDX-License-Identifier: BSD-2-Clause */
/* Kafka: appends batches to partitions, and checks the sequence numbers of producers as a broker does. A request is executed whether or
 * not its session still lives. */
#include <string.h>

#include "tests/sim/sim.h"

void broker_start(struct sim *sim)
{
    memset(sim->partitions, 0, sizeof sim->partitions);
    for (uint32_t t = 0; t < TOPICS; t++)
        sim->topics[t] = (struct topic){.partitions = sim_between(sim, 1, PARTITIONS_MAX - 1)};
    for (uint32_t i = 0; i < REQUESTS_MAX; i++)
        sim->requests[i].used = false;
}

struct request *request_new(struct sim *sim)
{
    for (uint32_t i = 0; i < REQUESTS_MAX; i++) {
        struct request *request = &sim->requests[(sim->requests_next + i) % REQUESTS_MAX];
        if (request->used)
            continue;
        sim->requests_next = (sim->requests_next + i + 1) % REQUESTS_MAX;
        request->used = true;
        return request;
    }
    sim_violation(sim, "simulator", "too many requests");
    return &sim->requests[0];
}

static bool is_copy(const struct producer_state *producer, uint32_t seq)
{
    uint32_t n = producer->batches < IN_FLIGHT_MAX ? producer->batches : IN_FLIGHT_MAX;
    for (uint32_t i = 0; i < n; i++)
        if (producer->base[i] == seq)
            return true;
    return false;
}

/* A producer that was silent for so long is a new one. Not while the network holds requests of it for as long; nor if its process slept meanwhile: librdkafka repeats what was in flight as soon as it
 * wakes, before anybody could end the session. */
static void forget(struct sim *sim, const struct request *request, struct producer_state *producer)
{
    uint32_t after_ms = sim->mix.expiration_ms;
    const struct process *p = &sim->processes[request->process];
    if (!producer->known || !after_ms || sim->now - producer->last_ms < after_ms || sim->now - request->sent_at > after_ms / 2 ||
        p->woken_at > producer->last_ms)
        return;
    sim_fired(sim, FAULT_FORGOTTEN);
    *producer = (struct producer_state){.forgotten = true};
}

static enum reply append(struct sim *sim, const struct request *request)
{
    struct producer_state *producer = &sim->partitions[request->topic][request->partition].producers[request->pid];
    forget(sim, request, producer);
    if (producer->known && is_copy(producer, request->seq))
        return REPLY_OK;
    bool follows = producer->known ? request->seq == producer->next : request->seq == 0 || sim->mix.any_first_sequence;
    if (!follows)
        return REPLY_SEQUENCE;
    producer->known = true;
    for (uint32_t i = 0; producer->forgotten && i < request->n; i++) /* it may be a repeat */
        sim->rows[request->row[i]].excused |= request->attempt > 0;
    producer->last_ms = sim->now;
    producer->base[producer->batches++ % IN_FLIGHT_MAX] = request->seq;
    producer->next = request->seq + request->n;
    for (uint32_t i = 0; i < request->n; i++) {
        TRACE(sim, "broker: %u/%u row %u (id %lld) from producer %u seq %u", request->topic, request->partition, request->row[i],
              (long long)sim->rows[request->row[i]].id, request->pid, request->seq + i);
        oracle_appended(sim, request->row[i], request->topic, request->partition);
    }
    return REPLY_OK;
}

/* Is something wrong with the whole batch? */
static bool refuses(struct sim *sim, struct request *request)
{
    if (sim->now < sim->topics[request->topic].missing_until) {
        request->reply = sim_chance(sim, 600) ? REPLY_RETRY : REPLY_REFUSED;
        request->why = RELAY_FAULT_TOPIC;
        return true;
    }
    if (sim->now < sim->topics[request->topic].forbidden_until) {
        request->reply = REPLY_REFUSED;
        request->why = RELAY_FAULT_TOPIC;
        return true;
    }
    for (uint32_t i = 0; i < request->n; i++) {
        const struct sim_row *row = &sim->rows[request->row[i]];
        if (sim->now >= row->refused_until || row->refused_by_client)
            continue;
        request->reply = REPLY_REFUSED;
        request->why = row->refused_why;
        sim_fired(sim, row->refused_until == UINT64_MAX ? FAULT_POISON : FAULT_ROW);
        return true;
    }
    return false;
}

/* The partition moves to another broker, for one request or for a while. */
static bool has_no_leader(struct sim *sim, const struct request *request)
{
    const struct partition *partition = &sim->partitions[request->topic][request->partition];
    const struct producer_state *producer = &partition->producers[request->pid];
    bool first = !producer->known || (sim->mix.expiration_ms && sim->now - producer->last_ms >= sim->mix.expiration_ms);
    if (sim->now < partition->refuses_until)
        return true;
    if (sim->faults_over || !sim_chance(sim, first ? sim->mix.first_refused : sim->mix.refused))
        return false;
    sim_fired(sim, FAULT_LEADER);
    return true;
}

static void reply(struct sim *sim, struct request *request)
{
    struct partition *partition = &sim->partitions[request->topic][request->partition];
    uint64_t at = sim->now + sim_latency(sim) + sim->mix.slow_ms;
    if (at < partition->reply_after)
        at = partition->reply_after;
    partition->reply_after = at;
    struct event *event = sim_at(sim, at, session_reply);
    event->process = request->process;
    event->life = request->life;
    event->a = (uint32_t)(request - sim->requests);
}

static void on_nobody(struct sim *sim, const struct event *event)
{
    reply(sim, &sim->requests[event->a]);
}

static void on_arrive(struct sim *sim, const struct event *event)
{
    struct request *request = &sim->requests[event->a];
    const struct partition *partition = &sim->partitions[request->topic][request->partition];
    if (sim->now < partition->stuck_until) {
        sim_at(sim, partition->stuck_until, on_arrive)->a = event->a;
        return;
    }
    if (sim->now < sim->away_until || request->pid == 0) { /* nobody takes it: the client notices after a while */
        request->reply = REPLY_LOST;
        sim_at(sim, sim->now + sim_between(sim, 500, 5000), on_nobody)->a = event->a;
        return;
    }
    if (has_no_leader(sim, request))
        request->reply = REPLY_RETRY;
    else if (!refuses(sim, request))
        request->reply = append(sim, request);
    TRACE(sim, "broker: %u/%u producer %u seq %u n %u: reply %d", request->topic, request->partition, request->pid, request->seq,
          request->n, (int)request->reply);
    if (!sim->faults_over && sim_chance(sim, sim->mix.reply_lost)) {
        sim_fired(sim, FAULT_REPLY);
        request->reply = REPLY_LOST;
    }
    reply(sim, request);
}

void broker_send(struct sim *sim, struct request *request, uint64_t at)
{
    sim_at(sim, at, on_arrive)->a = (uint32_t)(request - sim->requests);
}
