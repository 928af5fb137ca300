/* SPDX-License-Identifier: BSD-2-Clause */
/* A 64-bit fingerprint built up value by value, for relay_digest: equal states, equal fingerprints. */
#ifndef RELAY_CORE_DIGEST_H
#define RELAY_CORE_DIGEST_H

#include <stdint.h>

/* `digest` with `value` added. */
static inline uint64_t digest_add(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * 0x9fb21c651e98df25u;
    return digest ^ (digest >> 32);
}

/* A moment in time counts by its distance from now: what is over is equal however long ago. */
static inline uint64_t digest_add_due(uint64_t digest, uint64_t due_ms, uint64_t now_ms)
{
    return digest_add(digest, due_ms == UINT64_MAX ? due_ms : due_ms > now_ms ? due_ms - now_ms : 0);
}

#endif
