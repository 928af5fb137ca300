/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/core/pace.h"

#include <assert.h>

#include "relay/core/digest.h"

/* The wait grows with the time since rows came last, as a sixteenth of it: a row that comes after a pause waits at most 6 % of that pause
 * longer than it must, and an idle relay is at poll_max_ms within a second. */
enum {
    IDLE_SHARE = 16,
    REST_MAX_MS = 1000 /* twice what a fetch of 65 536 ranges calls for: one that stalled must not stop reading for minutes */
};

void pace_init(struct pace *p, uint32_t poll_min_ms, uint32_t poll_max_ms, uint32_t backoff_min_ms, uint32_t backoff_max_ms, uint64_t seed,
               uint64_t now_ms)
{
    assert(poll_min_ms <= poll_max_ms && backoff_min_ms <= backoff_max_ms);
    *p = (struct pace){
        .poll_min_ms = poll_min_ms,
        .poll_max_ms = poll_max_ms,
        .backoff_min_ms = backoff_min_ms,
        .backoff_max_ms = backoff_max_ms,
        .random = seed * 2 + 1,
        .busy_ms = now_ms,
    };
}

void pace_read_sent(struct pace *p, uint64_t now_ms)
{
    p->asked_ms = now_ms;
}

void pace_read_answered(struct pace *p, uint64_t now_ms, bool useful, bool full)
{
    uint64_t wait_ms, rest_ms = 3 * (now_ms - p->asked_ms);

    if (rest_ms > REST_MAX_MS)
        rest_ms = REST_MAX_MS;
    if (useful)
        p->busy_ms = now_ms;
    if (useful && full) {
        p->next_ms = now_ms;
        return;
    }
    wait_ms = (now_ms - p->busy_ms) / IDLE_SHARE;
    if (wait_ms > p->poll_max_ms || full)
        wait_ms = full ? p->poll_min_ms : p->poll_max_ms;
    if (wait_ms < p->poll_min_ms)
        wait_ms = p->poll_min_ms;
    /* Counted from the question, so that polls are poll_min_ms apart and not that plus their duration. */
    p->next_ms = p->asked_ms + wait_ms;
    if (p->next_ms < now_ms + rest_ms && rest_ms > 3)
        p->next_ms = now_ms + rest_ms;
}

void pace_read_now(struct pace *p, uint64_t now_ms)
{
    p->next_ms = now_ms;
}

uint64_t pace_read_due_ms(const struct pace *p)
{
    return p->next_ms;
}

uint32_t pace_backoff_ms(struct pace *p, uint32_t attempts)
{
    uint64_t limit_ms = (uint64_t)p->backoff_min_ms << (attempts < 20 ? attempts : 20);

    if (limit_ms > p->backoff_max_ms)
        limit_ms = p->backoff_max_ms;
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (uint32_t)(p->random % (limit_ms + 1));
}

/* All of them times `stuck_ms`, a second. */
enum {
    SLOW_TURN = 10,   /* a wait is forgotten after one to two turns with acknowledgements */
    SLOW_MAX = 10,    /* a wait longer than half of it is an outage, which says nothing of the next one */
    ATTEMPTS_MAX = 5, /* 32 s; librdkafka gives a request up after 30 */
    PATIENCE = 2      /* times the longest wait */
};

void pace_acked(struct pace *p, uint64_t now_ms, uint64_t waited_ms, uint32_t stuck_ms)
{
    /* Nothing is remembered of a Kafka that is quick. */
    if (waited_ms * PATIENCE <= stuck_ms)
        waited_ms = 0;
    if (waited_ms == 0 && p->slow_ms == 0 && p->slow_before_ms == 0)
        return;
    if (now_ms >= p->slow_turn_ms) {
        p->slow_before_ms = p->slow_ms;
        p->slow_ms = 0;
        p->slow_turn_ms = now_ms + (uint64_t)SLOW_TURN * stuck_ms;
    }
    if (waited_ms > p->slow_ms)
        p->slow_ms = waited_ms;
}

uint64_t pace_patience_ms(const struct pace *p, uint32_t stuck_ms, uint32_t attempts)
{
#ifdef MUTANT_NO_PATIENCE
    return stuck_ms;
#else
    uint64_t learnt_ms = PATIENCE * (p->slow_ms > p->slow_before_ms ? p->slow_ms : p->slow_before_ms);
    uint64_t tried_ms = (uint64_t)stuck_ms << (attempts < ATTEMPTS_MAX ? attempts : ATTEMPTS_MAX);

    if (learnt_ms > (uint64_t)SLOW_MAX * stuck_ms)
        learnt_ms = (uint64_t)SLOW_MAX * stuck_ms;
    return learnt_ms > tried_ms ? learnt_ms : tried_ms;
#endif
}

uint64_t pace_digest(const struct pace *p, uint64_t now_ms)
{
    uint64_t pause_ms = now_ms - p->busy_ms, longest_ms = (uint64_t)p->poll_max_ms * IDLE_SHARE, digest = digest_add(7, p->random);

    digest = digest_add_due(digest_add(digest_add(digest, p->slow_ms), p->slow_before_ms), p->slow_turn_ms, now_ms);
    /* Beyond it a pause changes nothing any more. */
    return digest_add_due(digest_add(digest, pause_ms < longest_ms ? pause_ms : longest_ms), p->next_ms, now_ms);
}
