/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/database.h"
#include "relay/edge/outbox_bytes.h"
#include "relay/edge/outbox_sql.h"

/* A smaller result is not worth a copy: window_rows of them take less than the window's bytes. */
#define SMALL_BYTES 16384

/* A result or a block, and the rows that live in it. */
struct lent {
    struct database_result *result; /* or */
    unsigned char *block;
    size_t memory;      /* of either */
    size_t whole, live; /* row bytes at first, and now */
    uint32_t rows_n, pinned_n;
    row_slot *slots; /* every slot that was held here; those that still are name it */
    uint32_t slots_n;
    struct lent *next, *previous; /* of all */
};

/* One cache line a row: it is written when the row comes and read when it is handed, with thousands of others in between. */
struct held {
    const void *key, *payload;
    const char *headers;
    struct lent *lent; /* NULL: the slot holds nothing */
    int64_t created_ms;
    uint32_t key_n, payload_n, headers_n;
    uint32_t topic;
    bool too_large, pinned;
};
static_assert(sizeof(struct held) <= 64, "a row takes one cache line");

struct bytes {
    struct held *slots;
    uint32_t slots_max;
    size_t total;
    struct lent *first;
};

struct bytes *bytes_new(uint32_t slots_max)
{
    struct bytes *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    b->slots_max = slots_max;
    b->slots = aligned_alloc(64, slots_max * sizeof(*b->slots));
    if (!b->slots) {
        free(b);
        return NULL;
    }
    memset(b->slots, 0, slots_max * sizeof(*b->slots));
    return b;
}

static struct lent *lent_new(struct bytes *b, struct database_result *result, unsigned char *block, size_t memory, size_t whole,
                             uint32_t rows_max)
{
    struct lent *l = calloc(1, sizeof(*l));
    row_slot *slots = malloc((rows_max ? rows_max : 1) * sizeof(*slots));

    if (!l || !slots)
        abort();
    *l = (struct lent){.result = result, .block = block, .memory = memory, .whole = whole, .slots = slots, .next = b->first};
    if (b->first)
        b->first->previous = l;
    b->first = l;
    b->total += memory;
    return l;
}

static void lent_free(struct bytes *b, struct lent *l)
{
    b->total -= l->memory;
    if (l->next)
        l->next->previous = l->previous;
    if (l->previous)
        l->previous->next = l->next;
    else
        b->first = l->next;
    database_result_free(l->result);
    free(l->block);
    free(l->slots);
    free(l);
}

void bytes_free(struct bytes *b)
{
    if (!b)
        return;
    while (b->first)
        lent_free(b, b->first);
    free(b->slots);
    free(b);
}

struct lent *bytes_lend(struct bytes *b, struct database_result *result, size_t whole_bytes, uint32_t rows_n)
{
    return lent_new(b, result, NULL, database_result_bytes(result), whole_bytes, rows_n);
}

static size_t held_bytes(const struct held *h)
{
    return (size_t)h->key_n + h->payload_n + h->headers_n + OUTBOX_ROW_EXTRA;
}

static void held_join(struct bytes *b, struct lent *l, row_slot slot)
{
    b->slots[slot].lent = l;
    l->slots[l->slots_n++] = slot;
    l->rows_n++;
    l->live += held_bytes(&b->slots[slot]);
}

void bytes_hold(struct bytes *b, struct lent *l, row_slot slot, const struct outbox_row *row)
{
    assert(slot < b->slots_max && !b->slots[slot].lent);
    b->slots[slot] = (struct held){.key = row->key,
                                   .payload = row->payload,
                                   .headers = row->headers,
                                   .created_ms = row->created_ms,
                                   .key_n = row->key_n,
                                   .payload_n = row->payload_n,
                                   .headers_n = row->headers_n,
                                   .topic = row->topic,
                                   .too_large = row->too_large};
    held_join(b, l, slot);
}

static const void *move(unsigned char **at, const void *from, uint32_t n)
{
    unsigned char *to = *at;

    if (!from)
        return NULL;
    memcpy(to, from, n);
    *at += n;
    return to;
}

static size_t lent_content(const struct bytes *b, const struct lent *l)
{
    size_t n = 0;

    for (uint32_t i = 0; i < l->slots_n; i++) {
        if (b->slots[l->slots[i]].lent == l)
            n += held_bytes(&b->slots[l->slots[i]]);
    }
    return n;
}

/* Copy out what is left of `l`; without memory for that it stays as it is. */
static void survivors_move(struct bytes *b, struct lent *l)
{
    size_t content = lent_content(b, l);
    unsigned char *block = malloc(content ? content : 1), *at = block;
    struct lent *to;

    if (!block)
        return;
    to = lent_new(b, NULL, block, content, l->live, l->rows_n);
    for (uint32_t i = 0; i < l->slots_n; i++) {
        struct held *h = &b->slots[l->slots[i]];

        if (h->lent != l)
            continue;
        h->key = move(&at, h->key, h->key_n);
        h->payload = move(&at, h->payload, h->payload_n);
        h->headers = move(&at, h->headers, h->headers_n);
        held_join(b, to, l->slots[i]);
    }
    lent_free(b, l);
}

void bytes_lent(struct bytes *b, struct lent *l)
{
    if (l->rows_n == 0)
        lent_free(b, l);
    else if (l->pinned_n == 0 && l->live < l->whole / 2 && l->memory > SMALL_BYTES)
        survivors_move(b, l);
}

void bytes_row(const struct bytes *b, row_slot slot, struct outbox_row *ret_row)
{
    struct held *h = &b->slots[slot];

    assert(slot < b->slots_max && h->lent);
    if (!h->pinned)
        h->lent->pinned_n++;
    h->pinned = true;
    *ret_row = (struct outbox_row){.key = h->key,
                                   .payload = h->payload,
                                   .headers = h->headers,
                                   .key_n = h->key_n,
                                   .payload_n = h->payload_n,
                                   .headers_n = h->headers_n,
                                   .topic = h->topic,
                                   .created_ms = h->created_ms,
                                   .too_large = h->too_large};
}

void bytes_expect(const struct bytes *b, row_slot slot)
{
    __builtin_prefetch(&b->slots[slot], 1);
}

void bytes_expect_key(const struct bytes *b, row_slot slot)
{
    __builtin_prefetch(b->slots[slot].key);
}

void bytes_drop(struct bytes *b, row_slot slot)
{
    struct held *h = &b->slots[slot];
    struct lent *l = h->lent;

    assert(slot < b->slots_max && l);
    if (h->pinned)
        l->pinned_n--;
    h->lent = NULL;
    l->rows_n--;
    l->live -= held_bytes(h);
    bytes_lent(b, l);
}

size_t bytes_total(const struct bytes *b)
{
    return b->total;
}
