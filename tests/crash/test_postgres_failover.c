/* SPDX-License-Identifier: BSD-2-Clause */
/* Another server takes the place of the primary, and may know less than it did. Relays know both hosts from the beginning; services are
 * moved by somebody else, as they are in life. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/crash/line.h"
#include "tests/crash/line_postgres.h"
#include "tests/lib/test.h"

/* --- asynchronous: the standby lacks the last marks, and rows that were published ------------------------------------ */

/* Ids that the lost primary had given out are given out again; what was published of them is a phantom now, and the relay says so. */
TEST_WITHIN(crash_postgres_failover_asynchronous, 90)
{
    struct line *l = line_begin("failover", NULL);
    struct postgres standby = line_standby(l, NULL);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");

    line_publishing(l);
    postgres_stop(&standby);
    line_publishing(l);
    line_strike(l);
    WAIT_UNTIL(e2e_marked(&l->e) > 3000, 20);
    line_strike(l);
    int64_t lost_id = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");
    postgres_kill(&l->e.db);
    postgres_restart(&standby);
    int64_t back = line_replace(l, &standby);
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    line_hit(l, "kill -9 of the primary, and a standby that lacks its last seconds takes over", "ids %lld to %lld are given out again",
             (long long)back + 1, (long long)lost_id);
    CHECK(lost_id - back > 2000);
    WAIT_UNTIL(e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq") > lost_id, 20);
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5),
                                        .phantoms_min = 1000,
                                        .phantoms_max = lost_id - back + 2000}); /* written until it died */
}

/* --- synchronous ---------------------------------------------------------------------------------------------------- */

static void synchronous_with(struct line *l, const char *names)
{
    (void)postgres_query(l->e.db.conninfo, "ALTER SYSTEM SET synchronous_standby_names = '%s'", names);
    postgres_reload(&l->e.db);
    WAIT_UNTIL(e2e_number(&l->e, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1, 10);
}

/* Nothing that anybody saw is lost; only marks are, which never wait. What was the standby has none itself at first, and a relay that was told
 * to wait for replicas does not publish without any. */
TEST_WITHIN(crash_postgres_failover_synchronous, 90)
{
    struct line *l = line_begin("failover-synchronous", NULL);
    struct postgres standby = line_standby(l, NULL);

    synchronous_with(l, "standby");
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500", "--durability", "replicated", "--log-level", "debug");
    line_publishing(l);
    line_strike(l);
    int64_t highest = e2e_number(&l->e, "SELECT max(id) FROM outbox.event");
    postgres_kill(&l->e.db);
    int64_t back = line_replace(l, &standby);
    WAIT_UNTIL(e2e_said(relay, "synchronous_standby_names"), 20);
    CHECK(!e2e_said(relay, "event=\"database back\""));
    (void)postgres_standby(&l->e.db, "another", NULL);
    synchronous_with(l, "another");
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    line_hit(l, "kill -9 of the primary, its synchronous standby takes over",
             "the relay was away and came back, ids went up to %lld, then %lld", (long long)highest, (long long)back);
    CHECK(back >= highest);
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(2) | LINE_D(5)});
}

/* --- a standby alone ------------------------------------------------------------------------------------------------ */

TEST_WITHIN(crash_postgres_standby_is_an_outage, 90)
{
    struct line *l = line_begin("standby-only", NULL);
    struct postgres standby = line_standby(l, NULL);

    (void)snprintf(l->e.database, sizeof l->e.database, "%s", standby.conninfo);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");
    WAIT_UNTIL(e2e_said(relay, "event=\"database not reached\""), 20);
    CHECK(e2e_said(relay, "standby") || e2e_said(relay, "read-only") || e2e_said(relay, "recovery"));
    CHECK(process_running(relay));
    line_strike(l);
    postgres_stop(&l->e.db);
    (void)line_replace(l, &standby);
    WAIT_UNTIL(e2e_said(relay, "event=\"database back\""), 20);
    line_hit(l, "a standby is the only host, and is promoted later", "the relay said \"database not reached\", then \"database back\"");
    line_publishing(l);
    line_end(l, &(struct line_expected){0});
}
