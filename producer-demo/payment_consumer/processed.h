/* SPDX-License-Identifier: BSD-2-Clause */
/* processed_messages: the ids whose effect is in the ledger, in a partition for each UTC day by the moment that an id carries. A copy has the same
 * id, so it meets the first in the same partition, whichever day it comes. Days are dropped whole when they are older than the retention;
 * what is older than the oldest partition can be told from a copy no more, and is refused. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_PROCESSED_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_PROCESSED_H

#include "producer-demo/lib/uuid.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#define PROCESSED_AHEAD_DAYS 2
#define PROCESSED_FUTURE_MS  600000 /* a clock may be ten minutes wrong */
#define PROCESSED_DAY_MS     INT64_C(86400000)

extern const char processed_schema[]; /* statements for the way's own schema; may be run again */

/* Make the partitions of the days from `retention_days` before now_ms to two days after it, and drop those before. The lowest day never goes back,
 * not even with a longer retention: what was dropped is forgotten. Several processes may do it at the same time. Outside a transaction.
 * false: not possible now, logged. *ret_floor_ms: where the oldest partition begins. */
bool processed_tend(PGconn *db, int64_t now_ms, int64_t retention_days, int64_t *ret_floor_ms);
/* Ask where the oldest partition begins. */
bool processed_floor(PGconn *db, int64_t *ret_floor_ms);

enum processed_verdict {
    PROCESSED_FINE,
    PROCESSED_TOO_OLD,
    PROCESSED_FUTURE
};

/* May an id be told from its copies? */
enum processed_verdict processed_judge(struct uuid id, int64_t floor_ms, int64_t now_ms);

#endif
