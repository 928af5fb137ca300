/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of event ids with an atomic check-and-insert. In memory it is the seen-cache, and gone with the process; in a file it is the witness that
 * counts duplicates for the metrics, whatever happens to the process. It keeps 64 bits of an id, so one in 10^12 is taken for another. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_IDSET_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_IDSET_H

#include "producer-demo/lib/uuid.h"

#include <stdbool.h>
#include <stddef.h>

struct idset;

/* In `file`, of which an existing one goes on, or in memory if that is NULL. NULL: ret_reason says why not. */
struct idset *idset_open(const char *file, char *ret_reason, size_t reason_size);
void idset_close(struct idset *set);
/* Add it; false: it was there. Any thread. A set that is full (three million) says of everything new that it is new. */
bool idset_add(struct idset *set, struct uuid id);
void idset_remove(struct idset *set, struct uuid id);

#endif
