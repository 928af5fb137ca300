/* SPDX-License-Identifier: BSD-2-Clause */
/* The consumer as a process among others: outages, a second process of the same way, faults at run time, settings that are refused. */
#include "producer-demo/payment_consumer/retention.h"
#include "tests/demo/consumer_rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST_WITHIN(demo_consumer_waits_out_postgresql, 120)
{
    struct consumer_rig rig = consumer_rig_new("unique", NULL);

    CONSUMER(&rig, "--batch", "10", "--retention-days", "2", "--retention-unchecked", "--redeliver", "20");
    for (int round = 0; round < 3; round++) {
        consumer_rig_orders(&rig, round * 200, 200);
        consumer_rig_flush(&rig);
        WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") > round * 200, 40);
        postgres_kill(&rig.db);
        consumer_rig_orders(&rig, 1000 + round * 200, 200);
        consumer_rig_flush(&rig);
        postgres_restart(&rig.db);
    }
    WAIT_UNTIL(consumer_rig_settled(&rig), 40);
    consumer_rig_stop(&rig);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM entry"), rig.events);
}

TEST_WITHIN(demo_consumer_waits_out_a_start_without_anybody, 90)
{
    struct consumer_rig rig = consumer_rig_new("unique", NULL);

    consumer_rig_orders(&rig, 0, 100);
    consumer_rig_flush(&rig);
    mock_command(&rig.mock, "down");
    postgres_stop(&rig.db);
    CONSUMER(&rig, "--retention-days", "2", "--retention-unchecked");
    WAIT_UNTIL(strstr(process_output(&rig.consumer), "PostgreSQL: "), 20);
    postgres_restart(&rig.db);
    mock_command(&rig.mock, "up");
    WAIT_UNTIL(consumer_rig_settled(&rig), 60);
    consumer_rig_stop(&rig);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
}

TEST_WITHIN(demo_consumer_ends_orderly_without_postgresql, 90)
{
    struct consumer_rig rig = consumer_rig_new("unique", NULL);

    CONSUMER(&rig, "--retention-days", "2", "--retention-unchecked");
    consumer_rig_orders(&rig, 0, 100);
    consumer_rig_flush(&rig);
    WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") > 0, 40);
    postgres_kill(&rig.db);
    consumer_rig_orders(&rig, 100, 100);
    consumer_rig_flush(&rig);
    WAIT_UNTIL(consumer_rig_metric(&rig, "retries_total", "") > 0 || strstr(process_output(&rig.consumer), "PostgreSQL: "), 40);
    consumer_rig_stop(&rig);
}

TEST_WITHIN(demo_consumer_kafka_goes_and_a_second_process_comes_and_is_killed, 360)
{
    struct kafka kafka = kafka_start();
    struct consumer_rig rig = consumer_rig_new("unique", &kafka);
    const char *const more[] = {"--batch", "20", "--retention-days", "2", "--retention-unchecked", "--redeliver", "20", NULL};
    struct process second;

    consumer_rig_orders(&rig, 0, 2000);
    consumer_rig_flush(&rig);
    consumer_rig_start(&rig, more);
    WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") > 100, 60);
    second = consumer_rig_process(&rig, "127.0.0.1:0", more); /* takes half of the partitions while there is work */
    WAIT_UNTIL(consumer_rig_settled(&rig), 60);
    consumer_rig_orders(&rig, 2000, 2000);
    consumer_rig_flush(&rig);
    process_signal(&second, SIGKILL);
    (void)process_wait(&second, 20);
    WAIT_UNTIL(consumer_rig_settled(&rig), 90);
    kafka_kill(&kafka);
    kafka_restart(&kafka);
    consumer_rig_orders(&rig, 4000, 1000);
    consumer_rig_flush(&rig);
    WAIT_UNTIL(consumer_rig_settled(&rig), 90);
    consumer_rig_stop(&rig);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM entry"), rig.events);
}

TEST_WITHIN(demo_consumer_takes_faults_at_run_time, 90)
{
    struct consumer_rig rig = consumer_rig_new("none", NULL);

    CONSUMER(&rig, "--batch", "10");
    consumer_rig_orders(&rig, 0, 100);
    consumer_rig_flush(&rig);
    WAIT_UNTIL(consumer_rig_settled(&rig), 40);
    CHECK_EQ(consumer_rig_metric(&rig, "redelivered_total", ""), 0);
    /* While a new group shares out its partitions, records may come again. */
    int64_t applied = consumer_rig_metric(&rig, "applied_total", "");
    int64_t duplicates = consumer_rig_metric(&rig, "duplicates_total", "");
    int64_t deliveries = consumer_rig_metric(&rig, "deliveries_total", "");
    CHECK_EQ(applied, 100 + duplicates);
    CHECK_EQ(consumer_rig_fault(&rig, "{\"redeliver_percent\": 100}"), 200);
    consumer_rig_orders(&rig, 100, 100);
    consumer_rig_flush(&rig);
    WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") == applied + 200, 40);
    CHECK_EQ(consumer_rig_metric(&rig, "redelivered_total", ""), 100);
    CHECK_EQ(consumer_rig_metric(&rig, "duplicates_total", ""), duplicates + 100);
    CHECK_EQ(consumer_rig_metric(&rig, "deliveries_total", ""), deliveries + 200);
    CHECK_EQ(consumer_rig_fault(&rig, "{\"redeliver_percent\": 101}"), 400);
    CHECK_EQ(consumer_rig_fault(&rig, "{\"redeliver_percent\": -5}"), 400);
    CHECK_EQ(consumer_rig_fault(&rig, "{\"point\": \"nowhere:1:kill\"}"), 400);
    CHECK_EQ(consumer_rig_fault(&rig, "{\"what\": 1}"), 400);
    CHECK_EQ(consumer_rig_fault(&rig, "[]"), 400);
    CHECK_EQ(consumer_rig_fault(&rig, "{"), 400);
    CHECK_EQ(consumer_rig_fault(&rig, "{\"point\": \"between:1:kill\"}"), 200);
    consumer_rig_orders(&rig, 200, 10);
    consumer_rig_flush(&rig);
    CHECK_EQ(process_wait(&rig.consumer, 30), 128 + SIGKILL);
}

/* --- retention ---------------------------------------------------------------------------------------------------------- */

static enum retention_verdict compare(int64_t days, int64_t outbox_days, int64_t topic_ms, int64_t outbox_ms)
{
    char why[512];

    return retention_compare(&(struct consumer_settings){.topic = "orders", .retention_days = days, .outbox_days = outbox_days}, topic_ms,
                             outbox_ms, why, sizeof why);
}

TEST(demo_consumer_retention_must_cover_the_topic_and_the_outbox)
{
    const int64_t day = 86400000;

    CHECK_EQ(compare(8, 1, 7 * day, 0), RETENTION_FINE);
    CHECK_EQ(compare(7, 1, 7 * day, 0), RETENTION_SHORT);
    CHECK_EQ(compare(7, 0, 7 * day, 0), RETENTION_FINE);
    CHECK_EQ(compare(8, 1, 7 * day, day + 1), RETENTION_SHORT);
    CHECK_EQ(compare(9, 1, 7 * day, day + 1), RETENTION_FINE);
    CHECK_EQ(compare(400, 0, -1, 0), RETENTION_SHORT);
}

/* Start it so, and it must refuse with a sentence that has these words. */
static void check_refused(const struct consumer_rig *rig, const char *const *more, const char *words)
{
    struct process p = consumer_rig_process(rig, "127.0.0.1:0", more);

    CHECK_EQ(process_wait(&p, 40), 2);
    if (!strstr(process_output(&p), words))
        test_fail(__FILE__, __LINE__, "it said: %s", process_output(&p));
}
#define REFUSED(rig, words, ...) check_refused((rig), (const char *const[]){__VA_ARGS__, NULL}, (words))

TEST_WITHIN(demo_consumer_refuses_a_retention_that_is_too_short, 180)
{
    struct kafka kafka = kafka_start();
    struct consumer_rig rig = consumer_rig_new("unique", &kafka);

    kafka_topic_configure(rig.kafka, rig.topic, "retention.ms=259200000"); /* three days */
    postgres_migrate(&rig.db);
    REFUSED(&rig, "--retention-days N is needed", "--batch", "10");
    REFUSED(&rig, "say at least 4", "--retention-days", "3");
    REFUSED(&rig, "say at least 6", "--retention-days", "5", "--outbox-days", "3");
    (void)postgres_query(
        rig.db.conninfo,
        "INSERT INTO outbox.event (event_id, topic, created_at) VALUES (gen_random_uuid(), 'orders', now() - interval '47 hours')");
    REFUSED(&rig, "say at least 5", "--retention-days", "4");
    consumer_rig_orders(&rig, 0, 100);
    consumer_rig_flush(&rig);
    CONSUMER(&rig, "--retention-days", "5");
    WAIT_UNTIL(consumer_rig_settled(&rig), 60);
    consumer_rig_stop(&rig);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    kafka_topic_configure(rig.kafka, rig.topic, "retention.ms=-1");
    REFUSED(&rig, "for ever", "--retention-days", "400");
}

/* --- --size ------------------------------------------------------------------------------------------------------------- */

/* The bytes that --size says of so many messages on one day. */
static double size_said(const char *database)
{
    const char *argv[] = {TEST_BUILD_FOLDER "/payment-consumer",
                          "--size",
                          "--messages-per-day",
                          "150000",
                          "--retention-days",
                          "1",
                          *database ? "--database" : NULL,
                          database,
                          NULL};
    struct process p = process_start(argv, NULL, NULL);
    const char *said;

    CHECK_EQ(process_wait(&p, 40), 0);
    said = strstr(process_output(&p), " 1 days = ");
    CHECK(said);
    return strtod(said + strlen(" 1 days = "), NULL);
}

static void check_near(double said, double real, double percent)
{
    if (said < real * (1 - percent / 100) || said > real * (1 + percent / 100))
        test_fail(__FILE__, __LINE__, "--size says %.0f bytes, the table has %.0f", said, real);
}

TEST_WITHIN(demo_consumer_size_is_that_of_the_real_table, 180)
{
    struct consumer_rig rig = consumer_rig_new("unique", NULL);
    double sampled = size_said(rig.db.conninfo), real;

    for (int i = 0; i < 150000; i++) {
        consumer_rig_event(&rig, (struct consumer_event){.order = i});
        if (i % 20000 == 19999) { /* the mock cluster keeps 5 MB of a partition */
            consumer_rig_flush(&rig);
            if (i < 20000)
                CONSUMER(&rig, "--batch", "100", "--retention-days", "1", "--retention-unchecked");
            WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") == i + 1, 90);
        }
    }
    consumer_rig_flush(&rig);
    WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") == 150000, 90);
    consumer_rig_stop(&rig);
    real = (double)consumer_rig_number(
        &rig, "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('processed_messages') WHERE isleaf");
    check_near(size_said(rig.db.conninfo), real, 2); /* measured there */
    check_near(sampled, real, 10);                   /* measured before anything was there */
    check_near(size_said(""), real, 15);             /* by the layout of pages */
}
