/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two halves of stats share: counting (stats.c) and rendering (stats_render.c). */
#ifndef RELAY_APP_STATS_STATE_H
#define RELAY_APP_STATS_STATE_H

#include "relay/app/stats.h"

/* A server with more topics in its outbox has a page of metrics that nobody can read anyway. */
#define TOPIC_LABELS 1000
#define CODE_LABELS  64

#define ACK_BUCKETS  36 /* 1 ms to 262 s */
#define MARK_BUCKETS 16 /* 1 to 32768 rows */
#define BUCKETS_MAX  ACK_BUCKETS

/* list[0], which has no text, counts as "(other)". */
struct stats_labels {
    struct stats_label {
        char *text;
        uint64_t count;
    } * list;
    size_t n, max;
};

struct stats_histogram {
    uint64_t counts[BUCKETS_MAX + 1]; /* of each bucket alone; the last one of all that is above the last bound */
    uint64_t sum;
    unsigned buckets_n;
    bool halves;
};

struct stats {
    uint32_t topics_max;
    uint32_t *topic_places; /* of a topic's number in published.list */
    struct stats_labels published, errors, sessions[RELAY_SESSIONS];
    struct stats_histogram insert_to_ack_ms, mark_batch_rows;
    uint64_t republished, fetched, marked, superseded, reconnects, start_overs, phantoms, patrol_found;
    uint64_t started_ms;
};

/* The largest value that `bucket` counts. */
uint64_t stats_bound(unsigned bucket, bool halves);

#endif
