/* SPDX-License-Identifier: BSD-2-Clause */
/* P7 through the whole chain: whichever process is killed, and however often records come, each order has its effect once. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/demo/chain.h"
#include "tests/lib/test.h"

#define ORDERS 400

static void begin(struct chain *chain)
{
    struct mock broker = mock_start(1);

    mock_command(&broker, "topic orders %d", CHAIN_PARTITIONS);
    chain_begin(chain, broker.bootstrap, ORDERS);
    chain_start(chain, CHAIN_CLIENT);
}

/* The parts `first` to `last` die at once, `times` times, while the client is at work. */
static void survive(enum chain_part first, enum chain_part last, int times)
{
    struct chain chain;

    begin(&chain);
    for (int i = 1; i <= times; i++) {
        WAIT_UNTIL(chain_placed(&chain) >= i * ORDERS / (times + 1), 60);
        for (enum chain_part p = first; p <= last; p++)
            chain_kill(&chain, p);
        for (enum chain_part p = first; p <= last; p++)
            chain_start(&chain, p);
    }
    chain_judge(&chain);
}

TEST_WITHIN(demo_e2e_nobody_is_killed, 180)
{
    survive(CHAIN_CARD, CHAIN_CARD, 0);
}

TEST_WITHIN(demo_e2e_relay_is_killed, 180)
{
    survive(CHAIN_RELAY, CHAIN_RELAY, 4);
}

TEST_WITHIN(demo_e2e_service_is_killed, 180)
{
    survive(CHAIN_SERVICE, CHAIN_SERVICE, 4);
}

TEST_WITHIN(demo_e2e_card_processor_is_killed, 180)
{
    survive(CHAIN_CARD, CHAIN_CARD, 4);
}

TEST_WITHIN(demo_e2e_consumers_are_killed, 180)
{
    survive(CHAIN_UNIQUE, CHAIN_PASSTHROUGH, 4);
}

TEST_WITHIN(demo_e2e_client_is_killed_and_goes_on_from_its_journal, 180)
{
    survive(CHAIN_CLIENT, CHAIN_CLIENT, 4);
}

TEST_WITHIN(demo_e2e_all_are_killed_at_once, 180)
{
    survive(CHAIN_CARD, CHAIN_CLIENT, 2);
}

TEST_WITHIN(demo_e2e_database_is_killed, 180)
{
    struct chain chain;

    begin(&chain);
    for (int i = 1; i <= 2; i++) {
        WAIT_UNTIL(chain_placed(&chain) >= i * ORDERS / 3, 60);
        postgres_kill(&chain.db);
        postgres_restart(&chain.db);
    }
    chain_judge(&chain);
}

/* The embedded broker would lose its topics. */
TEST_WITHIN(demo_e2e_broker_is_killed, 300)
{
    struct kafka kafka = kafka_start();
    struct chain chain;

    kafka_topic_create(kafka.bootstrap, "orders", CHAIN_PARTITIONS, NULL);
    chain_begin(&chain, kafka.bootstrap, ORDERS);
    chain_start(&chain, CHAIN_CLIENT);
    WAIT_UNTIL(chain_placed(&chain) >= ORDERS / 3, 60);
    kafka_kill(&kafka);
    kafka_restart(&kafka);
    chain_judge(&chain);
}
