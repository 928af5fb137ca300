/* SPDX-License-Identifier: BSD-2-Clause */
/* Everything that ends a connection goes through database_lose: it closes at once and tells on the next turn of the loop, so that nobody
 * is called back from inside a call of theirs. Everything that libpq may do to its socket (TLS retries, the next protocol version) happens
 * with the poll handle stopped: epoll would otherwise keep watching a socket that is closed, under a number that is used again. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/database_state.h"

static void on_timer(uv_timer_t *timer);

/* --- the poll handle ---------------------------------------------------------------------------------------------- */

static void free_when_closed(struct database *db)
{
    if (--db->handles > 0)
        return;
    target_free(db->target);
    free(db->pooled);
    db->on_freed(db->on_freed_data);
    free(db);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct database *db = handle->data;

    free(handle);
    free_when_closed(db);
}

static void poll_close(struct database *db)
{
    if (db->poll)
        uv_close((uv_handle_t *)db->poll, on_poll_closed);
    db->poll = NULL;
}

bool database_watch(struct database *db, int events, uv_poll_cb on_poll)
{
    int fd = PQsocket(db->pg);

    if (db->poll && db->poll_fd != fd)
        poll_close(db);
    if (!db->poll) {
        uv_poll_t *poll = calloc(1, sizeof(*poll));
        if (!poll || uv_poll_init(db->loop, poll, fd) != 0) {
            free(poll);
            return false;
        }
        poll->data = db;
        db->handles++;
        db->poll = poll;
        db->poll_fd = fd;
    }
    return uv_poll_start(db->poll, events, on_poll) == 0;
}

/* --- the end of a connection -------------------------------------------------------------------------------------- */

void database_disconnect(struct database *db)
{
    poll_close(db);
    PQclear(db->result);
    db->result = NULL;
    PQfinish(db->pg);
    db->pg = NULL;
    db->connection++;
    db->prepared_n = 0;
    while (db->first) {
        db->first->busy = false;
        db->first = db->first->next;
    }
    db->last = NULL;
    db->sent = false;
    db->piped = false;
    (void)uv_timer_stop(&db->timer);
}

void database_close(struct database *db)
{
    database_disconnect(db);
    db->state = DATABASE_CLOSED;
}

void database_lose(struct database *db, const char *format, ...)
{
    char reason[sizeof(db->reason)];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    (void)database_line(db->reason, sizeof(db->reason), reason);
    database_disconnect(db);
    db->state = DATABASE_LOST;
    (void)uv_timer_start(&db->timer, on_timer, 0, 0);
}

void database_lose_by_libpq(struct database *db)
{
    const char *message = db->parting[0] ? db->parting : PQerrorMessage(db->pg);

    if (db->piped && PQresultStatus(db->result) == PGRES_FATAL_ERROR)
        message = PQresultErrorMessage(db->result);
    database_lose(db, "the connection to the database was lost: %s", message[0] ? message : "the server closed it");
}

void database_deadline(struct database *db, uint32_t ms)
{
    uv_update_time(db->loop);
    if (ms)
        (void)uv_timer_start(&db->timer, on_timer, ms, 0);
    else
        (void)uv_timer_stop(&db->timer);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static bool statement_prepared(const struct database *db, const struct database_statement *statement)
{
    for (unsigned i = 0; i < db->prepared_n; i++)
        if (db->prepared[i] == statement)
            return true;
    return false;
}

int database_send_values(struct database *db, const struct database_request *r)
{
    const char *values[DATABASE_VALUES_MAX];
    int lengths[DATABASE_VALUES_MAX], formats[DATABASE_VALUES_MAX];

    for (unsigned i = 0; i < r->values_n; i++) {
        values[i] = r->values[i].bytes;
        assert(r->values[i].bytes_n <= INT32_MAX);
        lengths[i] = (int)r->values[i].bytes_n;
        formats[i] = 1;
    }
    if (db->pooled)
        return PQsendQueryParams(db->pg, r->statement->sql, (int)r->values_n, NULL, values, lengths, formats, 1);
    return PQsendQueryPrepared(db->pg, r->statement->name, (int)r->values_n, values, lengths, formats, 1);
}

/* A large mark needs several rounds. */
void database_flush(struct database *db)
{
    int left = PQflush(db->pg);

    if (left < 0)
        database_lose_by_libpq(db);
    else if (!database_watch(db, left > 0 ? UV_READABLE | UV_WRITABLE : UV_READABLE, database_on_ready))
        database_lose(db, "the connection to the database was closed: out of memory or file descriptors");
}

static void first_send(struct database *db)
{
    const struct database_request *r = db->first;
    int sent;

    db->sent = true;
    db->warning[0] = 0;
    db->preparing = r->statement->name && !db->pooled && !statement_prepared(db, r->statement);
    if (db->pooled && r->statement->name)
        sent = database_transaction_send(db, r);
    else if (db->preparing)
        sent = PQsendPrepare(db->pg, r->statement->name, r->statement->sql, 0, NULL);
    else if (r->statement->name)
        sent = database_send_values(db, r);
    else
        sent = PQsendQuery(db->pg, r->statement->sql);
    if (!sent) {
        database_lose_by_libpq(db);
        return;
    }
    database_deadline(db, r->patient ? 0 : db->deadline_ms);
    database_flush(db);
}

void database_send(struct database *db, struct database_request *request)
{
    assert(db->state == DATABASE_READY || db->state == DATABASE_LOST);
    assert(!request->busy);
    assert(request->values_n <= DATABASE_VALUES_MAX);
    /* Lost, and the caller has not been told yet: it will be. */
    if (db->state == DATABASE_LOST)
        return;
    request->busy = true;
    request->next = NULL;
    if (db->last)
        db->last->next = request;
    else
        db->first = request;
    db->last = request;
    if (!db->sent)
        first_send(db);
}

static void first_answer(struct database *db, PGresult *result)
{
    struct database_request *r = db->first;
    ExecStatusType status = PQresultStatus(result);
    struct database_error error = {.sqlstate = "", .message = ""};
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    char line[600];

    db->first = r->next;
    if (!db->first)
        db->last = NULL;
    r->busy = false;
    db->sent = false;
    (void)uv_timer_stop(&db->timer);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY) {
        r->done(r->data, (struct database_result *)result, NULL);
        return;
    }
    (void)snprintf(error.sqlstate, sizeof(error.sqlstate), "%s", sqlstate ? sqlstate : "");
    error.message = database_line(line, sizeof(line), PQresultErrorMessage(result));
    PQclear(result);
    r->done(r->data, NULL, &error);
}

/* All results of what was sent last are here; `db->result` is the one that counts. */
static void first_complete(struct database *db)
{
    PGresult *result = db->result;
    uint64_t connection = db->connection;

    db->result = NULL;
    if (db->preparing && PQresultStatus(result) == PGRES_COMMAND_OK) {
        PQclear(result);
        assert(db->prepared_n < DATABASE_STATEMENTS_MAX);
        db->prepared[db->prepared_n++] = db->first->statement;
        first_send(db);
        return;
    }
    first_answer(db, result);
    if (db->connection == connection && db->state == DATABASE_READY && db->first && !db->sent)
        first_send(db);
}

void database_result_keep(struct database *db, PGresult *result)
{
    ExecStatusType status = PQresultStatus(db->result);

    if (db->result && (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE)) {
        PQclear(result);
        return;
    }
    PQclear(db->result);
    db->result = result;
}

static void results_read(struct database *db)
{
    while (db->state == DATABASE_READY && db->first && !PQisBusy(db->pg)) {
        PGresult *result = PQgetResult(db->pg);
        if (db->piped) {
            if (database_transaction_answered(db, result)) {
                first_complete(db);
                return;
            }
            /* Whatever came, its COMMIT did not. */
            if (PQstatus(db->pg) == CONNECTION_BAD)
                break;
        } else if (result) {
            database_result_keep(db, result);
        } else if (db->result) {
            first_complete(db);
            return; /* another request, another turn: what it gets is not here yet, or polled again */
        } else {
            break;
        }
    }
    if (db->state == DATABASE_READY && !db->first)
        (void)PQisBusy(db->pg); /* lets libpq read a good-bye */
    if (db->state == DATABASE_READY && PQstatus(db->pg) == CONNECTION_BAD)
        database_lose_by_libpq(db);
}

void database_on_ready(uv_poll_t *poll, int status, int events)
{
    struct database *db = poll->data;

    assert(db->state == DATABASE_READY);
    /* An error on the socket stops the watching, and there may be an end to read behind what is read now. */
    if (status < 0 && !database_watch(db, UV_READABLE, database_on_ready)) {
        database_lose(db, "the connection to the database was closed: out of memory or file descriptors");
        return;
    }
    if (status < 0 || (events & UV_READABLE)) {
        if (!PQconsumeInput(db->pg)) {
            (void)PQisBusy(db->pg);
            database_lose_by_libpq(db);
            return;
        }
    }
    if (events & UV_WRITABLE) {
        database_flush(db);
        if (db->state != DATABASE_READY)
            return;
    }
    results_read(db);
}

static void on_timer(uv_timer_t *timer)
{
    struct database *db = timer->data;
    char why[500];

    switch (db->state) {
    case DATABASE_LOST:
        db->state = DATABASE_CLOSED;
        db->callbacks.on_lost(db->data, db->reason);
        break;
    case DATABASE_RESOLVING:
        target_give_up(db->target);
        database_try_next(db);
        break;
    case DATABASE_CONNECTING:
        (void)snprintf(why, sizeof(why), "%.400s did not answer within %u ms", target_name(db->target), db->connect_ms);
        database_address_failed(db, why);
        break;
    case DATABASE_READY:
        database_lose(db, "the database did not answer within %u ms: the connection was closed", db->deadline_ms);
        break;
    case DATABASE_CLOSED:
        break;
    }
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct database *database_new(uv_loop_t *loop, const struct database_settings *settings, const struct database_callbacks *callbacks,
                              void *data)
{
    struct database *db = calloc(1, sizeof(*db));

    if (!db)
        return NULL;
    db->loop = loop;
    db->callbacks = *callbacks;
    db->data = data;
    db->connect_ms = settings->connect_ms;
    db->deadline_ms = settings->deadline_ms;
    db->pooled = settings->pooled ? strdup(settings->pooled) : NULL;
    db->target = target_new(loop, settings->conninfo, settings->application, database_on_resolved, db);
    if (!db->target || (settings->pooled && !db->pooled)) {
        target_free(db->target);
        free(db->pooled);
        free(db);
        return NULL;
    }
    if (db->pooled)
        target_pool(db->target);
    (void)uv_timer_init(loop, &db->timer);
    db->timer.data = db;
    db->handles = 1;
    return db;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free_when_closed(handle->data);
}

void database_free(struct database *db, void (*on_freed)(void *data), void *data)
{
    database_close(db);
    db->on_freed = on_freed;
    db->on_freed_data = data;
    uv_close((uv_handle_t *)&db->timer, on_timer_closed);
}

bool database_ready(const struct database *db)
{
    return db->state == DATABASE_READY;
}

int32_t database_backend(const struct database *db)
{
    return db->state == DATABASE_READY ? PQbackendPID(db->pg) : 0;
}

const char *database_warning(const struct database *db)
{
    return db->warning;
}
