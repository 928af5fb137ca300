/* SPDX-License-Identifier: BSD-2-Clause */
/* The program order-client: killed, stopped, and with a network that loses its replies. */
#include "tests/demo/program.h"
#include "tests/demo/stub_shop.h"
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ORDERS 10

static const char *journal_path(void)
{
    return program_text("%s/journal", temp_folder());
}

/* It has this journal, and is in a hurry; two more flags, or NULL. */
static struct program client_start(const char *url, const char *flag, const char *value)
{
    const char *flags[] = {"--url",
                           url,
                           "--journal",
                           journal_path(),
                           "--orders",
                           program_text("%d", ORDERS),
                           "--backoff-ms",
                           "1",
                           "--backoff-cap-ms",
                           "50",
                           "--give-up-ms",
                           "30000",
                           flag,
                           value,
                           NULL};

    return program_run("order-client", flags);
}

/* Of its closing line: the number after `name`. */
static long counted(const struct program *client, const char *name)
{
    const char *line = strstr(process_output(&client->process), "order-client: intents"), *found;

    CHECK(line);
    found = strstr(line, program_text(" %s ", name));
    CHECK(found);
    return strtol(found + strlen(name) + 2, NULL, 10);
}

static void client_end(struct program *client)
{
    CHECK_EQ(process_wait(&client->process, 60), 0);
}

static void one_order_each(struct stub_shop *shop)
{
    CHECK_EQ(stub_shop_orders(shop), ORDERS);
    CHECK_EQ(stub_shop_references(shop), ORDERS);
}

TEST_WITHIN(demo_client_program_counts_what_it_did, 60)
{
    struct stub_shop *shop = stub_shop_start(0);
    struct program client = client_start(stub_shop_url(shop), "--move", "100");

    client_end(&client);
    one_order_each(shop);
    CHECK_EQ(stub_shop_order(shop, 0).version, 2);
    CHECK_EQ(counted(&client, "intents"), 2 * ORDERS);
    CHECK_EQ(counted(&client, "sends"), 2 * ORDERS);
    CHECK_EQ(counted(&client, "retries"), 0);
    CHECK_EQ(counted(&client, "given-up"), 0);
    /* The journal has all of its orders. */
    client = client_start(stub_shop_url(shop), NULL, NULL);
    client_end(&client);
    CHECK_EQ(counted(&client, "intents"), 0);
    one_order_each(shop);
}

TEST_WITHIN(demo_client_program_gets_through_flaky_replies, 60)
{
    struct stub_shop *shop = stub_shop_start(0);
    struct program client = client_start(stub_shop_url(shop), "--flaky", "50");

    client_end(&client);
    one_order_each(shop);
    CHECK(counted(&client, "retries") > 0);
    CHECK(counted(&client, "replays") > 0 && counted(&client, "replays") <= counted(&client, "retries"));
    CHECK_EQ(counted(&client, "unanswered"), counted(&client, "retries"));
    CHECK_EQ(counted(&client, "sends"), ORDERS + counted(&client, "retries"));
}

/* The classic mistake: everything looks fine to the client, and there are orders that nobody wanted. */
TEST_WITHIN(demo_client_program_bad_client_orders_more_than_it_wants, 60)
{
    struct stub_shop *shop = stub_shop_start(0);
    const char *flags[] = {"--url", stub_shop_url(shop), "--journal", journal_path(), "--orders", "40", "--flaky",
                           "50",    "--backoff-ms",      "1",         "--bad-client", NULL};
    struct program client = program_run("order-client", flags);

    client_end(&client);
    CHECK_EQ(stub_shop_references(shop), 40);
    CHECK(counted(&client, "retries") > 0);
    CHECK_EQ(stub_shop_orders(shop), 40 + counted(&client, "retries"));
    CHECK_EQ(counted(&client, "replays"), 0);
}

TEST_WITHIN(demo_client_program_waits_for_a_server_that_is_away, 60)
{
    int port = free_port();
    struct program client = client_start(program_text("http://127.0.0.1:%d", port), NULL, NULL);
    struct stub_shop *shop;

    WAIT_UNTIL(access(journal_path(), F_OK) == 0, 20);
    shop = stub_shop_start(port);
    client_end(&client);
    one_order_each(shop);
}

/* --- the end of it ------------------------------------------------------------------------------------------------ */

TEST_WITHIN(demo_client_program_told_to_end_leaves_the_rest_to_the_next, 60)
{
    int port = free_port();
    const char *url = program_text("http://127.0.0.1:%d", port);
    struct program client = client_start(url, NULL, NULL);
    struct stub_shop *shop;

    WAIT_UNTIL(access(journal_path(), F_OK) == 0, 20);
    process_signal(&client.process, SIGTERM);
    client_end(&client);
    shop = stub_shop_start(port);
    client = client_start(url, NULL, NULL);
    client_end(&client);
    one_order_each(shop);
}

static void killed_at(const char *point)
{
    struct stub_shop *shop = stub_shop_start(0);
    struct program client = client_start(stub_shop_url(shop), "--fault", program_text("%s:5:kill", point));

    CHECK_EQ(process_wait(&client.process, 60), 128 + SIGKILL);
    CHECK(stub_shop_orders(shop) < ORDERS);
    client = client_start(stub_shop_url(shop), NULL, NULL);
    client_end(&client);
    one_order_each(shop);
}

TEST_WITHIN(demo_client_program_killed_after_the_intent, 60)
{
    killed_at("after-intent");
}

TEST_WITHIN(demo_client_program_killed_after_the_journal, 60)
{
    killed_at("after-journal");
}

TEST_WITHIN(demo_client_program_killed_after_the_reply, 60)
{
    killed_at("after-reply");
}

TEST_WITHIN(demo_client_program_killed_after_the_end, 60)
{
    killed_at("after-end");
}

/* The server kills it when it has the request: before it carries it out, or after. */
static void killed_by_the_server(int status)
{
    const struct stub_trouble troubles[] = {{0}, {0}, {0}, {.status = status, .kill = true}};
    int port = free_port();
    struct program client = client_start(program_text("http://127.0.0.1:%d", port), NULL, NULL);
    struct stub_shop *shop;

    WAIT_UNTIL(access(journal_path(), F_OK) == 0, 20);
    process_signal(&client.process, SIGSTOP); /* until the server knows whom to kill */
    shop = stub_shop_start(port);
    stub_shop_trouble(shop, troubles, 4, client.process.pid);
    process_signal(&client.process, SIGCONT);
    CHECK_EQ(process_wait(&client.process, 60), 128 + SIGKILL);
    CHECK(stub_shop_orders(shop) < ORDERS);
    client = client_start(stub_shop_url(shop), NULL, NULL);
    client_end(&client);
    one_order_each(shop);
}

TEST_WITHIN(demo_client_program_killed_between_send_and_effect, 60)
{
    killed_by_the_server(500);
}

TEST_WITHIN(demo_client_program_killed_between_effect_and_reply, 60)
{
    killed_by_the_server(0);
}

/* Again and again, at any moment, until one run comes to the end. */
TEST_WITHIN(demo_client_program_killed_at_any_moment, 120)
{
    struct stub_shop *shop = stub_shop_start(0);
    struct program client;

    for (int kills = 0; kills < 15; kills++) {
        int before = stub_shop_requests(shop);

        client = client_start(stub_shop_url(shop), "--flaky", "80");
        WAIT_UNTIL(stub_shop_requests(shop) > before + kills % 4 || !process_running(&client.process), 30);
        process_signal(&client.process, SIGKILL);
        (void)process_wait(&client.process, 20);
    }
    client = client_start(stub_shop_url(shop), "--flaky", "50");
    client_end(&client);
    one_order_each(shop);
}

/* --- what it refuses ---------------------------------------------------------------------------------------------- */

TEST_WITHIN(demo_client_program_refuses_to_start_without_a_journal_of_its_own, 60)
{
    const char *none[] = {"--orders", "1", NULL};
    struct program client = program_run("order-client", none), second;

    CHECK_EQ(process_wait(&client.process, 20), 2);
    CHECK(strstr(process_output(&client.process), "--journal"));
    client = client_start("http://127.0.0.1:1", NULL, NULL);
    WAIT_UNTIL(access(journal_path(), F_OK) == 0, 20);
    second = client_start("http://127.0.0.1:1", NULL, NULL);
    CHECK_EQ(process_wait(&second.process, 20), 2);
    CHECK(strstr(process_output(&second.process), "in use"));
}

TEST_WITHIN(demo_client_program_reports_what_it_gave_up, 60)
{
    struct program client = client_start("http://127.0.0.1:1", "--give-up-ms", "200");

    CHECK_EQ(process_wait(&client.process, 60), 1);
    CHECK_EQ(counted(&client, "given-up"), ORDERS);
    CHECK(strstr(process_output(&client.process), "gave up POST /orders under key "));
}
