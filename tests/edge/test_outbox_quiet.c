/* SPDX-License-Identifier: BSD-2-Clause */
/* Writers that do nothing: idle in their transaction, or prepared. Design review 17 and 29. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/edge/outbox_box.h"

#define INSERT "INSERT INTO outbox.event (event_id, topic, key) VALUES (gen_random_uuid(), 't', 'k')"

static struct box *box_ready(const char *conninfo)
{
    struct box *b = box_new(conninfo);
    box_connect(b);
    CHECK(box_take(b));
    return b;
}

/* A session that does what it is told and is idle in between. */
struct talker {
    struct process psql;
    int to;
};

static void talk(struct talker *t, const struct postgres *p, const char *sql)
{
    int64_t before = postgres_number(p->conninfo, "SELECT count(*) FROM said");

    CHECK_EQ(dprintf(t->to, "%s; \\! psql -Xqc 'INSERT INTO said DEFAULT VALUES' '%s'\n", sql, p->conninfo) > 0, 1);
    WAIT_UNTIL(postgres_number(p->conninfo, "SELECT count(*) FROM said") == before + 1, 10);
}

static struct talker talker_start(const struct postgres *p, const char *conninfo)
{
    struct talker t;
    int ends[2];

    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    postgres_query(p->conninfo, "CREATE TABLE IF NOT EXISTS said (at timestamptz DEFAULT now())");
    t.psql = process_start_with((const char *[]){"psql", "-Xq", conninfo, NULL}, NULL, NULL, (struct process_options){.input = ends[0]});
    (void)close(ends[0]);
    t.to = ends[1];
    return t;
}

static void talker_end(struct talker *t)
{
    (void)close(t->to);
    CHECK_EQ(process_wait(&t->psql, 10), 0);
}

BOX_TEST_WITHIN(outbox_writers_tell_since_when_they_are_quiet, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(p.conninfo);
    struct talker t = talker_start(&p, p.conninfo);
    uint64_t since;

    talk(&t, &p, "BEGIN; " INSERT);
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    since = b->writers[0].quiet_since;
    CHECK(since != 0);
    box_writers(b);
    CHECK(b->writers[0].quiet_since == since);
    talk(&t, &p, "SELECT 1"); /* whatever it does */
    box_writers(b);
    CHECK(b->writers[0].quiet_since != since && b->writers[0].quiet_since != 0);
    (void)dprintf(t.to, "SELECT pg_sleep(600);\n");
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1, 10);
    box_writers(b);
    CHECK(b->writers[0].quiet_since == 0);
    postgres_query(p.conninfo, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
    talk(&t, &p, "ROLLBACK; BEGIN; SAVEPOINT s; " INSERT "; SELECT 1 / 0"); /* an error that it may come back from */
    box_writers(b);
    CHECK_EQ(b->writers_count, 0); /* the lock went with the savepoint */
    talk(&t, &p, "ROLLBACK; BEGIN; " INSERT "; SAVEPOINT s; SELECT 1 / 0");
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    CHECK(b->writers[0].quiet_since != 0);
    talker_end(&t);
    box_free(b);
}

/* The right comes with the migration; without it, whoever is idle counts as one that acts. */
BOX_TEST_WITHIN(outbox_writers_are_active_for_who_may_not_see, 60)
{
    struct postgres p = box_postgres(NULL);
    struct talker t = talker_start(&p, p.conninfo);
    char conninfo[400];
    struct box *b;

    postgres_query(p.conninfo, "CREATE ROLE sidecar LOGIN IN ROLE outbox_relay");
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=sidecar dbname=postgres", p.socket_folder, p.port);
    b = box_ready(conninfo);
    talk(&t, &p, "BEGIN; " INSERT);
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    CHECK(b->writers[0].quiet_since != 0);
    postgres_query(p.conninfo, "REVOKE pg_read_all_stats FROM outbox_relay");
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    CHECK(b->writers[0].quiet_since == 0);
    talker_end(&t);
    box_free(b);
}

/* Neither another database, though its table has the same number, nor another table of this one holds up anything. */
BOX_TEST_WITHIN(outbox_writers_elsewhere_are_not_counted, 60)
{
    struct postgres p = box_postgres("max_prepared_transactions = 5");
    char conninfo[400];
    struct talker other_database, other_table;
    struct box *b;

    postgres_query(p.conninfo, "CREATE TABLE said (at timestamptz DEFAULT now()); CREATE TABLE neighbour (a int)");
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres'") == 1, 10);
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=postgres dbname=template1", p.socket_folder, p.port);
    postgres_query(conninfo, "CREATE DATABASE copy TEMPLATE postgres");
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=postgres dbname=copy", p.socket_folder, p.port);
    CHECK_EQ(postgres_number(conninfo, "SELECT 'outbox.event'::regclass::oid::int8"),
             postgres_number(p.conninfo, "SELECT 'outbox.event'::regclass::oid::int8"));
    postgres_query(conninfo, "BEGIN; " INSERT "; PREPARE TRANSACTION 'forgotten'");
    postgres_query(p.conninfo, "BEGIN; INSERT INTO neighbour VALUES (1); PREPARE TRANSACTION 'forgotten too'");
    other_database = talker_start(&p, conninfo);
    other_table = talker_start(&p, p.conninfo);
    talk(&other_database, &p, "BEGIN; " INSERT);
    talk(&other_table, &p, "BEGIN; INSERT INTO neighbour VALUES (1); SELECT count(*) FROM outbox.event");
    b = box_ready(p.conninfo);
    box_writers(b);
    CHECK_EQ(b->writers_count, 0);
    CHECK_EQ(b->last_id, 0);
    talker_end(&other_database);
    talker_end(&other_table);
    box_free(b);
}

BOX_TEST_WITHIN(outbox_writers_that_are_prepared_are_quiet, 60)
{
    struct postgres p = box_postgres("max_prepared_transactions = 5");
    struct box *b = box_ready(p.conninfo);
    struct talker t = talker_start(&p, p.conninfo);
    struct relay_writer before;

    talk(&t, &p, "BEGIN; " INSERT);
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    before = b->writers[0];
    talk(&t, &p, "PREPARE TRANSACTION 'one'");
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    CHECK(b->writers[0].vxid == before.vxid); /* else it would look as if it had ended */
    CHECK(b->writers[0].quiet_since != 0 && b->writers[0].quiet_since != before.quiet_since);
    before = b->writers[0];
    talk(&t, &p, "BEGIN; " INSERT "; COMMIT");
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    CHECK(b->writers[0].vxid == before.vxid && b->writers[0].quiet_since == before.quiet_since);
    talker_end(&t);
    box_free(b);
}

/* A server that was restarted in an orderly way has lost nothing, so its token is the same, and behind a pooler the connections seem to be,
 * too. But the prepared transaction has another number now: the old one would look as if it had ended, and its ids would be given up. */
TEST_WITHIN(outbox_restart_behind_a_pooler_is_seen_by_the_writers, 60)
{
    struct postgres p = box_postgres("max_prepared_transactions = 5");
    struct box *b;
    uint64_t vxid;

    box_pool();
    b = box_ready(p.conninfo);
    postgres_query(p.conninfo, "BEGIN; " INSERT "; PREPARE TRANSACTION 'one'");
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    vxid = b->writers[0].vxid;
    postgres_stop(&p);
    postgres_restart(&p);
    outbox_writers(b->outbox);
    BOX_UNTIL(b, b->lost_n == 1, 10);
    CHECK(strstr(b->reason, "restarted behind the pooler") != NULL);
    CHECK_EQ(b->writers_n, 1);
    box_connect(b);
    CHECK(box_take(b));
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    CHECK(b->writers[0].vxid != vxid && b->writers[0].vxid >> 32 == UINT32_MAX);
    box_free(b);
}
