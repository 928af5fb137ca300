/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/database.h"
#include "relay/edge/outbox_bytes.h"

/* A smaller result is not worth a copy: window_rows of them take less than the window's bytes. */
#define SMALL_BYTES 16384

/* A result or a block, and the rows that live in it. */
struct lent {
    struct database_result *result; /* or */
    unsigned char *block;
    size_t memory;      /* of either */
    size_t whole, live; /* row bytes at first, and now */
    uint32_t rows_n, pinned_n;
    row_slot first;
    struct lent *next, *previous; /* of all */
};

struct held {
    struct outbox_row row;
    struct lent *lent; /* NULL: the slot holds nothing */
    row_slot next, previous;
    bool pinned;
};

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
    b->slots = calloc(slots_max, sizeof(*b->slots));
    if (!b->slots) {
        free(b);
        return NULL;
    }
    return b;
}

static struct lent *lent_new(struct bytes *b, struct database_result *result, unsigned char *block, size_t memory, size_t whole)
{
    struct lent *l = calloc(1, sizeof(*l));

    if (!l)
        abort();
    *l = (struct lent){.result = result, .block = block, .memory = memory, .whole = whole, .first = ROW_NO_SLOT, .next = b->first};
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

struct lent *bytes_lend(struct bytes *b, struct database_result *result, size_t whole_bytes)
{
    return lent_new(b, result, NULL, database_result_bytes(result), whole_bytes);
}

static void link_slot(struct bytes *b, struct lent *l, row_slot slot)
{
    struct held *h = &b->slots[slot];

    h->lent = l;
    h->previous = ROW_NO_SLOT;
    h->next = l->first;
    if (l->first != ROW_NO_SLOT)
        b->slots[l->first].previous = slot;
    l->first = slot;
    l->rows_n++;
    l->live += h->row.bytes;
}

static void unlink_slot(struct bytes *b, row_slot slot)
{
    struct held *h = &b->slots[slot];
    struct lent *l = h->lent;

    if (h->next != ROW_NO_SLOT)
        b->slots[h->next].previous = h->previous;
    if (h->previous != ROW_NO_SLOT)
        b->slots[h->previous].next = h->next;
    else
        l->first = h->next;
    l->rows_n--;
    l->live -= h->row.bytes;
    h->lent = NULL;
}

void bytes_hold(struct bytes *b, struct lent *l, row_slot slot, const struct outbox_row *row)
{
    assert(slot < b->slots_max && !b->slots[slot].lent);
    b->slots[slot].row = *row;
    b->slots[slot].pinned = false;
    link_slot(b, l, slot);
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

    for (row_slot s = l->first; s != ROW_NO_SLOT; s = b->slots[s].next)
        n += (size_t)b->slots[s].row.key_n + b->slots[s].row.payload_n + b->slots[s].row.headers_n;
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
    to = lent_new(b, NULL, block, content, l->live);
    while (l->first != ROW_NO_SLOT) {
        row_slot slot = l->first;
        struct outbox_row *row = &b->slots[slot].row;
        row->key = move(&at, row->key, row->key_n);
        row->payload = move(&at, row->payload, row->payload_n);
        row->headers = move(&at, row->headers, row->headers_n);
        unlink_slot(b, slot);
        link_slot(b, to, slot);
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
    *ret_row = h->row;
}

void bytes_drop(struct bytes *b, row_slot slot)
{
    struct held *h = &b->slots[slot];
    struct lent *l = h->lent;

    assert(slot < b->slots_max && l);
    if (h->pinned)
        l->pinned_n--;
    unlink_slot(b, slot);
    bytes_lent(b, l);
}

size_t bytes_total(const struct bytes *b)
{
    return b->total;
}
