/* SPDX-License-Identifier: BSD-2-Clause */
/* Relays behind a transaction pooler. It ends connections of its own, and it hides what happens to the server between two statements. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/crash/held.h"
#include "tests/crash/line.h"
#include "tests/crash/line_postgres.h"
#include "tests/lib/test.h"

/* Relays of `l` reach the server through this pooler from now on. */
static struct pgbouncer pool(struct line *l)
{
    struct pgbouncer b = pgbouncer_start(&l->e.db, NULL);

    (void)snprintf(l->e.database, sizeof l->e.database, "%s", b.conninfo);
    return b;
}

static struct process *relay_start(struct line *l)
{
    return LINE_RELAY(l, "--pooled", "on", "--backoff-max-ms", "500");
}

/* One whose lease and statements have the patience that a hidden fault takes. */
static struct process *relay_start_patient(struct line *l)
{
    return LINE_RELAY(l, "--pooled", "on", "--backoff-max-ms", "500", "--lease-ttl-ms", "40000");
}

/* --- the relay ------------------------------------------------------------------------------------------------------ */

TEST_WITHIN(crash_pooled_relay_killed, 90)
{
    struct line *l = line_begin("pooled-killed", NULL);

    (void)pool(l);
    for (int i = 0; i < 3; i++) {
        struct process *relay = relay_start(l);

        line_publishing(l);
        line_strike(l);
        process_signal(relay, SIGKILL);
        CHECK_EQ(process_wait(relay, 5), 128 + SIGKILL);
        line_hit(l, "kill -9 of a relay behind PgBouncer", "exit status %d", 128 + SIGKILL);
    }
    (void)relay_start(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(1)});
}

/* A lease of rows does not care whose session a statement runs in. The one that waits takes over, the one that slept stops by itself. */
TEST_WITHIN(crash_pooled_two_relays, 90)
{
    struct line *l = line_begin("pooled-two", NULL);

    (void)pool(l);
    struct process *first = relay_start(l);
    line_publishing(l);
    struct process *second = relay_start(l);
    WAIT_UNTIL(e2e_said(second, "event=\"another relay holds the lease, waiting\""), 20);
    line_strike(l);
    process_signal(first, SIGSTOP);
    WAIT_UNTIL(e2e_said(second, "event=\"lease held\""), 20);
    line_hit(l, "SIGSTOP of the holder behind PgBouncer, and SIGCONT after its lease", "the other relay said \"lease held\"");
    line_publishing(l);
    process_signal(first, SIGCONT);
    WAIT_UNTIL(e2e_said(first, "event=\"lease lost\""), 20);
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(4)});
}

/* --- the pooler ----------------------------------------------------------------------------------------------------- */

TEST_WITHIN(crash_pooled_pooler_killed, 90)
{
    struct line *l = line_begin("pooled-bouncer", NULL);
    struct pgbouncer b = pool(l);
    struct process *relay = relay_start(l);

    for (int i = 0; i < 5; i++) {
        line_publishing(l);
        line_strike(l);
        pgbouncer_kill(&b);
        WAIT_UNTIL(line_said_times(relay, "event=\"database lost\"") == i + 1, 10);
        pgbouncer_restart(&b);
        WAIT_UNTIL(line_said_times(relay, "event=\"database back\"") == i + 1, 20);
        line_hit(l, "kill -9 of PgBouncer", "each time the relay said \"database lost\" and \"database back\"");
    }
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}

/* --- the server ----------------------------------------------------------------------------------------------------- */

/* The relay does nothing: let commits gather that are nowhere but in the server's memory. Kill -9 does not touch what the kernel has, so
 * the process that writes behind their back is stopped. Then the crash, and a server that knows nothing of them. Returns ids that it lost. */
static int64_t kill_unwritten(struct line *l, struct held *inside)
{
    line_wal_writer_stop(inside);
    (void)line_gather_unwritten(inside);
    int64_t highest = held_number(inside, "SELECT max(id) FROM outbox.event");
    postgres_kill(&l->e.db);
    held_close(inside);
    postgres_restart(&l->e.db);
    return highest - e2e_number(&l->e, "SELECT max(id) FROM outbox.event WHERE created_at < pg_postmaster_start_time()");
}

/* A process of the server that ends between two statements is the pooler's loss only; in one, the relay's. */
TEST_WITHIN(crash_pooled_backends_terminated, 90)
{
    static const char words[] = "terminating connection due to administrator command";
    struct line *l = line_begin("pooled-terminated", NULL);
    int times = 0;

    (void)pool(l);
    struct process *relay = relay_start(l);
    for (int i = 0; i < 20; i++) {
        line_publishing(l);
        line_strike(l);
        times = line_said_times(&l->e.db.server, words);
        line_terminate(l);
        WAIT_UNTIL(line_said_times(&l->e.db.server, words) > times, 10);
        line_hit(l, "pg_terminate_backend of the server's processes behind PgBouncer", "server's log: \"%s\", each time", words);
    }
    CHECK(line_said_times(relay, "event=\"database lost\"") > 0);
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}

TEST_WITHIN(crash_pooled_server_restarted, 90)
{
    struct line *l = line_begin("pooled-restarted", NULL);

    (void)pool(l);
    (void)relay_start(l);
    for (int i = 0; i < 4; i++) {
        line_publishing(l);
        line_strike(l);
        postgres_stop_by(&l->e.db, i % 2 == 0 ? SIGINT : SIGQUIT);
        CHECK_EQ(process_wait(&l->e.db.server, 30), 0);
        postgres_restart(&l->e.db);
        line_hit(l, "restart of PostgreSQL behind PgBouncer, fast and immediate", "server's log: \"received %s shutdown request\"",
                 i % 2 == 0 ? "fast" : "immediate");
    }
    CHECK(e2e_said(&l->e.db.server, "received fast shutdown request") && e2e_said(&l->e.db.server, "received immediate shutdown request"));
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5)});
}

/* The relay sleeps before the crash, or it would flush whatever it sees; some of its statements are under way then. */
TEST_WITHIN(crash_pooled_server_killed_with_asynchronous_commits, 90)
{
    struct line *l = line_asynchronous("pooled-asynchronous");
    int64_t lost = 0;

    (void)pool(l);
    struct process *relay = relay_start_patient(l);
    for (int i = 0; i < 4; i++) {
        line_publishing(l);
        struct held *inside = held_open(l->e.db.conninfo);
        line_strike(l);
        process_signal(relay, SIGSTOP);
        lost += kill_unwritten(l, inside);
        process_signal(relay, SIGCONT);
        line_hit(l, "kill -9 of the postmaster and its children behind PgBouncer, asynchronous commits in flight",
                 "the server held the last commits in its memory only: %lld ids were lost", (long long)lost);
    }
    CHECK(lost > 0);
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(4) | LINE_D(5)});
}

/* Design review 4, at its worst: the relay has no statement under way when the server dies, so no connection is lost and no error comes.
 * Rows that it read are gone, and their ids mean other events. Only the token tells. */
TEST_WITHIN(crash_pooled_hidden_crash_is_seen_by_the_token, 90)
{
    struct line *l = line_asynchronous("pooled-hidden");
    struct pgbouncer b = pool(l);
    struct process *relay = relay_start_patient(l);
    int64_t lost_ids = 0;

    for (int i = 0; i < 4; i++) {
        line_publishing(l);
        struct held *inside = held_open(l->e.db.conninfo);
        line_strike(l);
        pgbouncer_pause(&b);
        lost_ids += kill_unwritten(l, inside);
        pgbouncer_resume(&b, &l->e.db);
        /* It starts over, or its save was fenced. */
        WAIT_UNTIL(line_said_times(relay, "event=\"lease held\"") >= i + 2, 20);
        line_hit(l, "kill -9 of the postmaster and its children while PgBouncer held every statement back",
                 "no connection was lost, each time the relay asked for the lease again");
    }
    CHECK(lost_ids > 0);
    CHECK(!e2e_said(relay, "the connection to the database was lost"));
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5)});
}

/* The pooler is led to a standby that lacks the last seconds, which then is the primary: ids are given out again, and no connection is lost. */
TEST_WITHIN(crash_pooled_failover, 90)
{
    struct line *l = line_begin("pooled-failover", NULL);
    struct postgres standby = line_standby(l, NULL);
    struct pgbouncer b = pool(l);
    struct process *relay = relay_start_patient(l);

    line_publishing(l);
    postgres_stop(&standby);
    line_publishing(l);
    line_strike(l);
    WAIT_UNTIL(e2e_marked(&l->e) > 3000, 20);
    line_strike(l);
    int64_t lost_id = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");
    pgbouncer_pause(&b);
    postgres_kill(&l->e.db);
    postgres_restart(&standby);
    int64_t back = line_replace(l, &standby);
    pgbouncer_resume(&b, &l->e.db);
    WAIT_UNTIL(line_said_times(relay, "event=\"lease held\"") >= 2, 20);
    line_hit(l, "kill -9 of the primary; PgBouncer is led to a standby that lacks its last seconds, between two statements",
             "ids %lld to %lld are given out again, no connection was lost", (long long)back + 1, (long long)lost_id);
    CHECK(lost_id - back > 2000);
    CHECK(!e2e_said(relay, "the connection to the database was lost"));
    WAIT_UNTIL(e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq") > lost_id, 20);
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5), .phantoms_min = 1000, .phantoms_max = lost_id - back + 5000});
}
