/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/held.h"

#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

struct held {
    PGconn *connection;
    char sqlstate[6]; /* of the first error since held_send */
};

static void notice_ignore(void *data, const PGresult *result)
{
    (void)data, (void)result;
}

struct held *held_open(const char *conninfo)
{
    struct held *h = test_allocate(sizeof *h);

    h->connection = PQconnectdb(conninfo);
    if (PQstatus(h->connection) != CONNECTION_OK)
        test_fail(__FILE__, __LINE__, "%s", PQerrorMessage(h->connection));
    PQsetNoticeReceiver(h->connection, notice_ignore, NULL);
    return h;
}

void held_close(struct held *h)
{
    PQfinish(h->connection);
    h->connection = NULL;
}

static char *sql_text(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));
static char *sql_text(const char *format, va_list arguments)
{
    char *sql;

    if (vasprintf(&sql, format, arguments) < 0)
        test_fail(__FILE__, __LINE__, "out of memory");
    return sql;
}

int64_t held_number(struct held *h, const char *format, ...)
{
    va_list arguments;
    int64_t number = 0;

    va_start(arguments, format);
    char *sql = sql_text(format, arguments);
    va_end(arguments);
    PGresult *result = PQexec(h->connection, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        test_fail(__FILE__, __LINE__, "%s(for: %s)", PQerrorMessage(h->connection), sql);
    if (PQntuples(result) > 0 && PQnfields(result) > 0)
        number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    free(sql);
    return number;
}

void held_send(struct held *h, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    char *sql = sql_text(format, arguments);
    va_end(arguments);
    h->sqlstate[0] = '\0';
    if (PQsendQuery(h->connection, sql) != 1)
        test_fail(__FILE__, __LINE__, "%s(for: %s)", PQerrorMessage(h->connection), sql);
    free(sql);
}

bool held_done(struct held *h, const char **ret_sqlstate)
{
    PGresult *result;

    *ret_sqlstate = h->sqlstate;
    while (PQconsumeInput(h->connection) == 1 && PQisBusy(h->connection) == 0) {
        if ((result = PQgetResult(h->connection)) == NULL)
            return true;
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (state != NULL && h->sqlstate[0] == '\0')
            (void)snprintf(h->sqlstate, sizeof h->sqlstate, "%s", state);
        PQclear(result);
    }
    return false;
}
