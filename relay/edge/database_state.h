/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the database share; nobody else includes it. */
#ifndef RELAY_EDGE_DATABASE_STATE_H
#define RELAY_EDGE_DATABASE_STATE_H

#include <uv.h>

#include <libpq-fe.h>

#include "relay/edge/database.h"
#include "relay/edge/database_target.h"

enum database_state {
    DATABASE_CLOSED,
    DATABASE_RESOLVING,
    DATABASE_CONNECTING,
    DATABASE_READY,
    DATABASE_LOST /* closed, and on_lost is still to be told */
};

struct database {
    uv_loop_t *loop;
    struct database_callbacks callbacks;
    void *data;
    uint32_t connect_ms, deadline_ms;
    struct target *target;
    enum database_state state;
    PGconn *pg;
    uint64_t connection; /* counts connections: did a callback close ours? */
    uv_poll_t *poll;     /* on the socket; freed by its own close */
    int poll_fd;
    uv_timer_t timer;                      /* the deadline of what goes on, or the next turn of the loop when LOST */
    unsigned handles;                      /* on the loop and not closed yet */
    struct database_request *first, *last; /* not answered; the first one runs */
    bool sent;                             /* the first one; what follows waits */
    bool preparing;                        /* its statement */
    char *pooled;                          /* of the settings */
    bool piped;                            /* the first one went as a transaction of its own, which is not answered yet... */
    unsigned answers_n;                    /* ...but for so many of its statements */
    PGresult *result;                      /* of the first one, while more may come */
    const struct database_statement *prepared[DATABASE_STATEMENTS_MAX];
    unsigned prepared_n;
    char warning[6];
    char parting[300]; /* what the server said unasked, most likely why it hangs up */
    char reason[600];
    void (*on_freed)(void *data);
    void *on_freed_data;
};

/* --- database.c --- */

/* Close, and tell on the next turn of the loop. */
void database_lose(struct database *db, const char *format, ...) __attribute__((format(printf, 2, 3)));
void database_disconnect(struct database *db);
/* Watch the socket for `events`; it may have changed. Returns false if that is not possible. */
bool database_watch(struct database *db, int events, uv_poll_cb on_poll);
void database_deadline(struct database *db, uint32_t ms); /* 0: none */
void database_on_ready(uv_poll_t *poll, int status, int events);

/* Let libpq write; what it could not write yet goes out when the socket takes it. */
void database_flush(struct database *db);
/* Send the statement of `r` and its values, prepared or not. Returns 0 if libpq could not. */
int database_send_values(struct database *db, const struct database_request *r);
/* After libpq failed. */
void database_lose_by_libpq(struct database *db);
/* Keep `result`, taken, as that of the first request: of several the first error counts, else the last. */
void database_result_keep(struct database *db, PGresult *result);

/* --- database_transaction.c --- */

/* Send `r` as a transaction of its own. Returns false if libpq could not. */
bool database_transaction_send(struct database *db, const struct database_request *r);
/* Takes one more result of it. Returns true when it is over and the connection is where it was before. */
bool database_transaction_answered(struct database *db, PGresult *result);

/* --- database_connect.c --- */

void database_try_next(struct database *db);
void database_address_failed(struct database *db, const char *why);
void database_on_resolved(void *data);

#endif
