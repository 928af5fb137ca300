/* SPDX-License-Identifier: BSD-2-Clause */
#include <libpq-fe.h>

#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/database.h"

static const PGresult *pg_result(const struct database_result *result)
{
    return (const PGresult *)(const void *)result;
}

uint32_t database_result_rows(const struct database_result *result)
{
    return (uint32_t)PQntuples(pg_result(result));
}

uint32_t database_result_touched(const struct database_result *result)
{
    /* libpq takes it without const, and changes nothing. */
    union {
        const struct database_result *in;
        PGresult *out;
    } plain = {result};

    return (uint32_t)strtoul(PQcmdTuples(plain.out), NULL, 10);
}

const void *database_result_value(const struct database_result *result, uint32_t row, unsigned column, uint32_t *ret_bytes_n)
{
    const PGresult *r = pg_result(result);

    *ret_bytes_n = (uint32_t)PQgetlength(r, (int)row, (int)column);
    if (*ret_bytes_n == 0 && PQgetisnull(r, (int)row, (int)column))
        return NULL;
    return PQgetvalue(r, (int)row, (int)column);
}

int64_t database_result_integer(const struct database_result *result, uint32_t row, unsigned column)
{
    uint32_t n;
    const void *bytes = database_result_value(result, row, column, &n);
    uint64_t value8;
    uint32_t value4;
    uint16_t value2;

    if (!bytes)
        return 0;
    switch (n) {
    case 8:
        memcpy(&value8, bytes, 8);
        return (int64_t)be64toh(value8);
    case 4:
        memcpy(&value4, bytes, 4);
        return (int32_t)be32toh(value4);
    case 2:
        memcpy(&value2, bytes, 2);
        return (int16_t)be16toh(value2);
    default:
        assert(n == 1);
        return *(const unsigned char *)bytes;
    }
}

size_t database_result_bytes(const struct database_result *result)
{
    return PQresultMemorySize(pg_result(result));
}

void database_result_free(struct database_result *result)
{
    PQclear((PGresult *)result);
}

bool database_denied(const struct database_error *error)
{
    return strcmp(error->sqlstate, "42501") == 0;
}

const char *database_line(char *out, size_t out_size, const char *text)
{
    size_t n = 0;

    for (; *text && n + 2 < out_size; text++) {
        if (*text != '\n' && *text != '\t' && *text != '\r')
            out[n++] = *text;
        else if (n > 0 && out[n - 1] != ' ')
            out[n++] = ' ';
    }
    while (n > 0 && (out[n - 1] == ' ' || out[n - 1] == '.'))
        n--;
    out[n] = 0;
    return out;
}
