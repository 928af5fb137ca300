/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL for programs that may block: a few connections that threads take and give back, and statements with text parameters. A lost
 * connection is made anew when it is next taken. Whoever needs more of libpq uses libpq: these are plain PGconn. */
#ifndef PRODUCER_DEMO_STORE_H
#define PRODUCER_DEMO_STORE_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

struct store;

/* `connections` of them, none made yet. Copies both texts; `application` is what pg_stat_activity shows. */
struct store *store_open(const char *conninfo, const char *application, int connections);
void store_close(struct store *store); /* all must have been given back */

/* A connection for this thread alone, until it gives it back; waits while all are taken. NULL: the server cannot be reached, ret_reason
 * (of reason_size bytes) says why in one line. */
PGconn *store_take(struct store *store, char *ret_reason, size_t reason_size);
/* Give it back. One that is still inside a transaction, or broken, is closed: the next who takes it gets a new one. */
void store_give(struct store *store, PGconn *db);

/* Carry out one statement; waits for its end. Never NULL; the caller clears it with PQclear. `values` are texts, NULL is NULL. */
PGresult *store_query(PGconn *db, const char *sql, int values_n, const char *const *values);
/* The same for who needs no rows: true if it succeeded. When not, PQerrorMessage(db) says why. */
bool store_run(PGconn *db, const char *sql, int values_n, const char *const *values);
bool store_succeeded(const PGresult *result);
/* The five letters of an error; "08006" if the connection was lost. Lent by the result. */
const char *store_error(const PGresult *result);
/* Run statements without parameters (a schema) as one transaction; false: ret_reason says in one line what failed. */
bool store_run_script(PGconn *db, const char *sql, char *ret_reason, size_t reason_size);
/* The same, of a file. */
bool store_run_file(PGconn *db, const char *path, char *ret_reason, size_t reason_size);

#endif
