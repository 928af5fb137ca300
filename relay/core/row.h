/* SPDX-License-Identifier: BSD-2-Clause */
/* A row as the core knows it: enough to order it, to place it and to recognise it. Its bytes stay with the edge that read it. */
#ifndef RELAY_CORE_ROW_H
#define RELAY_CORE_ROW_H

#include <stdbool.h>
#include <stdint.h>

/* A row's number while it is in the window. Below `window_rows` of the limits. */
typedef uint32_t row_slot;
#define ROW_NO_SLOT UINT32_MAX

/* The identity of an event: a UUID made by the service. The id alone names nothing: a failover gives it out again. */
struct row_event_id {
    unsigned char bytes[16];
};

struct row {
    int64_t id;                   /* order */
    struct row_event_id event_id; /* identity */
    uint64_t key_hash;            /* of (topic, key), see core/hash.h; 0: no key, no order, it waits for itself alone */
    uint32_t spread;              /* murmur2 of the key, or of the event_id where there is none */
    uint32_t topic;               /* the caller's number for it, below `topics_max` */
    int32_t partition;            /* the row's own wish, or -1: from `spread` and the pinned count */
    uint32_t bytes;               /* what the caller holds for it */
    bool settled;                 /* marked already: read after a start only, so that gaps stay exact; only `id` counts */
};

#endif
