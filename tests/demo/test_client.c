/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's library against a server that is told what to do wrong. */
#include "producer-demo/lib/points.h"
#include "producer-demo/lib/uuid.h"
#include "producer-demo/order_client/client.h"
#include "tests/demo/stub_shop.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct client_rig {
    struct stub_shop *shop;
    struct client_counts counts;
    struct client_settings settings;
    struct client *client;
    struct client_result result;
};

static const struct client_order wanted = {"Ada", "1 Main Street", 500};

static struct journal *rig_journal(void)
{
    char path[300], reason[300] = "";
    struct journal *journal;

    (void)snprintf(path, sizeof path, "%s/journal", temp_folder());
    journal = journal_open(path, reason, sizeof reason);
    if (!journal)
        test_fail(__FILE__, __LINE__, "%s", reason);
    return journal;
}

static struct client_rig *rig_start(void)
{
    struct client_rig *rig = test_allocate(sizeof *rig);

    points_name(client_points);
    rig->shop = stub_shop_start(0);
    rig->settings = (struct client_settings){.url = stub_shop_url(rig->shop),
                                             .client_id = "tester",
                                             .journal = rig_journal(),
                                             .patience = patience_new(),
                                             .counts = &rig->counts,
                                             .backoff = {.base_ms = 1, .cap_ms = 50},
                                             .give_up_ms = 15000,
                                             .timeout_ms = 5000};
    rig->client = client_open(&rig->settings, 1);
    return rig;
}

/* As if the program had ended and begun again; returns what the journal left open. */
static const struct journal_intent *rig_restart(struct client_rig *rig, size_t *ret_n)
{
    client_close(rig->client);
    journal_close(rig->settings.journal);
    rig->settings.journal = rig_journal();
    rig->client = client_open(&rig->settings, 1);
    return journal_left(rig->settings.journal, ret_n);
}

static size_t rig_left(struct client_rig *rig)
{
    size_t n;

    (void)rig_restart(rig, &n);
    return n;
}

static void trouble(struct client_rig *rig, struct stub_trouble what)
{
    stub_shop_trouble(rig->shop, &what, 1, 0);
}

TEST(demo_client_places_an_order)
{
    struct client_rig *rig = rig_start();
    struct stub_order order;

    client_order(rig->client, &wanted, &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_DONE);
    CHECK_EQ(rig->result.status, 201);
    CHECK_EQ(rig->result.sends, 1);
    CHECK_STR(rig->result.etag, "\"1\"");
    order = stub_shop_order(rig->shop, 0);
    CHECK_STR(order.id, rig->result.key);
    CHECK_STR(order.reference, rig->result.key);
    CHECK_STR(order.scope, "tester");
    CHECK_STR(order.address, "1 Main Street");
    CHECK_EQ(rig_left(rig), 0);
}

TEST(demo_client_retries_under_the_same_key)
{
    static const struct stub_trouble troubles[] = {{.status = 500}, {.lose = true}, {.status = 503}, {.status = 429}, {.status = 408}};
    struct client_rig *rig = rig_start();

    stub_shop_trouble(rig->shop, troubles, 5, 0);
    client_order(rig->client, &wanted, &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_DONE);
    CHECK_EQ(rig->result.sends, 6);
    CHECK_EQ(stub_shop_orders(rig->shop), 1);
    CHECK_EQ(atomic_load(&rig->counts.intents), 1);
    CHECK_EQ(atomic_load(&rig->counts.sends), 6);
    CHECK_EQ(atomic_load(&rig->counts.retries), 5);
    CHECK_EQ(atomic_load(&rig->counts.unanswered), 1);
    CHECK_EQ(atomic_load(&rig->counts.replays), 1);
}

/* One send is one request: a kept connection that is closed without an answer does not make libcurl send again behind our back. */
TEST(demo_client_counts_every_request)
{
    struct client_rig *rig = rig_start();

    client_order(rig->client, &wanted, &rig->result);
    for (int i = 0; i < 5; i++) {
        trouble(rig, (struct stub_trouble){.lose = true});
        client_order(rig->client, &wanted, &rig->result);
        CHECK_EQ(rig->result.sends, 2);
    }
    CHECK_EQ(stub_shop_requests(rig->shop), 11);
    CHECK_EQ(atomic_load(&rig->counts.sends), 11);
}

TEST(demo_client_bad_client_orders_twice)
{
    struct client_rig *rig = rig_start();

    rig->settings.bad_client = true;
    trouble(rig, (struct stub_trouble){.lose = true});
    client_order(rig->client, &wanted, &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_DONE);
    CHECK_EQ(stub_shop_orders(rig->shop), 2);
    CHECK_STR(stub_shop_order(rig->shop, 0).reference, stub_shop_order(rig->shop, 1).reference);
    CHECK_EQ(stub_shop_references(rig->shop), 1);
}

TEST(demo_client_waits_as_long_as_it_is_told)
{
    struct client_rig *rig = rig_start();
    uint64_t began_ms = test_now_ms();

    trouble(rig, (struct stub_trouble){.status = 503, .retry_after_s = 1});
    client_order(rig->client, &wanted, &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_DONE);
    CHECK(test_now_ms() - began_ms >= 1000);
}

TEST(demo_client_final_answers_are_not_retried)
{
    static const struct {
        int status;
        enum client_outcome outcome;
    } cases[] = {{400, CLIENT_REFUSED}, {404, CLIENT_REFUSED}, {409, CLIENT_CONFLICT}, {412, CLIENT_CONFLICT}, {422, CLIENT_REFUSED}};
    struct client_rig *rig = rig_start();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trouble(rig, (struct stub_trouble){.status = cases[i].status});
        client_order(rig->client, &wanted, &rig->result);
        CHECK_EQ(rig->result.outcome, cases[i].outcome);
        CHECK_EQ(rig->result.sends, 1);
    }
    CHECK_EQ(atomic_load(&rig->counts.conflicts), 2);
    CHECK_EQ(atomic_load(&rig->counts.refused), 3);
    CHECK_EQ(stub_shop_orders(rig->shop), 0);
    CHECK_EQ(rig_left(rig), 0);
}

/* 409 with Retry-After is another 409: an earlier try is still under way. */
TEST(demo_client_in_progress_is_asked_again)
{
    struct client_rig *rig = rig_start();

    trouble(rig, (struct stub_trouble){.status = 409, .retry_after_s = 1});
    client_order(rig->client, &wanted, &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_DONE);
    CHECK_EQ(rig->result.sends, 2);
}

/* --- giving up, and going on -------------------------------------------------------------------------------------- */

TEST(demo_client_gives_up_and_goes_on_under_the_same_key)
{
    struct client_rig *rig = rig_start();
    const struct journal_intent *left;
    size_t n;

    rig->settings.url = "http://127.0.0.1:1"; /* nobody */
    rig->settings.give_up_ms = 300;
    client_order(rig->client, &wanted, &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_GIVEN_UP);
    CHECK_EQ(rig->result.status, 0);
    CHECK(rig->result.sends > 1);
    CHECK_EQ(atomic_load(&rig->counts.given_up), 1);
    rig->settings.url = stub_shop_url(rig->shop);
    left = rig_restart(rig, &n);
    CHECK_EQ(n, 1);
    CHECK_STR(left[0].key, rig->result.key);
    client_finish(rig->client, &left[0], &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_DONE);
    CHECK_STR(stub_shop_order(rig->shop, 0).id, rig->result.key);
    CHECK_STR(stub_shop_order(rig->shop, 0).reference, rig->result.key);
    CHECK_EQ(rig_left(rig), 0);
}

/* Retry-After beyond the deadline: there is nothing to wait for. */
TEST(demo_client_gives_up_at_once_if_it_is_told_to_come_too_late)
{
    struct client_rig *rig = rig_start();
    uint64_t began_ms = test_now_ms();

    trouble(rig, (struct stub_trouble){.status = 503, .retry_after_s = 3600});
    client_order(rig->client, &wanted, &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_GIVEN_UP);
    CHECK_EQ(rig->result.sends, 1);
    CHECK(test_now_ms() - began_ms < 10000);
    CHECK_EQ(rig_left(rig), 1);
}

/* The server forgets keys after a day: then the old key is no protection, and a retry would be a second order. */
TEST(demo_client_does_not_send_a_key_that_the_server_may_have_forgotten)
{
    struct client_rig *rig = rig_start();
    struct journal_intent old = {.method = "POST", .path = "/orders", .body = "{}"};
    const struct journal_intent *left;
    size_t n;

    uuid_print(uuid_derive((int64_t)(uuid_created_ms(uuid_make()) - 23 * 3600 * 1000 - 60000), "a", "b", 1), old.key);
    CHECK(journal_begin(rig->settings.journal, &old));
    left = rig_restart(rig, &n);
    CHECK_EQ(n, 1);
    client_finish(rig->client, &left[0], &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_GIVEN_UP);
    CHECK_EQ(stub_shop_requests(rig->shop), 0);
    CHECK_EQ(rig_left(rig), 0);
}

static void *stopper_run(void *context)
{
    struct client_rig *rig = context;

    while (stub_shop_requests(rig->shop) == 0)
        test_pause();
    patience_end(rig->settings.patience);
    return NULL;
}

TEST(demo_client_stops_between_two_tries)
{
    struct client_rig *rig = rig_start();
    pthread_t stopper;

    trouble(rig, (struct stub_trouble){.status = 503, .retry_after_s = 14});
    rig->settings.give_up_ms = 60000;
    CHECK(pthread_create(&stopper, NULL, stopper_run, rig) == 0);
    client_order(rig->client, &wanted, &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_STOPPED);
    CHECK(pthread_join(stopper, NULL) == 0);
    CHECK_EQ(rig_left(rig), 1);
}

/* --- changes of an order's address -------------------------------------------------------------------------------- */

TEST(demo_client_move_whose_reply_was_lost_is_no_conflict)
{
    struct client_rig *rig = rig_start();
    char id[37];

    client_order(rig->client, &wanted, &rig->result);
    memcpy(id, rig->result.key, sizeof id);
    trouble(rig, (struct stub_trouble){.lose = true});
    client_move(rig->client, id, "\"1\"", "2 Main Street", &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_DONE);
    CHECK_EQ(rig->result.sends, 2);
    CHECK_STR(rig->result.etag, "\"2\"");
    CHECK_EQ(stub_shop_order(rig->shop, 0).version, 2);
}

TEST(demo_client_move_of_an_old_version_is_a_conflict)
{
    struct client_rig *rig = rig_start();
    char id[37];

    client_order(rig->client, &wanted, &rig->result);
    memcpy(id, rig->result.key, sizeof id);
    client_move(rig->client, id, "\"1\"", "2 Main Street", &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_DONE);
    client_move(rig->client, id, "\"1\"", "3 Main Street", &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_CONFLICT);
    trouble(rig, (struct stub_trouble){.status = 500}); /* so that the next is a retry */
    client_move(rig->client, id, "\"1\"", "4 Main Street", &rig->result);
    CHECK_EQ(rig->result.outcome, CLIENT_CONFLICT);
    CHECK_STR(stub_shop_order(rig->shop, 0).address, "2 Main Street");
}
