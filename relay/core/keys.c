/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/core/keys.h"

#include <assert.h>
#include <string.h>

#include "relay/core/digest.h"

struct key {
    bool used;
    uint32_t topic, next; /* in its bucket, or among the free */
    uint32_t unacked;
    int64_t first_id; /* when the last save was gathered */
    uint64_t hash, since_ms;
};

struct keys {
    _Alignas(16) uint32_t keys_max, buckets_mask;
    uint32_t n, top, free;
};

static struct key *keys_of(const struct keys *k)
{
    return (struct key *)(uintptr_t)(k + 1);
}

static struct key *key_at(const struct keys *k, uint32_t key)
{
    assert(key < k->top && keys_of(k)[key].used);
    return keys_of(k) + key;
}

static uint32_t buckets_n(uint32_t keys_max)
{
    uint32_t n = 4;

    while (n < keys_max && n < (1u << 30))
        n *= 2;
    return n;
}

static uint32_t *bucket_of(const struct keys *k, uint64_t hash)
{
    return (uint32_t *)(keys_of(k) + k->keys_max) + ((hash ^ hash >> 32) & k->buckets_mask);
}

size_t keys_size(uint32_t keys_max)
{
    return sizeof(struct keys) + (size_t)keys_max * sizeof(struct key) + (size_t)buckets_n(keys_max) * sizeof(uint32_t);
}

struct keys *keys_init(void *memory, uint32_t keys_max)
{
    struct keys *k = memory;

    assert(keys_max > 0);
    memset(memory, 0, keys_size(keys_max));
    k->keys_max = keys_max;
    k->buckets_mask = buckets_n(keys_max) - 1;
    keys_reset(k);
    return k;
}

void keys_reset(struct keys *k)
{
    memset(keys_of(k), 0, k->top * sizeof(struct key));
    memset(bucket_of(k, 0), 0xff, ((size_t)k->buckets_mask + 1) * sizeof(uint32_t));
    k->n = k->top = 0;
    k->free = KEYS_NONE;
}

uint32_t keys_n(const struct keys *k)
{
    return k->n;
}

uint32_t keys_find(const struct keys *k, uint64_t hash)
{
    uint32_t key = *bucket_of(k, hash);

    while (key != KEYS_NONE && keys_of(k)[key].hash != hash)
        key = keys_of(k)[key].next;
    return key;
}

uint32_t keys_add(struct keys *k, uint64_t now_ms, uint32_t topic, uint64_t hash)
{
    uint32_t key = k->free, *bucket = bucket_of(k, hash);

    assert(keys_find(k, hash) == KEYS_NONE);
    if (key != KEYS_NONE)
        k->free = keys_of(k)[key].next;
    else if (k->top < k->keys_max)
        key = k->top++;
    else
        return KEYS_NONE;
    keys_of(k)[key] = (struct key){.used = true, .topic = topic, .hash = hash, .since_ms = now_ms, .first_id = INT64_MAX, .next = *bucket};
    *bucket = key;
    k->n++;
    return key;
}

void keys_remove(struct keys *k, uint32_t key)
{
    struct key *it = key_at(k, key);
    uint32_t *at = bucket_of(k, it->hash);

    while (*at != key)
        at = &keys_of(k)[*at].next;
    *at = it->next;
    *it = (struct key){.next = k->free};
    k->free = key;
    k->n--;
}

uint32_t keys_top(const struct keys *k)
{
    return k->top;
}

bool keys_used(const struct keys *k, uint32_t key)
{
    return key < k->top && keys_of(k)[key].used;
}

uint32_t keys_topic(const struct keys *k, uint32_t key)
{
    return key_at(k, key)->topic;
}

uint64_t keys_hash(const struct keys *k, uint32_t key)
{
    return key_at(k, key)->hash;
}

uint64_t keys_since_ms(const struct keys *k, uint32_t key)
{
    return key_at(k, key)->since_ms;
}

/* --- its rows ------------------------------------------------------------------------------------------------------ */

void keys_rows_in(struct keys *k, uint32_t key, uint32_t rows)
{
    key_at(k, key)->unacked += rows;
}

void keys_row_out(struct keys *k, uint32_t key)
{
    assert(key_at(k, key)->unacked > 0);
    key_at(k, key)->unacked--;
}

bool keys_idle(const struct keys *k, uint32_t key)
{
    return key_at(k, key)->unacked == 0;
}

void keys_firsts_begin(struct keys *k)
{
    for (uint32_t key = 0; key < k->top; key++)
        keys_of(k)[key].first_id = INT64_MAX;
}

void keys_first_see(struct keys *k, uint32_t key, int64_t id)
{
    struct key *it = key_at(k, key);

    if (id < it->first_id)
        it->first_id = id;
}

int64_t keys_first(const struct keys *k, uint32_t key)
{
    return key_at(k, key)->first_id;
}

/* Numbers do not count, the keys do: they are added up in any order. */
uint64_t keys_digest(const struct keys *k)
{
    uint64_t sum = 0;

    for (uint32_t key = 0; key < k->top; key++) {
        const struct key *it = keys_of(k) + key;
        uint64_t d = digest_add(6, it->hash);

        if (!it->used)
            continue;
        sum += digest_add(digest_add(digest_add(d, it->topic), it->unacked), key);
    }
    return digest_add(sum, k->n);
}
