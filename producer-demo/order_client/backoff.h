/* SPDX-License-Identifier: BSD-2-Clause */
/* How long to wait before the next try: exponential, with full jitter, so that clients whom one outage stopped at the same moment do not all
 * come back at the same moment. A pure function. */
#ifndef PRODUCER_DEMO_BACKOFF_H
#define PRODUCER_DEMO_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t base_ms; /* the longest wait after the first try; doubles with each try; at least 1 */
    int64_t cap_ms;  /* no wait is longer, unless the server asks for it */
};

/* The longest wait after try number `tries` (1 is the first). */
int64_t backoff_bound_ms(struct backoff backoff, int tries);
/* The wait after it: evenly spread over 0 to the bound by `random`, any 64 bits. What the server asked for (Retry-After, seconds; negative:
 * nothing) comes before that, since it is a least: come back then or later. */
int64_t backoff_wait_ms(struct backoff backoff, int tries, int retry_after_s, uint64_t random);

#endif
