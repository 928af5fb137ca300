/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs that end by themselves: what `outbox-relay migrate`, `check`, `help` and `version` do. They block; there is no loop beside them.
 * Each writes its outcome to `out`, its complaint to `err`, and returns the exit status. */
#ifndef RELAY_APP_VERBS_H
#define RELAY_APP_VERBS_H

#include <stdio.h>

#include "relay/app/config.h"

/* Create or upgrade the schema; with c->dry_run, print the SQL. 0, or 1 with a sentence on `err`. */
int verbs_migrate(const struct config *c, FILE *out, FILE *err);
/* Is everything as it must be: the database with its schema, and Kafka. 0, or 1 if anything was found. */
int verbs_check(const struct config *c, FILE *out, FILE *err);
int verbs_version(FILE *out);

#endif
