/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "relay/core/hash.h"
#include "tests/lib/test.h"

/* From the tests of Kafka's Java client (UtilsTest). */
TEST(hash_murmur2_is_that_of_kafka)
{
    static const struct {
        const char *text;
        int32_t hash;
    } cases[] = {
        {"21", -973932308},
        {"foobar", -790332482},
        {"a-little-bit-long-string", -985981536},
        {"a-little-bit-longer-string", -1486304829},
        {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
        {"abc", 479470107},
        /* Of every length modulo four, and bytes above 127: by Utils.murmur2 of kafka-clients 4.1.1. */
        {"", 275646681},
        {"a", -1563381124},
        {"abcd", -1323649548},
        {"order", 1818166172},
        {"customer-4711", -371840612},
        {"\xff\x80\xfe\x90\xc3", 55788464},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ((int32_t)hash_murmur2(cases[i].text, strlen(cases[i].text)), cases[i].hash);
}

/* The partition is taken without the sign, not by its absolute value. */
TEST(hash_partition_masks_the_sign)
{
    CHECK_EQ(hash_partition((uint32_t)-973932308, 12), (-973932308 & 0x7fffffff) % 12);
    CHECK_EQ(hash_partition(0x80000000u, 7), 0);
    CHECK_EQ(hash_partition(0xffffffffu, 1), 0);
    for (uint32_t i = 0; i < 1000; i++)
        CHECK(hash_partition(i * 0x9e3779b9u, 3) < 3 && hash_partition(i * 0x9e3779b9u, 3) >= 0);
}

/* The published vectors of FNV-1a, 64 bits; without a topic the zero byte alone comes first. */
TEST(hash_key_is_fnv1a)
{
    CHECK(hash_key("foobar", 6, NULL, 0) == (0x85944171f73967e8u ^ 0) * 0x100000001b3u);
    CHECK(hash_key("", 0, NULL, 0) == 0xaf63bd4c8601b7dfu);
    CHECK(hash_key("a", 1, "b", 1) != hash_key("ab", 2, "", 0));
    CHECK(hash_key("a", 1, "", 0) != hash_key("", 0, "a", 1));
}
