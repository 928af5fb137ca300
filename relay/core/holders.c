/* SPDX-License-Identifier: BSD-2-Clause */
/* Two lists: an answer is made into the second one beside the first, which knows how each was found before; then they change places. */
#include "relay/core/holders.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "relay/core/digest.h"
#include "relay/core/relay.h"

struct holder {
    uint64_t vxid, quiet_since;
    int64_t drew_upto;   /* its ids lie at or below; INT64_MAX: not known */
    int64_t blocks_upto; /* of the round; 0: it was not there when that began */
};

struct holders {
    _Alignas(struct holder) uint32_t max; /* the lists follow */
    uint32_t n;
    bool second; /* is the second list the one now? */
};

static struct holder *list_of(const struct holders *h, bool second)
{
    return (struct holder *)(uintptr_t)(h + 1) + (second ? h->max : 0);
}

size_t holders_size(uint32_t holders_max)
{
    return sizeof(struct holders) + 2 * (size_t)holders_max * sizeof(struct holder);
}

struct holders *holders_init(void *memory, uint32_t holders_max)
{
    struct holders *h = memory;

    memset(memory, 0, holders_size(holders_max));
    h->max = holders_max;
    return h;
}

void holders_reset(struct holders *h)
{
    h->n = 0;
}

static const struct holder *holder_find(const struct holders *h, uint64_t vxid)
{
    const struct holder *list = list_of(h, h->second);

    for (uint32_t i = 0; i < h->n; i++) {
        if (list[i].vxid == vxid)
            return &list[i];
    }
    return NULL;
}

/* Up to which id may `writer` have drawn some, who was found as `before` (NULL: not at all) in the answer before? */
static int64_t drew_upto(const struct holder *before, const struct relay_writer *writer, int64_t last_id)
{
#ifdef MUTANT_QUIET_AT_ONCE
    if (writer->quiet_since != 0 && (before == NULL || before->quiet_since != writer->quiet_since))
        return last_id; /* it may have drawn more before it was looked at */
#endif
    if (before == NULL || writer->quiet_since == 0)
        return INT64_MAX;
#ifndef MUTANT_QUIET_THOUGH_IT_ACTED
    if (before->quiet_since != writer->quiet_since)
        return INT64_MAX;
#endif
    return before->drew_upto < INT64_MAX ? before->drew_upto : last_id;
}

static int64_t blocks_upto(const struct holder *before, int64_t drew, int64_t round_upto)
{
    if (round_upto == 0)
        return before != NULL ? before->blocks_upto : 0;
#ifdef MUTANT_QUIET_BLOCKS_NOTHING
    if (drew < INT64_MAX)
        return 0;
#endif
    return drew < round_upto ? drew : round_upto;
}

static uint32_t blocking_n(const struct holders *h)
{
    const struct holder *list = list_of(h, h->second);
    uint32_t n = 0;

    for (uint32_t i = 0; i < h->n; i++)
        n += list[i].blocks_upto > 0;
    return n;
}

void holders_see(struct holders *h, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n, int64_t round_upto)
{
    struct holder *next = list_of(h, !h->second);
    uint32_t kept = 0, blocking = round_upto == 0 ? blocking_n(h) : 0; /* those of the round always find room */

    assert(round_upto == 0 || (round_upto <= last_id && writers_n <= h->max));
    for (uint32_t i = 0; i < writers_n; i++) {
        const struct holder *before = holder_find(h, writers[i].vxid);
        struct holder now = {.vxid = writers[i].vxid, .quiet_since = writers[i].quiet_since};

        now.drew_upto = drew_upto(before, &writers[i], last_id);
        now.blocks_upto = blocks_upto(before, now.drew_upto, round_upto);
        if (round_upto == 0 && now.blocks_upto > 0)
            blocking--;
        else if (kept + blocking >= h->max || (now.blocks_upto == 0 && now.quiet_since == 0))
            continue;
        next[kept++] = now;
    }
    h->n = kept;
    h->second = !h->second;
}

int64_t holders_block_upto(const struct holders *h)
{
    const struct holder *list = list_of(h, h->second);
    int64_t upto = 0;

    for (uint32_t i = 0; i < h->n; i++)
        upto = list[i].blocks_upto > upto ? list[i].blocks_upto : upto;
    return upto;
}

int64_t holders_quiet_block_upto(const struct holders *h)
{
    const struct holder *list = list_of(h, h->second);
    int64_t upto = 0;

    for (uint32_t i = 0; i < h->n; i++) {
        if (list[i].drew_upto < INT64_MAX && list[i].blocks_upto > upto)
            upto = list[i].blocks_upto;
    }
    return upto;
}

uint64_t holders_digest(const struct holders *h)
{
    const struct holder *list = list_of(h, h->second);
    uint64_t digest = digest_add(11, h->n);

    for (uint32_t i = 0; i < h->n; i++) {
        digest = digest_add(digest_add(digest, list[i].vxid), list[i].quiet_since);
        digest = digest_add(digest_add(digest, (uint64_t)list[i].drew_upto), (uint64_t)list[i].blocks_upto);
    }
    return digest;
}
