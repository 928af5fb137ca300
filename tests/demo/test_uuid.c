/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/uuid.h"
#include "tests/lib/test.h"

#include <string.h>
#include <time.h>

static const char *printed(struct uuid id)
{
    static char text[37];

    uuid_print(id, text);
    return text;
}

TEST(demo_uuid_made_has_its_moment_and_version)
{
    struct uuid first = uuid_make(), second = uuid_make();
    int64_t now_ms = (int64_t)time(NULL) * 1000 + 1000;

    CHECK(memcmp(&first, &second, sizeof first) != 0);
    CHECK(uuid_created_ms(first) <= now_ms && uuid_created_ms(first) > now_ms - 60000);
    CHECK_EQ(printed(first)[14], '7');
    CHECK(strchr("89ab", printed(first)[19]));
}

/* The words are hashed as sha256("shop\0key\0" "1\0"); the rest is the moment, the version and the variant. */
TEST(demo_uuid_derived_is_the_same_for_the_same_words)
{
    struct uuid id = uuid_derive(1767225600123, "shop", "key", 1), other;

    CHECK_EQ(uuid_created_ms(id), 1767225600123);
    CHECK_STR(printed(id), "019b76da-a87b-79cc-b03a-c037fb14d6c1");
    other = uuid_derive(1767225600123, "shop", "key", 2);
    CHECK(memcmp(&id, &other, sizeof id) != 0);
    other = uuid_derive(1767225600123, "sho", "pkey", 1);
    CHECK(memcmp(&id, &other, sizeof id) != 0);
}

TEST(demo_uuid_reads_what_it_prints_and_nothing_else)
{
    static const char *const wrong[] = {"",
                                        "0",
                                        "019b76da-a87b-7e8c-b1a0-6a52b2f4c0d",
                                        "019b76da-a87b-7e8c-b1a0-6a52b2f4c0dee",
                                        "019b76daa87b-7e8c-b1a0-6a52b2f4c0de-",
                                        "g19b76da-a87b-7e8c-b1a0-6a52b2f4c0de"};
    struct uuid id = uuid_make(), again = {{0}};

    CHECK(uuid_read(printed(id), &again));
    CHECK(memcmp(&id, &again, sizeof id) == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!uuid_read(wrong[i], &again));
    CHECK(memcmp(&id, &again, sizeof id) == 0);
    CHECK(uuid_read("019B76DA-A87B-7E8C-B1A0-6A52B2F4C0DE", &again));
}
