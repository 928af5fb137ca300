/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a conninfo leads: its hosts one after the other, each resolved by the loop's worker threads, and each of their addresses with the
 * parameters for libpq. Only for database.c. */
#ifndef RELAY_EDGE_DATABASE_TARGET_H
#define RELAY_EDGE_DATABASE_TARGET_H

#include <stdbool.h>

struct target;
struct uv_loop_s;

enum target_step {
    TARGET_ADDRESS,   /* target_params is the next thing to try */
    TARGET_RESOLVING, /* on_resolved will be called: ask again then */
    TARGET_END        /* nothing is left */
};

/* Copies its strings, keeps `loop` and `data`. Returns NULL if out of memory. A conninfo that is not valid is told by target_error. */
struct target *target_new(struct uv_loop_s *loop, const char *conninfo, const char *application, void (*on_resolved)(void *data),
                          void *data);
/* Lookups that still run end by themselves. */
void target_free(struct target *t);

/* Behind a pooler: what libpq hears about the server when it connects is the pooler's memory, which a failover makes a lie. So it is not
 * asked to look for a server that takes writes; whoever connects has to ask the server. */
void target_pool(struct target *t);
enum target_wish {
    TARGET_ANY,
    TARGET_PRIMARY,
    TARGET_READ_WRITE /* and a session whose transactions may write unless they say otherwise */
};
enum target_wish target_wish(const struct target *t); /* of the setting, if the target is pooled */

void target_rewind(struct target *t);
enum target_step target_next(struct target *t);
/* Wait no longer for the name that is being resolved. */
void target_give_up(struct target *t);

/* Lent until the next call. */
void target_params(struct target *t, const char *const **ret_names, const char *const **ret_values);
/* For people: the address that target_next led to, or the host that is being resolved; lent until the next call. */
const char *target_name(struct target *t);
/* Why the conninfo or the last host led nowhere, or NULL; lent until the next call. */
const char *target_error(const struct target *t);

#endif
