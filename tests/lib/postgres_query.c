/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"

#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define ANSWERS 16

/* Keep `text`, taken, until the 16th next call. */
static const char *answer_lend(char *text)
{
    static char *answers[ANSWERS];
    static unsigned next;
    if (text == NULL)
        test_fail(__FILE__, __LINE__, "out of memory");
    char **place = &answers[next++ % ANSWERS];
    free(*place);
    *place = text;
    return text;
}

static char *result_text(const PGresult *result)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return NULL;
    for (int row = 0; row < PQntuples(result); row++)
        for (int column = 0; column < PQnfields(result); column++)
            fprintf(f, "%s%s", column > 0 ? "\t" : row > 0 ? "\n" : "", PQgetvalue(result, row, column));
    fclose(f);
    return text;
}

static void notice_ignore(void *data, const PGresult *result)
{
    (void)data, (void)result;
}

/* Returns the result, taken by the caller; `ret_sql`, lent, is what ran. */
__attribute__((format(printf, 2, 0))) static PGresult *run(const char *conninfo, const char *format, va_list args, const char **ret_sql)
{
    char *sql;
    if (vasprintf(&sql, format, args) < 0)
        test_fail(__FILE__, __LINE__, "out of memory");
    *ret_sql = answer_lend(sql);
    PGconn *connection = PQconnectdb(conninfo);
    if (PQstatus(connection) != CONNECTION_OK)
        test_fail(__FILE__, __LINE__, "%s(for: %s)", PQerrorMessage(connection), sql);
    PQsetNoticeReceiver(connection, notice_ignore, NULL);
    PGresult *result = PQexec(connection, sql);
    if (result == NULL)
        test_fail(__FILE__, __LINE__, "%s(for: %s)", PQerrorMessage(connection), sql);
    PQfinish(connection);
    return result;
}

static void good(const PGresult *result, const char *sql)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY)
        test_fail(__FILE__, __LINE__, "%s(for: %s)", PQresultErrorMessage(result), sql);
}

const char *postgres_query(const char *conninfo, const char *format, ...)
{
    const char *sql;
    va_list args;
    va_start(args, format);
    PGresult *result = run(conninfo, format, args, &sql);
    va_end(args);
    good(result, sql);
    const char *text = answer_lend(result_text(result));
    PQclear(result);
    return text;
}

int64_t postgres_number(const char *conninfo, const char *format, ...)
{
    const char *sql;
    va_list args;
    va_start(args, format);
    PGresult *result = run(conninfo, format, args, &sql);
    va_end(args);
    good(result, sql);
    int64_t n = PQntuples(result) > 0 && PQnfields(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return n;
}

const char *postgres_error(const char *conninfo, const char *format, ...)
{
    const char *sql;
    va_list args;
    va_start(args, format);
    PGresult *result = run(conninfo, format, args, &sql);
    va_end(args);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = answer_lend(strdup(state != NULL ? state : ""));
    PQclear(result);
    return text;
}
