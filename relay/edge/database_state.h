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

/* --- database_connect.c --- */

void database_try_next(struct database *db);
void database_address_failed(struct database *db, const char *why);
void database_on_resolved(void *data);

#endif
