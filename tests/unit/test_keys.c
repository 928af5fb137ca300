/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys that wait, one promise of the header a test. */
#include "relay/core/keys.h"

#include <string.h>

#include "tests/lib/test.h"

#define KEYS 6

/* In memory that was used before. */
static struct keys *keys_new(void)
{
    return keys_init(memset(test_allocate(keys_size(KEYS)), 0xa5, keys_size(KEYS)), KEYS);
}

TEST(keys_are_found_by_their_hash)
{
    struct keys *k = keys_new();
    uint32_t key[KEYS];

    CHECK(keys_n(k) == 0 && keys_top(k) == 0 && !keys_used(k, 0) && keys_find(k, 8) == KEYS_NONE);
    for (uint32_t i = 0; i < KEYS; i++) {
        key[i] = keys_add(k, 100 + i, 10 + i, 8 * (uint64_t)(i + 1)); /* in one bucket */
        CHECK_EQ(keys_n(k), i + 1);
        CHECK_EQ(keys_top(k), i + 1);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        CHECK_EQ(keys_find(k, 8 * (uint64_t)(i + 1)), key[i]);
        CHECK_EQ(keys_hash(k, key[i]), 8 * (i + 1));
        CHECK_EQ(keys_topic(k, key[i]), 10 + i);
        CHECK_EQ(keys_since_ms(k, key[i]), 100 + i);
        CHECK(keys_used(k, key[i]));
    }
    CHECK_EQ(keys_find(k, 8 * (KEYS + 1)), KEYS_NONE);
    CHECK_EQ(keys_add(k, 0, 0, 8 * (KEYS + 1)), KEYS_NONE);
}

TEST(keys_that_are_removed_give_their_numbers_to_others)
{
    struct keys *k = keys_new();

    for (uint64_t hash = 1; hash <= KEYS; hash++)
        (void)keys_add(k, 0, 0, 4 * hash);
    for (uint64_t hash = 2; hash <= KEYS; hash += 2) { /* from the middle of their bucket */
        uint32_t key = keys_find(k, 4 * hash);

        keys_rows_in(k, key, 3);
        keys_remove(k, key);
        CHECK(!keys_used(k, key) && keys_find(k, 4 * hash) == KEYS_NONE);
    }
    CHECK(keys_n(k) == KEYS / 2 && keys_top(k) == KEYS);
    for (uint64_t hash = 1; hash <= KEYS; hash += 2)
        CHECK(keys_find(k, 4 * hash) != KEYS_NONE);
    for (uint64_t hash = 101; hash <= 100 + KEYS / 2; hash++) {
        uint32_t key = keys_add(k, 0, 0, hash);

        CHECK(key != KEYS_NONE && keys_idle(k, key));
    }
    CHECK(keys_n(k) == KEYS && keys_add(k, 0, 0, 200) == KEYS_NONE);
}

TEST(keys_are_idle_without_rows)
{
    struct keys *k = keys_new();
    uint32_t a = keys_add(k, 0, 0, 1), b = keys_add(k, 0, 0, 2);

    CHECK(keys_idle(k, a));
    keys_rows_in(k, a, 1);
    keys_rows_in(k, a, 1);
    CHECK(!keys_idle(k, a) && keys_idle(k, b));
    keys_row_out(k, a);
    CHECK(!keys_idle(k, a));
    keys_row_out(k, a);
    CHECK(keys_idle(k, a));
}

TEST(keys_know_the_smallest_of_their_ids)
{
    struct keys *k = keys_new();
    uint32_t a = keys_add(k, 0, 0, 1), b = keys_add(k, 0, 0, 2);

    CHECK(keys_first(k, a) == INT64_MAX && keys_first(k, b) == INT64_MAX);
    keys_first_see(k, a, 7);
    keys_first_see(k, a, 5);
    keys_first_see(k, a, 6);
    keys_first_see(k, b, 9);
    CHECK(keys_first(k, a) == 5 && keys_first(k, b) == 9);
    keys_firsts_begin(k);
    CHECK(keys_first(k, a) == INT64_MAX && keys_first(k, b) == INT64_MAX);
}

TEST(keys_do_not_wait_after_a_reset)
{
    struct keys *k = keys_new();

    for (uint64_t hash = 1; hash <= KEYS; hash++)
        (void)keys_add(k, 0, 0, hash);
    keys_remove(k, keys_find(k, 3));
    keys_reset(k);
    CHECK(keys_n(k) == 0 && keys_top(k) == 0);
    for (uint64_t hash = 1; hash <= KEYS; hash++) {
        CHECK_EQ(keys_find(k, hash), KEYS_NONE);
        CHECK(keys_add(k, 0, 0, hash) != KEYS_NONE);
    }
}
