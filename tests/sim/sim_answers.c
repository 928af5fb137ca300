/* SPDX-License-Identifier: BSD-2-Clause */
/* The outcome of a statement, told to the core. Topics have numbers of the relay's own: any that is free, so that a stale one is noticed. */
#include <string.h>

#include "tests/sim/sim.h"

uint32_t process_topic(struct sim *sim, struct process *p, uint32_t topic)
{
    if (p->topic_number[topic] != UINT32_MAX)
        return p->topic_number[topic];
    uint32_t first = sim_below(sim, sim->limits.topics_max);
    for (uint32_t i = 0; i < sim->limits.topics_max; i++) {
        uint32_t number = (first + i) % sim->limits.topics_max;
        if (p->topic_of[number] != UINT32_MAX)
            continue;
        p->topic_of[number] = topic;
        return p->topic_number[topic] = number;
    }
    sim_violation(sim, "protocol", "topic numbers are not forgotten");
    return 0;
}

/* --- topics ------------------------------------------------------------------------------------------------------- */

static void tell_topic(struct sim *sim, struct process *p, int32_t pinned_n, int32_t actual_n)
{
    TRACE(sim, "process %d: topic %u has %d partitions, pinned %d", (int)(p - sim->processes), p->topic_of[p->topic_asked], actual_n,
          pinned_n);
    process_answer(sim, p, RELAY_TOPIC);
    relay_on_topic(p->relay, sim->now, p->topic_asked, pinned_n, actual_n, sim_chance(sim, 500) ? 1000000 : 0);
}

static void on_metadata(struct sim *sim, const struct event *event)
{
    struct process *p = process_of(sim, event);
    if (!p || p->topic_question != event->a)
        return;
    const struct topic *topic = &sim->topics[p->topic_of[p->topic_asked]];
    int32_t actual_n = sim->now < topic->missing_until ? 0 : (int32_t)topic->partitions + topic->grown;
    if (actual_n > 1 && topic->pinned > 1 && sim->now < topic->fewer_until) {
        sim_fired(sim, FAULT_FEWER);
        actual_n = topic->pinned - (sim_chance(sim, 500) ? 1 : 0);
    }
    if (actual_n == 0 || !p->connected) {
        tell_topic(sim, p, 0, 0);
        process_pump(sim, p);
        return;
    }
    struct statement *s = statement_new(sim, p, RELAY_TOPIC);
    s->topic = p->topic_of[p->topic_asked];
    s->actual_n = actual_n;
    statement_send(sim, s);
}

void process_ask_topic(struct sim *sim, struct process *p, uint32_t number)
{
    if (number >= sim->limits.topics_max || p->topic_of[number] == UINT32_MAX) {
        sim_violation(sim, "protocol", "asks for topic %u, which is no number in use", number);
        return;
    }
    p->topic_asked = number;
    struct event *event = sim_at(sim, sim->now + sim_between(sim, 1, 20), on_metadata);
    event->process = (int)(p - sim->processes);
    event->life = p->life;
    event->a = ++p->topic_question;
}

void process_topic_lost(struct process *p)
{
    p->topic_question++;
}

/* --- reads -------------------------------------------------------------------------------------------------------- */

static struct row row_told(struct sim *sim, struct process *p, uint32_t n, bool settled)
{
    const struct sim_row *row = &sim->rows[n];
    if (settled)
        return (struct row){.id = row->id, .settled = true, .partition = -1};
    return (struct row){.id = row->id,
                        .event_id = row_event_id(sim, n),
                        .key_hash = row->key_hash,
                        .spread = row->spread,
                        .topic = process_topic(sim, p, row->topic),
                        .partition = row->wish,
                        .bytes = row->bytes};
}

static void tell_read(struct sim *sim, struct process *p, const struct statement *s)
{
    struct row rows[READ_MAX];
    row_slot slots[READ_MAX];
    for (uint32_t i = 0; i < s->read_n; i++)
        rows[i] = row_told(sim, p, s->read[i], s->settled[i]);
    struct relay_read read = {
        .token = s->seen, .rows = rows, .rows_n = s->read_n, .upto = s->whole_upto, .insert_lsn = s->insert_lsn, .flush_lsn = s->flush_lsn};
    TRACE(sim, "process %d: read answered with %u rows, whole up to %lld", (int)(p - sim->processes), s->read_n, (long long)s->whole_upto);
    if (s->type == RELAY_PATROL) {
        relay_on_patrolled(p->relay, sim->now, &read);
        return;
    }
    for (uint32_t i = 0; i < s->read_n; i++)
        slots[i] = ROW_NO_SLOT - 1;
    if (s->type == RELAY_FETCH)
        relay_on_fetched(p->relay, sim->now, &read, slots);
    else
        relay_on_caught_up(p->relay, sim->now, &read, slots);
    for (uint32_t i = 0; i < s->read_n; i++)
        if (slots[i] != ROW_NO_SLOT)
            oracle_admitted(sim, p, slots[i], s->read[i]);
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static void tell_lease(struct sim *sim, struct process *p, const struct statement *s)
{
    if (!s->granted) {
        relay_on_lease(p->relay, sim->now, s->asked_at, NULL);
        return;
    }
    struct relay_behind behind[TOPICS * RECORDS_MAX + SAVED_KEYS_MAX];
    struct relay_saved saved = {
        .token = s->token, .floor = s->floor, .last_id = s->last_id, .behind = behind, .floor_reset = s->floor_reset};
    for (uint32_t t = 0; t < TOPICS; t++)
        for (uint32_t i = 0; i < RECORDS_MAX; i++)
            if (s->records[t][i])
                behind[saved.behind_n++] =
                    (struct relay_behind){.topic = process_topic(sim, p, t), .partition = (int32_t)i - 2, .first_id = s->records[t][i]};
    for (uint32_t i = 0; i < SAVED_KEYS_MAX; i++)
        if (s->keys[i].hash)
            behind[saved.behind_n++] = (struct relay_behind){.topic = process_topic(sim, p, s->keys[i].topic),
                                                             .partition = RELAY_WHOLE_TOPIC,
                                                             .key_hash = s->keys[i].hash,
                                                             .first_id = s->keys[i].first_id,
                                                             .attempts = s->keys[i].attempts};
    p->granted = true;
    p->token = s->token;
    p->deadline = s->asked_at + sim->limits.lease_ttl_ms - sim->limits.lease_margin_ms;
    relay_on_lease(p->relay, sim->now, s->asked_at, &saved);
}

static void tell_beaten(struct sim *sim, struct process *p, const struct statement *s)
{
    if (s->held && token_equal(s->seen, p->token))
        p->deadline = s->asked_at + sim->limits.lease_ttl_ms - sim->limits.lease_margin_ms;
    else
        p->granted = false;
    relay_on_beaten(p->relay, sim->now, s->asked_at, s->held, s->seen, s->last_id);
}

static void tell_writers(struct sim *sim, struct process *p, const struct statement *s)
{
    TRACE(sim, "process %d: sequence %lld, %u writers", (int)(p - sim->processes), (long long)s->last_id, s->writers_n);
    relay_on_writers(p->relay, sim->now, s->last_id, s->writers, s->writers_n, s->complete);
}

static void tell_outcome(struct sim *sim, struct process *p, struct statement *s)
{
    switch ((int)s->type) {
    case RELAY_FETCH:
    case RELAY_CATCH_UP:
    case RELAY_PATROL:
        tell_read(sim, p, s);
        break;
    case RELAY_LEASE_TAKE:
        tell_lease(sim, p, s);
        break;
    case RELAY_LEASE_BEAT:
        tell_beaten(sim, p, s);
        break;
    case RELAY_LEASE_RELEASE:
        p->granted = false;
        relay_on_released(p->relay, sim->now);
        break;
    case RELAY_WRITERS:
        tell_writers(sim, p, s);
        break;
    case RELAY_FLUSH:
        relay_on_flushed(p->relay, sim->now, s->seen, s->flush_lsn);
        break;
    case RELAY_MARK:
        oracle_mark_answered(sim, p, s);
        relay_on_marked(p->relay, sim->now, s->missed_ids, s->missed);
        break;
    case RELAY_SAVE:
        relay_on_saved(p->relay, sim->now, !s->held);
        break;
    default:
        sim_violation(sim, "simulator", "an answer to nothing");
    }
}

void process_tell(struct sim *sim, struct process *p, struct statement *s)
{
    if (s->type == RELAY_TOPIC) {
        tell_topic(sim, p, s->pinned_n, s->actual_n);
    } else if (s->failed) {
        TRACE(sim, "process %d: statement %d failed", (int)(p - sim->processes), (int)s->type);
        process_answer(sim, p, s->type);
        relay_on_failed(p->relay, sim->now, s->type);
    } else {
        process_answer(sim, p, s->type);
        tell_outcome(sim, p, s);
    }
    process_pump(sim, p);
}
