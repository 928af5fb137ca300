/* SPDX-License-Identifier: BSD-2-Clause */
/* The verb `run`: the one place that performs what the core wants, on one loop. */
#ifndef RELAY_APP_DAEMON_H
#define RELAY_APP_DAEMON_H

#include <stdbool.h>

struct config;

/* Run until a signal, or with c->drain until nothing is pending. Borrows `c`. Returns the exit status: 0; 1: rows remain, or the stop
 * overran shutdown_ms; 2: a setting is wrong, with a sentence on stderr. `ret_busy`: something still waits on a thread, for a broker say; the
 * process must end without waiting for it. */
int daemon_run(const struct config *c, bool *ret_busy);

#endif
