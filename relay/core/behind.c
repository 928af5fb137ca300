/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/core/behind.h"

#include <assert.h>
#include <string.h>

#include "relay/core/digest.h"

enum record_state {
    RECORD_LIVE,
    RECORD_BEHIND,
    RECORD_COVERED
};

struct record {
    enum record_state state;
    bool suspect, probes, listed;
    uint32_t attempts, saved_attempts;
    uint32_t next, prev; /* on the list of records that are not clear */
    int64_t from;
    int64_t page_from; /* `from` when it joined the page that is asked for; 0: it did not */
    int64_t probe_upto;
    int64_t saved; /* its first unsettled id in the database; 0: it is not there */
    uint64_t retry_ms;
};

struct behind {
    _Alignas(16) uint32_t records_max; /* what lies behind is aligned too */
    uint32_t head, tail;
    uint32_t behind_n;
};

static struct record *record_at(const struct behind *b, uint32_t record)
{
    assert(record < b->records_max);
    return (struct record *)(uintptr_t)(b + 1) + record;
}

size_t behind_size(uint32_t records_max)
{
    return sizeof(struct behind) + (size_t)records_max * sizeof(struct record);
}

struct behind *behind_init(void *memory, uint32_t records_max)
{
    struct behind *b = memory;

    memset(memory, 0, behind_size(records_max));
    b->records_max = records_max;
    b->head = b->tail = BEHIND_NONE;
    return b;
}

void behind_reset(struct behind *b)
{
    uint32_t record;

    while ((record = b->head) != BEHIND_NONE) {
        b->head = record_at(b, record)->next;
        memset(record_at(b, record), 0, sizeof(struct record));
    }
    b->tail = BEHIND_NONE;
    b->behind_n = 0;
}

/* --- state -------------------------------------------------------------------------------------------------------- */

static void record_list(struct behind *b, uint32_t record)
{
    struct record *r = record_at(b, record);

    if (r->listed)
        return;
    r->listed = true;
    r->next = BEHIND_NONE;
    r->prev = b->tail;
    if (b->tail == BEHIND_NONE)
        b->head = record;
    else
        record_at(b, b->tail)->next = record;
    b->tail = record;
}

static void record_forget_past(struct record *r)
{
    r->suspect = r->probes = false;
    r->attempts = 0;
    r->probe_upto = 0;
}

static void record_unlist_if_clear(struct behind *b, uint32_t record)
{
    struct record *r = record_at(b, record);

    if (!r->listed || !behind_is_clear(b, record))
        return;
    if (r->prev == BEHIND_NONE)
        b->head = r->next;
    else
        record_at(b, r->prev)->next = r->next;
    if (r->next == BEHIND_NONE)
        b->tail = r->prev;
    else
        record_at(b, r->next)->prev = r->prev;
    r->listed = false;
    record_forget_past(r); /* the number may be given away */
}

static void record_set(struct behind *b, uint32_t record, enum record_state state)
{
    struct record *r = record_at(b, record);

    b->behind_n += (uint32_t)(state == RECORD_BEHIND) - (uint32_t)(r->state == RECORD_BEHIND);
    r->state = state;
    if (state == RECORD_LIVE)
        record_unlist_if_clear(b, record);
    else
        record_list(b, record);
}

bool behind_is(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->state == RECORD_BEHIND;
}

bool behind_covers(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->state != RECORD_LIVE;
}

bool behind_is_clear(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->state == RECORD_LIVE && record_at(b, record)->saved == 0;
}

bool behind_admits(const struct behind *b, uint32_t record, int64_t id)
{
    return record_at(b, record)->state != RECORD_BEHIND || id < record_at(b, record)->from;
}

int64_t behind_from(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->from;
}

bool behind_go(struct behind *b, uint32_t record, int64_t from, uint64_t retry_ms, bool suspect)
{
    struct record *r = record_at(b, record);
    bool is_new = r->state != RECORD_BEHIND;

    if (is_new || from < r->from)
        r->from = from;
    if (suspect)
        r->attempts++;
    r->suspect |= suspect;
    r->retry_ms = retry_ms;
    record_set(b, record, RECORD_BEHIND);
    return is_new;
}

void behind_load(struct behind *b, uint32_t record, int64_t first_id, uint32_t attempts)
{
    struct record *r = record_at(b, record);

    (void)behind_go(b, record, first_id, 0, true);
    r->probes = true;
    r->attempts = r->saved_attempts = attempts;
    r->saved = first_id;
}

void behind_probe(struct behind *b, uint32_t record, int64_t upto)
{
    struct record *r = record_at(b, record);

    assert(r->state == RECORD_BEHIND);
    r->suspect = r->probes = true;
    if (upto > r->probe_upto)
        r->probe_upto = upto;
}

bool behind_probes(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->state == RECORD_BEHIND && record_at(b, record)->probes;
}

int64_t behind_probe_upto(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->probe_upto;
}

void behind_back(struct behind *b, uint32_t record, int64_t from)
{
    assert(behind_is(b, record));
    if (from < record_at(b, record)->from)
        record_at(b, record)->from = from;
}

void behind_dissolve(struct behind *b, uint32_t record)
{
    record_at(b, record)->page_from = 0;
    record_forget_past(record_at(b, record));
    record_set(b, record, RECORD_LIVE);
}

void behind_catch_up(struct behind *b, uint32_t record)
{
    assert(behind_is(b, record));
    record_at(b, record)->page_from = 0;
    record_set(b, record, RECORD_COVERED);
}

void behind_wait(struct behind *b, uint32_t record, uint64_t retry_ms)
{
    record_at(b, record)->retry_ms = retry_ms;
}

bool behind_suspect(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->suspect;
}

uint32_t behind_attempts(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->attempts;
}

void behind_acked(struct behind *b, uint32_t record)
{
    record_forget_past(record_at(b, record));
}

uint64_t behind_retry_ms(const struct behind *b, uint32_t record)
{
    return record_at(b, record)->retry_ms;
}

/* --- pages -------------------------------------------------------------------------------------------------------- */

void behind_page_join(struct behind *b, uint32_t record)
{
    assert(behind_is(b, record));
    record_at(b, record)->page_from = record_at(b, record)->from;
}

bool behind_page_has(const struct behind *b, uint32_t record)
{
    const struct record *r = record_at(b, record);

    return r->state == RECORD_BEHIND && r->page_from != 0 && r->page_from == r->from;
}

void behind_page_move(struct behind *b, uint32_t record, int64_t from)
{
    assert(behind_page_has(b, record) && from >= record_at(b, record)->from);
    record_at(b, record)->from = from;
    record_at(b, record)->page_from = 0;
}

void behind_page_leave(struct behind *b, uint32_t record)
{
    record_at(b, record)->page_from = 0;
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

uint32_t behind_first(const struct behind *b)
{
    return b->head;
}

uint32_t behind_next(const struct behind *b, uint32_t record)
{
    assert(record_at(b, record)->listed);
    return record_at(b, record)->next;
}

uint32_t behind_n(const struct behind *b)
{
    return b->behind_n;
}

int64_t behind_save(struct behind *b, uint32_t record, int64_t first, int64_t floor)
{
    struct record *r = record_at(b, record);

#ifdef MUTANT_SAVE_FROM
    if (r->state == RECORD_BEHIND)
        return r->from;
    first = INT64_MAX;
#endif
    if (r->state == RECORD_COVERED && first > floor)
        r->state = RECORD_LIVE; /* stays listed: whether it must be deleted is seen when that is answered */
    switch (r->state) {
    case RECORD_LIVE:
        return 0;
    case RECORD_BEHIND:
        return first < r->from ? first : r->from;
    case RECORD_COVERED:
        break;
    }
    return first;
}

bool behind_is_saved(const struct behind *b, uint32_t record, int64_t first_id, uint32_t attempts)
{
    const struct record *r = record_at(b, record);

    return r->saved == first_id && (first_id == 0 || r->saved_attempts == attempts);
}

void behind_on_saved(struct behind *b, uint32_t record, int64_t first_id, uint32_t attempts)
{
    record_at(b, record)->saved = first_id;
    record_at(b, record)->saved_attempts = attempts;
    record_unlist_if_clear(b, record);
}

uint64_t behind_digest(const struct behind *b, uint64_t now_ms)
{
    uint64_t digest = digest_add(5, b->behind_n);

    for (uint32_t record = b->head; record != BEHIND_NONE; record = record_at(b, record)->next) {
        const struct record *r = record_at(b, record);

        digest = digest_add(digest_add(digest, record), (uint64_t)r->state << 2 | (uint64_t)(r->probes * 2 + r->suspect));
        digest = digest_add(digest_add(digest, r->attempts), (uint64_t)r->saved);
        digest = digest_add(digest_add(digest, r->saved_attempts), (uint64_t)r->probe_upto);
        if (r->state != RECORD_BEHIND)
            continue;
        digest = digest_add(digest_add(digest, (uint64_t)r->from), (uint64_t)r->page_from);
        digest = digest_add_due(digest, r->retry_ms, now_ms);
    }
    return digest;
}
