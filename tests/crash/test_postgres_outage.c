/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL goes away: a connection, all of them, the server in each of its ways, or what the relay needs to get in. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/crash/held.h"
#include "tests/crash/line.h"
#include "tests/crash/line_postgres.h"
#include "tests/lib/test.h"

static int64_t last_id(const struct line *l)
{
    return e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");
}

/* Some time later: how long depends on the load, and on chance. */
static void wait_at_random(const struct line *l)
{
    int64_t target = last_id(l) + 1 + rand() % 150;

    WAIT_UNTIL(last_id(l) >= target, 20);
}

/* --- connections ---------------------------------------------------------------------------------------------------- */

/* Each of the three connections in turn, wherever its statement may be. */
static void terminate_backends(const char *name, int times)
{
    static const char *const links[] = {"read", "mark", "lease"};
    struct line *l = line_begin(name, NULL);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "200");

    srand(1);
    for (int i = 0; i < times; i++) {
        const char *link = links[i % 3];

        WAIT_UNTIL(line_said_times(relay, "event=\"lease held\"") == i + 1, 20);
        wait_at_random(l);
        line_strike(l);
        int64_t ended = postgres_number(
            l->e.db.conninfo,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay %s %%'", link);
        CHECK_EQ(ended, 1);
        WAIT_UNTIL(line_said_times(relay, "event=\"database lost\"") == i + 1, 10);
        line_hit(l, "pg_terminate_backend of one of the relay's connections", "each time the relay said \"database lost\"");
    }
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}

TEST_WITHIN(crash_postgres_backends_terminated, 120)
{
    terminate_backends("terminated", 30);
}

TEST_WITHIN(long_postgres_backends_terminated, 600)
{
    terminate_backends("terminated-long", 200);
}

/* --- the server ----------------------------------------------------------------------------------------------------- */

/* Stop and start again while rows are unsettled; `words` are those of the server's log. */
static void restart_by(struct line *l, int signal_number, const char *words)
{
    static const char injected[] = "restart of PostgreSQL, fast and immediate";

    line_publishing(l);
    line_strike(l);
    postgres_stop_by(&l->e.db, signal_number);
    CHECK_EQ(process_wait(&l->e.db.server, 30), 0);
    CHECK(e2e_said(&l->e.db.server, words));
    postgres_restart(&l->e.db);
    line_hit(l, injected, "server's log: \"%s\"", words);
}

TEST_WITHIN(crash_postgres_restarted, 90)
{
    struct line *l = line_begin("restarted", NULL);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");

    for (int i = 0; i < 3; i++) {
        restart_by(l, SIGINT, "received fast shutdown request");
        restart_by(l, SIGQUIT, "received immediate shutdown request");
    }
    WAIT_UNTIL(line_said_times(relay, "event=\"database back\"") >= 6, 20);
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5)});
}

/* A smart stop waits for all who are connected, so nothing happens to the relay until somebody loses patience. */
TEST_WITHIN(crash_postgres_restarted_smart, 90)
{
    struct line *l = line_begin("smart", NULL);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");

    line_publishing(l);
    struct held *inside = held_open(l->e.db.conninfo);
    line_strike(l);
    postgres_stop_by(&l->e.db, SIGTERM);
    WAIT_UNTIL(e2e_said(&l->e.db.server, "received smart shutdown request"), 10);
    int64_t last = held_number(inside, "SELECT last_value FROM outbox.event_id_seq");
    WAIT_UNTIL(held_number(inside, "SELECT count(*) FROM outbox.event WHERE id > %lld AND sent_at IS NOT NULL", (long long)last) > 500, 20);
    CHECK(!e2e_said(relay, "event=\"database lost\""));
    postgres_stop_by(&l->e.db, SIGINT);
    CHECK_EQ(process_wait(&l->e.db.server, 30), 0);
    held_close(inside);
    postgres_restart(&l->e.db);
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    line_hit(l, "restart of PostgreSQL, smart and then fast", "500 rows went on under the smart one, server's log: both requests");
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}

/* Commits that nobody has written are lost; none of them may have been published. The barrier writes all the time, so every other
 * time the relay sleeps while such commits gather. The mutant: tests/crash/test_mutant.c. */
static void kill_unwritten_often(const char *name, int times)
{
    struct line *l = line_asynchronous(name);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");

    for (int i = 0; i < times; i++)
        line_kill_unwritten(l, i % 2 == 0 ? relay : NULL);
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5)});
}

TEST_WITHIN(crash_postgres_killed_with_asynchronous_commits, 90)
{
    kill_unwritten_often("asynchronous", 5);
}

TEST_WITHIN(long_postgres_killed_with_asynchronous_commits, 300)
{
    kill_unwritten_often("asynchronous-long", 40);
}

TEST_WITHIN(crash_postgres_away_from_the_start, 60)
{
    struct line *l = line_begin("away", NULL);

    line_strike(l);
    postgres_stop(&l->e.db);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");
    WAIT_UNTIL(e2e_said(relay, "event=\"database not reached\""), 20);
    CHECK(process_running(relay));
    postgres_restart(&l->e.db);
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    line_hit(l, "PostgreSQL away when the relay starts", "the relay said \"database not reached\", then \"database back\"");
    line_publishing(l);
    line_end(l, &(struct line_expected){0});
}

/* --- the way in ----------------------------------------------------------------------------------------------------- */

TEST_WITHIN(crash_postgres_password_changed, 60)
{
    struct line *l = line_begin("password", NULL);
    char hba[250];

    line_role(l, "PASSWORD 'right-secret'");
    (void)snprintf(hba, sizeof hba, "%s/pg_hba.conf", l->e.db.folder);
    FILE *f = fopen(hba, "we");
    CHECK(f != NULL);
    (void)fputs("local all relay scram-sha-256\nlocal all all trust\n", f);
    CHECK_EQ(fclose(f), 0);
    postgres_reload(&l->e.db);
    (void)strncat(l->e.database, " password=right-secret", sizeof l->e.database - strlen(l->e.database) - 1);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");
    line_publishing(l);
    line_strike(l);
    (void)postgres_query(l->e.db.conninfo, "ALTER ROLE relay PASSWORD 'another-secret'");
    line_terminate(l);
    WAIT_UNTIL(e2e_said(&l->e.db.server, "password authentication failed for user \"relay\""), 20);
    CHECK(e2e_said(relay, "event=\"database lost\""));
    (void)postgres_query(l->e.db.conninfo, "ALTER ROLE relay PASSWORD 'right-secret'");
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    line_hit(l, "the role's password is changed and changed back", "server's log: \"password authentication failed\"");
    CHECK(!e2e_said(relay, "secret"));
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}

/* What is missing is what the relay does next: marks, then the lease. Rows are published until too many wait for their mark. */
TEST_WITHIN(crash_postgres_rights_revoked_and_granted, 90)
{
    static const char *const rights[][2] = {{"UPDATE (sent_at)", "outbox.event"}, {"UPDATE", "outbox.beat"}};
    struct line *l = line_begin("rights", NULL);

    line_role(l, "");
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");
    for (int i = 0; i < 2; i++) {
        int denied = line_said_times(&l->e.db.server, "permission denied for table");

        line_publishing(l);
        line_strike(l);
        (void)postgres_query(l->e.db.conninfo, "REVOKE %s ON %s FROM outbox_relay", rights[i][0], rights[i][1]);
        WAIT_UNTIL(line_said_times(&l->e.db.server, "permission denied for table") > denied + 3, 20);
        CHECK(process_running(relay));
        (void)postgres_query(l->e.db.conninfo, "GRANT %s ON %s TO outbox_relay", rights[i][0], rights[i][1]);
        line_hit(l, "REVOKE UPDATE of the table and of the lease, for a while", "server's log: \"permission denied for table\"");
    }
    CHECK(e2e_said(relay, "permission denied"));
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(4)});
}

/* A managed database that runs out of disk does this. Connections that are there go on; a new one must not take it for a standby in silence. */
TEST_WITHIN(crash_postgres_read_only_by_default, 60)
{
    struct line *l = line_begin("read-only", NULL);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500", "--log-level", "debug");

    line_publishing(l);
    line_strike(l);
    (void)postgres_query(l->e.db.conninfo, "ALTER SYSTEM SET default_transaction_read_only = on");
    postgres_reload(&l->e.db);
    WAIT_UNTIL(e2e_number(&l->e, "SELECT (current_setting('transaction_read_only') = 'on')::int") == 1, 10);
    line_terminate(l);
    WAIT_UNTIL(e2e_said(relay, "event=\"database lost\""), 10);
    WAIT_UNTIL(e2e_said(&l->e.db.server, "in a read-only transaction"), 10);
    WAIT_UNTIL(e2e_said(relay, "event=\"database still lost\""), 10);
    (void)postgres_query(l->e.db.conninfo, "ALTER SYSTEM RESET default_transaction_read_only");
    postgres_reload(&l->e.db);
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    line_hit(l, "default_transaction_read_only = on, and the relay has to connect again",
             "server's log: \"in a read-only transaction\", the relay was away and came back");
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}
