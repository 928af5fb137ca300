/* SPDX-License-Identifier: BSD-2-Clause */
/* One connection on a loop of its own, for verbs that may wait: ask, and the answer is returned. */
#ifndef RELAY_EDGE_OUTBOX_VISIT_H
#define RELAY_EDGE_OUTBOX_VISIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/edge/database.h"

struct visit;

/* Connect. Returns NULL with a sentence in `error`. */
struct visit *visit_open(const struct database_settings *settings, char *error, size_t error_size);
/* Send `sql`, one or more statements, and wait: the result of the last one (text), taken by the caller; NULL with a sentence in `error`. */
struct database_result *visit_ask(struct visit *v, const char *sql, char *error, size_t error_size);
/* The same with a prepared statement and its parameters. */
struct database_result *visit_ask_prepared(struct visit *v, const struct database_statement *statement, const struct database_value *values,
                                           unsigned values_n, char *error, size_t error_size);
/* Whether the last question was refused for want of a privilege. */
bool visit_denied(const struct visit *v);
int32_t visit_backend(const struct visit *v); /* as database_backend */
void visit_close(struct visit *v);            /* NULL is allowed. */

#endif
