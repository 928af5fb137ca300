/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>

#include "relay/core/hash.h"

/* Kafka's Java client reads the key in groups of four, little end first, starts with the seed below, and masks the sign away only when
 * it takes the partition. */
uint32_t hash_murmur2(const void *bytes, size_t bytes_n)
{
    const uint32_t m = 0x5bd1e995u;
    const unsigned char *p = bytes;
    uint32_t h = 0x9747b28cu ^ (uint32_t)bytes_n;
    size_t left = bytes_n;

    for (; left >= 4; left -= 4, p += 4) {
        uint32_t k = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        k *= m;
        k ^= k >> 24;
        k *= m;
        h *= m;
        h ^= k;
    }
    if (left >= 3)
        h ^= (uint32_t)p[2] << 16;
    if (left >= 2)
        h ^= (uint32_t)p[1] << 8;
    if (left >= 1) {
        h ^= (uint32_t)p[0];
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    h ^= h >> 15;
    return h;
}

int32_t hash_partition(uint32_t murmur2, int32_t partitions_n)
{
    assert(partitions_n > 0);
    return (int32_t)(murmur2 & 0x7fffffffu) % partitions_n;
}

static uint64_t fnv1a(uint64_t h, const void *bytes, size_t bytes_n)
{
    const unsigned char *p = bytes;

    for (size_t i = 0; i < bytes_n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

uint64_t hash_key(const char *topic, size_t topic_n, const void *key, size_t key_n)
{
    uint64_t h = fnv1a(0xcbf29ce484222325u, topic, topic_n);

    h = fnv1a(h, "", 1);
    h = fnv1a(h, key, key_n);
    return h ? h : 1;
}

uint64_t hash_event_id(const unsigned char bytes[16])
{
    uint64_t h = fnv1a(0xcbf29ce484222325u, bytes, 16);

    return h ? h : 1;
}
