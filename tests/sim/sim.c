/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock, chance, and the life of one seed. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"

/* --- chance ------------------------------------------------------------------------------------------------------- */

static uint64_t next_random(struct sim *sim)
{
    uint64_t z = sim->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t sim_below(struct sim *sim, uint32_t n)
{
    return (uint32_t)(((next_random(sim) >> 32) * n) >> 32);
}

uint32_t sim_between(struct sim *sim, uint32_t least, uint32_t most)
{
    return least + sim_below(sim, most - least + 1);
}

bool sim_chance(struct sim *sim, uint32_t permille)
{
    return permille > 0 && sim_below(sim, 1000) < permille;
}

uint64_t sim_latency(struct sim *sim)
{
    return sim_chance(sim, 30) ? sim_below(sim, 20 * sim->mix.latency_ms) : sim_below(sim, sim->mix.latency_ms + 1);
}

/* --- the queue of events: a heap ---------------------------------------------------------------------------------- */

static bool is_earlier(const struct event *a, const struct event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

struct event *sim_at(struct sim *sim, uint64_t at, event_run *run)
{
    struct event event = {.at = at < sim->now ? sim->now : at, .order = sim->order++, .run = run, .process = NOBODY};
    if (sim->events_n == EVENTS_MAX) {
        sim_violation(sim, "simulator", "too many events");
        sim->events_n--;
    }
    uint32_t i = sim->events_n++;
    for (; i > 0 && is_earlier(&event, &sim->events[(i - 1) / 2]); i = (i - 1) / 2)
        sim->events[i] = sim->events[(i - 1) / 2];
    sim->events[i] = event;
    return &sim->events[i];
}

static struct event take_first(struct sim *sim)
{
    struct event first = sim->events[0], last = sim->events[--sim->events_n];
    uint32_t i = 0, child;
    while ((child = 2 * i + 1) < sim->events_n) {
        if (child + 1 < sim->events_n && is_earlier(&sim->events[child + 1], &sim->events[child]))
            child++;
        if (!is_earlier(&sim->events[child], &last))
            break;
        sim->events[i] = sim->events[child];
        i = child;
    }
    sim->events[i] = last;
    return first;
}

static void turn(struct sim *sim)
{
    struct event event = take_first(sim);
    sim->now = event.at;
    if (event.process != NOBODY) {
        struct process *p = &sim->processes[event.process];
        if (p->alive && p->paused && p->life == event.life) {
            if (p->deferred_n < sizeof p->deferred / sizeof p->deferred[0])
                p->deferred[p->deferred_n++] = event;
            else
                sim_violation(sim, "simulator", "too many events wait for a paused process");
            return;
        }
    }
    event.run(sim, &event);
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

void sim_print(const struct sim *sim, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%7llu  ", (unsigned long long)sim->now);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

static bool is_left_out(const struct sim *sim, const char *check)
{
    size_t n = strlen(check);
    for (const char *at = sim->without; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, check, n) == 0 && (at[n] == ',' || at[n] == 0))
            return true;
    return false;
}

void sim_violation(struct sim *sim, const char *check, const char *format, ...)
{
    if (sim->violation || is_left_out(sim, check))
        return;
    sim->violation = check;
    sim->over = true;
    va_list arguments;
    va_start(arguments, format);
    printf("seed %llu at %llu ms: %s: ", (unsigned long long)sim->seed, (unsigned long long)sim->now, check);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

const char *sim_fault_name(enum fault fault)
{
    static const char *const names[] = {"kill",
                                        "stop",
                                        "pause",
                                        "crash",
                                        "crash behind a pooler",
                                        "failover",
                                        "failover behind a pooler",
                                        "truncate",
                                        "connection lost",
                                        "outcome unknown",
                                        "statement failed",
                                        "statement slow",
                                        "long writer",
                                        "partition stuck",
                                        "topic missing",
                                        "fewer partitions",
                                        "sequence restarted",
                                        "row refused",
                                        "fatal error",
                                        "leader moved",
                                        "reply lost",
                                        "not handed over",
                                        "session not opened",
                                        "poison",
                                        "topic forbidden",
                                        "broker away",
                                        "producer forgotten",
                                        "ids drawn early",
                                        "row marked unsent"};
    return names[fault];
}

void sim_fired(struct sim *sim, enum fault fault)
{
    TRACE(sim, "FAULT %s", sim_fault_name(fault));
    sim->fired[fault]++;
}

/* --- one seed ----------------------------------------------------------------------------------------------------- */

static void choose_mix(struct sim *sim)
{
    struct mix *mix = &sim->mix;
    mix->asynchronous = sim_chance(sim, 300) ? 0 : sim_between(sim, 100, 900);
    mix->rolled_back = sim_between(sim, 20, 200);
    mix->held_long = sim_between(sim, 0, 120);
    mix->early_xid = sim_between(sim, 100, 900);
    mix->many_rows = sim_between(sim, 0, 150);
    mix->keyless = sim_between(sim, 0, 150);
    mix->same_key = sim_between(sim, 0, 900);
    mix->apart = sim_chance(sim, 500) ? 50 : sim_between(sim, 50, 500);
    mix->statement_fails = sim_chance(sim, 500) ? 0 : sim_between(sim, 1, 30);
    mix->statement_slow = sim_chance(sim, 400) ? 0 : sim_between(sim, 1, 60);
    mix->reply_lost = sim_chance(sim, 300) ? 0 : sim_between(sim, 5, 150);
    mix->first_refused = sim_chance(sim, 300) ? 0 : sim_between(sim, 20, 400);
    mix->refused = sim_chance(sim, 500) ? 0 : sim_between(sim, 5, 100);
    mix->unpublished = sim_chance(sim, 700) ? 0 : sim_between(sim, 1, 20);
    mix->open_fails = sim_chance(sim, 600) ? 0 : sim_between(sim, 50, 400);
    mix->think_ms = sim_between(sim, 20, 80);
    mix->batch_max = sim_between(sim, 1, BATCH_MAX);
    mix->latency_ms = sim_between(sim, 1, 8);
    mix->wal_flush_ms = sim_between(sim, 20, 400);
    mix->sequence_ahead = sim_chance(sim, 600) ? 1 : 33;
    mix->pump_late = sim_between(sim, 0, 500);
    mix->any_first_sequence = sim_chance(sim, 800);
    mix->pauses = sim_chance(sim, 700) ? sim_between(sim, 0, 40) : sim_between(sim, 100, 400);
    mix->expiration_ms = sim_chance(sim, 600) ? 0 : sim_between(sim, 1200, 4000);
    if (mix->expiration_ms) /* silence takes time */
        mix->think_ms = sim_between(sim, 80, 300);
    mix->states_seen = sim_chance(sim, 700);
}

static void choose_limits(struct sim *sim)
{
    struct relay_limits *limits = &sim->limits;
    *limits = relay_limits_default();
    limits->fetch_rows = sim_between(sim, 2, 40);
    limits->fetch_bytes = sim_between(sim, 1000, 20000);
    limits->window_rows = sim_between(sim, limits->fetch_rows < 16 ? 16 : limits->fetch_rows, WINDOW_MAX);
    limits->window_bytes = limits->fetch_bytes + sim_between(sim, 4000, 60000);
    limits->lane_rows = sim_between(sim, 2, 16);
    limits->lanes_max = sim_between(sim, 20, 60); /* short sometimes; but if lanes that are behind had them all, none could be probed */
    limits->topics_max = sim_between(sim, TOPICS, 8);
    limits->writers_max = sim_between(sim, 2, WRITERS_MAX);
    limits->settled_rows = sim_between(sim, 4, READ_MAX);
    limits->ranges_max = limits->settled_rows + limits->fetch_rows + sim_between(sim, 10, 200);
    limits->page_ids = sim_between(sim, 10, 200);
    limits->mark_rows = sim_between(sim, 2, 100);
    limits->mark_rows_min = sim_between(sim, 1, limits->mark_rows < 10 ? limits->mark_rows : 10);
    limits->mark_delay_ms = sim_between(sim, 0, 30);
    limits->poll_min_ms = sim_between(sim, 1, 5);
    limits->poll_max_ms = sim_between(sim, 10, 50);
    limits->gap_age_ms = sim_between(sim, 0, 100);
    limits->writers_min_ms = sim_between(sim, 1, 100);
    limits->save_ms = sim_between(sim, 10, 400);
    limits->save_ids = sim_between(sim, 5, 200);
    limits->stuck_ms = sim_between(sim, 40, 500);
    limits->lease_ttl_ms = sim_between(sim, 300, 1200);
    limits->lease_margin_ms = limits->lease_ttl_ms / 5;
    limits->backoff_min_ms = sim_between(sim, 5, 50);
    limits->backoff_max_ms = sim_between(sim, 100, 800);
    limits->shutdown_ms = sim_between(sim, 500, 5000);
    limits->durability = sim_chance(sim, 650)   ? RELAY_DURABILITY_LOCAL
                         : sim_chance(sim, 700) ? RELAY_DURABILITY_REPLICATED
                                                : RELAY_DURABILITY_OFF;
    limits->keys_max = sim_chance(sim, 300) ? sim_between(sim, 1, 4) : sim_between(sim, 20, 40);
    limits->probe_rest_ms = sim_between(sim, 20, 1000);
    limits->patrol_ids = sim_between(sim, 20, 400);
    limits->patrol_ms = sim_between(sim, 5, 50);
    limits->patrol_back_ms = 3600000;
    limits->patrol_back_ids = IDS_MAX;
    if (limits->durability == RELAY_DURABILITY_OFF) /* then the writers are trusted */
        sim->mix.asynchronous = 0;
}

/* Kafka is slow for good: whatever is handed gets its report, later than the relay waits at first. Drawn without the seed's chance, so that
 * the other seeds are what they were. */
static void choose_slow(struct sim *sim)
{
    sim->mix.slow_ms = 0;
    if (sim->outage || sim->seed % SLOW_SEEDS != SLOW_SEEDS / 2)
        return;
    sim->mix.slow_ms = sim->limits.stuck_ms * (uint32_t)(1 + sim->seed / SLOW_SEEDS % 3);
    sim->mix.expiration_ms = 0;  /* of hours, compared with this */
    sim->limits.window_rows = 8; /* the first rows of all lanes are more than half of it */
    if (sim->limits.fetch_rows > sim->limits.window_rows)
        sim->limits.fetch_rows = sim->limits.window_rows;
}

/* In which everything must be there at the end: four times the longest backoff; or what a small window takes for all rows. */
static uint64_t finish_ms(const struct sim *sim)
{
    return sim->outage || sim->mix.slow_ms ? 120000 : 60000;
}

static void on_inspect(struct sim *sim, const struct event *event)
{
    (void)event;
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct process *p = &sim->processes[i];
        if (p->alive && p->stopping && !p->paused && sim->now > p->stop_at + sim->limits.shutdown_ms + 5000)
            sim_violation(sim, "liveness", "the relay does not stop");
    }
    if (sim->now > (sim->outage ? OUTAGE_MS : 0) + 300000)
        sim_violation(sim, "simulator", "the writers do not finish");
    if (writers_done(sim) && !sim->finish_by)
        sim->finish_by = sim->now + finish_ms(sim);
    bool keys_run_short = sim->limits.keys_max < 20 || sim->limits.lanes_max < 36; /* then their lanes or topics wait instead */
    if (sim->finish_by && !sim->healed && (oracle_isolated(sim) || sim->now > sim->finish_by || keys_run_short)) {
        if (!keys_run_short && !oracle_isolated(sim))
            oracle_late(sim);
        writers_heal(sim);
        sim->finish_by = sim->now + finish_ms(sim);
    }
    if (sim->finish_by && !sim->stopped_by) {
        if (oracle_finished(sim)) {
            sim->stopped_by = sim->now;
            process_stop(sim, process_any(sim));
        } else if (sim->now > sim->finish_by) {
            oracle_late(sim);
            sim->over = true;
        }
    }
    if (sim->stopped_by && !process_any(sim))
        sim->over = true;
    sim_at(sim, sim->now + (sim->now < sim->away_until ? 1000 : 10), on_inspect);
}

/* Ten hours at a pace that can be simulated. Nobody refuses anything, so that any attempt that is charged is charged to the outage. */
static void choose_outage(struct sim *sim)
{
    struct relay_limits *limits = &sim->limits;
    sim->mix.unpublished = 0;
    sim->mix.wal_flush_ms = 5000;
    limits->poll_max_ms = 2000;
    limits->lease_ttl_ms = 30000;
    limits->lease_margin_ms = 6000;
    limits->backoff_max_ms = 30000;
    limits->stuck_ms = 1000;
    limits->patrol_ms = 5000;
    limits->patrol_back_ms = 3600000;
}

static void start(struct sim *sim, uint64_t seed)
{
    sim->seed = seed;
    sim->random = seed * 0x9e3779b97f4a7c15u + 0x1234567;
    sim->now = sim->order = 0;
    sim->events_n = sim->poisons_n = sim->rows_n = sim->txs_n = sim->lives_n = sim->sessions_n = sim->pids_n = sim->db_epoch = 0;
    sim->xids_n = sim->db_down_until = sim->finish_by = sim->stopped_by = 0;
    sim->over = sim->faults_over = sim->healed = sim->standby_cut = sim->writers_wait = false;
    sim->next_writer_long = sim->next_unpublished = sim->next_row_refused = sim->crash_at_flush = false;
    sim->next_row_poison = sim->next_ids_early = false;
    sim->away_until = 0;
    sim->violation = NULL;
    memset(sim->fired, 0, sizeof sim->fired);
    memset(sim->statements, 0, sizeof sim->statements);
    choose_mix(sim);
    choose_limits(sim);
    choose_slow(sim);
    if (sim->outage)
        choose_outage(sim);
    broker_start(sim);
    database_start(sim);
    writers_start(sim);
    faults_start(sim);
    sim_at(sim, 0, on_inspect);
}

bool sim_run(struct sim *sim, uint64_t seed)
{
    start(sim, seed);
    while (!sim->over && sim->events_n)
        turn(sim);
    if (!sim->violation)
        oracle_judge_simulator(sim);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        if (sim->processes[i].alive)
            relay_free(sim->processes[i].relay);
        sim->processes[i].alive = false;
    }
    fflush(stdout);
    return sim->violation == NULL;
}
