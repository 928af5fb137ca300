/* SPDX-License-Identifier: BSD-2-Clause */
/* Bad input end to end: what is wrong is said in one clear sentence, the rest goes on, nothing is lost, nothing is marked falsely, and
 * when it is put right the rows arrive without anybody's help. Only bad settings end the program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "relay/core/hash.h"
#include "tests/crash/e2e.h"
#include "tests/lib/test.h"

#define KEYS 20

/* Short waits between tries, so that a test need not wait long after it put something right. */
#define QUICK "--backoff-max-ms", "500", "--lease-ttl-ms", "2000"

static const char *key_name(int number)
{
    static char name[16];

    (void)snprintf(name, sizeof name, "k%d", number);
    return name;
}

static int32_t partition_of(int key)
{
    const char *name = key_name(key);

    return hash_partition(hash_murmur2(name, strlen(name)), E2E_PARTITIONS);
}

/* An event of `version` for each key. */
static void commit_round(const struct e2e *e, int version)
{
    for (int k = 0; k < KEYS; k++)
        e2e_commit(e, e->topic, key_name(k), version, "{\"cents\":1}", "NULL");
}

static int64_t unmarked_of_key(const struct e2e *e, int key)
{
    return postgres_number(e->db.conninfo, "SELECT count(*) FROM outbox.event WHERE key = '%s' AND sent_at IS NULL", key_name(key));
}

/* One row of key 0 cannot be published, and another waits behind it. All other keys go on, those of its partition too. */
static bool only_its_key_waits(const struct e2e *e)
{
    bool neighbour = false;

    for (int k = 1; k < KEYS; k++) {
        if (unmarked_of_key(e, k) > 0)
            return false;
        neighbour |= partition_of(k) == partition_of(0);
    }
    CHECK(neighbour); /* or this says nothing */
    return unmarked_of_key(e, 0) == 2;
}

static int count_said(struct process *relay, const char *words)
{
    int n = 0;

    for (const char *at = process_output(relay); (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

TEST_WITHIN(e2e_unknown_setting_exits_with_2, 60)
{
    struct e2e e = e2e_begin("unknown-setting");
    struct process relay = RELAY(&e, "--no-such-thing", "1");

    CHECK_EQ(process_wait(&relay, 10), 2);
    CHECK(e2e_said(&relay, "no-such-thing"));
    CHECK(strchr(process_output(&relay), '\n') == strrchr(process_output(&relay), '\n'));
    relay = RELAY(&e, "--kafka.acks", "1");
    CHECK_EQ(process_wait(&relay, 10), 2);
    CHECK(e2e_said(&relay, "acks"));
}

TEST_WITHIN(e2e_database_away_from_the_start_is_an_outage, 60)
{
    struct e2e e = e2e_begin("no-database");

    commit_round(&e, 1);
    postgres_stop(&e.db);
    struct process relay = RELAY(&e, QUICK);
    WAIT_UNTIL(e2e_said(&relay, "event=\"database not reached\""), 15);
    WAIT_UNTIL(e2e_said(&relay, e.db.socket_folder), 5);
    CHECK(process_running(&relay));
    postgres_restart(&e.db);
    WAIT_UNTIL(e2e_said(&relay, "event=\"database back\""), 15);
    struct oracle_verdict v = e2e_end(&e, &relay, 20, NULL);
    CHECK_EQ(count_said(&relay, "database not reached"), 1);
    CHECK_EQ(v.published, KEYS);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}

TEST_WITHIN(e2e_kafka_away_from_the_start_is_an_outage, 60)
{
    struct e2e e = e2e_begin("no-kafka");
    struct e2e nowhere = e;
    char address[32];

    commit_round(&e, 1);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", free_port());
    (void)snprintf(nowhere.brokers, sizeof nowhere.brokers, "%s", address);
    struct process relay = RELAY(&nowhere, QUICK, "--shutdown-ms", "1000");
    WAIT_UNTIL(e2e_said(&relay, "event=\"kafka not reached\""), 20);
    CHECK(process_running(&relay));
    CHECK_EQ(e2e_marked(&e), 0);
    process_signal(&relay, SIGTERM);
    CHECK(process_wait(&relay, 5) <= 1);
    CHECK_EQ(e2e_marked(&e), 0);
    relay = RELAY(&e, QUICK);
    struct oracle_verdict v = e2e_end(&e, &relay, 20, NULL);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[300];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "we");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
}

TEST_WITHIN(e2e_wrong_password_is_an_outage_and_stays_secret, 60)
{
    struct e2e e = e2e_begin("password");

    (void)postgres_query(e.db.conninfo, "CREATE ROLE app LOGIN PASSWORD 'open-sesame' IN ROLE outbox_relay");
    write_file(e.db.folder, "pg_hba.conf", "local all app scram-sha-256\nlocal all all trust\n");
    postgres_reload(&e.db);
    (void)snprintf(e.database, sizeof e.database, "host=%s port=%d dbname=postgres user=app password=xyzzy-plugh", e.db.socket_folder,
                   e.db.port);
    commit_round(&e, 1);
    struct process relay = RELAY(&e, QUICK);
    WAIT_UNTIL(e2e_said(&relay, "password authentication failed for user"), 15);
    CHECK(e2e_said(&relay, "event=\"database not reached\""));
    CHECK(process_running(&relay));
    CHECK(!e2e_said(&relay, "xyzzy-plugh"));
    CHECK_EQ(e2e_marked(&e), 0);
    (void)postgres_query(e.db.conninfo, "ALTER ROLE app PASSWORD 'xyzzy-plugh'");
    /* From here on as a role that may do what the relay needs and no more. */
    struct oracle_verdict v = e2e_end(&e, &relay, 20, NULL);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}

TEST_WITHIN(e2e_missing_topic_waits_and_the_others_go_on, 60)
{
    struct e2e e = e2e_begin("there");
    struct process relay = RELAY(&e, QUICK);

    for (int version = 1; version <= 20; version++)
        e2e_commit(&e, "not-yet", "a", version, "{}", "NULL");
    commit_round(&e, 1);
    WAIT_UNTIL(e2e_marked(&e) == KEYS, 20);
    WAIT_UNTIL(e2e_said(&relay, "event=\"topic closed, its rows wait\""), 10);
    CHECK(e2e_said(&relay, "topic=not-yet"));
    commit_round(&e, 2);
    WAIT_UNTIL(e2e_marked(&e) == 2 * KEYS, 20);
    CHECK_EQ(e2e_unmarked(&e), 20);
    CHECK(process_running(&relay));
    kafka_topic_create(e.kafka, "not-yet", 3, NULL);
    struct oracle_verdict v = e2e_end(&e, &relay, 30, "there,not-yet");
    CHECK_EQ(v.published, 2 * KEYS + 20);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}

/* A table that was made without our CHECK. */
TEST_WITHIN(e2e_headers_that_are_no_object_stop_their_key_only, 60)
{
    struct e2e e = e2e_begin("headers");
    struct process relay = RELAY(&e, QUICK);

    (void)postgres_query(e.db.conninfo, "ALTER TABLE outbox.event DROP CONSTRAINT event_headers_are_strings");
    commit_round(&e, 1);
    e2e_commit(&e, e.topic, key_name(0), 2, "{}", "'[\"no\", \"object\"]'");
    e2e_commit(&e, e.topic, key_name(0), 3, "{}", "NULL");
    for (int k = 1; k < KEYS; k++)
        e2e_commit(&e, e.topic, key_name(k), 2, "{}", "'{\"trace\": \"abc\"}'");
    WAIT_UNTIL(e2e_said(&relay, "event=\"row cannot be published, its key waits\""), 20);
    CHECK(e2e_said(&relay, "object"));
    WAIT_UNTIL(only_its_key_waits(&e), 20);
    CHECK(process_running(&relay));
    (void)postgres_query(e.db.conninfo, "UPDATE outbox.event SET headers = '{}' WHERE jsonb_typeof(headers) = 'array'");
    struct oracle_verdict v = e2e_end(&e, &relay, 30, NULL);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}

static bool is_first_of_its_partition(int key)
{
    for (int other = 0; other < key; other++)
        if (partition_of(other) == partition_of(key))
            return false;
    return true;
}

/* A bad row in each partition: they take turns being tried, and each is told once. */
TEST_WITHIN(e2e_rows_that_cannot_be_published_are_told_once_each, 60)
{
    static const char told[] = "event=\"row cannot be published, its key waits\"";
    struct e2e e = e2e_begin("told-once");
    struct process relay = RELAY(&e, QUICK);
    int bad = 0;

    (void)postgres_query(e.db.conninfo, "ALTER TABLE outbox.event DROP CONSTRAINT event_headers_are_strings");
    for (int k = 0; k < KEYS; k++) {
        if (!is_first_of_its_partition(k))
            continue;
        e2e_commit(&e, e.topic, key_name(k), 1, "{}", "'[]'");
        bad++;
        WAIT_UNTIL(count_said(&relay, told) >= bad, 20);
    }
    CHECK(bad > 2);
    (void)postgres_query(e.db.conninfo, "UPDATE outbox.event SET headers = NULL");
    struct oracle_verdict v = e2e_end(&e, &relay, 30, NULL);
    CHECK_EQ(count_said(&relay, told), bad);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}

/* A row of `bytes` is too large; then the service repairs it. */
static void check_large_row(struct e2e *e, size_t bytes)
{
    char *payload = malloc(bytes + 1);

    CHECK(payload != NULL);
    memset(payload, 'x', bytes);
    payload[bytes] = '\0';
    struct process relay = RELAY(e, QUICK);
    commit_round(e, 1);
    e2e_commit(e, e->topic, key_name(0), 2, payload, "NULL");
    e2e_commit(e, e->topic, key_name(0), 3, "{}", "NULL");
    for (int k = 1; k < KEYS; k++)
        e2e_commit(e, e->topic, key_name(k), 2, "{}", "NULL");
    WAIT_UNTIL(e2e_said(&relay, "event=\"row cannot be published, its key waits\""), 20);
    WAIT_UNTIL(only_its_key_waits(e), 20);
    CHECK(process_running(&relay));
    (void)postgres_query(e->db.conninfo,
                         "UPDATE outbox.event SET payload = 'small' WHERE octet_length(payload) = %lld;"
                         "UPDATE demo.history SET payload_hash = %lld WHERE key = '%s' AND version = 2",
                         (long long)bytes, (long long)oracle_payload_hash("small", 5), key_name(0));
    struct oracle_verdict v = e2e_end(e, &relay, 30, NULL);
    oracle_forget(&v);
    free(payload);
}

TEST_WITHIN(e2e_row_above_the_clients_limit_stops_its_key_only, 60)
{
    struct e2e e = e2e_begin("large");

    check_large_row(&e, 3000000);
}

/* The client lets it through and the broker refuses it. */
TEST_WITHIN(e2e_row_above_the_topics_limit_stops_its_key_only, 60)
{
    struct e2e e = e2e_begin("large-for-the-client");

    (void)snprintf(e.topic, sizeof e.topic, "large-for-the-topic");
    kafka_topic_create(e.kafka, e.topic, E2E_PARTITIONS, "max.message.bytes=100000");
    check_large_row(&e, 200000);
}

TEST_WITHIN(e2e_schema_of_another_major_version_is_an_outage, 60)
{
    struct e2e e = e2e_begin("major");

    commit_round(&e, 1);
    (void)postgres_query(e.db.conninfo, "UPDATE outbox.meta SET major = major + 8");
    struct process relay = RELAY(&e, QUICK);
    WAIT_UNTIL(e2e_said(&relay, "the outbox schema has version 9."), 15);
    CHECK(process_running(&relay));
    CHECK_EQ(e2e_marked(&e), 0);
    (void)postgres_query(e.db.conninfo, "UPDATE outbox.meta SET major = major - 8");
    struct oracle_verdict v = e2e_end(&e, &relay, 20, NULL);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}

/* Nobody reads its stderr, and the pipe is full before it starts: it neither stops nor dies of that. */
TEST_WITHIN(e2e_full_pipe_on_stderr_stops_nothing, 60)
{
    struct e2e e = e2e_begin("pipe");
    char path[300], bytes[4096] = {0};
    int fd;

    (void)snprintf(path, sizeof path, "%s/errors", temp_folder());
    CHECK_EQ(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    CHECK(fd >= 0);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
    CHECK_EQ(errno, EAGAIN);
    struct process relay = e2e_relay_into(&e, (const char *const[]){QUICK, "--log-level", "debug", NULL}, path);
    commit_round(&e, 1);
    WAIT_UNTIL(e2e_unmarked(&e) == 0, 20);
    /* Lines to lose: the database goes away and comes back. */
    postgres_kill(&e.db);
    postgres_restart(&e.db);
    commit_round(&e, 2);
    CHECK_EQ(write(fd, bytes, sizeof bytes), -1);
    struct oracle_verdict v = e2e_end(&e, &relay, 20, NULL);
    CHECK_EQ(v.published, 2 * KEYS);
    oracle_forget(&v);
    (void)close(fd);
}

TEST_WITHIN(e2e_drain_ends_with_0_when_nothing_is_left_and_1_when_rows_wait, 60)
{
    struct e2e e = e2e_begin("drain");

    LOAD(&e, "--total", "5000", "--orders", "100");
    e2e_load_end(&e, 30);
    int64_t rows = e2e_unmarked(&e);
    CHECK(rows >= 5000);
    struct process relay = RELAY(&e, "--drain", QUICK);
    CHECK_EQ(process_wait(&relay, 20), 0);
    CHECK_EQ(e2e_unmarked(&e), 0);
    e2e_commit(&e, "nowhere", "a", 1, "{}", "NULL");
    e2e_commit(&e, e.topic, "a", 1, "{}", "NULL");
    relay = RELAY(&e, "--drain", QUICK);
    CHECK_EQ(process_wait(&relay, 30), 1);
    CHECK(e2e_said(&relay, "event=\"only waiting rows remain\""));
    CHECK(e2e_said(&relay, "rows=1"));
    CHECK_EQ(e2e_unmarked(&e), 1);
    kafka_topic_create(e.kafka, "nowhere", 1, NULL);
    relay = RELAY(&e, QUICK);
    struct oracle_verdict v = e2e_end(&e, &relay, 20, "drain,nowhere");
    CHECK_EQ(v.published, rows + 2);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}
