/* SPDX-License-Identifier: BSD-2-Clause */
/* One-dimensional arrays as PostgreSQL reads them in binary, in memory that is used again. Zeroed before the first use. */
#ifndef RELAY_EDGE_OUTBOX_ARRAY_H
#define RELAY_EDGE_OUTBOX_ARRAY_H

#include <stddef.h>
#include <stdint.h>

enum array_type { /* PostgreSQL's own numbers for the types of the elements */
    ARRAY_BOOL = 16,
    ARRAY_INT8 = 20,
    ARRAY_INT4 = 23,
    ARRAY_TEXT = 25,
    ARRAY_UUID = 2950
};

struct array {
    unsigned char *bytes; /* the array, ready to be sent */
    size_t bytes_n, bytes_max;
    uint32_t elements_n;
};

/* Empty it for elements of `type`, with room for `elements_n` of `element_bytes` each; more is allowed. Aborts if out of memory. */
void array_start(struct array *a, enum array_type type, uint32_t elements_n, uint32_t element_bytes);
void array_add(struct array *a, const void *element, uint32_t element_n); /* in network order */
void array_add_int8(struct array *a, int64_t element);
void array_add_int8s(struct array *a, const int64_t *elements, uint32_t n);
/* `n` elements of `element_n` bytes each, one behind the other, in network order. */
void array_add_all(struct array *a, const void *elements, uint32_t n, uint32_t element_n);
void array_add_int4(struct array *a, int32_t element);
void array_reset(struct array *a);

void array_put_int8(unsigned char *to, int64_t value); /* network order */
void array_put_int4(unsigned char *to, int32_t value);

#endif
