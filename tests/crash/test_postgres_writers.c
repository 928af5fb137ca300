/* SPDX-License-Identifier: BSD-2-Clause */
/* Transactions that stay open: those of writers hold up their own rows and nobody else's; those of strangers hold up nothing. */
#include <stdio.h>
#include <string.h>

#include "tests/crash/held.h"
#include "tests/crash/line.h"
#include "tests/crash/line_postgres.h"
#include "tests/crash/page.h"
#include "tests/lib/test.h"

/* Rows that are committed from now on are marked within a few seconds, and what they leave of gaps is closed: in half a second the load makes
 * a few hundred, in the time of a test thousands. */
static void check_nothing_waits(struct line *l, const struct process *relay, int64_t gaps_max)
{
    int64_t last_id = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");

    line_publishing(l);
    WAIT_UNTIL(postgres_number(l->e.db.conninfo,
                               "SELECT count(*) FROM outbox.event WHERE id > %lld AND sent_at IS NULL AND created_at < clock_timestamp() - "
                               "interval '1 s'",
                               (long long)last_id) == 0,
               10);
    WAIT_UNTIL(page_metric(relay, "outbox_relay_open_gaps") <= gaps_max, 10);
}

/* The first event of an order that no writer of the load touches, in `held`'s open transaction. */
static void insert_event(struct line *l, struct held *held, int order)
{
    static const char payload[] = "{\"late\":1}";

    (void)held_number(held,
                      "INSERT INTO demo.orders (id, version) VALUES (%d, 1);"
                      "WITH e AS (INSERT INTO outbox.event (event_id, topic, key, payload) VALUES (gen_random_uuid(), '%s', 'order-%d', "
                      "convert_to('%s', 'UTF8')) RETURNING event_id, topic, key)"
                      "INSERT INTO demo.history SELECT event_id, topic, key, 1, %lld FROM e",
                      order, l->e.topic, order, payload, (long long)oracle_payload_hash(payload, sizeof payload - 1));
}

/* The relay asks about writers for 1 % of the time; --backoff-max-ms bounds the rest in between where a machine is slow. */

/* --- writers -------------------------------------------------------------------------------------------------------- */

static void writer_open(const char *name, const char *seconds, int seen_s)
{
    struct line *l = line_begin(name, &(struct line_options){.load = (const char *const[]){"--hold", seconds, NULL}});
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");

    WAIT_UNTIL(postgres_number(l->e.db.conninfo,
                               "SELECT count(*) FROM pg_stat_activity WHERE application_name = '' AND backend_xid IS NOT NULL AND "
                               "clock_timestamp() - xact_start > %d * interval '1 s'",
                               seen_s) > 0,
               seen_s + 30);
    line_strike(l);
    int64_t marked = e2e_marked(&l->e);
    WAIT_UNTIL(e2e_marked(&l->e) > marked + 2000, 20);
    CHECK(e2e_number(&l->e, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '' AND backend_xid IS NOT NULL AND "
                            "clock_timestamp() - xact_start > '5 s'") > 0);
    line_hit(l, "a writer keeps its transaction open", "pg_stat_activity: open for more than %d s while 2 000 rows were marked", seen_s);
    CHECK(line_calm(relay));
    line_end(l, &(struct line_expected){0});
}

TEST_WITHIN(crash_postgres_writer_open, 90)
{
    writer_open("open", "14", 9);
}

TEST_WITHIN(long_postgres_writer_open, 180)
{
    writer_open("open-long", "60", 55);
}

/* A service that forgot to commit. It draws no ids meanwhile, so rollbacks of others are settled all the same. */
TEST_WITHIN(crash_postgres_idle_in_transaction, 90)
{
    struct line *l = line_begin("idle", &(struct line_options){.load = (const char *const[]){"--rollback", "40", NULL}, .rate = "2000"});
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");

    line_publishing(l);
    struct held *forgotten = held_open(l->e.db.conninfo);
    (void)held_number(forgotten, "BEGIN");
    insert_event(l, forgotten, LINE_ORDERS + 10);
    int64_t marked = e2e_marked(&l->e);
    WAIT_UNTIL(e2e_marked(&l->e) > marked + 12000, 30);
    line_strike(l);
    check_nothing_waits(l, relay, 700);
    line_hit(l, "a writer idle in its transaction, 40 in 100 of the others roll back", "12 000 rows went by, %lld gaps are open",
             (long long)page_metric(relay, "outbox_relay_open_gaps"));
    (void)held_number(forgotten, "COMMIT");
    line_end(l, &(struct line_expected){0});
    CHECK_EQ(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE key = 'order-%d' AND sent_at IS NOT NULL",
                             LINE_ORDERS + 10),
             1);
}

/* --- strangers ------------------------------------------------------------------------------------------------------ */

/* A transaction of another database, and prepared ones that nobody remembers: of another table, of another database, of this table. Only
 * the last one holds up anything, namely its own event. */
TEST_WITHIN(crash_postgres_prepared_and_forgotten, 90)
{
    struct line *l = line_begin("prepared", &(struct line_options){.e2e.settings = "max_prepared_transactions = 10",
                                                                   .load = (const char *const[]){"--rollback", "40", NULL},
                                                                   .rate = "2000"});
    char other[440];

    (void)postgres_query(l->e.db.conninfo, "CREATE DATABASE other");
    (void)snprintf(other, sizeof other, "%s dbname=other", l->e.db.conninfo);
    struct held *open = held_open(other), *elsewhere = held_open(other), *here = held_open(l->e.db.conninfo);
    (void)held_number(open, "CREATE TABLE t (n int)");
    (void)held_number(open, "BEGIN; INSERT INTO t VALUES (1)");
    (void)held_number(elsewhere, "BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'elsewhere'");
    (void)held_number(here, "CREATE TABLE public.t (n int)");
    (void)held_number(here, "BEGIN; INSERT INTO public.t VALUES (3); PREPARE TRANSACTION 'beside'");
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500");
    line_publishing(l);
    (void)held_number(here, "BEGIN");
    insert_event(l, here, LINE_ORDERS + 10);
    (void)held_number(here, "PREPARE TRANSACTION 'here'");
    int64_t marked = e2e_marked(&l->e);
    WAIT_UNTIL(e2e_marked(&l->e) > marked + 12000, 30);
    CHECK_EQ(e2e_number(&l->e, "SELECT count(*) FROM pg_prepared_xacts"), 3);
    line_strike(l);
    check_nothing_waits(l, relay, 700);
    line_hit(l, "a transaction open in another database, prepared ones there, beside the table and in it",
             "pg_prepared_xacts shows three while 12 000 rows went by and %lld gaps were open",
             (long long)page_metric(relay, "outbox_relay_open_gaps"));
    (void)held_number(here, "COMMIT PREPARED 'here'");
    line_end(l, &(struct line_expected){0});
    CHECK_EQ(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE key = 'order-%d' AND sent_at IS NOT NULL",
                             LINE_ORDERS + 10),
             1);
}
