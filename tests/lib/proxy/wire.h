/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes as protocols write them: numbers of the network's order, strings with their length before them. A reader never leaves its bytes:
 * once something was missing it is `bad` and gives zeros; a buffer grows as it is written. */
#ifndef TESTS_LIB_PROXY_WIRE_H
#define TESTS_LIB_PROXY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire {
    const uint8_t *at, *end;
    bool bad;
};

struct wire wire_over(const uint8_t *bytes, size_t n); /* keeps `bytes` */
uint8_t wire_u8(struct wire *w);
int16_t wire_i16(struct wire *w);
int32_t wire_i32(struct wire *w);
int64_t wire_i64(struct wire *w);
const uint8_t *wire_skip(struct wire *w, int64_t n); /* where the next `n` bytes are; NULL: there are not so many */
/* A length in two bytes, then as many bytes. Returns where they are; NULL: the string is NULL (length -1) or missing. */
const char *wire_string(struct wire *w, size_t *ret_n);
/* Up to a zero, which is passed by. NULL: there is none. */
const char *wire_zero_string(struct wire *w);

struct bytes {
    uint8_t *list;
    size_t n, max;
};

void bytes_append(struct bytes *b, const void *more, size_t n); /* ends the program when memory does */
void bytes_i8(struct bytes *b, int value);
void bytes_i16(struct bytes *b, int16_t value);
void bytes_i32(struct bytes *b, int32_t value);
void bytes_i64(struct bytes *b, int64_t value);
void bytes_string(struct bytes *b, const char *s, size_t n); /* with a length in two bytes */
void bytes_consume(struct bytes *b, size_t n);               /* the first `n` are gone */
void bytes_reset(struct bytes *b);                           /* empty, memory given back */

void wire_put_i16(uint8_t *at, int16_t value);
void wire_put_i32(uint8_t *at, int32_t value);
void wire_put_i64(uint8_t *at, int64_t value);

#endif
