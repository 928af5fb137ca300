/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/e2e.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/crash/evidence.h"
#include "tests/lib/test.h"

#define ARGUMENTS_MAX 48

static struct kafka shared_kafka; /* of the suite: started by the parent, read by every test */

void test_suite_start(void)
{
    evidence_open();
    shared_kafka = kafka_start();
}

const struct kafka *e2e_broker(void)
{
    return &shared_kafka;
}

void test_suite_stop(void)
{
    kafka_stop(&shared_kafka);
}

static void topic_create(const struct e2e *e, const char *topic, int partitions)
{
    kafka_topic_create(e->kafka, topic, partitions, "message.timestamp.type=LogAppendTime");
}

void e2e_topic_create(const struct e2e *e, const char *topic)
{
    topic_create(e, topic, E2E_PARTITIONS);
}

struct e2e e2e_begin_with(const char *topic, const struct e2e_options *options)
{
    struct e2e e = {.db = postgres_start("shared_buffers = 256MB\nmax_wal_size = 2GB"),
                    .kafka = options->kafka != NULL ? options->kafka : shared_kafka.bootstrap};

    if (options->settings != NULL) {
        postgres_stop(&e.db);
        postgres_settings(&e.db, options->settings);
        postgres_restart(&e.db);
    }
    (void)snprintf(e.topic, sizeof e.topic, "%s", topic);
    (void)snprintf(e.database, sizeof e.database, "%s", e.db.conninfo);
    (void)snprintf(e.brokers, sizeof e.brokers, "%s", e.kafka);
    postgres_migrate(&e.db);
    process_run(
        (const char *[]){"psql", "-qX", "-v", "ON_ERROR_STOP=1", e.db.conninfo, "-f", TEST_SOURCE_FOLDER "/producer-demo/schema.sql", NULL},
        NULL, (struct process_options){0}, 20);
    topic_create(&e, topic, options->partitions > 0 ? options->partitions : E2E_PARTITIONS);
    return e;
}

struct e2e e2e_begin(const char *topic)
{
    return e2e_begin_with(topic, &(struct e2e_options){0});
}

static size_t append(const char **argv, size_t n, const char *const *more)
{
    for (; *more != NULL; more++) {
        CHECK(n < ARGUMENTS_MAX - 1);
        argv[n++] = *more;
    }
    argv[n] = NULL;
    return n;
}

/* The pages go to a free port. */
struct process e2e_relay_run(const struct e2e *e, const struct e2e_run *run)
{
    static const char *const none[] = {NULL};
    const char *binary = run->binary != NULL ? run->binary : getenv("TEST_RELAY_BINARY"), *argv[ARGUMENTS_MAX];
    char listen[32];
    size_t n = append(argv, 0, run->before != NULL ? run->before : none);

    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", free_port());
    n = append(argv, n,
               (const char *const[]){binary != NULL ? binary : TEST_BUILD_FOLDER "/outbox-relay", "run", "--database", e->database,
                                     "--kafka.bootstrap.servers", e->brokers, "--listen", listen, NULL});
    (void)append(argv, n, run->more != NULL ? run->more : none);
    return process_start(argv, run->env, NULL);
}

struct process e2e_relay(const struct e2e *e, const char *const *more)
{
    return e2e_relay_run(e, &(struct e2e_run){.more = more});
}

struct process e2e_relay_into(const struct e2e *e, const char *const *more, const char *errors)
{
    const char *const before[] = {"sh", "-c", "exec 2>>\"$0\"; exec \"$@\"", errors, NULL};

    return e2e_relay_run(e, &(struct e2e_run){.more = more, .before = before});
}

void e2e_load_start(struct e2e *e, const char *const *options)
{
    const char *argv[ARGUMENTS_MAX];
    size_t n =
        append(argv, 0, (const char *const[]){TEST_BUILD_FOLDER "/order-load", "--database", e->db.conninfo, "--topics", e->topic, NULL});

    (void)append(argv, n, options);
    e->load = process_start(argv, NULL, NULL);
}

void e2e_load_end(struct e2e *e, unsigned seconds)
{
    CHECK_EQ(process_wait(&e->load, seconds), 0);
}

bool e2e_load_runs(struct e2e *e)
{
    return process_running(&e->load);
}

void e2e_commit(const struct e2e *e, const char *topic, const char *key, int version, const char *payload, const char *headers)
{
    long long hash = oracle_payload_hash(payload, payload != NULL ? strlen(payload) : 0);

    (void)postgres_query(
        e->db.conninfo,
        "BEGIN;"
        "WITH e AS (INSERT INTO outbox.event (event_id, topic, key, payload, headers) VALUES (gen_random_uuid(), '%s', '%s',"
        " convert_to(%s%s%s, 'UTF8'), %s) RETURNING event_id, topic, key)"
        "INSERT INTO demo.history SELECT event_id, topic, key, %d, %lld FROM e;"
        "COMMIT",
        topic, key, payload != NULL ? "'" : "", payload != NULL ? payload : "NULL", payload != NULL ? "'" : "", headers, version, hash);
}

int64_t e2e_number(const struct e2e *e, const char *sql)
{
    return postgres_number(e->db.conninfo, "%s", sql);
}

int64_t e2e_unmarked(const struct e2e *e)
{
    return e2e_number(e, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL");
}

int64_t e2e_marked(const struct e2e *e)
{
    return e2e_number(e, "SELECT count(*) FROM outbox.event WHERE sent_at IS NOT NULL");
}

bool e2e_said(struct process *relay, const char *words)
{
    return strstr(process_output(relay), words) != NULL;
}

void e2e_stop(struct process *relay)
{
    CHECK(process_running(relay));
    process_signal(relay, SIGTERM);
    CHECK_EQ(process_wait(relay, 12), 0);
}

struct oracle_verdict e2e_end(struct e2e *e, struct process *relay, unsigned seconds, const char *topics)
{
    struct oracle_question question = {.database = e->db.conninfo, .bootstrap = e->kafka, .topics = topics != NULL ? topics : e->topic};
    struct oracle_verdict verdict;
    char error[512];

    WAIT_UNTIL(e2e_unmarked(e) == 0, seconds);
    e2e_stop(relay);
    if (!oracle_judge(&question, &verdict, error, sizeof error))
        test_fail(__FILE__, __LINE__, "%s", error);
    for (unsigned i = 0; i < verdict.findings_n; i++)
        (void)fprintf(stderr, "    %s\n", verdict.finding[i]);
    CHECK(oracle_clean(&verdict));
    CHECK(verdict.committed > 0);
    CHECK_EQ(verdict.published, verdict.committed);
    return verdict;
}

int64_t e2e_real_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

long e2e_metric(int port, const char *name)
{
    static const char question[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char page[65536], line[100];
    size_t n = 0;
    ssize_t got;

    CHECK(s >= 0 && connect(s, (const struct sockaddr *)&address, sizeof address) == 0);
    CHECK(write(s, question, sizeof question - 1) == (ssize_t)sizeof question - 1);
    while (n < sizeof page - 1 && (got = read(s, page + n, sizeof page - 1 - n)) > 0)
        n += (size_t)got;
    (void)close(s);
    page[n] = '\0';
    (void)snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(page, line);
    CHECK(found != NULL);
    return strtol(found + strlen(line), NULL, 10);
}
