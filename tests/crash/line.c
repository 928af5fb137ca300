/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/line.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/attribution.h"
#include "tests/lib/attribution_log.h"
#include "tests/lib/test.h"

#define ARGUMENTS_MAX 40
#define PAYLOADS      16 /* different ones, of the rows of a burst */
#define BURST         2000

/* --- begin -------------------------------------------------------------------------------------------------------- */

static void load_begin(struct line *l, const struct line_options *o)
{
    const char *argv[ARGUMENTS_MAX] = {
        "--topics", l->topics, "--writers", "6", "--orders", "300", "--rate", o->rate != NULL ? o->rate : "800", "--seconds", "3600"};
    size_t n = 10;

    for (const char *const *more = o->load; more != NULL && *more != NULL; more++) {
        CHECK(n < ARGUMENTS_MAX - 1);
        argv[n++] = *more;
    }
    e2e_load_start(&l->e, argv);
    WAIT_UNTIL(e2e_number(&l->e, "SELECT count(*) FROM demo.history") > 0, 20);
}

static void topics_create(const struct line *l)
{
    char list[sizeof l->topics], *rest = NULL;

    (void)snprintf(list, sizeof list, "%s", l->topics);
    for (char *topic = strtok_r(list, ",", &rest); topic != NULL; topic = strtok_r(NULL, ",", &rest))
        if (strcmp(topic, l->e.topic) != 0)
            e2e_topic_create(&l->e, topic);
}

struct line *line_begin(const char *name, const struct line_options *options)
{
    static const struct line_options usual;
    const struct line_options *o = options != NULL ? options : &usual;
    struct line *l = test_allocate(sizeof *l);

    l->e = e2e_begin_with(name, &o->e2e);
    (void)snprintf(l->name, sizeof l->name, "%s", name);
    (void)snprintf(l->topics, sizeof l->topics, "%s", o->topics != NULL ? o->topics : name);
    l->unsettled = -1;
    l->unsettled_min = INT64_MAX;
    (void)snprintf(l->repeat, sizeof l->repeat, "make check");
    l->scene = (struct evidence_scene){
        .name = l->name, .database = l->e.db.conninfo, .kafka = l->e.kafka, .topics = l->topics, .repeat = l->repeat};
    evidence_keep(&l->scene);
    topics_create(l);
    load_begin(l, o);
    return l;
}

/* --- relays ------------------------------------------------------------------------------------------------------- */

struct process *line_relay_with(struct line *l, const char *const *more, const char *const *before, const char *const *env,
                                const char *binary)
{
    const char *argv[ARGUMENTS_MAX] = {"--lease-ttl-ms", "2000", "--kafka.linger.ms", "10", "--log-level", "debug", "--kafka.debug", "eos"};
    size_t n = 8;

    for (; more != NULL && *more != NULL; more++) {
        CHECK(n < ARGUMENTS_MAX - 1);
        argv[n++] = *more;
    }
    CHECK(l->relays_n < LINE_RELAYS_MAX);
    l->relay[l->relays_n] = e2e_relay_run(&l->e, &(struct e2e_run){.more = argv, .before = before, .env = env, .binary = binary});
    return &l->relay[l->relays_n++];
}

struct process *line_relay(struct line *l, const char *const *more)
{
    return line_relay_with(l, more, NULL, NULL, NULL);
}

int64_t line_time_ms(const char *line)
{
    int64_t ms;

    if (!attribution_time_read(line, &ms))
        test_fail(__FILE__, __LINE__, "not a line of a log: %.100s", line);
    return ms;
}

void line_publishing(struct line *l)
{
    int64_t last_id = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");

    WAIT_UNTIL(postgres_number(l->e.db.conninfo,
                               "SELECT count(*) FROM (SELECT 1 FROM outbox.event WHERE id > %lld AND sent_at IS NOT NULL "
                               "ORDER BY id LIMIT 1) s",
                               (long long)last_id) > 0,
               120);
}

/* --- the moment of a fault ---------------------------------------------------------------------------------------- */

/* Rows of "(number, payload, hash)" for SQL. */
static const char *payloads_text(void)
{
    static char text[PAYLOADS * 400];
    size_t n = 0;

    for (int i = 0; i < PAYLOADS; i++) {
        char payload[256];

        (void)snprintf(payload, sizeof payload, "{\"burst\":%d,\"note\":\"%0*d\"}", i, 150 + i, 0);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s(%d, '%s', %lld)", i > 0 ? ", " : "", i, payload,
                              (long long)oracle_payload_hash(payload, strlen(payload)));
    }
    return text;
}

/* The contract of the load: orders are locked ascending and before an id is drawn; an order's topic follows from its number. */
void line_burst(struct line *l, unsigned n)
{
    unsigned keys = n < LINE_ORDERS ? n : LINE_ORDERS, each = (n + keys - 1) / keys;

    (void)postgres_query(l->e.db.conninfo,
                         "BEGIN;"
                         "SELECT count(*) FROM (SELECT 1 FROM demo.orders WHERE id <= %u ORDER BY id FOR UPDATE) s;"
                         "WITH p (i, payload, hash) AS (VALUES %s),"
                         " t AS (SELECT string_to_array('%s', ',') AS topics),"
                         " n AS MATERIALIZED (SELECT gen_random_uuid() AS event_id, o.id, topics[o.id %% cardinality(topics) + 1] AS topic,"
                         "   'order-' || o.id AS key, o.version + g AS version, g, p.payload, p.hash"
                         "   FROM t, demo.orders o, generate_series(1, %u) g, p WHERE o.id <= %u AND p.i = (o.id + o.version + g) %% %d),"
                         " e AS (INSERT INTO outbox.event (event_id, topic, key, payload, headers)"
                         "   SELECT event_id, topic, key, convert_to(payload, 'UTF8'), '{\"type\": \"burst\"}' FROM n ORDER BY g, id),"
                         " h AS (INSERT INTO demo.history (event_id, topic, key, version, payload_hash)"
                         "   SELECT event_id, topic, key, version, hash FROM n)"
                         "UPDATE demo.orders SET version = version + %u WHERE id <= %u;"
                         "COMMIT",
                         keys, payloads_text(), l->topics, each, keys, PAYLOADS, each, keys);
}

/* Both by the primary key from its end: they are asked often, and the answer to the second must not come late. */
static void look_once(struct line *l)
{
    const char *two = postgres_query(
        l->e.db.conninfo, "SELECT (SELECT count(*) FROM (SELECT created_at FROM outbox.event WHERE headers->>'type' <> 'burst' "
                          "ORDER BY id DESC LIMIT 5) s WHERE created_at > clock_timestamp() - interval '1 s'), "
                          "(SELECT count(*) FROM (SELECT 1 FROM (SELECT sent_at FROM outbox.event ORDER BY id DESC LIMIT 20000) s "
                          "WHERE sent_at IS NULL LIMIT 5000) s)");

    CHECK(sscanf(two, "%ld\t%ld", &l->written, &l->unsettled) == 2);
}

/* On a busy machine the last row of the writers may be a second old. */
void line_look(struct line *l)
{
    WAIT_UNTIL((look_once(l), l->written > 0), 30);
}

void line_strike(struct line *l)
{
    for (int tries = 0; tries < 20; tries++) {
        line_burst(l, BURST);
        look_once(l);
        if (l->unsettled >= LINE_UNSETTLED_MIN && l->written > 0)
            return;
    }
    test_fail(__FILE__, __LINE__, "twenty bursts left no %d rows unsettled (%lld, and %lld of the last rows of the load are new)",
              LINE_UNSETTLED_MIN, (long long)l->unsettled, (long long)l->written);
}

void line_hit(struct line *l, const char *injected, const char *proof, ...)
{
    char text[400];
    va_list arguments;

    if (l->unsettled < LINE_UNSETTLED_MIN || l->written <= 0 || !e2e_load_runs(&l->e))
        test_fail(__FILE__, __LINE__, "%s: only %lld rows were unsettled, the writers were %s (or line_strike was not called)", injected,
                  (long long)l->unsettled, l->written > 0 ? "active" : "not active");
    va_start(arguments, proof);
    (void)vsnprintf(text, sizeof text, proof, arguments);
    va_end(arguments);
    if (l->faults++ == 0)
        (void)snprintf(l->told, sizeof l->told, "%s (%s)", injected, text);
    if (l->unsettled < l->unsettled_min)
        l->unsettled_min = l->unsettled;
    l->unsettled = -1;
}

/* --- end ---------------------------------------------------------------------------------------------------------- */

static void stop_all(struct line *l)
{
    for (unsigned i = 0; i < l->relays_n; i++)
        if (process_running(&l->relay[i]))
            process_signal(&l->relay[i], SIGTERM);
    for (unsigned i = 0; i < l->relays_n; i++)
        if (l->relay[i].pid > 0)
            CHECK_EQ(process_wait(&l->relay[i], 15), 0);
}

static void judge(const struct line *l, const struct line_expected *expected, struct oracle_verdict *ret_verdict)
{
    struct oracle_question question = {.database = l->e.db.conninfo, .bootstrap = l->e.kafka, .topics = l->topics};
    struct oracle_verdict *v = ret_verdict;
    char error[512];

    if (!oracle_judge(&question, v, error, sizeof error))
        test_fail(__FILE__, __LINE__, "%s", error);
    for (unsigned i = 0; i < v->findings_n; i++)
        (void)fprintf(stderr, "    %s\n", v->finding[i]);
    CHECK_EQ(v->lost, 0);
    CHECK_EQ(v->misordered, 0);
    CHECK_EQ(v->unlike, 0);
    CHECK_EQ(v->false_marks, 0);
    CHECK_EQ(v->unmarked, 0);
    CHECK_EQ(v->broken_history, 0);
    CHECK(v->phantoms >= expected->phantoms_min);
    CHECK(v->phantoms <= expected->phantoms_max);
    CHECK(v->committed > 0);
    CHECK_EQ(v->published, v->committed);
    CHECK(v->duplicates >= expected->duplicates_min);
}

/* Every duplicate has its window; returns the counts in words, lent. */
static const char *attribute(const struct line *l, const struct oracle_verdict *v, unsigned windows)
{
    static char text[100];
    struct attribution_process processes[LINE_RELAYS_MAX];
    struct attribution a;
    char error[400];
    size_t n = 0;

    for (unsigned i = 0; i < l->relays_n; i++)
        processes[i] = (struct attribution_process){.log = l->relay[i].output, .ended_ms = l->relay[i].ended_ms};
    if (!attribution_judge(processes, l->relays_n, v->duplicate, v->duplicates, windows, &a, error, sizeof error))
        test_fail(__FILE__, __LINE__, "%s", error);
    for (unsigned i = 0; i < a.findings_n; i++)
        (void)fprintf(stderr, "    %s\n", a.finding[i]);
    CHECK_EQ(a.unexplained, 0);
    text[0] = '\0';
    for (unsigned i = 1; i < ATTRIBUTION_WINDOWS; i++)
        if (a.duplicates[i] > 0)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s D%u %lld", n > 0 ? "," : ":", i, (long long)a.duplicates[i]);
    return text;
}

void line_end(struct line *l, const struct line_expected *expected)
{
    struct oracle_verdict v;

    CHECK(e2e_load_runs(&l->e));
    process_signal(&l->e.load, SIGTERM);
    e2e_load_end(&l->e, 30);
    WAIT_UNTIL(e2e_unmarked(&l->e) == 0, expected->seconds > 0 ? expected->seconds : 30);
    stop_all(l);
    judge(l, expected, &v);
    CHECK(l->faults > 0);
    evidence_tell(l->faults, "%s: %s; %u faults hit, at least %lld rows unsettled, writers active; %lld events, %lld duplicates%s", l->name,
                  l->told, l->faults, (long long)l->unsettled_min, (long long)v.committed, (long long)v.duplicates,
                  attribute(l, &v, expected->windows));
    oracle_forget(&v);
}
