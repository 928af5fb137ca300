/* SPDX-License-Identifier: BSD-2-Clause */
#include <libpq-fe.h>

#include <assert.h>
#include <stdlib.h>

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
    const unsigned char *bytes = database_result_value(result, row, column, &n);
    uint64_t value = 0;

    if (!bytes)
        return 0;
    assert(n == 8 || n == 4 || n == 2 || n == 1);
    for (uint32_t i = 0; i < n; i++)
        value = value << 8 | bytes[i];
    return n == 8 ? (int64_t)value : n == 4 ? (int32_t)(uint32_t)value : n == 2 ? (int16_t)(uint16_t)value : (int64_t)value;
}

size_t database_result_bytes(const struct database_result *result)
{
    return PQresultMemorySize(pg_result(result));
}

void database_result_free(struct database_result *result)
{
    PQclear((PGresult *)result);
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
