/* SPDX-License-Identifier: BSD-2-Clause */
/* What the lines about PostgreSQL have in common. */
#ifndef TESTS_CRASH_LINE_POSTGRES_H
#define TESTS_CRASH_LINE_POSTGRES_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/crash/line.h"

struct held;

int line_said_times(const struct process *p, const char *words); /* in its log so far */
bool line_calm(const struct process *relay);                     /* it warned of nothing so far; librdkafka may have */

/* Relays log in as "relay" from now on, a role with the rights of outbox_relay and the `attributes` of CREATE ROLE. */
void line_role(struct line *l, const char *attributes);
/* pg_terminate_backend of all connections of relays; fails unless there were some. */
void line_terminate(struct line *l);

/* A line whose writers commit asynchronously, and where nobody but the relay writes any WAL for seconds. */
struct line *line_asynchronous(const char *name);
/* Stop the process that writes behind the commits: what it has handed to the kernel outlives a kill -9 of the server. */
void line_wal_writer_stop(struct held *inside);
/* It is stopped, and so is the relay: wait until commits are there that are in the server's memory only, and stay there. Returns bytes of WAL. */
int64_t line_gather_unwritten(struct held *inside);
/* Let the relay publish what nobody but itself has had written; strike, and when commits are there that are in the server's memory only: kill
 * -9 of the server. `asleep`, the relay, is stopped while they gather, so that the server loses some for sure; NULL: it runs, and may have them
 * written to the last. Start the server again; a hit. */
void line_kill_unwritten(struct line *l, struct process *asleep);

/* A standby of the line's server, named "standby"; relays know both hosts from now on. `settings`: as for postgres_start. */
struct postgres line_standby(struct line *l, const char *settings);
/* The line's server is gone; `standby`, running, is promoted and takes its place, for the writers and for the oracle too. Returns the last
 * id that it knew. */
int64_t line_replace(struct line *l, struct postgres *standby);

#endif
