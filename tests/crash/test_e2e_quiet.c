/* SPDX-License-Identifier: BSD-2-Clause */
/* Forgotten transactions, and standbys that are waited for, with whole relays. */
#include <signal.h>
#include <stdio.h>

#include "tests/crash/e2e.h"
#include "tests/lib/test.h"

/* Ranges of ids that no row has. */
static int64_t rolled_back(const struct e2e *e)
{
    return e2e_number(e, "SELECT count(*) FROM (SELECT id - lag(id) OVER (ORDER BY id) AS step FROM outbox.event) s WHERE step > 1");
}

/* Design review 17 and 29, and a transaction of another database. One prepared writer is forgotten for the whole test; a third of the others
 * roll back. Gaps below its ids stay open, as they must; none above does. When it is finished, the floor moves on. */
TEST_WITHIN(e2e_forgotten_transactions_hold_up_nothing, 120)
{
    struct e2e e = e2e_begin_with("forgotten", &(struct e2e_options){.settings = "max_prepared_transactions = 5"});
    char other[400], listen[40];
    int port = free_port();
    int64_t held_id, at;

    (void)snprintf(other, sizeof other, "host=%s port=%d user=postgres dbname=template1", e.db.socket_folder, e.db.port);
    postgres_query(other, "BEGIN; CREATE TABLE forgotten (a int); INSERT INTO forgotten VALUES (1); PREPARE TRANSACTION 'elsewhere'");
    postgres_query(e.db.conninfo, "BEGIN; INSERT INTO outbox.event (event_id, topic) VALUES (gen_random_uuid(), 'forgotten');"
                                  "PREPARE TRANSACTION 'forgotten'");
    held_id = e2e_number(&e, "SELECT pg_sequence_last_value('outbox.event_id_seq')");
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    struct process relay = RELAY(&e, "--listen", listen);
    LOAD(&e, "--writers", "4", "--rollback", "30", "--rate", "600", "--seconds", "600");
    WAIT_UNTIL(e2e_marked(&e) > 500, 30);
    /* Most of what was rolled back is closed, though the prepared one holds the lock all the time. */
    WAIT_UNTIL(rolled_back(&e) > 200 && e2e_metric(port, "outbox_relay_open_gaps") < rolled_back(&e) / 2, 60);
    process_signal(&e.load, SIGTERM);
    e2e_load_end(&e, 20);
    WAIT_UNTIL(e2e_unmarked(&e) == 0, 30);
    at = e2e_number(&e, "SELECT max(id) FROM outbox.event");
    CHECK(e2e_metric(port, "outbox_relay_open_gaps") >= 1);
    CHECK(e2e_number(&e, "SELECT floor FROM outbox.position") < held_id);
    postgres_query(e.db.conninfo, "ROLLBACK PREPARED 'forgotten'");
    WAIT_UNTIL(e2e_metric(port, "outbox_relay_open_gaps") == 0, 20);
    WAIT_UNTIL(e2e_number(&e, "SELECT floor FROM outbox.position") >= at, 20);
    struct oracle_verdict v = e2e_end(&e, &relay, 30, NULL);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
    postgres_query(other, "ROLLBACK PREPARED 'elsewhere'");
}

/* What is on the synchronous standby is published, what is not waits, and the relay keeps its lease meanwhile. */
TEST_WITHIN(e2e_replicated_waits_for_the_standby, 120)
{
    struct e2e e = e2e_begin("replicated");
    struct postgres standby = postgres_standby(&e.db, "second", NULL);
    int64_t marked, began_ms;

    postgres_settings(&e.db, "synchronous_standby_names = 'second'");
    postgres_reload(&e.db);
    WAIT_UNTIL(e2e_number(&e, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1, 20);
    struct process relay = RELAY(&e, "--durability", "replicated", "--lease-ttl-ms", "2000");
    e2e_commit(&e, e.topic, "k", 1, "a", "NULL");
    WAIT_UNTIL(e2e_unmarked(&e) == 0, 30);
    postgres_query(e.db.conninfo, "ALTER ROLE postgres SET synchronous_commit = off"); /* writers that do not wait */
    postgres_kill(&standby);
    marked = e2e_marked(&e);
    e2e_commit(&e, e.topic, "k", 2, "b", "NULL");
    WAIT_UNTIL(e2e_number(&e, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") >= 1, 20);
    began_ms = e2e_real_ms();
    WAIT_UNTIL(e2e_number(&e, "SELECT (extract(epoch FROM beat_at) * 1000)::int8 FROM outbox.beat") > began_ms + 5000,
               30); /* more than two leases */
    CHECK_EQ(e2e_marked(&e), marked);
    CHECK(!e2e_said(&relay, "lease lost") && !e2e_said(&relay, "database lost"));
    postgres_restart(&standby);
    WAIT_UNTIL(e2e_unmarked(&e) == 0, 30);
    struct oracle_verdict v = e2e_end(&e, &relay, 30, NULL);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}
