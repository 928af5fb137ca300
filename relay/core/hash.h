/* SPDX-License-Identifier: BSD-2-Clause */
/* The two hashes that other programs or later runs depend on; neither may ever change. */
#ifndef RELAY_CORE_HASH_H
#define RELAY_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "relay/core/row.h"

/* murmur2 as Kafka's Java client computes it: the same key goes to the same partition whoever produces. */
uint32_t hash_murmur2(const void *bytes, size_t bytes_n);

/* The partition of Java's default partitioner. `partitions_n` is positive. */
int32_t hash_partition(uint32_t murmur2, int32_t partitions_n);

/* FNV-1a, 64 bits, over the topic's name, a zero byte, and the key; never 0. It is saved: it names a key in outbox.behind. */
uint64_t hash_key(const char *topic, size_t topic_n, const void *key, size_t key_n);

/* The same over an event_id, for a row without a key: it waits for itself alone. */
uint64_t hash_event_id(const unsigned char bytes[16]);

/* What a row waits with: its key's hash, or its own. */
static inline uint64_t row_key(const struct row *row)
{
    return row->key_hash != 0 ? row->key_hash : hash_event_id(row->event_id.bytes);
}

#endif
