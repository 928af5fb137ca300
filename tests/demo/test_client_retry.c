/* SPDX-License-Identifier: BSD-2-Clause */
/* When the client asks again, and when it does not. */
#include "producer-demo/order_client/answers.h"
#include "producer-demo/order_client/backoff.h"
#include "tests/lib/test.h"

static const struct backoff backoff = {.base_ms = 50, .cap_ms = 2000};

TEST(demo_client_backoff_bound_doubles_up_to_the_cap)
{
    CHECK_EQ(backoff_bound_ms(backoff, 1), 50);
    CHECK_EQ(backoff_bound_ms(backoff, 2), 100);
    CHECK_EQ(backoff_bound_ms(backoff, 6), 1600);
    CHECK_EQ(backoff_bound_ms(backoff, 7), 2000);
    CHECK_EQ(backoff_bound_ms(backoff, 1000000), 2000);
    CHECK_EQ(backoff_bound_ms((struct backoff){.base_ms = 1, .cap_ms = INT64_MAX / 2}, 1000), INT64_MAX / 2);
    CHECK_EQ(backoff_bound_ms((struct backoff){.base_ms = 500, .cap_ms = 100}, 1), 100);
}

/* Full jitter: from nothing to the bound, and all of it about equally often. */
TEST(demo_client_backoff_is_spread_over_the_whole_bound)
{
    int64_t quarter[4] = {0};

    for (uint64_t i = 0; i < 40000; i++) {
        int64_t wait_ms = backoff_wait_ms(backoff, 5, -1, i * 0x9e3779b97f4a7c15u);

        CHECK(wait_ms >= 0 && wait_ms <= 800);
        quarter[wait_ms * 4 / 801]++;
    }
    for (int i = 0; i < 4; i++)
        CHECK(quarter[i] > 9500 && quarter[i] < 10500);
    CHECK_EQ(backoff_wait_ms(backoff, 5, -1, 0), 0);
    CHECK_EQ(backoff_wait_ms(backoff, 5, -1, 800), 800);
    CHECK_EQ(backoff_wait_ms(backoff, 5, -1, 801), 0);
}

TEST(demo_client_backoff_heeds_what_the_server_asks_for)
{
    for (uint64_t i = 0; i < 1000; i++) {
        int64_t wait_ms = backoff_wait_ms(backoff, 1, 7, i);

        CHECK(wait_ms >= 7000 && wait_ms <= 7050);
    }
    CHECK_EQ(backoff_wait_ms(backoff, 1, 0, 51), 0);
    CHECK_EQ(backoff_wait_ms(backoff, 1, 86400, 51), 86400000);
}

TEST(demo_client_answers_are_final_or_not)
{
    static const struct {
        int status;
        bool retry_after;
        enum answer_meaning meaning;
    } cases[] = {{0, false, ANSWER_RETRY},      {100, false, ANSWER_REFUSED},  {200, false, ANSWER_DONE},    {201, false, ANSWER_DONE},
                 {204, false, ANSWER_DONE},     {301, false, ANSWER_REFUSED},  {400, false, ANSWER_REFUSED}, {400, true, ANSWER_REFUSED},
                 {404, false, ANSWER_REFUSED},  {408, false, ANSWER_RETRY},    {409, true, ANSWER_RETRY},    {409, false, ANSWER_CONFLICT},
                 {410, false, ANSWER_CONFLICT}, {412, false, ANSWER_CONFLICT}, {422, false, ANSWER_REFUSED}, {422, true, ANSWER_REFUSED},
                 {428, false, ANSWER_REFUSED},  {429, false, ANSWER_RETRY},    {500, false, ANSWER_RETRY},   {501, false, ANSWER_REFUSED},
                 {502, false, ANSWER_RETRY},    {503, true, ANSWER_RETRY},     {504, false, ANSWER_RETRY},   {999, false, ANSWER_REFUSED}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct answer_rule *rule = answer_rule_find(cases[i].status, cases[i].retry_after);

        if (rule->meaning != cases[i].meaning)
            test_fail(__FILE__, __LINE__, "%d means %d: %s", cases[i].status, rule->meaning, rule->why);
    }
    for (int status = 0; status <= 999; status++)
        CHECK(answer_rule_find(status, false)->why);
}
