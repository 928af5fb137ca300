/* SPDX-License-Identifier: BSD-2-Clause */
/* The lesson of each way: in which direction its ledger is wrong, and when. */
#include "tests/demo/consumer_rig.h"

#include <signal.h>
#include <string.h>

#define EVENTS 400

/* A rig with EVENTS orders in its topic. */
static struct consumer_rig rig_filled(const char *way)
{
    struct consumer_rig rig = consumer_rig_new(way, NULL);

    consumer_rig_orders(&rig, 0, EVENTS);
    consumer_rig_flush(&rig);
    return rig;
}

static void run_killed_at(struct consumer_rig *rig, const char *fault)
{
    CONSUMER(rig, "--batch", "20", "--retention-days", "2", "--retention-unchecked", "--fault", fault);
    CHECK_EQ(process_wait(&rig->consumer, 30), 128 + SIGKILL);
}

static void run_to_the_end(struct consumer_rig *rig, const char *redeliver)
{
    CONSUMER(rig, "--batch", "20", "--retention-days", "2", "--retention-unchecked", "--redeliver", redeliver);
    WAIT_UNTIL(consumer_rig_settled(rig), 40);
    consumer_rig_stop(rig);
}

TEST_WITHIN(demo_consumer_none_counts_each_copy, 90)
{
    struct consumer_rig rig = rig_filled("none");

    run_to_the_end(&rig, "20");
    CHECK(consumer_rig_drift(&rig) > 0);
    CHECK(consumer_rig_number(&rig, "SELECT count(*) FROM entry") > EVENTS + EVENTS / 10);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(DISTINCT event_id) FROM entry"), EVENTS);
}

TEST_WITHIN(demo_consumer_none_counts_again_after_a_kill, 120)
{
    struct consumer_rig rig = rig_filled("none");

    run_killed_at(&rig, "between:5:kill");
    run_to_the_end(&rig, "0");
    CHECK(consumer_rig_drift(&rig) > 0);
}

TEST_WITHIN(demo_consumer_seen_cache_is_clean_until_the_restart, 150)
{
    struct consumer_rig rig = rig_filled("seen-cache");

    run_to_the_end(&rig, "20");
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    consumer_rig_orders(&rig, EVENTS, EVENTS);
    consumer_rig_flush(&rig);
    run_killed_at(&rig, "before-offsets:1:kill");
    run_to_the_end(&rig, "0");
    CHECK(consumer_rig_drift(&rig) > 0);
}

TEST_WITHIN(demo_consumer_seen_cache_has_its_effect_when_it_is_tried_again, 90)
{
    struct consumer_rig rig = rig_filled("seen-cache");

    CONSUMER(&rig, "--batch", "20", "--fault", "between:3:error");
    WAIT_UNTIL(consumer_rig_settled(&rig), 40);
    CHECK(consumer_rig_metric(&rig, "retries_total", "") > 0);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
}

TEST_WITHIN(demo_consumer_check_then_act_loses_the_race, 120)
{
    struct consumer_rig rig = rig_filled("check-then-act");

    run_to_the_end(&rig, "50");
    CHECK(consumer_rig_drift(&rig) > 0);
}

/* One at a time it works, which is why it is believed. */
TEST_WITHIN(demo_consumer_check_then_act_survives_a_kill, 120)
{
    struct consumer_rig rig = rig_filled("check-then-act");

    run_killed_at(&rig, "before-offsets:1:kill");
    run_to_the_end(&rig, "0");
    CHECK_EQ(consumer_rig_drift(&rig), 0);
}

TEST_WITHIN(demo_consumer_at_most_once_loses, 120)
{
    struct consumer_rig rig = rig_filled("at-most-once");

    run_killed_at(&rig, "between:5:kill");
    run_to_the_end(&rig, "20");
    CHECK(consumer_rig_drift(&rig) < 0);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) - count(DISTINCT event_id) FROM entry"), 0);
}

TEST_WITHIN(demo_consumer_at_most_once_counts_what_it_lost, 90)
{
    struct consumer_rig rig = rig_filled("at-most-once");
    int64_t lost;

    CONSUMER(&rig, "--batch", "20", "--fault", "between:3:error");
    WAIT_UNTIL(consumer_rig_settled(&rig), 40);
    WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") + consumer_rig_metric(&rig, "lost_total", "") == EVENTS, 20);
    lost = consumer_rig_metric(&rig, "lost_total", "");
    CHECK(lost > 0 && lost <= 20);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM entry"), EVENTS - lost);
}

/* While the group is shared out anew, commits are refused: the records are given back, not held on to, and not lost. */
TEST_WITHIN(demo_consumer_at_most_once_gives_back_what_is_not_its_own, 120)
{
    struct consumer_rig rig = rig_filled("at-most-once");

    CONSUMER(&rig, "--batch", "2");
    WAIT_UNTIL(consumer_rig_metric(&rig, "applied_total", "") > 10, 40);
    mock_command(&rig.mock, "error 8 22 1"); /* OffsetCommit: ILLEGAL_GENERATION */
    WAIT_UNTIL(strstr(process_output(&rig.consumer), "offsets were not committed: "), 30);
    WAIT_UNTIL(consumer_rig_settled(&rig), 60);
    CHECK_EQ(consumer_rig_metric(&rig, "retries_total", ""), 0);
    CHECK_EQ(consumer_rig_metric(&rig, "lost_total", ""), 0);
    consumer_rig_stop(&rig);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
}

/* Through copies and a kill at each point. */
static void run_through_it_all(struct consumer_rig *rig)
{
    run_killed_at(rig, "between:4:kill");
    run_killed_at(rig, "before-offsets:1:kill");
    consumer_rig_orders(rig, EVENTS, EVENTS);
    consumer_rig_flush(rig);
    run_killed_at(rig, "after-offsets:1:kill");
    consumer_rig_orders(rig, 2 * EVENTS, EVENTS);
    consumer_rig_flush(rig);
    run_to_the_end(rig, "30");
}

TEST_WITHIN(demo_consumer_unique_is_exact_through_it_all, 200)
{
    struct consumer_rig rig = rig_filled("unique");

    run_through_it_all(&rig);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM entry"), 3 * EVENTS);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM processed_messages"), 3 * EVENTS);
}

TEST_WITHIN(demo_consumer_version_is_exact_through_it_all, 200)
{
    struct consumer_rig rig = rig_filled("version");

    for (int i = 0; i < EVENTS; i++) { /* placed, then refunded in part */
        consumer_rig_event(&rig, (struct consumer_event){.order = i, .version = 2, .delta_cents = -400, .balance_cents = 600 + i});
        consumer_rig_event(&rig, (struct consumer_event){.order = i, .version = 3, .delta_cents = -100, .balance_cents = 500 + i});
    }
    consumer_rig_flush(&rig);
    run_through_it_all(&rig);
    CHECK_EQ(consumer_rig_drift(&rig), 0);
    CHECK_EQ(consumer_rig_number(&rig, "SELECT count(*) FROM fact"), 3 * EVENTS);
}
