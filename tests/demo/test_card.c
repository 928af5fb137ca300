/* SPDX-License-Identifier: BSD-2-Clause */
/* The card processor: one key, one movement. */
#include "tests/demo/program.h"
#include "tests/lib/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ORDER   "019b76da-a87b-79cc-b03a-c037fb14d6c1"
#define CHARGE  "{\"order_id\":\"" ORDER "\",\"amount_cents\":500}"
#define THREADS 100

struct card_rig {
    struct postgres *postgres;
    struct program program;
};

static struct card_rig card_start(const char *flag, const char *value)
{
    struct card_rig rig = {.postgres = test_allocate(sizeof *rig.postgres)};
    const char *flags[] = {"--database", rig.postgres->conninfo, flag, value, NULL};

    *rig.postgres = postgres_start(NULL);
    rig.program = program_serve("card-processor", flags);
    return rig;
}

static const struct fetch_response *ask(const struct card_rig *rig, const char *path, const char *key, const char *body)
{
    const char *headers[] = {program_text("Idempotency-Key: %s", key), NULL};

    return program_ask("POST", program_text("%s%s", rig->program.url, path), headers, body);
}

static const struct fetch_response *get(const struct card_rig *rig, const char *path)
{
    return program_ask("GET", program_text("%s%s", rig->program.url, path), NULL, NULL);
}

static int64_t cents(const struct card_rig *rig)
{
    return postgres_number(rig->postgres->conninfo, "SELECT sum(cents) FROM card.movement");
}

TEST(demo_card_charges_once_for_a_key)
{
    struct card_rig rig = card_start(NULL, NULL);
    const struct fetch_response *first = ask(&rig, "/charges", "one", CHARGE), *again = ask(&rig, "/charges", "\"one\"", CHARGE);

    CHECK_EQ(first->status, 201);
    CHECK(!first->replayed);
    CHECK(strstr(first->body, "\"kind\":\"charge\",\"order_id\":\"" ORDER "\",\"amount_cents\":500"));
    CHECK_EQ(again->status, 200);
    CHECK(again->replayed);
    CHECK_STR(again->body, first->body);
    CHECK_EQ(cents(&rig), 500);
    CHECK_EQ(ask(&rig, "/charges", "two", CHARGE)->status, 201);
    CHECK_EQ(cents(&rig), 1000);
    CHECK_EQ(ask(&rig, "/refunds", "three", CHARGE)->status, 201);
    CHECK_EQ(ask(&rig, "/refunds", "three", CHARGE)->status, 200);
    CHECK_EQ(cents(&rig), 500);
    CHECK_EQ(program_metric(&rig.program, "card_movements_total{kind=\"charge\"}"), 2);
    CHECK_EQ(program_metric(&rig.program, "card_movements_total{kind=\"refund\"}"), 1);
    CHECK_EQ(program_metric(&rig.program, "card_replays_total"), 2);
}

TEST(demo_card_refuses_another_body_under_the_same_key)
{
    struct card_rig rig = card_start(NULL, NULL);

    CHECK_EQ(ask(&rig, "/charges", "one", CHARGE)->status, 201);
    CHECK_EQ(ask(&rig, "/charges", "one", "{\"order_id\":\"" ORDER "\",\"amount_cents\":501}")->status, 422);
    CHECK_EQ(ask(&rig, "/charges", "one", "{\"order_id\":\"019b76da-a87b-79cc-b03a-c037fb14d6c2\",\"amount_cents\":500}")->status, 422);
    CHECK_EQ(ask(&rig, "/refunds", "one", CHARGE)->status, 422);
    /* The same, written otherwise. */
    CHECK_EQ(ask(&rig, "/charges", "one", "{ \"amount_cents\": 500, \"order_id\": \"019B76DA-A87B-79CC-B03A-C037FB14D6C1\" }")->status,
             200);
    CHECK_EQ(cents(&rig), 500);
    CHECK_EQ(program_metric(&rig.program, "card_mismatches_total"), 3);
}

TEST(demo_card_keys_are_of_their_caller)
{
    struct card_rig rig = card_start(NULL, NULL);
    const char *headers[] = {"Idempotency-Key: one", "X-Client-Id: other", NULL};
    const char *url = program_text("%s/charges", rig.program.url);

    CHECK_EQ(ask(&rig, "/charges", "one", CHARGE)->status, 201);
    CHECK_EQ(program_ask("POST", url, headers, CHARGE)->status, 201);
    CHECK_EQ(program_ask("POST", url, headers, CHARGE)->status, 200);
    CHECK_EQ(cents(&rig), 1000);
}

TEST(demo_card_refuses_what_it_cannot_read)
{
    static const char *const bodies[] = {"",
                                         "{",
                                         "[]",
                                         "{\"order_id\":\"" ORDER "\"}",
                                         "{\"order_id\":\"x\",\"amount_cents\":500}",
                                         "{\"order_id\":\"" ORDER "\",\"amount_cents\":0}",
                                         "{\"order_id\":\"" ORDER "\",\"amount_cents\":-5}",
                                         "{\"order_id\":\"" ORDER "\",\"amount_cents\":1.5}",
                                         "{\"order_id\":\"" ORDER "\",\"amount_cents\":\"500\"}",
                                         "{\"order_id\":\"" ORDER "\",\"amount_cents\":100000001}",
                                         "{\"order_id\":\"" ORDER "\",\"amount_cents\":5,\"amount_cents\":5}",
                                         "{\"order_id\":\"" ORDER "\",\"amount_cents\":5,\"more\":1}"};
    struct card_rig rig = card_start(NULL, NULL);
    const char *charges = program_text("%s/charges", rig.program.url);

    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (ask(&rig, "/charges", "one", bodies[i])->status != 400)
            test_fail(__FILE__, __LINE__, "taken: %s", bodies[i]);
    CHECK_EQ(program_ask("POST", charges, NULL, CHARGE)->status, 400);
    CHECK_EQ(ask(&rig, "/charges", "two words", CHARGE)->status, 400);
    CHECK_EQ(program_ask("GET", charges, NULL, NULL)->status, 405);
    CHECK_EQ(program_ask("DELETE", charges, NULL, NULL)->status, 405);
    CHECK_EQ(get(&rig, "/else")->status, 404);
    CHECK_EQ(postgres_number(rig.postgres->conninfo, "SELECT count(*) FROM card.movement"), 0);
}

TEST(demo_card_tells_what_happened_under_a_key)
{
    struct card_rig rig = card_start(NULL, NULL);
    const struct fetch_response *made;

    CHECK_EQ(get(&rig, "/movements/one")->status, 404);
    made = ask(&rig, "/charges", "\"one / two\"", CHARGE);
    CHECK_EQ(made->status, 201);
    CHECK_STR(get(&rig, "/movements/one%20%2F%20two")->body, made->body);
    CHECK_EQ(get(&rig, "/movements/one")->status, 404);
    CHECK_EQ(get(&rig, "/movements/%00")->status, 400);
    CHECK_EQ(get(&rig, "/healthz")->status, 200);
}

/* --- what keys are for -------------------------------------------------------------------------------------------- */

struct charge {
    struct card_rig *rig;
    pthread_barrier_t *together;
    const char *key;
};

static void *charge_run(void *context)
{
    const struct charge *charge = context;

    (void)pthread_barrier_wait(charge->together);
    return (void *)(uintptr_t)ask(charge->rig, "/charges", charge->key, CHARGE);
}

/* How many of the concurrent charges were the first of their key, by their answers. */
static int charge_together(struct card_rig *rig, const char *key, const struct fetch_response *ret_responses[THREADS])
{
    pthread_t threads[THREADS];
    pthread_barrier_t together;
    struct charge charge = {rig, &together, key};
    int made = 0;

    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, charge_run, &charge) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *response;

        CHECK(pthread_join(threads[i], &response) == 0);
        ret_responses[i] = response;
        CHECK(ret_responses[i]->status == 200 || ret_responses[i]->status == 201);
        made += ret_responses[i]->status == 201;
    }
    return made;
}

/* Several rounds: in the first, most of the time goes into new connections to the database, and the charges hardly meet. */
TEST_WITHIN(demo_card_hundred_charges_at_once_are_one, 60)
{
    enum {
        ROUNDS = 5
    };
    struct card_rig rig = card_start("--threads", "32");
    const struct fetch_response *responses[THREADS];

    for (int round = 0; round < ROUNDS; round++) {
        CHECK_EQ(charge_together(&rig, program_text("round-%d", round), responses), 1);
        for (int i = 1; i < THREADS; i++)
            CHECK_STR(responses[i]->body, responses[0]->body);
    }
    CHECK_EQ(cents(&rig), ROUNDS * 500);
    CHECK_EQ(program_metric(&rig.program, "card_replays_total"), ROUNDS * (THREADS - 1));
}

TEST_WITHIN(demo_card_ignoring_keys_charges_every_time, 60)
{
    struct card_rig rig = card_start("--ignore-keys", NULL);
    const struct fetch_response *responses[THREADS];

    CHECK_EQ(ask(&rig, "/charges", "one", CHARGE)->status, 201);
    CHECK_EQ(ask(&rig, "/charges", "one", CHARGE)->status, 201);
    CHECK_EQ(cents(&rig), 1000);
    CHECK_EQ(charge_together(&rig, "one", responses), THREADS);
    CHECK_EQ(cents(&rig), 500 * (THREADS + 2));
    CHECK_EQ(get(&rig, "/movements/one")->status, 200);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static void killed_at(const char *fault, int status_before, int64_t cents_before)
{
    struct card_rig rig = card_start("--fault", fault);

    CHECK_EQ(ask(&rig, "/charges", "one", CHARGE)->status, 0); /* unknown */
    CHECK_EQ(process_wait(&rig.program.process, 20), 128 + SIGKILL);
    CHECK_EQ(cents(&rig), cents_before);
    program_forget(&rig.program, "--fault");
    program_restart(&rig.program);
    CHECK_EQ(get(&rig, "/movements/one")->status, status_before);
    CHECK_EQ(ask(&rig, "/charges", "one", CHARGE)->status, cents_before ? 200 : 201);
    CHECK_EQ(cents(&rig), 500);
}

TEST_WITHIN(demo_card_killed_before_the_movement, 60)
{
    killed_at("before-movement:1:kill", 404, 0);
}

TEST_WITHIN(demo_card_killed_after_the_movement, 60)
{
    killed_at("after-movement:1:kill", 200, 500);
}

TEST_WITHIN(demo_card_waits_for_the_database, 60)
{
    struct card_rig rig = card_start(NULL, NULL);
    const struct fetch_response *away;

    postgres_kill(rig.postgres);
    away = ask(&rig, "/charges", "one", CHARGE);
    CHECK_EQ(away->status, 503);
    CHECK_EQ(away->retry_after_s, 1);
    CHECK_EQ(get(&rig, "/healthz")->status, 503);
    postgres_restart(rig.postgres);
    WAIT_UNTIL(ask(&rig, "/charges", "one", CHARGE)->status / 100 == 2, 20);
    CHECK_EQ(cents(&rig), 500);
    process_signal(&rig.program.process, SIGTERM);
    CHECK_EQ(process_wait(&rig.program.process, 20), 0);
}
