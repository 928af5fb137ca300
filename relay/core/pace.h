/* SPDX-License-Identifier: BSD-2-Clause */
/* When to poll next and how long to back off: the only place that knows a delay. */
#ifndef RELAY_CORE_PACE_H
#define RELAY_CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
    uint32_t poll_min_ms, poll_max_ms;
    uint32_t backoff_min_ms, backoff_max_ms;
    uint64_t random;                                /* state of the jitter */
    uint64_t asked_ms;                              /* when the read on its way was sent */
    uint64_t busy_ms;                               /* when a read brought something last */
    uint64_t next_ms;                               /* when the next read may be sent */
    uint64_t slow_ms, slow_before_ms, slow_turn_ms; /* the longest waits of two turns, this one and the one before; this one's end */
};

void pace_init(struct pace *p, uint32_t poll_min_ms, uint32_t poll_max_ms, uint32_t backoff_min_ms, uint32_t backoff_max_ms, uint64_t seed,
               uint64_t now_ms);

void pace_read_sent(struct pace *p, uint64_t now_ms);
/* It brought rows that were wanted (`useful`), as many as were asked for (`full`: there is more), or none. Polls are poll_min_ms apart while
 * rows come, and the further apart the longer none came, up to poll_max_ms. A read that was not full and useful takes at most a quarter of
 * the time: with thousands of open gaps each costs milliseconds. */
void pace_read_answered(struct pace *p, uint64_t now_ms, bool useful, bool full);
void pace_read_now(struct pace *p, uint64_t now_ms);
uint64_t pace_read_due_ms(const struct pace *p);

/* A random part of min * 2^attempts, at most max: full jitter, so that many relays do not come back together. */
uint32_t pace_backoff_ms(struct pace *p, uint32_t attempts);

/* A lane waited `waited_ms` for an acknowledgement, which came. `stuck_ms`: as below. */
void pace_acked(struct pace *p, uint64_t now_ms, uint64_t waited_ms, uint32_t stuck_ms);
/* How long a lane may wait for an acknowledgement before it counts as stuck: `stuck_ms`, but twice as long as acknowledgements took lately,
 * and twice as long with each of `attempts` sessions that ended without one. Else a Kafka that is slow for good, or far away with many
 * partitions, would end every session before its first acknowledgements come: rows in doubt, and nothing else. */
uint64_t pace_patience_ms(const struct pace *p, uint32_t stuck_ms, uint32_t attempts);

uint64_t pace_digest(const struct pace *p, uint64_t now_ms);

#endif
