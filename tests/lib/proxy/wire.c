/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/proxy/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wire wire_over(const uint8_t *bytes, size_t n)
{
    return (struct wire){.at = bytes, .end = bytes + n};
}

const uint8_t *wire_skip(struct wire *w, int64_t n)
{
    const uint8_t *at = w->at;
    if (w->bad || n < 0 || n > w->end - w->at) {
        w->bad = true;
        return NULL;
    }
    w->at += n;
    return at;
}

static uint64_t number(struct wire *w, int size)
{
    const uint8_t *at = wire_skip(w, size);
    uint64_t value = 0;
    for (int i = 0; at != NULL && i < size; i++)
        value = value << 8 | at[i];
    return value;
}

uint8_t wire_u8(struct wire *w)
{
    return (uint8_t)number(w, 1);
}

int16_t wire_i16(struct wire *w)
{
    return (int16_t)(uint16_t)number(w, 2);
}

int32_t wire_i32(struct wire *w)
{
    return (int32_t)(uint32_t)number(w, 4);
}

int64_t wire_i64(struct wire *w)
{
    return (int64_t)number(w, 8);
}

const char *wire_string(struct wire *w, size_t *ret_n)
{
    int16_t n = wire_i16(w);
    *ret_n = 0;
    if (n == -1 || w->bad)
        return NULL;
    const uint8_t *at = wire_skip(w, n);
    if (at != NULL)
        *ret_n = (size_t)n;
    return (const char *)at;
}

const char *wire_zero_string(struct wire *w)
{
    const uint8_t *zero = w->bad || w->at == w->end ? NULL : memchr(w->at, 0, (size_t)(w->end - w->at));
    if (zero == NULL) {
        w->bad = true;
        return NULL;
    }
    return (const char *)wire_skip(w, zero - w->at + 1);
}

/* --- buffers ------------------------------------------------------------------------------------------------------ */

static void bytes_grow(struct bytes *b, size_t n)
{
    size_t max = b->max == 0 ? 512 : b->max;
    while (max < n)
        max *= 2;
    if (max == b->max)
        return;
    b->list = realloc(b->list, max);
    b->max = max;
    if (b->list != NULL)
        return;
    fputs("out of memory\n", stderr);
    abort();
}

void bytes_append(struct bytes *b, const void *more, size_t n)
{
    if (n == 0)
        return;
    bytes_grow(b, b->n + n);
    memcpy(b->list + b->n, more, n);
    b->n += n;
}

static void put(uint8_t *at, uint64_t value, int size)
{
    for (int i = size; i-- > 0; value >>= 8)
        at[i] = (uint8_t)value;
}

static void append_number(struct bytes *b, uint64_t value, int size)
{
    uint8_t at[8];
    put(at, value, size);
    bytes_append(b, at, (size_t)size);
}

void bytes_i8(struct bytes *b, int value)
{
    append_number(b, (uint64_t)value, 1);
}

void bytes_i16(struct bytes *b, int16_t value)
{
    append_number(b, (uint64_t)value, 2);
}

void bytes_i32(struct bytes *b, int32_t value)
{
    append_number(b, (uint64_t)value, 4);
}

void bytes_i64(struct bytes *b, int64_t value)
{
    append_number(b, (uint64_t)value, 8);
}

void bytes_string(struct bytes *b, const char *s, size_t n)
{
    bytes_i16(b, (int16_t)n);
    bytes_append(b, s, n);
}

void bytes_consume(struct bytes *b, size_t n)
{
    if (n == 0)
        return;
    memmove(b->list, b->list + n, b->n - n);
    b->n -= n;
}

void bytes_reset(struct bytes *b)
{
    free(b->list);
    *b = (struct bytes){0};
}

void wire_put_i16(uint8_t *at, int16_t value)
{
    put(at, (uint64_t)value, 2);
}

void wire_put_i32(uint8_t *at, int32_t value)
{
    put(at, (uint64_t)value, 4);
}

void wire_put_i64(uint8_t *at, int64_t value)
{
    put(at, (uint64_t)value, 8);
}
