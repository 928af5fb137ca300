/* SPDX-License-Identifier: BSD-2-Clause */
/* The fault proxy between a real client of PostgreSQL and a real server: each fault happens, is counted, and happens to nothing else. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proxy.h"
#include "tests/lib/test.h"

/* A server behind a proxy, with a table t (n int). */
struct box {
    struct postgres db;
    struct proxy proxy;
    char through[200];
};

static void through_port(struct box *b, int port)
{
    (void)snprintf(b->through, sizeof b->through, "host=127.0.0.1 port=%d user=postgres dbname=postgres", port);
}

static struct box *box_new(void)
{
    struct box *b = test_allocate(sizeof *b);
    b->db = postgres_start("listen_addresses = '127.0.0.1'");
    b->proxy = proxy_start();
    through_port(b, proxy_listen(&b->proxy, "db", "postgres", 0, b->db.port));
    (void)postgres_query(b->db.conninfo, "CREATE TABLE t (n int)");
    return b;
}

static PGconn *open_through(const struct box *b)
{
    PGconn *c = PQconnectdb(b->through);
    if (PQstatus(c) != CONNECTION_OK)
        test_fail(__FILE__, __LINE__, "%s", PQerrorMessage(c));
    return c;
}

/* Returns the SQLSTATE: "" for none, "lost" where the connection did not survive. */
static const char *run(PGconn *c, const char *sql)
{
    static char state[8];
    PGresult *result = PQexec(c, sql);
    const char *told = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    (void)snprintf(state, sizeof state, "%s", told != NULL ? told : PQstatus(c) != CONNECTION_OK ? "lost" : "");
    PQclear(result);
    return state;
}

static int64_t rows(const struct box *b)
{
    return postgres_number(b->db.conninfo, "SELECT count(*) FROM t");
}

/* Nothing can be read, although something was asked. */
static bool silent(PGconn *c)
{
    return PQconsumeInput(c) == 1 && PQisBusy(c) == 1;
}

static bool answered(PGconn *c)
{
    return PQconsumeInput(c) == 0 || PQisBusy(c) == 0;
}

TEST_WITHIN(proxy_postgres_passes_everything, 60)
{
    struct box *b = box_new();
    CHECK_EQ(postgres_number(b->through, "SELECT 42"), 42);
    CHECK_EQ(strlen(postgres_query(b->through, "SELECT repeat('x', 5000000)")), 5000000);
    PGconn *c = open_through(b);
    CHECK_STR(run(c, "SELECT 1/0"), "22012");
    CHECK_STR(run(c, "INSERT INTO t SELECT generate_series(1, 1000)"), "");
    PGresult *copy = PQexec(c, "COPY t FROM STDIN");
    CHECK_EQ(PQresultStatus(copy), PGRES_COPY_IN);
    PQclear(copy);
    CHECK_EQ(PQputCopyData(c, "7\n8\n", 4), 1);
    CHECK_EQ(PQputCopyEnd(c, NULL), 1);
    CHECK_EQ(PQresultStatus(copy = PQgetResult(c)), PGRES_COMMAND_OK);
    PQclear(copy);
    CHECK(PQgetResult(c) == NULL);
    CHECK_EQ(rows(b), 1002);
    PQfinish(c);
    WAIT_UNTIL(proxy_stat(&b->proxy, "db", "open") == 0, 10);
    CHECK_EQ(proxy_stat(&b->proxy, "db", "accepted"), 3);
    CHECK_EQ(proxy_stat(&b->proxy, "db", "requests"), proxy_stat(&b->proxy, "db", "replies"));
    CHECK_EQ(proxy_stat(&b->proxy, "db", "unmatched"), 0);
}

/* Segments end anywhere: two throttled proxies cut what comes and what goes into slices of a few hundred bytes. */
TEST_WITHIN(proxy_postgres_joins_what_was_cut, 60)
{
    struct box *b = box_new();
    int back = proxy_listen(&b->proxy, "back", "raw", 0, b->db.port);
    int middle = proxy_listen(&b->proxy, "middle", "postgres", 0, back);
    through_port(b, proxy_listen(&b->proxy, "front", "raw", 0, middle));
    (void)proxy_command(&b->proxy, "throttle front 15000");
    (void)proxy_command(&b->proxy, "throttle back 15000");
    (void)proxy_command(&b->proxy, "rule long middle lose skip=1 text=repeat");
    char *sql = test_allocate(20000);
    (void)snprintf(sql, 20000, "SELECT '%0*d', repeat('x', 10000)", 10000, 7);
    PGconn *c = open_through(b);
    PGresult *r = PQexec(c, sql);
    CHECK_EQ(strlen(PQgetvalue(r, 0, 0)), 10000);
    CHECK_EQ(strlen(PQgetvalue(r, 0, 1)), 10000);
    PQclear(r);
    CHECK_STR(run(c, sql), "lost");
    CHECK_EQ(proxy_hits(&b->proxy, "long"), 1);
    CHECK_EQ(proxy_stat(&b->proxy, "middle", "unmatched"), 0);
    PQfinish(c);
}

TEST_WITHIN(proxy_postgres_loses_replies_of_what_was_done, 60)
{
    struct box *b = box_new();
    (void)proxy_command(&b->proxy, "rule one db lose skip=1 times=2 text=INSERT INTO t");
    PGconn *c = open_through(b);
    CHECK_STR(run(c, "INSERT INTO t VALUES (1)"), "");
    for (int i = 1; i <= 2; i++) {
        CHECK_STR(run(c, "INSERT INTO t VALUES (2)"), "lost");
        CHECK_EQ(proxy_hits(&b->proxy, "one"), i);
        CHECK_EQ(rows(b), 1 + i);
        PQreset(c);
    }
    CHECK_STR(run(c, "INSERT INTO t VALUES (3)"), "");
    CHECK_EQ(proxy_seen(&b->proxy, "one"), 4);
    PQfinish(c);
}

/* A server that dies before it answers leaves the rule armed. */
TEST_WITHIN(proxy_postgres_counts_only_what_happened, 60)
{
    struct box *b = box_new();
    (void)proxy_command(&b->proxy, "rule one db lose text=INSERT");
    PGconn *c = open_through(b);
    CHECK_STR(run(c, "SELECT pg_terminate_backend(pg_backend_pid()); INSERT INTO t VALUES (1)"), "lost");
    WAIT_UNTIL(proxy_stat(&b->proxy, "db", "open") == 0, 10);
    CHECK_EQ(proxy_hits(&b->proxy, "one"), 0);
    PQreset(c);
    CHECK_STR(run(c, "INSERT INTO t VALUES (1)"), "lost");
    CHECK_EQ(proxy_hits(&b->proxy, "one"), 1);
    PQfinish(c);
}

TEST_WITHIN(proxy_postgres_knows_prepared_statements, 60)
{
    struct box *b = box_new();
    (void)proxy_command(&b->proxy, "rule all db count times=0 on=query");
    (void)proxy_command(&b->proxy, "rule mark db error code=40001 text=[mark] INSERT");
    PGconn *c = open_through(b);
    PQclear(PQprepare(c, "mark", "INSERT INTO t VALUES ($1::int)", 1, NULL));
    PQclear(PQprepare(c, "other", "INSERT INTO t VALUES ($1::int)", 1, NULL));
    CHECK_EQ(proxy_seen(&b->proxy, "all"), 0);
    PGresult *r = PQexecPrepared(c, "other", 1, (const char *[]){"1"}, NULL, NULL, 0);
    CHECK_EQ(PQresultStatus(r), PGRES_COMMAND_OK);
    PQclear(r);
    r = PQexecPrepared(c, "mark", 1, (const char *[]){"2"}, NULL, NULL, 0);
    CHECK_STR(PQresultErrorField(r, PG_DIAG_SQLSTATE), "40001");
    PQclear(r);
    r = PQexecPrepared(c, "mark", 1, (const char *[]){"3"}, NULL, NULL, 0);
    CHECK_EQ(PQresultStatus(r), PGRES_COMMAND_OK);
    PQclear(r);
    CHECK_EQ(rows(b), 2);
    CHECK_EQ(proxy_hits(&b->proxy, "mark"), 1);
    CHECK_EQ(proxy_seen(&b->proxy, "all"), 3);
    PQfinish(c);
}

/* Requests that were sent before the first was answered: the refusal comes in its turn. */
TEST_WITHIN(proxy_postgres_answers_in_turn, 60)
{
    struct box *b = box_new();
    (void)proxy_command(&b->proxy, "rule second db error code=55P03 text=VALUES (2)");
    PGconn *c = open_through(b);
    CHECK_EQ(PQenterPipelineMode(c), 1);
    static const char *const statements[] = {"INSERT INTO t SELECT 1 FROM pg_sleep(0.2)", "INSERT INTO t VALUES (2)",
                                             "INSERT INTO t VALUES (3)"};
    for (int i = 0; i < 3; i++)
        CHECK(PQsendQueryParams(c, statements[i], 0, NULL, NULL, NULL, NULL, 0) == 1 && PQpipelineSync(c) == 1);
    for (int i = 0; i < 3; i++) {
        PGresult *r = PQgetResult(c);
        CHECK_STR(PQresultErrorField(r, PG_DIAG_SQLSTATE), i == 1 ? "55P03" : NULL);
        PQclear(r);
        CHECK(PQgetResult(c) == NULL);
        CHECK_EQ(PQresultStatus(r = PQgetResult(c)), PGRES_PIPELINE_SYNC);
        PQclear(r);
    }
    CHECK_STR(postgres_query(b->db.conninfo, "SELECT string_agg(n::text, ',') FROM t"), "1,3");
    PQfinish(c);
}

TEST_WITHIN(proxy_postgres_swallows, 60)
{
    struct box *b = box_new();
    (void)proxy_command(&b->proxy, "rule drop db drop text=VALUES (1)");
    (void)proxy_command(&b->proxy, "rule mute db mute text=VALUES (2)");
    PGconn *dropped = open_through(b), *muted = open_through(b);
    CHECK_EQ(PQsendQuery(dropped, "INSERT INTO t VALUES (1)"), 1);
    CHECK_EQ(PQsendQuery(muted, "INSERT INTO t VALUES (2)"), 1);
    WAIT_UNTIL(proxy_hits(&b->proxy, "mute") == 1 && proxy_hits(&b->proxy, "drop") == 1, 10);
    CHECK_STR(postgres_query(b->db.conninfo, "SELECT * FROM t"), "2");
    CHECK(silent(dropped) && silent(muted));
    CHECK_STR(proxy_command(&b->proxy, "reset db"), "2");
    WAIT_UNTIL(answered(dropped) && answered(muted), 10);
    CHECK_EQ(rows(b), 1);
    PQfinish(dropped);
    PQfinish(muted);
}

TEST_WITHIN(proxy_postgres_duplicates_and_cuts, 60)
{
    struct box *b = box_new();
    (void)proxy_command(&b->proxy, "rule twice db duplicate text=VALUES (1)");
    (void)proxy_command(&b->proxy, "rule cut db cut text=VALUES (2)");
    (void)proxy_command(&b->proxy, "rule tear db tear text=VALUES (3)");
    (void)proxy_command(&b->proxy, "rule torn db tear-reply text=VALUES (4)");
    (void)proxy_command(&b->proxy, "rule half db half-close side=down text=VALUES (5)");
    (void)proxy_command(&b->proxy, "rule login db error code=57P03 skip=5 on=startup");
    PGconn *c = open_through(b);
    CHECK_STR(run(c, "INSERT INTO t VALUES (1)"), "");
    CHECK_STR(run(c, "SELECT 1"), "");
    CHECK_EQ(rows(b), 2);
    static const char *const statements[] = {"INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)",
                                             "INSERT INTO t VALUES (5)"};
    for (int i = 0; i < 4; i++) {
        CHECK_STR(run(c, statements[i]), "lost");
        PQreset(c);
        CHECK_EQ(PQstatus(c), CONNECTION_OK);
    }
    PQreset(c);
    CHECK_EQ(PQstatus(c), CONNECTION_BAD);
    CHECK(strstr(PQerrorMessage(c), "refused by the fault proxy") != NULL);
    WAIT_UNTIL(rows(b) == 4, 10);
    CHECK_STR(postgres_query(b->db.conninfo, "SELECT string_agg(n::text, ',') FROM t"), "1,1,4,5");
    CHECK_EQ(proxy_hits(&b->proxy, "twice") + proxy_hits(&b->proxy, "cut") + proxy_hits(&b->proxy, "tear") + proxy_hits(&b->proxy, "torn") +
                 proxy_hits(&b->proxy, "half") + proxy_hits(&b->proxy, "login"),
             6);
    PQfinish(c);
}

TEST_WITHIN(proxy_freezes_one_direction_or_both, 60)
{
    struct box *b = box_new();
    PGconn *c = open_through(b);
    static const char *const sides[] = {"up", "down", "both"};
    for (int i = 0; i < 3; i++) {
        (void)proxy_command(&b->proxy, "freeze db %s", sides[i]);
        CHECK_EQ(PQsendQuery(c, "INSERT INTO t VALUES (1)"), 1);
        if (i == 1)
            WAIT_UNTIL(rows(b) == 2, 10);
        /* The proxy has it, and the server would have. */
        WAIT_UNTIL(proxy_stat(&b->proxy, "db", "requests") == 3 + i, 10);
        CHECK(silent(c));
        CHECK_EQ(rows(b), i == 0 ? 0 : 2);
        (void)proxy_command(&b->proxy, "heal db");
        WAIT_UNTIL(answered(c), 10);
        for (PGresult *r = PQgetResult(c); r != NULL; r = PQgetResult(c)) /* to its end, or no other may be sent */
            PQclear(r);
        WAIT_UNTIL(rows(b) == (i + 1), 10);
    }
    PQfinish(c);
}

TEST_WITHIN(proxy_is_as_slow_as_it_is_told, 60)
{
    struct box *b = box_new();
    (void)proxy_command(&b->proxy, "rule hold db pass hold=300 text=SELECT 1");
    (void)proxy_command(&b->proxy, "rule delay db pass delay=300 text=SELECT 2");
    PGconn *c = open_through(b);
    uint64_t began_ms = test_now_ms();
    CHECK_STR(run(c, "SELECT 1"), "");
    CHECK(test_now_ms() - began_ms >= 300);
    began_ms = test_now_ms();
    CHECK_STR(run(c, "SELECT 2"), "");
    CHECK(test_now_ms() - began_ms >= 300);
    (void)proxy_command(&b->proxy, "latency db 200");
    began_ms = test_now_ms();
    CHECK_STR(run(c, "SELECT 3"), "");
    CHECK(test_now_ms() - began_ms >= 400);
    (void)proxy_command(&b->proxy, "latency db 0");
    (void)proxy_command(&b->proxy, "throttle db 100000");
    began_ms = test_now_ms();
    CHECK_STR(run(c, "SELECT repeat('x', 50000)"), "");
    CHECK(test_now_ms() - began_ms >= 400);
    (void)proxy_command(&b->proxy, "heal db");
    CHECK_STR(run(c, "SELECT repeat('x', 50000000)"), "");
    PQfinish(c);
}

TEST_WITHIN(proxy_cuts_and_heals, 60)
{
    struct box *b = box_new();
    PGconn *c = open_through(b);
    (void)proxy_command(&b->proxy, "cut db");
    CHECK_STR(run(c, "SELECT 1"), "lost");
    PQreset(c);
    CHECK_EQ(PQstatus(c), CONNECTION_BAD);
    (void)proxy_command(&b->proxy, "heal db");
    PQreset(c);
    CHECK_STR(run(c, "SELECT 1"), "");
    CHECK_STR(proxy_command(&b->proxy, "half-close db up"), "1");
    WAIT_UNTIL(strcmp(run(c, "SELECT 1"), "lost") == 0, 10);
    PQreset(c);
    CHECK_STR(run(c, "SELECT 1"), "");
    postgres_stop(&b->db);
    PQreset(c);
    CHECK_EQ(PQstatus(c), CONNECTION_BAD);
    postgres_restart(&b->db);
    PQreset(c);
    CHECK_STR(run(c, "SELECT 1"), "");
    PQfinish(c);
}

/* A request that the network has taken comes late, although its client is long gone. */
TEST_WITHIN(proxy_delivers_what_a_dead_client_sent, 60)
{
    struct box *b = box_new();
    (void)proxy_command(&b->proxy, "rule late db pass hold=700 text=INSERT");
    PGconn *c = open_through(b);
    CHECK_EQ(PQsendQuery(c, "INSERT INTO t VALUES (1)"), 1);
    WAIT_UNTIL(proxy_hits(&b->proxy, "late") == 1, 10);
    PQfinish(c);
    CHECK_EQ(rows(b), 0);
    WAIT_UNTIL(rows(b) == 1, 10);
    WAIT_UNTIL(proxy_stat(&b->proxy, "db", "open") == 0, 10);
}

/* The same seed, the same faults. */
TEST_WITHIN(proxy_throws_dice_that_can_be_repeated, 60)
{
    struct box *b = box_new();
    char faults[2][41];
    PGconn *c = open_through(b);
    for (int turn = 0; turn < 2; turn++) {
        (void)proxy_command(&b->proxy, "seed 7");
        (void)proxy_command(&b->proxy, "rule dice%d db error code=XX000 chance=300 times=0 on=query", turn);
        for (int i = 0; i < 40; i++)
            faults[turn][i] = run(c, "SELECT 1")[0] != 0 ? 'x' : '.';
        faults[turn][40] = 0;
        (void)proxy_command(&b->proxy, "forget dice%d", turn);
    }
    CHECK_STR(faults[0], faults[1]);
    CHECK(proxy_hits(&b->proxy, "dice1") >= 4 && proxy_hits(&b->proxy, "dice1") <= 25);
    CHECK_STR(run(c, "SELECT 1"), "");
    PQfinish(c);
}
