/* SPDX-License-Identifier: BSD-2-Clause */
/* The services that tests stand on: they start, answer, come back after a kill, and leave nothing behind. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/descendants.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

TEST(process_tells_its_status_and_output)
{
    struct process p = process_start((const char *[]){"sh", "-c", "echo $WORD; exit 7", NULL}, (const char *[]){"WORD=hello", NULL}, NULL);
    CHECK_EQ(process_wait(&p, 5), 7);
    CHECK_STR(process_output(&p), "hello\n");
    p = process_start((const char *[]){"sh", "-c", "kill -9 $$", NULL}, NULL, NULL);
    CHECK_EQ(process_wait(&p, 5), 128 + SIGKILL);
    p = process_start((const char *[]){"/nowhere/no-program", NULL}, NULL, NULL);
    CHECK_EQ(process_wait(&p, 5), 127);
}

TEST(process_takes_signals_although_the_harness_blocks_them)
{
    struct process p = process_start((const char *[]){"sleep", "600", NULL}, NULL, NULL);
    CHECK(process_running(&p));
    process_signal(&p, SIGTERM);
    CHECK_EQ(process_wait(&p, 5), 128 + SIGTERM);
}

TEST_WITHIN(postgres_answers, 60)
{
    struct postgres p = postgres_start(NULL);
    CHECK_STR(postgres_query(p.conninfo, "SELECT 1, 'a%%b', NULL UNION ALL SELECT %d, 'c', 'd'", 2), "1\ta%b\t\n2\tc\td");
    CHECK_EQ(postgres_number(p.conninfo, "SELECT count(*) FROM generate_series(1, 17)"), 17);
    CHECK_STR(postgres_error(p.conninfo, "SELECT 1/0"), "22012");
    CHECK_STR(postgres_error(p.conninfo, "SELECT 1"), "");
    CHECK_STR(postgres_query(p.conninfo, "SHOW fsync"), "on");
    CHECK_STR(postgres_query(p.conninfo, "SHOW listen_addresses"), "");
}

TEST_WITHIN(postgres_takes_settings, 60)
{
    struct postgres p = postgres_start("work_mem = '5MB'");
    CHECK_STR(postgres_query(p.conninfo, "SHOW work_mem"), "5MB");
    postgres_settings(&p, "work_mem = '6MB'");
    postgres_reload(&p);
    WAIT_UNTIL(strcmp(postgres_query(p.conninfo, "SHOW work_mem"), "6MB") == 0, 10);
    struct postgres other = postgres_start(NULL);
    CHECK_STR(postgres_query(other.conninfo, "SHOW work_mem"), "4MB");
}

TEST_WITHIN(postgres_keeps_what_was_committed_before_a_kill, 60)
{
    struct postgres p = postgres_start(NULL);
    postgres_query(p.conninfo, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)");
    struct descendants children;
    descendants_of(p.server.pid, &children);
    CHECK(children.n >= 3);
    pid_t postmaster = p.server.pid;
    postgres_kill(&p);
    CHECK(!descendants_alive(postmaster));
    for (unsigned i = 0; i < children.n; i++)
        CHECK(!descendants_alive(children.pids[i]));
    postgres_restart(&p);
    CHECK_EQ(postgres_number(p.conninfo, "SELECT n FROM t"), 1);
    postgres_stop(&p);
    CHECK(!process_running(&p.server));
    postgres_restart(&p);
    CHECK_EQ(postgres_number(p.conninfo, "SELECT n FROM t"), 1);
}

TEST_WITHIN(postgres_standby_follows_and_is_promoted, 60)
{
    struct postgres p = postgres_start(NULL);
    (void)postgres_query(p.conninfo, "CREATE TABLE t AS SELECT 1 AS n");
    struct postgres standby = postgres_standby(&p, "second", NULL);
    (void)postgres_query(p.conninfo, "UPDATE t SET n = 2");
    WAIT_UNTIL(postgres_number(standby.conninfo, "SELECT n FROM t") == 2, 10);
    CHECK_STR(postgres_error(standby.conninfo, "UPDATE t SET n = 3"), "25006");
    postgres_kill(&p);
    postgres_promote(&standby);
    (void)postgres_query(standby.conninfo, "UPDATE t SET n = 4");
    postgres_stop(&standby);
}

TEST_WITHIN(postgres_disk_is_full_and_free_again, 60)
{
    struct postgres p = postgres_start(NULL);
    postgres_disk(&p, "base", 64);
    (void)postgres_query(p.conninfo, "CREATE TABLE t AS SELECT 1 AS n");
    postgres_disk_fill(&p, "base");
    CHECK_STR(postgres_error(p.conninfo, "INSERT INTO t SELECT generate_series(1, 10000)"), "53100");
    postgres_disk_free(&p, "base");
    (void)postgres_query(p.conninfo, "INSERT INTO t SELECT generate_series(1, 10000)");
    postgres_stop(&p);
}

TEST_WITHIN(kafka_answers_and_comes_back_after_a_kill, 90)
{
    struct kafka k = kafka_start();
    kafka_topic_create(k.bootstrap, "orders", 3, "max.message.bytes=5000,retention.ms=-1");
    CHECK_EQ(kafka_topic_partitions(k.bootstrap, "orders"), 3);
    CHECK_EQ(kafka_topic_partitions(k.bootstrap, "nothing"), 0);
    kafka_kill(&k);
    CHECK_EQ(kafka_topic_partitions(k.bootstrap, "orders"), -1);
    kafka_restart(&k);
    WAIT_UNTIL(kafka_topic_partitions(k.bootstrap, "orders") == 3, 20);
    kafka_topic_delete(k.bootstrap, "orders");
    CHECK_EQ(kafka_topic_partitions(k.bootstrap, "orders"), 0);
    kafka_stop(&k);
}

TEST_WITHIN(mock_cluster_does_as_it_is_told, 60)
{
    struct mock m = mock_start(2);
    mock_command(&m, "topic %s %d", "orders", 4);
    CHECK_EQ(kafka_topic_partitions(m.bootstrap, "orders"), 4);
    mock_command(&m, "leader orders 1 2");
    mock_command(&m, "rtt 20");
    mock_command(&m, "error 0 6 3");
    mock_command(&m, "topic-error orders 29");
    CHECK_EQ(kafka_topic_partitions(m.bootstrap, "orders"), 0);
    mock_command(&m, "topic-error orders 0");
    mock_command(&m, "down");
    CHECK_EQ(kafka_topic_partitions(m.bootstrap, "orders"), -1);
    mock_command(&m, "up");
    WAIT_UNTIL(kafka_topic_partitions(m.bootstrap, "orders") == 4, 20);
    mock_stop(&m);
}

/* Transaction mode: a server's process is shared by clients between their transactions, and what a client was told of it is a fiction. */
TEST_WITHIN(pgbouncer_pools_transactions, 60)
{
    struct postgres p = postgres_start(NULL);
    struct pgbouncer b = pgbouncer_start(&p, "default_pool_size = 1");
    const char *first = postgres_query(b.conninfo, "SELECT pg_backend_pid()");
    CHECK_STR(postgres_query(b.conninfo, "SELECT pg_backend_pid()"), first);
    CHECK(strstr(postgres_query(b.console, "SHOW POOLS"), "transaction") != NULL);
    /* Users of the server are known. */
    char conninfo[500];
    postgres_query(p.conninfo, "CREATE ROLE somebody LOGIN");
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=somebody dbname=postgres", b.folder, b.port);
    CHECK_STR(postgres_query(conninfo, "SELECT current_user"), "somebody");
    pgbouncer_kill(&b);
    pgbouncer_restart(&b);
    /* It hides a crash of the server. */
    CHECK_STR(postgres_query(b.conninfo, "SELECT 1"), "1");
    postgres_kill(&p);
    postgres_restart(&p);
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT 1") == 1, 10);
    CHECK_STR(postgres_query(b.conninfo, "SELECT 1"), "1");
    pgbouncer_stop(&b);
}
