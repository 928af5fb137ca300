/* SPDX-License-Identifier: BSD-2-Clause */
/* Results of the outbox's statements -> what the core is told. */
#ifndef RELAY_EDGE_OUTBOX_DECODE_H
#define RELAY_EDGE_OUTBOX_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/relay.h"
#include "relay/edge/outbox.h"

struct database_result;
struct names;

struct decode_limits {
    uint32_t rows; /* as asked for */
    uint64_t bytes;
    uint32_t row_bytes_max; /* as sent: with what is added to each row */
    bool settled;           /* the answer says which rows are */
    uint32_t small_bytes;   /* a row above it is large */
    bool small_only;        /* large rows came without their bytes: the answer ends before the first */
};

struct decode_found {
    size_t bytes; /* what the rows take together */
    bool large;   /* was any of them large? */
};

/* Fills `rows` and `found`, which have room for `limits->rows`, and `ret_read` around `rows`. found[i] is row i's bytes, pointing into the
 * result; of a settled row nothing. Returns false with a sentence in `error` if the answer is not
 * one that the statement can give. */
bool decode_read(const struct database_result *result, const struct decode_limits *limits, struct names *names, struct row *rows,
                 struct outbox_row *found, struct relay_read *ret_read, struct decode_found *ret_found, const char **error);

struct relay_token decode_token(const struct database_result *result, uint32_t row, unsigned column); /* of zeros: NULL */
/* Records of outbox.behind in the answer to a take, from its second row on; `behind` has room for all of them. Returns false if topic
 * numbers run short. */
bool decode_behind(const struct database_result *result, struct names *names, struct relay_behind *behind);

/* A timestamptz in microseconds since 2000 -> milliseconds since 1970, within what Kafka takes. */
int64_t decode_timestamp_ms(int64_t microseconds);

#endif
