/* SPDX-License-Identifier: BSD-2-Clause */
/* One connection to PostgreSQL, through libpq, that never blocks the loop.
 *
 *   CLOSED --connect--> names, sockets, TLS, authentication --> READY --lost, or a deadline passed--> CLOSED
 *
 * Names are resolved by the loop's worker threads and every address is tried in turn, each with a deadline. Requests are answered in the
 * order in which they were sent, one statement at a time; a statement is prepared when it is first used on a connection. Parameters
 * and results are binary. Behind a transaction pooler nothing is prepared, and each statement comes in a transaction of its own, in one
 * message. A request whose answer does not come in time closes the connection: whoever stopped answering, the server or the network, would
 * hold up everything behind it. No callback runs before the call that caused it returned.
 */
#ifndef RELAY_EDGE_DATABASE_H
#define RELAY_EDGE_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct database;
struct database_result;
struct uv_loop_s;

struct database_settings {
    const char *conninfo;    /* conninfo or URI; "": libpq's own defaults. Several hosts: the first that takes writes */
    const char *application; /* shown by the server */
    uint32_t connect_ms;     /* for each address: until it counts as not answering */
    uint32_t deadline_ms;    /* for each request, likewise; 0: for ever */
    /* NULL: a session of its own. Else a transaction pooler lies in between: a statement that has a name comes in a READ COMMITTED
     * transaction of its own, which begins with this one: a SELECT that sets what the statement needs, until that transaction ends. */
    const char *pooled;
};

struct database_callbacks {
    void (*on_connected)(void *data);
    /* Closed, and nothing that was outstanding is answered. `reason` is one sentence without secrets, lent for the call. */
    void (*on_lost)(void *data, const char *reason);
};

/* Copies `settings` and its strings and `callbacks`, keeps `loop` and `data`. NULL: out of memory. */
struct database *database_new(struct uv_loop_s *loop, const struct database_settings *settings, const struct database_callbacks *callbacks,
                              void *data);
/* Closes. `on_freed` is called when the handles on the loop are gone; a name that is still being resolved may outlive it. */
void database_free(struct database *db, void (*on_freed)(void *data), void *data);

/* Whether libpq can read `conninfo`. Where it leads is not asked. */
bool database_accepts(const char *conninfo);
/* Whether it works behind a transaction pooler: those refuse the parameter `options`, which may come from PGOPTIONS, too. */
bool database_pools(const char *conninfo);

/* Answered by on_connected or on_lost. Asserts that it is closed. */
void database_connect(struct database *db);
/* At once; nothing is told any more, neither on_lost nor answers. Closing what is closed is allowed. */
void database_close(struct database *db);
bool database_ready(const struct database *db);
/* Of the server's process; 0 unless ready. */
int32_t database_backend(const struct database *db);

/* Constant for the life of the program: its address is its identity. */
struct database_statement {
    const char *name; /* of the prepared statement; NULL: not prepared, no parameters, may be several statements with text results */
    const char *sql;
};

struct database_value {
    const void *bytes; /* binary; NULL: NULL */
    size_t bytes_n;
};

struct database_error {
    char sqlstate[6];
    const char *message; /* one line */
};

/* Whether a privilege was missing. */
bool database_denied(const struct database_error *error);

#define DATABASE_VALUES_MAX     10
#define DATABASE_STATEMENTS_MAX 24 /* prepared on one connection */

/* Lives with the caller, who leaves it and what it points to alone until `done`. */
struct database_request {
    const struct database_statement *statement;
    struct database_value values[DATABASE_VALUES_MAX];
    unsigned values_n;
    bool patient; /* without the connection's deadline: it may wait for others, and the server says so if it ends */
    /* `result` is taken (database_result_free); NULL: the statement failed and was rolled back, the connection lives, `error` says why,
     * lent for the call. */
    void (*done)(void *data, struct database_result *result, const struct database_error *error);
    void *data;
    struct database_request *next; /* the database's */
    bool busy;                     /* likewise: not answered yet */
};

/* Keeps `request` until it is answered or the connection is closed. Asserts that the connection is ready and the request is not busy. */
void database_send(struct database *db, struct database_request *request);
/* SQLSTATE of the last warning that came while the request whose `done` is running was carried out, or "". */
const char *database_warning(const struct database *db);

/* --- results ------------------------------------------------------------------------------------------------------ */

uint32_t database_result_rows(const struct database_result *result);
/* Rows that an INSERT, UPDATE or DELETE touched. */
uint32_t database_result_touched(const struct database_result *result);
/* NULL is NULL; an empty value is not. Lent until database_result_free. */
const void *database_result_value(const struct database_result *result, uint32_t row, unsigned column, uint32_t *ret_bytes_n);
/* Of 8, 4, 2 or 1 bytes, in network order; 0 for NULL. */
int64_t database_result_integer(const struct database_result *result, uint32_t row, unsigned column);
/* What it takes in memory. */
size_t database_result_bytes(const struct database_result *result);
void database_result_free(struct database_result *result); /* NULL is allowed. */

/* --- sentences ---------------------------------------------------------------------------------------------------- */

/* Copy `text` as one line without a full stop at its end. Returns `out`. */
const char *database_line(char *out, size_t out_size, const char *text);

#endif
