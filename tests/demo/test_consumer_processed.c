/* SPDX-License-Identifier: BSD-2-Clause */
/* The ids that are kept: by day, as long as was said, and what happens to those that cannot be. */
#include "producer-demo/payment_consumer/processed.h"
#include "tests/demo/consumer_rig.h"

#include <stdio.h>
#include <string.h>

#define DAY PROCESSED_DAY_MS

static int64_t now_ms(void)
{
    static const struct uuid none;
    struct uuid now = uuid_make();

    CHECK(memcmp(&now, &none, sizeof now) != 0);
    return uuid_created_ms(now);
}

/* A day's first millisecond, so many days before today. */
static int64_t days_ago(int64_t days)
{
    return (now_ms() / DAY - days) * DAY;
}

static const char *id_text(int64_t ms, int number)
{
    static char texts[8][37];
    static int at;
    char *text = texts[at++ % 8];

    uuid_print(uuid_derive(ms, "id", "", number), text);
    return text;
}

/* --- partitions, without a consumer ---------------------------------------------------------------------------------- */

struct shelf {
    struct postgres p;
    PGconn *db;
};

static struct shelf shelf_new(void)
{
    struct shelf s = {.p = postgres_start("fsync = off")};

    s.db = PQconnectdb(s.p.conninfo);
    CHECK(PQstatus(s.db) == CONNECTION_OK);
    PQclear(PQexec(s.db, "SET client_min_messages = warning"));
    PQclear(PQexec(s.db, processed_schema));
    return s;
}

static int64_t shelf_tend(struct shelf *s, int64_t at_ms, int64_t retention_days)
{
    int64_t floor_ms = -1, asked_ms = -1;

    CHECK(processed_tend(s->db, at_ms, retention_days, &floor_ms));
    CHECK(processed_floor(s->db, &asked_ms));
    CHECK_EQ(asked_ms, floor_ms);
    return floor_ms;
}

static int64_t shelf_partitions(const struct shelf *s)
{
    return postgres_number(s->p.conninfo, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'processed_messages'::regclass");
}

/* 1: new, 0: it was there. */
static int64_t shelf_put(const struct shelf *s, const char *id)
{
    return postgres_number(s->p.conninfo, "INSERT INTO processed_messages VALUES ('%s') ON CONFLICT DO NOTHING RETURNING 1", id);
}

TEST_WITHIN(demo_consumer_days_are_made_ahead_and_dropped_when_they_are_old, 60)
{
    struct shelf s = shelf_new();

    /* Five days ago, with a retention of three: eight days ago to three days ago. */
    CHECK_EQ(shelf_tend(&s, days_ago(5), 3), days_ago(8));
    CHECK_EQ(shelf_partitions(&s), 6);
    CHECK_EQ(shelf_put(&s, id_text(days_ago(8), 1)), 1);
    CHECK_EQ(shelf_put(&s, id_text(days_ago(3), 2)), 1);
    /* Today: the first is forgotten, the second is not. */
    CHECK_EQ(shelf_tend(&s, now_ms(), 3), days_ago(3));
    CHECK_EQ(shelf_partitions(&s), 6);
    CHECK_EQ(shelf_put(&s, id_text(days_ago(3), 2)), 0);
    CHECK_EQ(postgres_number(s.p.conninfo, "SELECT count(*) FROM pg_class WHERE relname ~ '^processed_[0-9]+$'"), 6);
    CHECK_STR(postgres_error(s.p.conninfo, "INSERT INTO processed_messages VALUES ('%s')", id_text(days_ago(8), 1)), "23514");
    PQfinish(s.db);
}

TEST_WITHIN(demo_consumer_what_was_forgotten_stays_forgotten, 60)
{
    struct shelf s = shelf_new();
    int64_t floor_ms = shelf_tend(&s, now_ms(), 2);

    CHECK_EQ(shelf_tend(&s, now_ms(), 30), floor_ms);            /* a longer retention */
    CHECK_EQ(shelf_tend(&s, days_ago(9), 2), floor_ms);          /* a clock that went back */
    CHECK_EQ(shelf_tend(&s, now_ms() + 400 * DAY, 2), floor_ms); /* one that is far ahead of the database's */
    PQfinish(s.db);
}

TEST_WITHIN(demo_consumer_midnight_has_no_gap_and_no_overlap, 60)
{
    struct shelf s = shelf_new();
    int64_t midnight = days_ago(0);

    (void)shelf_tend(&s, now_ms(), 2);
    for (int again = 0; again < 2; again++)
        for (int64_t ms = midnight - 2; ms < midnight + 2; ms++)
            CHECK_EQ(shelf_put(&s, id_text(ms, 1)), !again);
    CHECK_EQ(postgres_number(s.p.conninfo, "SELECT count(DISTINCT tableoid) FROM processed_messages"), 2);
    CHECK_EQ(processed_judge(uuid_derive(midnight - 1, "", "", 1), midnight, midnight), PROCESSED_TOO_OLD);
    CHECK_EQ(processed_judge(uuid_derive(midnight, "", "", 1), midnight, midnight), PROCESSED_FINE);
    CHECK_EQ(processed_judge(uuid_derive(midnight + PROCESSED_FUTURE_MS, "", "", 1), midnight, midnight), PROCESSED_FINE);
    CHECK_EQ(processed_judge(uuid_derive(midnight + PROCESSED_FUTURE_MS + 1, "", "", 1), midnight, midnight), PROCESSED_FUTURE);
    PQfinish(s.db);
}

/* One day was detached but not dropped, another was about to be detached when its process died. */
TEST_WITHIN(demo_consumer_a_drop_that_was_cut_off_is_finished, 60)
{
    struct shelf s = shelf_new();
    PGconn *reader = PQconnectdb(s.p.conninfo);
    char name[2][64];

    (void)shelf_tend(&s, days_ago(5), 3);
    for (int i = 0; i < 2; i++)
        (void)snprintf(name[i], sizeof name[i], "%s",
                       postgres_query(s.p.conninfo,
                                      "SELECT relname FROM pg_class WHERE relname ~ '^processed_[0-9]+$' ORDER BY 1 OFFSET %d LIMIT 1", i));
    (void)postgres_query(s.p.conninfo, "ALTER TABLE processed_messages DETACH PARTITION %s", name[0]);
    PQclear(PQexec(reader, "BEGIN; SELECT * FROM processed_messages"));
    CHECK_STR(postgres_error(s.p.conninfo, "SET statement_timeout = 300; ALTER TABLE processed_messages DETACH PARTITION %s CONCURRENTLY",
                             name[1]),
              "25001");
    PQclear(PQexec(s.db, "SET statement_timeout = 300"));
    {
        char sql[160];

        (void)snprintf(sql, sizeof sql, "ALTER TABLE processed_messages DETACH PARTITION %s CONCURRENTLY", name[1]);
        PQclear(PQexec(s.db, sql));
    }
    PQclear(PQexec(s.db, "SET statement_timeout = 0"));
    CHECK_EQ(postgres_number(s.p.conninfo, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"), 1);
    PQfinish(reader);
    (void)shelf_tend(&s, now_ms(), 3);
    CHECK_EQ(postgres_number(s.p.conninfo, "SELECT count(*) FROM pg_class WHERE relname ~ '^processed_[0-9]+$'"), 6);
    CHECK_EQ(postgres_number(s.p.conninfo, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending"), 0);
    PQfinish(s.db);
}

/* --- what the consumer refuses ---------------------------------------------------------------------------------------- */

static void unintended(struct consumer_rig *rig, int order, struct consumer_event event)
{
    event.order = order;
    event.unintended = true;
    consumer_rig_event(rig, event);
}

static int64_t refused(struct consumer_rig *rig, const char *reason)
{
    char labels[64];

    (void)snprintf(labels, sizeof labels, ",reason=\"%s\"", reason);
    return consumer_rig_metric(rig, "refused_total", labels);
}

/* Two that are too old, one of the future, two that cannot be read, one that cannot be applied; and two just within the limits. */
static void produce_bad_ones(struct consumer_rig *rig)
{
    unintended(rig, 1001, (struct consumer_event){.id = uuid_derive(days_ago(2) - 1, "", "", 1)});
    unintended(rig, 1002, (struct consumer_event){.id = uuid_derive(0, "", "", 2)});
    unintended(rig, 1003, (struct consumer_event){.id = uuid_derive(now_ms() + PROCESSED_FUTURE_MS + 60000, "", "", 3)});
    unintended(rig, 1004, (struct consumer_event){.payload = "{\"order_id\": 5}"});
    unintended(rig, 1005, (struct consumer_event){.payload = "not JSON"});
    unintended(rig, 1006, (struct consumer_event){.delta_cents = INT64_C(100000000001)});
    consumer_rig_event(rig, (struct consumer_event){.order = 1007, .id = uuid_derive(days_ago(2), "", "", 4)});
    consumer_rig_event(rig, (struct consumer_event){.order = 1008, .id = uuid_derive(now_ms() + PROCESSED_FUTURE_MS - 60000, "", "", 5)});
}

TEST_WITHIN(demo_consumer_refuses_what_it_cannot_tell_from_a_copy_or_cannot_apply, 120)
{
    struct consumer_rig rig = consumer_rig_new("unique", NULL);

    consumer_rig_orders(&rig, 0, 200);
    produce_bad_ones(&rig);
    consumer_rig_orders(&rig, 200, 200);
    consumer_rig_flush(&rig);
    for (int life = 0; life < 2; life++) { /* in the second all comes again: nothing is counted twice */
        CONSUMER(&rig, "--retention-days", "2", "--retention-unchecked", "--batch", "100", "--group", life ? "second" : "payment-unique");
        WAIT_UNTIL(consumer_rig_metric(&rig, "deliveries_total", "") >= (life + 1) * rig.events, 40);
        WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") + consumer_rig_metric(&rig, "suppressed_total", "") >=
                       (life + 1) * (rig.events - 6),
                   20);
        CHECK_EQ(refused(&rig, "too-old"), 2);
        CHECK_EQ(refused(&rig, "future"), 1);
        CHECK_EQ(refused(&rig, "unreadable"), 2);
        CHECK_EQ(refused(&rig, "poison"), 1);
        consumer_rig_stop(&rig);
    }
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM refused_messages"), 6);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM refused_messages WHERE payload = 'not JSON' AND reason = 'unreadable'"), 1);
    /* The poisonous one's id is not kept: when it is mended and sent again, it is applied. */
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM processed_messages"), rig.events - 6);
}

TEST_WITHIN(demo_consumer_midnight_is_like_any_other_moment, 90)
{
    struct consumer_rig rig = consumer_rig_new("unique", NULL);
    int64_t midnight = days_ago(0);

    for (int i = 0; i < 100; i++)
        consumer_rig_event(&rig, (struct consumer_event){.order = i, .id = uuid_derive(midnight - 50 + i, "", "", i)});
    for (int i = 0; i < 100; i++)
        consumer_rig_event(&rig, (struct consumer_event){.order = i, .id = uuid_derive(midnight - 50 + i, "", "", i), .unintended = true});
    consumer_rig_flush(&rig);
    CONSUMER(&rig, "--retention-days", "1", "--retention-unchecked", "--redeliver", "50");
    WAIT_UNTIL(consumer_rig_settled(&rig), 40);
    consumer_rig_stop(&rig);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM processed_messages"), 100);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM refused_messages"), 0);
}

/* Another process, with a shorter retention, drops a day that this one still believes in. */
TEST_WITHIN(demo_consumer_a_day_dropped_by_another_process_is_refused_as_too_old, 90)
{
    struct consumer_rig rig = consumer_rig_new("unique", NULL);
    PGconn *other;
    int64_t floor_ms;

    consumer_rig_orders(&rig, 0, 10);
    consumer_rig_flush(&rig);
    CONSUMER(&rig, "--retention-days", "5", "--retention-unchecked");
    WAIT_UNTIL(consumer_rig_settled(&rig), 40);
    other = PQconnectdb(rig.db.conninfo);
    PQclear(PQexec(other, "SET search_path = ledger_unique"));
    CHECK(processed_tend(other, now_ms(), 1, &floor_ms));
    PQfinish(other);
    unintended(&rig, 1000, (struct consumer_event){.id = uuid_derive(days_ago(3), "", "", 1)});
    consumer_rig_orders(&rig, 10, 10);
    consumer_rig_flush(&rig);
    WAIT_UNTIL(refused(&rig, "too-old") == 1, 30);
    WAIT_UNTIL(consumer_rig_settled(&rig), 40);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    CHECK_EQ(refused(&rig, "poison"), 0);
}
