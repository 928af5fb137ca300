/* SPDX-License-Identifier: BSD-2-Clause */
/* Relays with one rule broken, on real services: the line that must catch each, and the same line with the relay as it is
 * (crash_unbroken_...). A line of a mutant passes only if the oracle finds what it is expected to find. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/crash/evidence.h"
#include "tests/crash/held.h"
#include "tests/crash/line.h"
#include "tests/crash/line_postgres.h"
#include "tests/crash/mutant.h"
#include "tests/crash/page.h"
#include "tests/lib/proxy.h"
#include "tests/lib/test.h"

/* Names of topics are taken once. */
static const char *name_of(const char *name, const char *binary)
{
    static char text[64];

    (void)snprintf(text, sizeof text, "%s%s", name, binary != NULL ? "-broken" : "");
    return text;
}

static struct process *relay_of(struct line *l, const char *binary, const char *const *more)
{
    return line_relay_with(l, more, NULL, NULL, binary);
}
#define RELAY_OF(l, binary, ...) relay_of((l), (binary), (const char *const[]){__VA_ARGS__, NULL})

/* --- mark before report --------------------------------------------------------------------------------------------- */

/* The broker stops answering, then the relay dies with what it holds. */
static struct line *frozen_and_killed(struct kafka *k, const char *binary)
{
    struct line *l = line_begin(name_of("early-marks", binary), &(struct line_options){.e2e.kafka = k->bootstrap});
    struct process *relay = relay_of(l, binary, NULL);

    line_publishing(l);
    process_signal(&k->server, SIGSTOP);
    line_strike(l);
    int64_t last_id = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");
    WAIT_UNTIL(e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq") > last_id + 400, 20);
    process_signal(relay, SIGKILL);
    CHECK_EQ(process_wait(relay, 5), 128 + SIGKILL);
    process_signal(&k->server, SIGCONT);
    line_hit(l, "the broker is frozen, then the relay is killed", "exit status %d", 128 + SIGKILL);
    (void)line_relay(l, NULL);
    return l;
}

TEST_WITHIN(crash_unbroken_mark_after_report, 90)
{
    struct kafka k = kafka_start();

    line_end(frozen_and_killed(&k, NULL), &(struct line_expected){.windows = LINE_D(1)});
    kafka_stop(&k);
}

TEST_WITHIN(mutant_mark_before_report, 90)
{
    struct kafka k = kafka_start();
    struct oracle_verdict v = mutant_verdict(frozen_and_killed(&k, MUTANT("MARK_BEFORE_REPORT")));

    CHECK(v.false_marks > 0);
    CHECK(v.lost > 0);
    kafka_stop(&k);
}

/* --- marks by id alone ---------------------------------------------------------------------------------------------- */

/* Rows are published and their marks held up; the primary dies, and the standby gives the same ids to other events. */
static struct line *marks_outstanding_at_failover(const char *binary)
{
    struct line *l = line_begin(name_of("marks-outstanding", binary), NULL);
    struct postgres standby = line_standby(l, NULL);
    struct process *relay = RELAY_OF(l, binary, "--lease-ttl-ms", "60000", "--backoff-max-ms", "500");

    line_publishing(l);
    postgres_stop(&standby);
    int64_t published = page_metric(relay, "outbox_relay_published_total");
    process_signal(relay, SIGSTOP);
    line_strike(l);
    struct held *holder = held_open(l->e.db.conninfo);
    (void)held_number(holder, "BEGIN; LOCK TABLE outbox.event IN EXCLUSIVE MODE");
    process_signal(relay, SIGCONT);
    WAIT_UNTIL(page_metric(relay, "outbox_relay_published_total") > published + 1500, 20);
    WAIT_UNTIL(held_number(holder, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay mark%%' AND "
                                   "wait_event_type = 'Lock'") == 1,
               20);
    process_signal(relay, SIGSTOP);
    postgres_kill(&l->e.db);
    held_close(holder);
    postgres_restart(&standby);
    int64_t back = line_replace(l, &standby);
    line_burst(l, 2000);
    process_signal(relay, SIGCONT);
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    line_hit(l, "failover while marks are held up by a lock, ids are given to other events",
             "a mark waited for the lock; ids go on from %lld", (long long)back);
    line_publishing(l);
    return l;
}

TEST_WITHIN(crash_unbroken_marks_by_pair, 90)
{
    struct line *l = marks_outstanding_at_failover(NULL);

    /* What it had published and could not mark is gone, and it says so. */
    WAIT_UNTIL(page_metric(&l->relay[0], "outbox_relay_phantoms_total") > 0, 20);
    WAIT_UNTIL(e2e_said(&l->relay[0], "the database does not have it"), 5);
    evidence_tell(0, "%lld phantoms told", (long long)page_metric(&l->relay[0], "outbox_relay_phantoms_total"));
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5), .phantoms_min = 1000, .phantoms_max = 100000});
}

TEST_WITHIN(mutant_marks_by_id, 90)
{
    struct oracle_verdict v = mutant_verdict(marks_outstanding_at_failover(MUTANT("MARKS_BY_ID")));

    CHECK(v.false_marks > 0);
    CHECK(v.lost > 0);
}

/* --- no barrier ----------------------------------------------------------------------------------------------------- */

/* 20 rows were marked whose ids were drawn after the server had written as far as it has now. */
static bool is_marked_unwritten(struct held *inside, int64_t *written, int64_t *last_id)
{
    int64_t now = held_number(inside, "SELECT pg_current_wal_lsn() - '0/0'");

    if (now != *written)
        *last_id = held_number(inside, "SELECT last_value FROM outbox.event_id_seq");
    *written = now;
    return held_number(inside,
                       "SELECT count(*) FROM (SELECT 1 FROM outbox.event WHERE id > %lld AND sent_at IS NOT NULL ORDER BY id LIMIT 20) s"
                       " WHERE pg_current_wal_lsn() - '0/0' = %lld",
                       (long long)*last_id, (long long)now) == 20;
}

/* Kill the server when something was marked that it has in its memory only: what the kernel has outlives a kill -9, so the process that
 * writes behind the commits is stopped, and then the relay, whose beat would write as well. With the barrier there is no such moment: the same
 * without this setting is crash_postgres_killed_with_asynchronous_commits. */
static void kill_published_unwritten(struct line *l, struct process *relay)
{
    struct held *inside = held_open(l->e.db.conninfo);
    int64_t written = -1, last_id = 0;

    line_publishing(l);
    line_wal_writer_stop(inside);
    line_strike(l);
    do {
        process_signal(relay, SIGCONT);
        WAIT_UNTIL(is_marked_unwritten(inside, &written, &last_id), 20);
        process_signal(relay, SIGSTOP);
        (void)line_gather_unwritten(inside);
    } while (!is_marked_unwritten(inside, &written, &last_id));
    postgres_kill(&l->e.db);
    process_signal(relay, SIGCONT);
    postgres_restart(&l->e.db);
    held_close(inside);
    line_hit(l, "kill -9 of the postmaster and its children", "rows were marked that were in the server's memory only");
}

TEST_WITHIN(mutant_no_barrier, 90)
{
    struct line *l = line_asynchronous("no-barrier");
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500", "--durability", "off");

    for (int i = 0; i < 2; i++)
        kill_published_unwritten(l, relay);
    struct oracle_verdict v = mutant_verdict(l);
    CHECK(v.phantoms > 0);
}

/* --- a lease by the relay's own clock ------------------------------------------------------------------------------- */

/* A relay whose clock is an hour ahead starts beside the one that holds the lease, whose marks are held up by a lock: what it has published
 * is there to be published again. Of relays as they are, clocks that are wrong are crash_clock_of_the_relay. */
static struct line *clock_ahead(const char *binary)
{
    struct line *l = line_begin(name_of("clock-ahead", binary), NULL);
    struct process *first = relay_of(l, binary, NULL);

    line_publishing(l);
    process_signal(first, SIGSTOP);
    line_strike(l);
    struct held *holder = held_open(l->e.db.conninfo);
    (void)held_number(holder, "BEGIN; LOCK TABLE outbox.event IN EXCLUSIVE MODE");
    process_signal(first, SIGCONT);
    WAIT_UNTIL(page_metric(first, "outbox_relay_published_total") > 1000, 20);
    struct process *second = line_relay_with(l, NULL, NULL, (const char *const[]){"CLOCK_AHEAD_S=3600", NULL}, binary);
    WAIT_UNTIL(e2e_said(second, "another relay holds the lease") ||
                   (e2e_said(second, "event=\"lease held\"") && page_metric(second, "outbox_relay_published_total") > 100),
               20);
    (void)held_number(holder, "COMMIT");
    line_hit(l, "a second relay, whose clock is an hour ahead, while marks wait for a lock", "it was %s",
             binary != NULL ? "given the lease though the holder lives" : "told who holds the lease");
    line_publishing(l);
    return l;
}

TEST_WITHIN(crash_unbroken_lease_by_the_databases_clock, 90)
{
    line_end(clock_ahead(NULL), &(struct line_expected){0});
}

TEST_WITHIN(mutant_lease_by_local_clock, 90)
{
    struct oracle_verdict v = mutant_verdict(clock_ahead(MUTANT("LEASE_LOCAL_CLOCK")));

    CHECK(v.duplicates > 0);
}

/* --- a lease that is a session's lock ------------------------------------------------------------------------------- */

/* The holder sleeps for longer than its lease; its sessions are alive all the time. */
static struct line *holder_asleep(const char *binary)
{
    struct line *l = line_begin(name_of("asleep", binary), NULL);
    struct process *first = relay_of(l, binary, NULL);

    WAIT_UNTIL(e2e_said(first, "event=\"lease held\""), 20);
    struct process *second = relay_of(l, binary, NULL);
    WAIT_UNTIL(e2e_said(second, "another relay holds the lease"), 20);
    line_publishing(l);
    line_strike(l);
    process_signal(first, SIGSTOP);
    WAIT_UNTIL(e2e_said(second, "event=\"lease held\"") ||
                   e2e_number(&l->e, "SELECT count(*) FROM outbox.beat WHERE clock_timestamp() > beat_at + '7 s'") > 0,
               20);
    line_hit(l, "SIGSTOP of the relay that holds the lease, for longer than it lasts", "two seconds of lease, no beat for longer");
    return l;
}

TEST_WITHIN(crash_unbroken_lease_of_rows, 90)
{
    struct line *l = holder_asleep(NULL);

    CHECK(e2e_said(&l->relay[1], "event=\"lease held\""));
    line_publishing(l);
    process_signal(&l->relay[0], SIGCONT);
    WAIT_UNTIL(e2e_said(&l->relay[0], "event=\"lease lost\""), 20);
    line_end(l, &(struct line_expected){.windows = LINE_D(4)});
}

TEST_WITHIN(mutant_session_advisory_lock, 90)
{
    struct oracle_verdict v = mutant_verdict(holder_asleep(MUTANT("SESSION_ADVISORY_LOCK")));

    CHECK(v.lost > 0);
}
