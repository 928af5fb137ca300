/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/core/lease.h"

#include <assert.h>
#include <string.h>

#include "relay/core/digest.h"

/* How often one that waits looks, without a lock: it should not lie idle for long when the holder let go. */
enum {
    LOOK_MS = 200
};

void lease_init(struct lease *l, uint32_t ttl_ms, uint32_t margin_ms)
{
    assert(margin_ms < ttl_ms);
    memset(l, 0, sizeof *l);
    l->ttl_ms = ttl_ms;
    l->margin_ms = margin_ms;
}

bool lease_is_due(const struct lease *l, uint64_t now_ms)
{
    return !l->asking && now_ms >= l->next_ms;
}

bool lease_is_valid(const struct lease *l, uint64_t now_ms)
{
    return l->held && now_ms < l->deadline_ms;
}

uint64_t lease_due_ms(const struct lease *l)
{
    uint64_t due_ms = l->asking ? UINT64_MAX : l->next_ms;

    return l->held && l->deadline_ms < due_ms ? l->deadline_ms : due_ms;
}

bool lease_has(const struct lease *l, struct relay_token token)
{
    return l->held && memcmp(&l->token, &token, sizeof token) == 0;
}

void lease_asked(struct lease *l)
{
    assert(!l->asking);
    l->asking = true;
}

void lease_kept(struct lease *l, uint64_t asked_at_ms)
{
    assert(l->asking && l->held);
    l->asking = false;
    l->deadline_ms = asked_at_ms + l->ttl_ms - l->margin_ms;
    l->next_ms = asked_at_ms + l->ttl_ms / 3;
}

void lease_granted(struct lease *l, uint64_t asked_at_ms, struct relay_token token)
{
    l->held = true;
    l->token = token;
    l->beat = 0;
    lease_kept(l, asked_at_ms);
}

void lease_refused(struct lease *l, uint64_t now_ms)
{
    assert(l->asking && !l->held);
    l->asking = false;
    l->next_ms = now_ms + (l->ttl_ms / 10 < LOOK_MS ? l->ttl_ms / 10 : LOOK_MS);
}

void lease_seen(struct lease *l, uint64_t now_ms, int64_t beat, uint64_t beat_ttl_ms)
{
    if (beat == l->beat)
        return;
    l->beat = beat;
    l->beat_ms = now_ms;
    l->beat_ttl_ms = beat_ttl_ms;
}

int64_t lease_silent_beat(const struct lease *l, uint64_t now_ms)
{
    return now_ms - l->beat_ms > l->beat_ttl_ms + l->margin_ms ? l->beat : 0;
}

void lease_failed(struct lease *l, uint64_t retry_ms)
{
    assert(l->asking);
    l->asking = l->stale = false;
    l->next_ms = retry_ms;
}

void lease_lost(struct lease *l, uint64_t retry_ms, bool answered_no_more)
{
    l->held = false;
    l->asking = l->stale = l->asking && !answered_no_more;
    l->next_ms = retry_ms;
}

bool lease_answer_is_stale(struct lease *l)
{
    assert(l->asking);
    if (!l->stale)
        return false;
    l->asking = l->stale = false;
    return true;
}

uint64_t lease_digest(const struct lease *l, uint64_t now_ms)
{
    uint64_t digest = digest_add(6, (uint64_t)(l->held * 4 + l->asking * 2 + l->stale));

    digest = digest_add_due(digest, l->next_ms, now_ms);
    if (l->beat != 0)
        digest = digest_add_due(digest_add(digest, (uint64_t)l->beat), l->beat_ms + l->beat_ttl_ms + l->margin_ms, now_ms);
    if (!l->held)
        return digest;
    for (unsigned i = 0; i < sizeof l->token.bytes; i++)
        digest = digest_add(digest, l->token.bytes[i]);
    return digest_add_due(digest, l->deadline_ms, now_ms);
}
