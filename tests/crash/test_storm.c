/* SPDX-License-Identifier: BSD-2-Clause */
/* Random faults of all kinds, one after the other and into each other's recovery, for as long as TEST_MINUTES says; TEST_SEED repeats the
 * choices of a run, though not its timing. In rounds: each has a database and a topic of its own, and ends with the oracle's verdict. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "tests/crash/held.h"
#include "tests/crash/line.h"
#include "tests/lib/folder.h"
#include "tests/lib/proxy.h"
#include "tests/lib/test.h"

#define ROUND_FAULTS 25
#define FAULTS_MAX   20
/* A request that the network swallowed costs that long, 60 s if nothing is said. */
#define QUICK "--backoff-max-ms", "500", "--kafka.reconnect.backoff.max.ms", "500", "--kafka.socket.timeout.ms", "5000"

struct storm {
    struct line *line;
    struct kafka *broker;
    struct proxy proxy;
    struct process *relay[2];
    uint64_t random;
    unsigned rules;           /* of the proxy so far */
    unsigned hit[FAULTS_MAX]; /* by number in `faults` */
    FILE *diary;
};

static uint64_t draw(struct storm *s, uint64_t below)
{
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return (s->random * 2685821657736338717u >> 16) % below;
}

static void pass(uint64_t ms)
{
    uint64_t until_ms = test_now_ms() + ms;

    WAIT_UNTIL(test_now_ms() >= until_ms, 60);
}

static void relay_begin(struct storm *s, unsigned i, const char *fault)
{
    const char *binary = fault != NULL ? getenv("TEST_FAULTS_BINARY") : NULL;
    char env[200];

    (void)snprintf(env, sizeof env, "FAULT_POINT=%s", fault != NULL ? fault : "");
    s->relay[i] = line_relay_with(s->line, (const char *const[]){"--name", i == 0 ? "one" : "two", QUICK, NULL}, NULL,
                                  binary != NULL ? (const char *const[]){env, NULL} : NULL, binary);
}

/* --- faults: each begins with all services up, and leaves them so; returns the proof ------------------------------- */

static void relay_killed(struct storm *s, char *proof, size_t size)
{
    unsigned i = (unsigned)draw(s, 2);

    process_signal(s->relay[i], SIGKILL);
    (void)snprintf(proof, size, "exit status %d", process_wait(s->relay[i], 5));
    relay_begin(s, i, NULL);
}

static void relay_paused(struct storm *s, char *proof, size_t size)
{
    unsigned i = (unsigned)draw(s, 2);
    uint64_t ms = 100 + draw(s, 4000);

    process_signal(s->relay[i], SIGSTOP);
    pass(ms);
    process_signal(s->relay[i], SIGCONT);
    (void)snprintf(proof, size, "for %llu ms", (unsigned long long)ms);
}

static void relay_restarted(struct storm *s, char *proof, size_t size)
{
    unsigned i = (unsigned)draw(s, 2);

    process_signal(s->relay[i], SIGTERM);
    (void)snprintf(proof, size, "exit status %d", process_wait(s->relay[i], 15));
    relay_begin(s, i, NULL);
}

/* Both are killed, and the next one meets a point of a FAULTS=1 build. */
static void relay_at_point(struct storm *s, char *proof, size_t size)
{
    static const struct point {
        const char *name;
        unsigned often; /* at least so often it is passed, in any life */
    } points[] = {{"mark.after", 4},         {"publish.after", 4}, {"on-fetched", 4},   {"save.after", 2}, {"on-delivered", 4},
                  {"take.after", 1},         {"beat.before", 3},   {"flush.before", 4}, {"on-marked", 4},  {"topic.after", 1},
                  {"session-open.after", 1}, {"on-lease", 1},      {"fetch.after", 4}};
    static const char *const kinds[] = {"kill", "error", "sleep=2500"};
    const struct point *point = &points[draw(s, sizeof points / sizeof *points)];
    const char *kind = kinds[draw(s, 3)];
    char fault[100], words[100];

    (void)snprintf(fault, sizeof fault, "%s:%u:%s", point->name, 1 + (unsigned)draw(s, point->often), kind);
    (void)snprintf(words, sizeof words, "event=fault point=%s ", point->name);
    for (unsigned i = 0; i < 2; i++) {
        process_signal(s->relay[i], SIGKILL);
        (void)process_wait(s->relay[i], 5);
    }
    relay_begin(s, 0, fault);
    WAIT_UNTIL(e2e_said(s->relay[0], words) || !process_running(s->relay[0]), 60);
    CHECK(e2e_said(s->relay[0], words));
    if (strcmp(kind, "kill") == 0) {
        CHECK_EQ(process_wait(s->relay[0], 5), 128 + SIGKILL);
        relay_begin(s, 0, NULL);
    }
    relay_begin(s, 1, NULL);
    (void)snprintf(proof, size, "two kills, and %s, its log says so", fault);
}

static void backends_terminated(struct storm *s, char *proof, size_t size)
{
    long long n =
        postgres_number(s->line->e.db.conninfo,
                        "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE application_name LIKE "
                        "'outbox-relay%%' ORDER BY random() LIMIT %d) s",
                        1 + (int)draw(s, 3));

    (void)snprintf(proof, size, n > 0 ? "%lld backends" : "-", n);
}

static void table_locked(struct storm *s, char *proof, size_t size)
{
    struct held *h = held_open(s->line->e.db.conninfo);
    uint64_t ms = 100 + draw(s, 3000);

    (void)held_number(h, "BEGIN; LOCK TABLE outbox.event IN ACCESS EXCLUSIVE MODE; SELECT 1");
    pass(ms);
    held_close(h);
    (void)snprintf(proof, size, "for %llu ms", (unsigned long long)ms);
}

static void server_killed(struct storm *s, char *proof, size_t size)
{
    postgres_kill(&s->line->e.db);
    CHECK_EQ(s->line->e.db.server.status & 0x7f, SIGKILL);
    (void)snprintf(proof, size, "ended by signal %d", SIGKILL);
    pass(draw(s, 1500));
    postgres_restart(&s->line->e.db);
}

static void broker_killed(struct storm *s, char *proof, size_t size)
{
    kafka_kill(s->broker);
    CHECK_EQ(s->broker->server.status & 0x7f, SIGKILL);
    pass(draw(s, 3000));
    kafka_restart(s->broker);
    (void)snprintf(proof, size, "ended by signal %d", SIGKILL);
}

static const char *side(struct storm *s)
{
    static const char *const sides[] = {"up", "down", "both"};

    return sides[draw(s, 3)];
}

static const char *either(struct storm *s)
{
    return draw(s, 2) == 0 ? "kafka" : "db";
}

static void network_reset(struct storm *s, char *proof, size_t size)
{
    const char *name = either(s);

    (void)snprintf(proof, size, "%s: %s connections", name, proxy_command(&s->proxy, "reset %s", name));
}

static void network_cut(struct storm *s, char *proof, size_t size)
{
    const char *name = either(s);
    uint64_t ms = 100 + draw(s, 3000);

    proxy_command(&s->proxy, "cut %s", name);
    pass(ms);
    proxy_command(&s->proxy, "heal %s", name);
    (void)snprintf(proof, size, "%s: for %llu ms", name, (unsigned long long)ms);
}

static void network_frozen(struct storm *s, char *proof, size_t size)
{
    const char *name = either(s), *way = side(s);
    uint64_t ms = 100 + draw(s, 4000);

    proxy_command(&s->proxy, "freeze %s %s", name, way);
    pass(ms);
    proxy_command(&s->proxy, "heal %s", name);
    (void)snprintf(proof, size, "%s: %s for %llu ms", name, way, (unsigned long long)ms);
}

static void request_hit(struct storm *s, char *proof, size_t size)
{
    static const struct rule {
        const char *action, *which;
    } rules[] = {
        {"db lose", "text=[mark]"},
        {"db lose", "text=[beat]"},
        {"db lose", "text=[fetch"},
        {"db lose", "text=[save]"},
        {"db lose", "text=[take]"},
        {"db cut", "text=[mark]"},
        {"db error", "code=40001 text=[mark]"},
        {"db drop", "text=[beat]"},
        {"kafka lose", "on=Produce"},
        {"kafka lose", "on=Produce per=lane"},
        {"kafka spoil", "on=Produce code=7"},
        {"kafka drop", "on=Produce"},
        {"kafka cut", "on=Produce"},
        {"kafka tear-reply", "on=Produce"},
        {"kafka lose", "on=InitProducerId"},
    };
    const struct rule *rule = &rules[draw(s, sizeof rules / sizeof *rules)];
    unsigned skip = (unsigned)draw(s, 5);
    char name[20];

    (void)snprintf(name, sizeof name, "r%u", ++s->rules);
    proxy_command(&s->proxy, "rule %s %s skip=%u %s", name, rule->action, skip, rule->which);
    /* What it waits for may be long in coming: a session, or a lease. */
    uint64_t until_ms = test_now_ms() + 3000;
    WAIT_UNTIL(proxy_hits(&s->proxy, name) > 0 || test_now_ms() > until_ms, 60);
    if (proxy_hits(&s->proxy, name) == 0)
        (void)snprintf(proof, size, "-");
    else
        (void)snprintf(proof, size, "%s %s, number %u", rule->action, rule->which, skip + 1);
    proxy_command(&s->proxy, "forget %s", name);
}

static const struct fault {
    const char *name;
    void (*strike)(struct storm *s, char *proof, size_t size); /* a proof of "-": it did not hit */
    unsigned weight;
} faults[] = {
    {"relay killed", relay_killed, 5},
    {"relay paused", relay_paused, 3},
    {"relay restarted", relay_restarted, 2},
    {"relay at a fault point", relay_at_point, 3},
    {"backends terminated", backends_terminated, 3},
    {"table locked", table_locked, 1},
    {"PostgreSQL killed", server_killed, 2},
    {"broker killed", broker_killed, 1},
    {"network reset", network_reset, 3},
    {"network cut", network_cut, 2},
    {"network frozen", network_frozen, 3},
    {"request hit", request_hit, 6},
};

/* --- rounds ------------------------------------------------------------------------------------------------------- */

static const struct fault *choose(struct storm *s)
{
    uint64_t all = 0, at;
    size_t i = 0;

    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        all += faults[f].weight;
    for (at = draw(s, all); at >= faults[i].weight; i++)
        at -= faults[i].weight;
    return &faults[i];
}

/* Two of three times the relay has recovered from the fault before. */
static void strike(struct storm *s)
{
    const struct fault *fault = choose(s);
    char proof[200] = "";

    if (draw(s, 3) > 0)
        line_publishing(s->line);
    line_look(s->line);
    line_strike(s->line);
    fault->strike(s, proof, sizeof proof);
    (void)fprintf(s->diary, "%lld %s: %s; %lld rows unsettled\n", (long long)e2e_real_ms(), fault->name, proof,
                  (long long)s->line->unsettled);
    (void)fflush(s->diary);
    if (strcmp(proof, "-") == 0)
        return;
    line_hit(s->line, "random faults", "the first: %s, %s", fault->name, proof);
    s->hit[fault - faults]++;
}

static void round_begin(struct storm *s, unsigned number, uint64_t seed)
{
    struct line_options options = {.e2e = {.settings = "listen_addresses = '127.0.0.1'", .kafka = s->broker->bootstrap}};
    char name[60], path[300];

    (void)snprintf(name, sizeof name, "storm-%u", number);
    (void)snprintf(path, sizeof path, "%s/%s-diary.log", temp_folder(), name);
    s->random = seed * 0x9e3779b97f4a7c15u + 1;
    s->diary = fopen(path, "we");
    CHECK(s->diary != NULL);
    s->line = line_begin(name, &options);
    (void)snprintf(s->line->repeat, sizeof s->line->repeat, "make check-long MINUTES=1 SEED=%llu", (unsigned long long)seed);
    s->proxy = proxy_start();
    (void)snprintf(s->line->e.brokers, sizeof s->line->e.brokers, "127.0.0.1:%d",
                   proxy_listen(&s->proxy, "kafka", "kafka", s->broker->proxy_port, s->broker->proxied_port));
    (void)snprintf(s->line->e.database, sizeof s->line->e.database, "host=127.0.0.1 port=%d user=postgres dbname=postgres",
                   proxy_listen(&s->proxy, "db", "postgres", 0, s->line->e.db.port));
    relay_begin(s, 0, NULL);
    relay_begin(s, 1, NULL);
}

/* A night of rounds must not fill the disk. */
static void round_end(struct storm *s)
{
    line_end(s->line, &(struct line_expected){.seconds = 90, .windows = LINE_D_ANY});
    (void)fclose(s->diary);
    proxy_stop(&s->proxy);
    postgres_stop(&s->line->e.db);
    folder_remove(s->line->e.db.socket_folder);
    kafka_topic_delete(s->broker->bootstrap, s->line->name);
}

static void tell_hits(const struct storm *s)
{
    char text[600] = "";
    size_t n = 0;

    _Static_assert(sizeof faults / sizeof *faults <= FAULTS_MAX, "room to count them");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %u", i > 0 ? ", " : "", faults[i].name, s->hit[i]);
    evidence_tell(0, "storm, hits by kind: %s", text);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t seed_draw(void)
{
    uint32_t seed = 0;

    CHECK(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    return seed % 1000000;
}

TEST_WITHIN(storm_of_mixed_faults, 100 * 3600)
{
    struct kafka broker = kafka_start();
    struct storm s = {.broker = &broker};
    uint64_t seed = number_from("TEST_SEED", seed_draw()), end_ms = test_now_ms() + number_from("TEST_MINUTES", 1) * 60000;

    for (unsigned n = 0; n == 0 || test_now_ms() < end_ms; n++) {
        evidence_tell(0, "storm round %u: SEED=%llu", n + 1, (unsigned long long)(seed + n));
        round_begin(&s, n + 1, seed + n);
        for (unsigned i = 0; i < ROUND_FAULTS; i++)
            strike(&s);
        round_end(&s);
    }
    tell_hits(&s);
    kafka_stop(&broker);
}
