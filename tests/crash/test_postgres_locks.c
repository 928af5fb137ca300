/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL is there and does not do what is asked: locks, deadlocks, what a role's defaults cut short, a full disk. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/crash/held.h"
#include "tests/crash/line.h"
#include "tests/crash/line_postgres.h"
#include "tests/lib/test.h"

/* --- a lock on the table -------------------------------------------------------------------------------------------- */

/* Reads and marks wait, beats do not: the lease stays where it is, through four lives of it. */
static void table_locked(const char *name, int seconds)
{
    struct line *l = line_begin(name, NULL);
    struct process *relay = line_relay(l, NULL);
    const char *sqlstate;

    WAIT_UNTIL(e2e_said(relay, "event=\"lease held\""), 20);
    struct process *second = line_relay(l, NULL);
    WAIT_UNTIL(e2e_said(second, "another relay holds the lease"), 20);
    line_publishing(l);
    struct held *inside = held_open(l->e.db.conninfo), *holder = held_open(l->e.db.conninfo);
    line_strike(l);
    (void)held_number(holder, "BEGIN; LOCK TABLE outbox.event IN ACCESS EXCLUSIVE MODE");
    held_send(holder, "SELECT pg_sleep(%d); COMMIT", seconds);
    int64_t waiting = 0;
    while (!held_done(holder, &sqlstate)) {
        int64_t now = held_number(inside, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay %%' AND "
                                          "wait_event_type = 'Lock'");
        waiting = now > waiting ? now : waiting;
        test_pause();
    }
    CHECK_STR(sqlstate, "");
    CHECK(waiting > 0);
    line_hit(l, "LOCK TABLE outbox.event IN ACCESS EXCLUSIVE MODE for four lives of the lease or more",
             "%lld connections of the relay waited for it", (long long)waiting);
    line_publishing(l);
    CHECK(!e2e_said(relay, "event=\"lease lost\""));
    CHECK(!e2e_said(second, "event=\"lease held\""));
    line_end(l, &(struct line_expected){0});
}

TEST_WITHIN(crash_postgres_table_locked, 90)
{
    table_locked("locked", 8);
}

TEST_WITHIN(long_postgres_table_locked, 90)
{
    table_locked("locked-long", 20);
}

/* --- deadlocks ------------------------------------------------------------------------------------------------------ */

/* Take a row that a mark comes to last, and when the mark waits for it all that it may have come to before. */
static void deadlock_try(struct line *l, struct held *other)
{
    const char *sqlstate;

    line_strike(l);
    int64_t id = held_number(other, "BEGIN; SELECT id FROM (SELECT id FROM outbox.event WHERE sent_at IS NULL ORDER BY id DESC LIMIT 1 "
                                    "FOR UPDATE SKIP LOCKED) s");
    uint64_t until_ms = test_now_ms() + 2000;
    while (e2e_number(&l->e, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay mark%' AND "
                             "wait_event_type = 'Lock'") == 0 &&
           test_now_ms() < until_ms)
        test_pause();
    held_send(other,
              "SELECT count(*) FROM (SELECT 1 FROM outbox.event WHERE id < %lld AND id > %lld - 5000 ORDER BY id FOR UPDATE) s; COMMIT",
              (long long)id, (long long)id);
    WAIT_UNTIL(held_done(other, &sqlstate), 20);
    CHECK_STR(sqlstate, "");
}

/* The relay's deadlock_timeout is the shorter one, so it is the relay that loses. */
TEST_WITHIN(crash_postgres_deadlocks, 90)
{
    struct line *l = line_begin("deadlocks", NULL);

    line_role(l, "");
    (void)postgres_query(l->e.db.conninfo, "ALTER ROLE relay SET deadlock_timeout = '300ms'");
    struct process *relay = line_relay(l, NULL);
    struct held *other = held_open(l->e.db.conninfo);
    (void)held_number(other, "SET deadlock_timeout = '60s'");
    line_publishing(l);
    int deadlocks = 0;
    for (int tries = 0; tries < 20 && deadlocks < 3; tries++) {
        deadlock_try(l, other);
        int now = line_said_times(&l->e.db.server, "deadlock detected");
        if (now > deadlocks)
            line_hit(l, "deadlocks of the relay's marks with another transaction", "server's log: \"deadlock detected\"");
        deadlocks = now;
    }
    CHECK(deadlocks >= 3);
    CHECK(e2e_said(relay, "deadlock detected"));
    CHECK(!e2e_said(relay, "event=\"database lost\""));
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}

/* --- defaults of the role ------------------------------------------------------------------------------------------- */

/* All of them would stop a relay that believes in defaults; rows are locked for longer than any of them. */
TEST_WITHIN(crash_postgres_defaults_of_the_role, 90)
{
    static const char *const defaults[] = {"statement_timeout = '100ms'",         "lock_timeout = '10ms'",
                                           "deadlock_timeout = '10ms'",           "idle_in_transaction_session_timeout = '10ms'",
                                           "idle_session_timeout = '100ms'",      "default_transaction_isolation = 'serializable'",
                                           "default_transaction_deferrable = on", "synchronous_commit = off"};
    struct line *l = line_begin("defaults", NULL);
    const char *sqlstate;

    line_role(l, "");
    for (unsigned i = 0; i < sizeof defaults / sizeof *defaults; i++)
        (void)postgres_query(l->e.db.conninfo, "ALTER ROLE relay SET %s", defaults[i]);
    CHECK_STR(postgres_query(l->e.database, "SELECT current_setting('lock_timeout'), current_setting('transaction_isolation')"),
              "10ms\tserializable");
    struct process *relay = line_relay(l, NULL);
    struct held *holder = held_open(l->e.db.conninfo);
    line_publishing(l);
    for (int i = 0; i < 3; i++) {
        line_strike(l);
        (void)held_number(holder, "BEGIN; SELECT count(*) FROM (SELECT 1 FROM outbox.event WHERE sent_at IS NULL FOR UPDATE) s");
        held_send(holder, "SELECT pg_sleep(1); COMMIT");
        WAIT_UNTIL(held_done(holder, &sqlstate), 20);
        CHECK_STR(sqlstate, "");
        line_hit(l, "rows locked for a second; timeouts of 10 to 100 ms, SERIALIZABLE and more by the role's defaults",
                 "a session of the role shows them");
    }
    CHECK(line_calm(relay));
    line_end(l, &(struct line_expected){0});
}

/* Marks in SERIALIZABLE would fail where another transaction changed a row of theirs meanwhile; ours wait, and find what is there. */
TEST_WITHIN(crash_postgres_rows_changed_under_marks, 90)
{
    struct line *l = line_begin("serializable", NULL);

    line_role(l, "");
    (void)postgres_query(l->e.db.conninfo, "ALTER ROLE relay SET default_transaction_isolation = 'serializable'");
    struct process *relay = line_relay(l, NULL);
    struct held *other = held_open(l->e.db.conninfo);
    line_publishing(l);
    for (int i = 0; i < 5; i++) {
        line_strike(l);
        CHECK(held_number(other, "BEGIN; UPDATE outbox.event SET created_at = created_at WHERE id = (SELECT id FROM outbox.event WHERE "
                                 "sent_at IS NULL ORDER BY id DESC LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id") > 0);
        WAIT_UNTIL(e2e_number(&l->e, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay mark%' AND "
                                     "wait_event_type = 'Lock'") > 0,
                   20);
        (void)held_number(other, "COMMIT");
        line_hit(l, "a row that is being marked is changed by another transaction; the role's default is SERIALIZABLE",
                 "the mark waited for it each time");
    }
    CHECK(line_calm(relay));
    line_end(l, &(struct line_expected){0});
}

/* --- a full disk ---------------------------------------------------------------------------------------------------- */

/* Writers fail, and it may hit marks too: nothing that waits is lost, and it all goes on by itself. */
TEST_WITHIN(crash_postgres_disk_full, 90)
{
    struct line *l = line_begin("disk-full", NULL);

    postgres_disk(&l->e.db, "base", 400);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");
    for (int i = 1; i <= 3; i++) {
        int before = line_said_times(&l->e.db.server, "No space left on device");

        line_publishing(l);
        line_strike(l);
        postgres_disk_fill(&l->e.db, "base");
        WAIT_UNTIL(line_said_times(&l->e.db.server, "No space left on device") > before + 50, 20);
        postgres_disk_free(&l->e.db, "base");
        line_hit(l, "the disk of the data is full, and free again", "server's log: \"No space left on device\", more than 50 times");
    }
    CHECK(process_running(relay));
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}

/* Without room for its log the server cannot live; it is started again when there is some. */
TEST_WITHIN(crash_postgres_disk_of_the_log_full, 90)
{
    struct line *l = line_begin("wal-full", &(struct line_options){.e2e.settings = "max_wal_size = 64MB\nmin_wal_size = 32MB"});

    postgres_disk(&l->e.db, "pg_wal", 200);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");
    line_publishing(l);
    line_strike(l);
    postgres_disk_fill(&l->e.db, "pg_wal");
    struct held *other = held_open(l->e.db.conninfo);
    held_send(other, "SELECT pg_logical_emit_message(true, 'fill', repeat('x', 50000000))");
    WAIT_UNTIL(!process_running(&l->e.db.server) || e2e_said(&l->e.db.server, "PANIC"), 30);
    WAIT_UNTIL(e2e_said(relay, "event=\"database lost\""), 20);
    postgres_kill(&l->e.db);
    held_close(other);
    postgres_disk_free(&l->e.db, "pg_wal");
    postgres_restart(&l->e.db);
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    CHECK(e2e_said(&l->e.db.server, "No space left on device"));
    line_hit(l, "the disk of the WAL is full: the server dies, and is started again with room",
             "server's log: PANIC, \"No space left on device\"");
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5)});
}
