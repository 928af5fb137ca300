/* SPDX-License-Identifier: BSD-2-Clause */
/* Client, service and card processor together, through kills of each. */
#include "tests/demo/shop_rig.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void client_end(struct program *client)
{
    int status = process_wait(&client->process, 120);

    if (status != 0)
        test_fail(__FILE__, __LINE__, "the client ended with %d", status);
}

TEST_WITHIN(demo_shop_without_faults, 60)
{
    struct shop_rig *rig = shop_start(NULL);
    struct program client = shop_client(rig, "ada", 100, NULL);

    client_end(&client);
    shop_check(rig, 100);
    CHECK_EQ(shop_client_counted(&client, "retries"), 0);
    CHECK_EQ(shop_client_counted(&client, "conflicts"), 0);
    CHECK(postgres_number(rig->postgres.conninfo, "SELECT count(*) FROM shop.orders WHERE refunded_cents > 0") > 0);
    CHECK(postgres_number(rig->postgres.conninfo, "SELECT count(*) FROM shop.orders WHERE status = 'cancelled'") > 0);
    CHECK(postgres_number(rig->postgres.conninfo, "SELECT count(*) FROM outbox.event WHERE headers->>'type' = 'order-moved'") > 0);
}

/* Two clients who use the same keys would not be in each other's way; these two lose replies, and the replays show it. */
TEST_WITHIN(demo_shop_with_replies_lost, 120)
{
    struct shop_rig *rig = shop_start(NULL);
    const char *flaky[] = {"--flaky", "40", NULL};
    struct program ada = shop_client(rig, "ada", 60, flaky), bob = shop_client(rig, "bob", 60, flaky);

    client_end(&ada);
    client_end(&bob);
    shop_check(rig, 120);
    CHECK(shop_client_counted(&ada, "retries") > 0);
    CHECK(shop_client_counted(&ada, "replays") > 0);
    CHECK_EQ(shop_client_counted(&ada, "conflicts") + shop_client_counted(&bob, "conflicts"), 0);
}

/* The books show what the bad client did: more orders than it wanted, and its own name for them shows which. */
TEST_WITHIN(demo_shop_bad_client_makes_two_orders_and_the_good_one_makes_one, 120)
{
    static const char intents[] = "SELECT count(DISTINCT reference) FROM shop.orders WHERE client_id = '%s'";
    static const char orders[] = "SELECT count(*) FROM shop.orders WHERE client_id = '%s'";
    struct shop_rig *rig = shop_start(NULL);
    const char *flaky[] = {"--flaky", "30", NULL}, *bad[] = {"--flaky", "30", "--bad-client", NULL};
    struct program good_client = shop_client(rig, "good", 60, flaky), bad_client = shop_client(rig, "bad", 60, bad);
    int64_t made;

    client_end(&good_client);
    (void)process_wait(&bad_client.process, 120); /* 1, if it wanted a refund once more than there was money */
    CHECK_EQ(postgres_number(rig->postgres.conninfo, intents, "good"), 60);
    CHECK_EQ(postgres_number(rig->postgres.conninfo, orders, "good"), 60);
    CHECK_EQ(postgres_number(rig->postgres.conninfo, intents, "bad"), 60);
    made = postgres_number(rig->postgres.conninfo, orders, "bad");
    CHECK(made > 60);
    (void)fprintf(stderr, "the bad client made %lld orders of 60 intents\n", (long long)made);
}

/* --- kills -------------------------------------------------------------------------------------------------------- */

/* The service dies at the third pass of the point, and comes again; the client notices nothing but a delay. */
static void service_killed_at(const char *point)
{
    struct shop_rig *rig = shop_start(program_text("%s:3:kill", point));
    struct program client = shop_client(rig, "ada", 30, NULL);

    WAIT_UNTIL(!process_running(&rig->service.process), 60);
    CHECK_EQ(process_wait(&rig->service.process, 20), 128 + SIGKILL);
    shop_service_revive(rig);
    client_end(&client);
    shop_check(rig, 30);
    CHECK(shop_client_counted(&client, "retries") > 0);
    CHECK_EQ(shop_client_counted(&client, "conflicts"), 0);
}

#define SERVICE_KILLED_AT(name, point)                   \
    TEST_WITHIN(demo_shop_service_killed_at_##name, 180) \
    {                                                    \
        service_killed_at(point);                        \
    }
SERVICE_KILLED_AT(order_before, "order-before")
SERVICE_KILLED_AT(order_after_key, "order-after-key")
SERVICE_KILLED_AT(order_after_order, "order-after-order")
SERVICE_KILLED_AT(order_after_event, "order-after-event")
SERVICE_KILLED_AT(order_before_commit, "order-before-commit")
SERVICE_KILLED_AT(order_after_commit, "order-after-commit")
SERVICE_KILLED_AT(refund_before, "refund-before")
SERVICE_KILLED_AT(refund_after_key, "refund-after-key")
SERVICE_KILLED_AT(refund_before_start, "refund-before-start")
SERVICE_KILLED_AT(refund_after_start, "refund-after-start")
SERVICE_KILLED_AT(refund_after_call, "refund-after-call")
SERVICE_KILLED_AT(refund_after_refund, "refund-after-refund")
SERVICE_KILLED_AT(refund_after_order, "refund-after-order")
SERVICE_KILLED_AT(refund_after_event, "refund-after-event")
SERVICE_KILLED_AT(refund_before_commit, "refund-before-commit")
SERVICE_KILLED_AT(refund_after_commit, "refund-after-commit")
SERVICE_KILLED_AT(change_before, "change-before")
SERVICE_KILLED_AT(change_after_order, "change-after-order")
SERVICE_KILLED_AT(change_after_event, "change-after-event")
SERVICE_KILLED_AT(change_before_commit, "change-before-commit")
SERVICE_KILLED_AT(change_after_commit, "change-after-commit")

/* The one effect that shares no transaction with anybody. */
static void card_killed_at(const char *point)
{
    struct shop_rig *rig = shop_start(NULL);
    struct program client;

    process_signal(&rig->card.process, SIGKILL);
    (void)process_wait(&rig->card.process, 20);
    rig->card.arguments[3] = "--fault"; /* behind the database; what it listens at comes after */
    rig->card.arguments[4] = program_text("%s:3:kill", point);
    rig->card.arguments[5] = "--listen";
    rig->card.arguments[6] = program_text("127.0.0.1:%d", rig->card.port);
    program_restart(&rig->card);
    client = shop_client(rig, "ada", 30, NULL);
    WAIT_UNTIL(!process_running(&rig->card.process), 60);
    shop_card_revive(rig);
    client_end(&client);
    shop_check(rig, 30);
}

TEST_WITHIN(demo_shop_card_processor_killed_before_the_movement, 180)
{
    card_killed_at("before-movement");
}

TEST_WITHIN(demo_shop_card_processor_killed_after_the_movement, 180)
{
    card_killed_at("after-movement");
}

static int64_t orders_made(const struct shop_rig *rig)
{
    return postgres_number(rig->postgres.conninfo, "SELECT count(*) FROM shop.orders");
}

TEST_WITHIN(demo_shop_all_killed_at_any_moment, 240)
{
    const char *flaky[] = {"--flaky", "30", NULL};
    struct shop_rig *rig = shop_start(NULL);
    struct program client = shop_client(rig, "ada", 150, flaky);

    for (int kills = 1; kills <= 12; kills++) {
        int64_t before = orders_made(rig);

        WAIT_UNTIL(orders_made(rig) > before + kills % 5 || !process_running(&client.process), 60);
        if (kills % 3 == 0)
            shop_card_revive(rig);
        else if (kills % 3 == 1)
            shop_service_revive(rig);
        else if (process_running(&client.process)) {
            process_signal(&client.process, SIGKILL);
            (void)process_wait(&client.process, 20);
            client = shop_client(rig, "ada", 150, flaky);
        }
    }
    client_end(&client);
    client = shop_client(rig, "ada", 150, NULL); /* nothing is left to do */
    client_end(&client);
    CHECK_EQ(shop_client_counted(&client, "intents"), 0);
    shop_check(rig, 150);
}

TEST_WITHIN(demo_shop_database_killed, 240)
{
    struct shop_rig *rig = shop_start(NULL);
    struct program client;

    postgres_settings(&rig->postgres, "fsync = on");
    postgres_kill(&rig->postgres);
    postgres_restart(&rig->postgres);
    client = shop_client(rig, "ada", 100, NULL);
    for (int kills = 0; kills < 3; kills++) {
        int64_t before = orders_made(rig);

        WAIT_UNTIL(orders_made(rig) > before + 5 || !process_running(&client.process), 60);
        postgres_kill(&rig->postgres);
        postgres_restart(&rig->postgres);
    }
    client_end(&client);
    shop_check(rig, 100);
}
