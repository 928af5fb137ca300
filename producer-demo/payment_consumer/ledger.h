/* SPDX-License-Identifier: BSD-2-Clause */
/* The ledger of a way: its schema, and the effect that all ways have in common: a line in the table `entry`. Errors are logged here, once,
 * in one line. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_LEDGER_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_LEDGER_H

#include "producer-demo/payment_consumer/way.h"

/* The name of its schema: ledger_check_then_act. */
void ledger_schema_name(const struct way *way, char ret_name[64]);
/* Connect, with search_path set to the schema (which need not exist yet). NULL: the server cannot be reached; it was logged. */
PGconn *ledger_connect(struct worker *worker, const struct way *way);
/* Make the schema and its tables where they are missing; false: not possible now. */
bool ledger_prepare(PGconn *db, const struct way *way);

/* Begin a transaction, READ COMMITTED. */
enum way_result ledger_begin(struct worker *worker);
/* End it. A commit with a warning (the wait for the standby was cancelled) is WAY_LATER: done here, but perhaps nowhere else. When the
 * transaction is carried out again, and finds its own rows, its commit waits for the standby nevertheless. */
enum way_result ledger_commit(struct worker *worker);
/* Give it up; nothing if there is none. Returns what it was given, for `return ledger_rollback(worker, result)`. */
enum way_result ledger_rollback(struct worker *worker, enum way_result result);
/* Carry out a statement with text parameters, in the transaction or alone. WAY_DONE: *ret_rows has the rows, and the caller clears it
 * (PQclear); ret_rows may be NULL. Otherwise a transaction is rolled back already. */
enum way_result ledger_run(struct worker *worker, const char *sql, int values_n, const char *const *values, PGresult **ret_rows);

/* The effect: one entry for each delivery whose outcome is DELIVERY_APPLIED, in the transaction or, without one, in one of its own. */
enum way_result ledger_effect(struct worker *worker, struct delivery *const *batch, int n);

/* Arrays of PostgreSQL as text, {a,b,c}, for one parameter that stands for all of a batch. */
struct ledger_list {
    char *text;
    size_t text_n, text_max;
};

/* Add to it; `text` has no character that an array's text would need quoted. Start from a zeroed list. */
void ledger_list_add(struct ledger_list *list, const char *text);
void ledger_list_number(struct ledger_list *list, int64_t number);
const char *ledger_list_text(const struct ledger_list *list); /* "{}" if nothing was added; lent until the next call on the list */
void ledger_list_free(struct ledger_list *list);

#endif
