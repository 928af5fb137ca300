/* SPDX-License-Identifier: BSD-2-Clause */
/* Every fault point of a FAULTS=1 build, with every kind of fault (relay/app/faults.h): the process dies there, or stands still until another
 * one has its lease and then wakes, or sees an error. All points of a test strike on one database, under load. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/crash/line.h"
#include "tests/lib/test.h"

#define POINTS_MAX     100
#define BURST_ROWS     200
#define UNDISTURBED_MS 2000 /* a run in which beats, saves and questions about gaps have had their time */

struct point {
    char name[40];
    bool error; /* has an error to see */
};

struct points {
    struct line *line;
    const char *binary;
    struct point list[POINTS_MAX];
    unsigned n;
    bool asked; /* the relay was told to end, before it was at its point */
};

/* What must happen first so that a point is reached: other points that see an error. */
static const struct way {
    const char *point, *first;
} ways[] = {
    {"on-lost", "mark.after:1:error,"},      {"on-failed", "mark.before:1:error,"}, {"on-refused", "on-delivered:5:error,"},
    {"on-broken", "publish.after:5:error,"}, {"catch-up", "topic.before:1:error,"}, {"on-caught-up", "topic.before:1:error,"},
    {"drop", "on-flushed:2:error,"},
};

/* Points that nothing here leads to, and why. */
static const char *const never[] = {
    "forget", /* only when three quarters of 1 024 topics are in use */
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static const char *way_to(const char *point)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (begins(point, ways[i].point))
            return ways[i].first;
    return "";
}

static bool is_reachable(const char *point)
{
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (begins(point, never[i]))
            return false;
    return true;
}

/* The binary's own list. */
static struct points *points_begin(const char *name)
{
    struct points *p = test_allocate(sizeof *p);
    char word[10];
    struct process list;
    int taken;

    p->binary = getenv("TEST_FAULTS_BINARY");
    if (p->binary == NULL)
        p->binary = TEST_BUILD_FOLDER "-faults/outbox-relay";
    if (access(p->binary, X_OK) != 0)
        test_fail(__FILE__, __LINE__, "there is no %s: make faulty, or name a relay that was built with FAULTS=1 in TEST_FAULTS_BINARY",
                  p->binary);
    list = process_start((const char *[]){p->binary, "run", "--database", "host=x", "--kafka.bootstrap.servers", "x", NULL},
                         (const char *[]){"FAULT_POINT=list", NULL}, "list.txt");
    CHECK_EQ(process_wait(&list, 10), 0);
    for (const char *text = process_output(&list); sscanf(text, "%39s%n", p->list[p->n].name, &taken) == 1; p->n++) {
        CHECK(p->n < POINTS_MAX - 1);
        text += taken;
        if (sscanf(text, " %9s%n", word, &taken) == 1 && strcmp(word, "error") == 0) {
            p->list[p->n].error = true;
            text += taken;
        }
    }
    CHECK(p->n > 50);
    p->line = line_begin(name, NULL);
    return p;
}

/* Rows up to `id` are marked. */
static bool settled(const struct line *l, int64_t id)
{
    return postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE id BETWEEN %lld AND %lld AND sent_at IS NULL",
                           (long long)id - 3000, (long long)id) == 0;
}

static int64_t last_id(const struct line *l)
{
    return e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");
}

static bool struck(struct process *relay, const char *point)
{
    char words[80];

    (void)snprintf(words, sizeof words, "event=fault point=%s ", point);
    return e2e_said(relay, words);
}

/* Rows come all the time, so that many are unsettled whenever the point is reached. Returns false if the run ended undisturbed: it had the
 * lease long enough, its rows were settled, and it was stopped. */
static bool wait_for_strike(struct points *p, struct process *relay, const char *point)
{
    struct line *l = p->line;
    uint64_t started_ms = test_now_ms(), held_ms = 0;
    int64_t first_id = last_id(l);

    p->asked = false;
    while (!struck(relay, point)) {
        if (!process_running(relay))
            return struck(relay, point);
        if (test_now_ms() - started_ms > 40000ull * test_slow())
            test_fail(__FILE__, __LINE__, "%s: neither reached nor was the run over", point);
        if (held_ms == 0 && e2e_said(relay, "event=\"lease held\""))
            held_ms = test_now_ms();
        if (!p->asked && held_ms != 0 && test_now_ms() - held_ms > UNDISTURBED_MS && settled(l, first_id)) {
            process_signal(relay, SIGTERM);
            p->asked = true;
        }
        line_burst(l, BURST_ROWS);
        line_look(l);
    }
    return true;
}

/* --- what follows each kind of fault ------------------------------------------------------------------------------ */

/* Nobody is there any more who could use the lease: the next one need not wait for its end. */
static void after_kill(struct line *l, struct process *relay)
{
    CHECK_EQ(process_wait(relay, 10), 128 + SIGKILL);
    line_look(l);
    (void)postgres_query(l->e.db.conninfo, "UPDATE outbox.beat SET expires_at = '-infinity'");
}

/* It stood still past the end of its lease, and wakes beside another holder: it gives way, and ends when asked. */
static void after_stop(struct points *p, struct process *relay)
{
    struct line *l = p->line;
    struct process *second;

    line_look(l);
    second = line_relay_with(l, (const char *const[]){"--lease-ttl-ms", "1000", NULL}, NULL, NULL, p->binary);
    WAIT_UNTIL(e2e_said(second, "event=\"lease held\""), 20);
    process_signal(relay, SIGCONT);
    if (!p->asked) { /* a second signal would end it at once */
        WAIT_UNTIL(e2e_said(relay, "lease lost") || e2e_said(relay, "another relay holds the lease"), 20);
        process_signal(relay, SIGTERM);
    }
    CHECK_EQ(process_wait(relay, 15), 0);
    CHECK(process_running(second));
    e2e_stop(second);
}

/* It goes on by itself. One that was stopping already stops. */
static void after_error(struct points *p, struct process *relay)
{
    struct line *l = p->line;
    int64_t id = last_id(l);

    if (!p->asked) {
        WAIT_UNTIL(settled(l, id), 20);
        process_signal(relay, SIGTERM);
    }
    CHECK_EQ(process_wait(relay, 15), 0);
}

/* Returns false if the process ends undisturbed before it is at `point` for the `n`th time. */
static bool strike(struct points *p, struct point *point, unsigned n, const char *kind)
{
    struct line *l = p->line;
    char spec[200];
    struct process *relay;

    (void)snprintf(spec, sizeof spec, "FAULT_POINT=%s%s:%u:%s", way_to(point->name), point->name, n, kind);
    line_burst(l, BURST_ROWS);
    line_look(l);
    relay = line_relay_with(l, (const char *const[]){"--lease-ttl-ms", "1000", "--backoff-max-ms", "300", NULL}, NULL,
                            (const char *const[]){spec, NULL}, p->binary);
    if (!wait_for_strike(p, relay, point->name)) {
        CHECK_EQ(process_wait(relay, 15), 0);
        return false;
    }
    if (strcmp(kind, "kill") == 0)
        after_kill(l, relay);
    else if (strcmp(kind, "stop") == 0)
        after_stop(p, relay);
    else
        after_error(p, relay);
    /* An error may be seen a moment late, when the burst before it has been settled: such a one does not count. */
    if (l->unsettled >= LINE_UNSETTLED_MIN)
        line_hit(l, kind, "first at %s: its log says so", point->name);
    (void)printf("    %s %s, occurrence %u\n", kind, point->name, n);
    return true;
}

/* What leads to a point may find nothing to do there: no row waits for the barrier at the moment when its answer is lost. */
static void strike_surely(struct points *p, struct point *point, const char *kind)
{
    for (int tries = 0; tries < 5; tries++)
        if (strike(p, point, 1, kind))
            return;
    test_fail(__FILE__, __LINE__, "%s was never reached", point->name);
}

static void strike_first(const char *name, const char *kind, unsigned windows)
{
    struct points *p = points_begin(name);

    for (unsigned i = 0; i < p->n; i++) {
        struct point *point = &p->list[i];

        if (strcmp(kind, "error") == 0 && !point->error)
            continue;
        if (is_reachable(point->name))
            strike_surely(p, point, kind);
    }
    (void)line_relay(p->line, NULL);
    line_end(p->line, &(struct line_expected){.windows = windows});
}

TEST_WITHIN(crash_points_kill, 300)
{
    strike_first("points-kill", "kill", LINE_D(1));
}

TEST_WITHIN(crash_points_stop, 400)
{
    strike_first("points-stop", "stop", LINE_D(4));
}

TEST_WITHIN(crash_points_error, 300)
{
    strike_first("points-error", "error", LINE_D(2) | LINE_D(3));
}

/* --- all occurrences ---------------------------------------------------------------------------------------------- */

/* The first times one by one, later ones with growing steps: some points are passed for each row. Until a run ends undisturbed. */
static void strike_all(const char *name, const char *kind, unsigned windows)
{
    struct points *p = points_begin(name);

    for (unsigned i = 0; i < p->n; i++) {
        struct point *point = &p->list[i];
        unsigned n = 2;

        if (!is_reachable(point->name) || (strcmp(kind, "error") == 0 && !point->error))
            continue;
        strike_surely(p, point, kind);
        while (n < 10000 && strike(p, point, n, kind))
            n += n < 4 ? 1 : n / 2;
    }
    (void)line_relay(p->line, NULL);
    line_end(p->line, &(struct line_expected){.seconds = 60, .windows = windows});
}

TEST_WITHIN(long_points_kill, 3600)
{
    strike_all("points-kill-all", "kill", LINE_D(1));
}

TEST_WITHIN(long_points_stop, 3600)
{
    strike_all("points-stop-all", "stop", LINE_D(1) | LINE_D(4));
}

TEST_WITHIN(long_points_error, 3600)
{
    strike_all("points-error-all", "error", LINE_D(2) | LINE_D(3));
}

/* Any point, any kind, any time. */
static void strike_at_random(const char *name, unsigned times, unsigned seed)
{
    static const char *const kinds[] = {"kill", "stop", "error"};
    struct points *p = points_begin(name);

    while (p->line->faults < times) {
        struct point *point = &p->list[(seed = seed * 1103515245 + 12345, seed >> 16) % p->n];
        const char *kind = kinds[(seed >> 8) % 3];
        unsigned n = 1 + (seed >> 20) % ((seed >> 12) % 4 == 0 ? 500 : 10);

        if (is_reachable(point->name) && (strcmp(kind, "error") != 0 || point->error))
            (void)strike(p, point, n, kind);
    }
    (void)line_relay(p->line, NULL);
    line_end(p->line, &(struct line_expected){.seconds = 60, .windows = LINE_D(1) | LINE_D(2) | LINE_D(3) | LINE_D(4)});
}

TEST_WITHIN(crash_points_at_random, 300)
{
    strike_at_random("points-random", 8, 1);
}

TEST_WITHIN(long_points_at_random, 1800)
{
    strike_at_random("points-random-long", 200, 2);
}
