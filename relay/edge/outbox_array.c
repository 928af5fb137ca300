/* SPDX-License-Identifier: BSD-2-Clause */
/* The format: dimensions, whether there are NULLs, type, then for the one dimension its length and first index; then for each element its
 * length and bytes. An array without elements has no dimension. */
#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_array.h"

#define HEADER_BYTES 20

void array_put_int8(unsigned char *to, int64_t value)
{
    uint64_t big = htobe64((uint64_t)value);
    memcpy(to, &big, sizeof(big));
}

void array_put_int4(unsigned char *to, int32_t value)
{
    uint32_t big = htobe32((uint32_t)value);
    memcpy(to, &big, sizeof(big));
}

static void reserve(struct array *a, size_t more)
{
    if (a->bytes_max - a->bytes_n >= more)
        return;
    a->bytes_max = (a->bytes_n + more) * 3 / 2;
    a->bytes = realloc(a->bytes, a->bytes_max);
    /* Memory that a statement needs to be sent at all: there is nothing sane to do without it. */
    if (!a->bytes)
        abort();
}

void array_start(struct array *a, enum array_type type, uint32_t elements_n, uint32_t element_bytes)
{
    a->bytes_n = 0;
    a->elements_n = 0;
    reserve(a, HEADER_BYTES + (size_t)elements_n * (4 + (size_t)element_bytes));
    array_put_int4(a->bytes, 0);
    array_put_int4(a->bytes + 4, 0);
    array_put_int4(a->bytes + 8, (int32_t)type);
    a->bytes_n = 12;
}

/* Room for `n` more elements. Returns where they go. */
static unsigned char *elements_begin(struct array *a, uint32_t n, uint32_t element_n)
{
    size_t bytes_n = (size_t)n * (4 + (size_t)element_n);

    assert(a->bytes_n >= 12);
    if (n == 0)
        return a->bytes + a->bytes_n;
    if (a->elements_n == 0) { /* the rest of the header, for which array_start has made room */
        array_put_int4(a->bytes, 1);
        array_put_int4(a->bytes + 16, 1);
        a->bytes_n = HEADER_BYTES;
    }
    reserve(a, bytes_n);
    a->elements_n += n;
    a->bytes_n += bytes_n;
    array_put_int4(a->bytes + 12, (int32_t)a->elements_n);
    return a->bytes + a->bytes_n - bytes_n;
}

void array_add(struct array *a, const void *element, uint32_t element_n)
{
    array_add_all(a, element, 1, element_n);
}

void array_add_all(struct array *a, const void *elements, uint32_t n, uint32_t element_n)
{
    unsigned char *at = elements_begin(a, n, element_n);

    for (uint32_t i = 0; i < n; i++, at += 4 + (size_t)element_n) {
        array_put_int4(at, (int32_t)element_n);
        memcpy(at + 4, (const unsigned char *)elements + (size_t)i * element_n, element_n);
    }
}

void array_add_int8s(struct array *a, const int64_t *elements, uint32_t n)
{
    unsigned char *at = elements_begin(a, n, 8);

    for (uint32_t i = 0; i < n; i++, at += 12) {
        array_put_int4(at, 8);
        array_put_int8(at + 4, elements[i]);
    }
}

void array_add_int8(struct array *a, int64_t element)
{
    array_add_int8s(a, &element, 1);
}

void array_add_int4(struct array *a, int32_t element)
{
    unsigned char bytes[4];
    array_put_int4(bytes, element);
    array_add(a, bytes, sizeof(bytes));
}

void array_reset(struct array *a)
{
    free(a->bytes);
    memset(a, 0, sizeof(*a));
}
