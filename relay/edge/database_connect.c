/* SPDX-License-Identifier: BSD-2-Clause */
/* From an address to a connection that is ready, or to the next address. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "relay/edge/database_state.h"

void database_address_failed(struct database *db, const char *why)
{
    char line[sizeof(db->reason)];

    (void)database_line(line, sizeof(line), why);
    database_disconnect(db);
    (void)snprintf(db->reason, sizeof(db->reason), "cannot connect to the database: %.500s", line);
    database_try_next(db);
}

/* Errors that come between statements are how a server says good-bye; warnings belong to what runs. */
static void on_notice(void *data, const PGresult *notice)
{
    struct database *db = data;
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *sqlstate = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);

    if (severity && sqlstate && strcmp(severity, "WARNING") == 0)
        (void)snprintf(db->warning, sizeof(db->warning), "%s", sqlstate);
    if (severity && message && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
        (void)snprintf(db->parting, sizeof(db->parting), "%s", message);
}

static void on_connect_poll(uv_poll_t *poll, int status, int events);

static void connected(struct database *db)
{
    (void)uv_timer_stop(&db->timer);
    if (PQsetnonblocking(db->pg, 1) != 0 || !database_watch(db, UV_READABLE, database_on_ready)) {
        database_address_failed(db, "out of memory or file descriptors");
        return;
    }
    db->state = DATABASE_READY;
    db->callbacks.on_connected(db->data);
}

/* --- behind a pooler, the server itself is asked what it is ------------------------------------------------------- */

static void server_judge(struct database *db)
{
    const char *why = NULL;
    char line[500];

    if (PQresultStatus(db->result) != PGRES_TUPLES_OK || PQntuples(db->result) != 1)
        why = db->result ? PQresultErrorMessage(db->result) : PQerrorMessage(db->pg);
    else if (PQgetvalue(db->result, 0, 0)[0] == 't')
        why = "the server behind the pooler is a standby";
    else if (target_wish(db->target) == TARGET_READ_WRITE && strcmp(PQgetvalue(db->result, 0, 1), "on") == 0)
        why = "session is read-only: default_transaction_read_only is on";
    if (!why) {
        PQclear(db->result);
        db->result = NULL;
        connected(db);
        return;
    }
    (void)snprintf(line, sizeof(line), "%.400s (%.80s)", why, target_name(db->target));
    database_address_failed(db, line);
}

static void on_server_poll(uv_poll_t *poll, int status, int events)
{
    struct database *db = poll->data;

    (void)events;
    /* An error on the socket stops the watching. */
    if (!PQconsumeInput(db->pg) || (status < 0 && !database_watch(db, UV_READABLE, on_server_poll))) {
        database_address_failed(db, PQerrorMessage(db->pg));
        return;
    }
    while (!PQisBusy(db->pg)) {
        PGresult *result = PQgetResult(db->pg);
        if (!result) {
            server_judge(db);
            return;
        }
        database_result_keep(db, result);
    }
}

/* The default of server, database and role: another client may have set the session's. */
static const char server_question[] = "SELECT pg_catalog.pg_is_in_recovery(), reset_val FROM pg_catalog.pg_settings"
                                      " WHERE name OPERATOR(pg_catalog.=) 'default_transaction_read_only'";

static void server_ask(struct database *db)
{
    if (target_wish(db->target) == TARGET_ANY)
        connected(db);
    else if (!PQsendQuery(db->pg, server_question))
        database_address_failed(db, PQerrorMessage(db->pg));
    else if (!database_watch(db, UV_READABLE, on_server_poll))
        database_address_failed(db, "out of memory or file descriptors");
}

/* --- an address --------------------------------------------------------------------------------------------------- */

static void connect_step(struct database *db)
{
    PostgresPollingStatusType wants;

    if (db->poll)
        (void)uv_poll_stop(db->poll);
    wants = PQconnectPoll(db->pg);
    if (wants == PGRES_POLLING_OK)
        server_ask(db);
    else if (wants != PGRES_POLLING_READING && wants != PGRES_POLLING_WRITING)
        database_address_failed(db, PQerrorMessage(db->pg));
    else if (!database_watch(db, wants == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE, on_connect_poll))
        database_address_failed(db, "out of memory or file descriptors");
}

static void on_connect_poll(uv_poll_t *poll, int status, int events)
{
    (void)status; /* libpq finds out by itself */
    (void)events;
    connect_step(poll->data);
}

static void address_try(struct database *db)
{
    const char *const *names, *const *values;

    db->state = DATABASE_CONNECTING;
    db->parting[0] = 0;
    target_params(db->target, &names, &values);
    db->pg = PQconnectStartParams(names, values, 0);
    if (!db->pg || PQstatus(db->pg) == CONNECTION_BAD) {
        database_address_failed(db, db->pg ? PQerrorMessage(db->pg) : "out of memory");
        return;
    }
    (void)PQsetNoticeReceiver(db->pg, on_notice, db);
    database_deadline(db, db->connect_ms);
    /* As if PQconnectPoll had said so: libpq's documentation wants it. */
    if (!database_watch(db, UV_WRITABLE, on_connect_poll))
        database_address_failed(db, "out of memory or file descriptors");
}

/* Recursion is bounded by the number of addresses: it goes on only where one fails at once. */
void database_try_next(struct database *db)
{
    switch (target_next(db->target)) {
    case TARGET_ADDRESS:
        address_try(db);
        return;
    case TARGET_RESOLVING:
        db->state = DATABASE_RESOLVING;
        database_deadline(db, db->connect_ms);
        return;
    case TARGET_END:
        if (db->reason[0])
            database_lose(db, "%s", db->reason);
        else
            database_lose(db, "%s", target_error(db->target) ? target_error(db->target) : "the setting `database` names no host");
        return;
    }
}

void database_on_resolved(void *data)
{
    struct database *db = data;

    if (db->state == DATABASE_RESOLVING)
        database_try_next(db);
}

void database_connect(struct database *db)
{
    assert(db->state == DATABASE_CLOSED);
    db->reason[0] = 0;
    target_rewind(db->target);
    database_try_next(db);
}
