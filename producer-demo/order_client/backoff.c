/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_client/backoff.h"

#include <assert.h>

int64_t backoff_bound_ms(struct backoff backoff, int tries)
{
    int64_t bound_ms = backoff.base_ms;

    assert(tries >= 1 && backoff.base_ms >= 1);
    /* Stops at the cap, so that it cannot overflow. */
    for (int i = 1; i < tries && bound_ms < backoff.cap_ms; i++)
        bound_ms *= 2;
    return bound_ms < backoff.cap_ms ? bound_ms : backoff.cap_ms;
}

int64_t backoff_wait_ms(struct backoff backoff, int tries, int retry_after_s, uint64_t random)
{
    int64_t jitter_ms = (int64_t)(random % (uint64_t)(backoff_bound_ms(backoff, tries) + 1));

    return jitter_ms + (retry_after_s > 0 ? (int64_t)retry_after_s * 1000 : 0);
}
