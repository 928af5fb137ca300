/* SPDX-License-Identifier: BSD-2-Clause */
/* Under load: long transactions, rollbacks, orderly stops, kill -9, a second relay. After each the oracle must find nothing; an orderly
 * stop costs no duplicate, and a kill only such as lie around it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/crash/e2e.h"
#include "tests/crash/evidence.h"
#include "tests/lib/proxy.h"
#include "tests/lib/test.h"

#define KILLS       50
#define WINDOW_ROWS 5000
#define WINDOW_TEXT "5000"

/* Some row with at least this id is marked. Goes by the primary key: it is asked often. */
static bool marked_beyond(const struct e2e *e, int64_t id)
{
    return postgres_number(
               e->db.conninfo,
               "SELECT count(*) FROM (SELECT 1 FROM outbox.event WHERE id >= %lld AND sent_at IS NOT NULL ORDER BY id LIMIT 1) s",
               (long long)id) > 0;
}

static int64_t last_id(const struct e2e *e)
{
    return e2e_number(e, "SELECT coalesce(max(id), 0) FROM outbox.event");
}

static void check_no_duplicate(struct oracle_verdict *v)
{
    CHECK_EQ(v->duplicates, 0);
    CHECK_EQ(v->records, v->committed);
    oracle_forget(v);
}

/* The writer that holds its transaction has drawn an id long before its neighbours; what comes after it is published all the same. */
TEST_WITHIN(e2e_sixteen_writers_rollbacks_and_a_transaction_of_20_s, 120)
{
    struct e2e e = e2e_begin("long");
    struct process relay = RELAY(&e, "--log-level", "info");

    LOAD(&e, "--writers", "16", "--orders", "300", "--rate", "2500", "--rollback", "10", "--hold", "20", "--seconds", "24");
    WAIT_UNTIL(e2e_number(&e, "SELECT count(*) FROM pg_stat_activity WHERE application_name <> 'outbox-relay' AND backend_xid IS NOT NULL "
                              "AND clock_timestamp() - xact_start > '17 s'") > 0,
               40);
    CHECK(e2e_marked(&e) > 20000);
    CHECK(e2e_load_runs(&e));
    e2e_load_end(&e, 60);
    struct oracle_verdict v = e2e_end(&e, &relay, 30, NULL);
    CHECK(e2e_number(&e, "SELECT count(*) FROM demo.history WHERE key = 'order-301'") > 0);
    CHECK(e2e_number(&e, "SELECT max(id) - count(*) FROM outbox.event") > v.committed / 20);
    check_no_duplicate(&v);
}

TEST_WITHIN(e2e_ten_orderly_stops_cost_no_duplicate, 120)
{
    struct e2e e = e2e_begin("stops");
    struct process relay;

    LOAD(&e, "--writers", "8", "--orders", "300", "--rate", "2500", "--seconds", "600");
    WAIT_UNTIL(last_id(&e) > 1000, 20);
    for (int i = 0; i < 10; i++) {
        int64_t at = last_id(&e);

        relay = RELAY(&e, "--lease-ttl-ms", "10000"); /* an orderly stop releases the lease: nobody waits for it */
        WAIT_UNTIL(marked_beyond(&e, at + 200 * (i + 1)), 9);
        CHECK(e2e_load_runs(&e));
        e2e_stop(&relay);
        WAIT_UNTIL(e2e_unmarked(&e) > 0, 5);
    }
    relay = RELAY(&e, "--lease-ttl-ms", "10000");
    process_signal(&e.load, SIGTERM);
    e2e_load_end(&e, 10);
    struct oracle_verdict v = e2e_end(&e, &relay, 30, NULL);
    check_no_duplicate(&v);
}

struct kill {
    int64_t before_ms, after_ms; /* of the clock of the broker and the database */
    int64_t unmarked;            /* rows at the kill */
    int64_t duplicates;          /* put down to it */
};

/* A copy before the kill and one after it, and no mark in between. What the broker had received already may be appended a little later;
 * a row waits for its mark much shorter than 3 s. */
static bool explains(const struct kill *k, const struct oracle_duplicate *d)
{
    return d->earlier_ms > k->before_ms - 3000 && d->earlier_ms < k->after_ms + 500 && d->later_ms >= k->before_ms &&
           (d->marked_ms == 0 || d->marked_ms >= k->before_ms);
}

static void attribute(struct kill *kills, int kills_n, const struct oracle_verdict *v)
{
    int hits = 0, waiting = 0;

    for (int64_t i = 0; i < v->duplicates; i++) {
        const struct oracle_duplicate *d = &v->duplicate[i];
        int k = 0;

        while (k < kills_n && !explains(&kills[k], d))
            k++;
        if (k == kills_n)
            test_fail(__FILE__, __LINE__,
                      "no kill explains the duplicate at offset %lld of partition %d: copies at %lld and %lld, marked at %lld",
                      (long long)d->offset, d->partition, (long long)d->earlier_ms, (long long)d->later_ms, (long long)d->marked_ms);
        kills[k].duplicates++;
    }
    for (int k = 0; k < kills_n; k++) {
        CHECK(kills[k].duplicates <= WINDOW_ROWS);
        hits += kills[k].duplicates > 0;
        waiting += kills[k].unmarked > 0;
    }
    (void)printf("    %d kills, %d with rows under way, %d left duplicates, %lld in all\n", kills_n, waiting, hits,
                 (long long)v->duplicates);
    /* The faults were real: the relay was in the middle of something. */
    CHECK_EQ(waiting, kills_n);
    CHECK(hits >= KILLS / 10);
}

TEST_WITHIN(e2e_fifty_kills_lose_nothing, 240)
{
    struct e2e e = e2e_begin("kills");
    struct kill kills[KILLS] = {{0}};

    LOAD(&e, "--writers", "8", "--orders", "300", "--rate", "2000", "--seconds", "600");
    WAIT_UNTIL(last_id(&e) > 500, 20);
    srand(1);
    for (int k = 0; k < KILLS; k++) {
        int64_t target = last_id(&e) + rand() % 2500;
        struct process relay = RELAY(&e, "--lease-ttl-ms", "1000", "--window-rows", WINDOW_TEXT, "--fetch-rows", "500");

        WAIT_UNTIL(marked_beyond(&e, target), 15);
        CHECK(e2e_load_runs(&e));
        kills[k].before_ms = e2e_real_ms();
        process_signal(&relay, SIGKILL);
        CHECK_EQ(process_wait(&relay, 5), 128 + SIGKILL);
        kills[k].after_ms = e2e_real_ms();
        kills[k].unmarked = e2e_unmarked(&e);
    }
    process_signal(&e.load, SIGTERM);
    e2e_load_end(&e, 10);
    struct process relay = RELAY(&e, "--lease-ttl-ms", "1000");
    struct oracle_verdict v = e2e_end(&e, &relay, 30, NULL);
    attribute(kills, KILLS, &v);
    oracle_forget(&v);
}

TEST_WITHIN(e2e_a_second_relay_waits_and_takes_over, 90)
{
    struct e2e e = e2e_begin("standby");
    struct kill k = {0};
    struct process first = RELAY(&e, "--lease-ttl-ms", "2000", "--instance", "first");

    WAIT_UNTIL(e2e_said(&first, "event=\"lease held\""), 20);
    struct process second = RELAY(&e, "--lease-ttl-ms", "2000", "--instance", "second");
    LOAD(&e, "--writers", "8", "--orders", "300", "--rate", "2000", "--seconds", "600");
    WAIT_UNTIL(e2e_said(&second, "another relay holds the lease, waiting"), 20);
    CHECK(e2e_said(&second, "first"));
    /* Through three lives of a lease the first one publishes, and the second does not. */
    WAIT_UNTIL(e2e_marked(&e) > 12000, 40);
    CHECK(!e2e_said(&second, "event=\"lease held\""));
    CHECK_EQ(e2e_number(&e, "SELECT epoch FROM outbox.lease"), 1);
    CHECK_EQ(e2e_number(&e, "SELECT count(*) FROM outbox.lease WHERE holder LIKE '%first%'"), 1);
    k.before_ms = e2e_real_ms();
    process_signal(&first, SIGKILL);
    CHECK_EQ(process_wait(&first, 5), 128 + SIGKILL);
    k.after_ms = e2e_real_ms();
    WAIT_UNTIL(e2e_said(&second, "event=\"lease held\""), 10);
    WAIT_UNTIL(marked_beyond(&e, last_id(&e)), 20);
    CHECK(e2e_load_runs(&e));
    process_signal(&e.load, SIGTERM);
    e2e_load_end(&e, 10);
    struct oracle_verdict v = e2e_end(&e, &second, 30, NULL);
    for (int64_t i = 0; i < v.duplicates; i++)
        CHECK(explains(&k, &v.duplicate[i]));
    oracle_forget(&v);
}

/* --- a slow Kafka ------------------------------------------------------------------------------------------------- */

/* Each report takes `report_ms` at least, to the end. Tells how fast what has waited drains. */
static void drain_slowly(struct e2e *e, struct proxy *p, int report_ms, const char *window_rows)
{
    int64_t rows, began_ms, first_ms, before = e2e_marked(e);

    LOAD(e, "--writers", "8", "--orders", "200", "--rate", "300", "--seconds", "2");
    e2e_load_end(e, 20);
    rows = e2e_unmarked(e);
    (void)proxy_command(p, "latency kafka %d", report_ms / 2);
    began_ms = e2e_real_ms();
    struct process relay = RELAY(e, "--window-rows", window_rows, "--fetch-rows", window_rows);
    WAIT_UNTIL(e2e_marked(e) > before, 60);
    first_ms = e2e_real_ms();
    WAIT_UNTIL(e2e_unmarked(e) == 0, 120);
    evidence_tell(0, "reports after %d ms, window %s: %lld rows, the first after %lld ms, then %lld a second", report_ms, window_rows,
                  (long long)rows, (long long)(first_ms - began_ms), (long long)(rows * 1000 / (e2e_real_ms() - first_ms)));
    CHECK(!e2e_said(&relay, "event=\"session ends"));
    e2e_stop(&relay);
}

/* Sessions that ended after a second without a report would never see one when reports take as long: nothing went on but the repeats. */
TEST_WITHIN(e2e_slow_kafka_gets_each_row_once, 240)
{
    struct e2e e = e2e_begin("slow");
    struct proxy p = proxy_start();

    (void)proxy_listen(&p, "kafka", "kafka", e2e_broker()->proxy_port, e2e_broker()->proxied_port);
    (void)snprintf(e.brokers, sizeof e.brokers, "127.0.0.1:%d", e2e_broker()->proxy_port);
    drain_slowly(&e, &p, 100, "20");
    drain_slowly(&e, &p, 100, "60");
    drain_slowly(&e, &p, 1000, "60");
    drain_slowly(&e, &p, 1000, "200");
    (void)proxy_command(&p, "heal kafka");
    struct process relay = RELAY(&e, NULL);
    WAIT_UNTIL(e2e_said(&relay, "event=\"lease held\""), 20);
    struct oracle_verdict v = e2e_end(&e, &relay, 30, NULL);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
    proxy_stop(&p);
}
