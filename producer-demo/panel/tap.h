/* SPDX-License-Identifier: BSD-2-Clause */
/* A look into the topic, beside all consumer groups: what has arrived since the panel was started, record by record, so that one order can be
 * found in Kafka, and copies can be counted. It remembers the newest 8 192 records and no more. */
#ifndef PRODUCER_DEMO_PANEL_TAP_H
#define PRODUCER_DEMO_PANEL_TAP_H

#include <stdbool.h>
#include <stdint.h>

struct tap;

struct tap_record {
    char key[40], event_id[40]; /* the record's key (an order), its header `id` */
    char client_key[64];        /* its header `idempotency-key`, cut to fit; "" if there is none */
    int32_t partition;
    int64_t offset, at_ms; /* when it was seen here */
};

struct tap_counts {
    int64_t records, copies; /* copies: of an event that is still remembered */
};

/* NULL: ret_reason says why not. An unreachable broker is no reason: it goes on trying. */
struct tap *tap_open(const char *kafka, const char *topic, char *ret_reason, unsigned long reason_size);
void tap_close(struct tap *tap);
struct tap_counts tap_count(struct tap *tap);
/* Those of a key, oldest first, at most `max`; returns how many. Any thread. */
int tap_find(struct tap *tap, const char *key, struct tap_record *ret_records, int max);

#endif
