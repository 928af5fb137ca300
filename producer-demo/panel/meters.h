/* SPDX-License-Identifier: BSD-2-Clause */
/* What the services count themselves, from their /metrics: the page shows what only they know (deliveries, suppressed copies, latencies, who
 * holds the lease). Used by the sampler's thread alone, except meters_forget. */
#ifndef PRODUCER_DEMO_PANEL_METERS_H
#define PRODUCER_DEMO_PANEL_METERS_H

#include "producer-demo/panel/books.h"

#include <jansson.h>
#include <stdbool.h>

struct meters;

struct meters *meters_open(const char *folder); /* lent; see place.h */
void meters_close(struct meters *meters);
/* Ask all that run; each may take 400 ms at most. */
void meters_read(struct meters *meters);
/* From the next reading on, count from zero. Any thread. */
void meters_forget(struct meters *meters);

/* What was read last; the caller's. Of a way: {answered, deliveries, applied, suppressed, lost, duplicates, refused, p50_us, p99_us}, the
 * latencies of the last minute. */
json_t *meters_way(const struct meters *meters, int way);
json_t *
meters_relays(const struct meters *meters); /* [{name, answered, leads, published, republished, held_keys, database_up, kafka_up}] */
json_t *meters_service(const struct meters *meters); /* {answered, replays, mismatches, conflicts} */

#endif
