/* SPDX-License-Identifier: BSD-2-Clause */
/* A way of protecting oneself from messages that come twice: one per file, way_NAME.c, each as short as its lesson. The frame (worker.c) does what
 * is the same for all: reads a batch, refuses what cannot be read, calls apply until it is done, commits the offsets. So all ways have the
 * same stream and the same faults, and differ in what stands in apply. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_WAY_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_WAY_H

#include "producer-demo/lib/uuid.h"

#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The settings of the program; texts are lent from argv for ever, NULL or "" where they were not given. */
struct consumer_settings {
    const char *way, *database, *kafka, *topic, *group, *listen, *card_url, *redis, *state;
    int64_t workers, batch, commit_interval_ms, retention_days, outbox_days, redeliver_percent, seed, redis_ttl_s;
    bool retention_unchecked;
};

/* What became of a delivery. The frame sets DELIVERY_APPLIED before each apply, which changes it where it was not so. */
enum delivery_outcome {
    DELIVERY_APPLIED,
    DELIVERY_SUPPRESSED, /* a copy, recognised */
    DELIVERY_LOST,       /* its offset is committed, its effect will never be */
    DELIVERY_RETURNED    /* nothing was done: its partition has another owner, who reads it again */
};

/* One record, given once to one worker. Texts end with a zero and live as long as the delivery. */
struct delivery {
    struct uuid event_id, order_id;
    char event_text[37], order_text[37]; /* the two, printed */
    const char *type;                    /* order-placed, order-moved, order-cancelled, order-refunded */
    const char *key, *client_id;         /* the client's own idempotency key and its scope, from the headers; "" where none came */
    int64_t version, delta_cents, balance_cents;
    const char *payload;    /* as it came */
    size_t payload_n, size; /* `size`: of all of it */
    int32_t partition;
    int64_t offset;
    bool copied;            /* by the fault "redeliver", to a worker that does not own its partition; the owner has it at the same moment */
    const char *unreadable; /* NULL, or what is wrong with the record: a literal; no way sees such a one */
    enum delivery_outcome outcome;
};

/* One thread with a consumer of its own in the group and a connection of its own. */
struct worker {
    const struct consumer_settings *settings;
    int number;           /* 0, 1, ... */
    PGconn *db;           /* connected, outside any transaction, whenever open or apply is called; search_path is the way's schema */
    rd_kafka_t *consumer; /* subscribed; apply must not poll it */
    unsigned assignments; /* times that `consumer` was given partitions. A batch is of the last; what is known of others' work is older */
    void *own;            /* the way's, for this worker */
    bool warned;          /* ledger.c: the last commit came with a warning */
};

enum way_result {
    WAY_DONE,  /* each delivery's outcome is set; the offsets may be committed */
    WAY_LATER, /* nothing happened, or nobody knows what: the frame waits a little, sees to the connection, and calls again with the same */
    WAY_POISON /* nothing happened, and will not: what a delivery says cannot be applied. The frame halves the batch; one alone is refused */
};

struct way {
    const char *name, *what; /* one line for --help */
    bool needs_real_kafka;   /* transactions: the embedded broker is not enough */
    bool commits_offsets;    /* apply does it (offsets_commit, or in a transaction) and passes the two points there: the frame does not */
    bool keeps_ids;          /* has processed_messages, and needs --retention-days */
    /* Statements that make the ledger in its own schema, when run for the first or for the tenth time; they end with the view
     * balance(order_id uuid, cents bigint). NULL: table `entry` and its sum. */
    const char *schema;
    /* Make what the worker needs, in worker->own. false: not yet (a peer is away); called again. NULL: nothing is needed. */
    bool (*open)(struct worker *worker);
    /* Apply n > 0 deliveries. May reorder the array, and must leave no transaction open, whatever it returns. */
    enum way_result (*apply)(struct worker *worker, struct delivery **batch, int n);
    void (*close)(struct worker *worker); /* after the last apply, if open returned true. NULL: nothing to do */
};

extern const struct way way_none, way_seen_cache, way_check_then_act, way_redis_before, way_redis_after, way_kafka_eos, way_at_most_once;
extern const struct way way_unique, way_version, way_passthrough, way_kafka_to_kafka;

/* By its name; NULL: there is none. */
const struct way *way_find(const char *name);
/* All of them: NULL after the last. */
const struct way *way_at(int i);

/* --- what ways have in common --------------------------------------------------------------------------------------- */

/* The points that every way has: `between` the two steps of the way, where it is vulnerable; `before-offsets` and `after-offsets` around the
 * commit of the offsets. */
#define POINT_BETWEEN        "between"
#define POINT_BEFORE_OFFSETS "before-offsets"
#define POINT_AFTER_OFFSETS  "after-offsets"

/* Sort by event_id, and call a delivery suppressed whose event stands before it already. */
void deliveries_sort(struct delivery **batch, int n);
/* How many have this outcome. */
int deliveries_count(struct delivery *const *batch, int n, enum delivery_outcome outcome);
/* The first delivery of that event in a sorted batch: the one that is not suppressed. NULL: there is none. */
struct delivery *deliveries_find(struct delivery *const *batch, int n, const char *event_text);

enum offsets_result {
    OFFSETS_COMMITTED,
    OFFSETS_LATER, /* the broker did not answer */
    OFFSETS_GONE   /* the group has been shared out anew: whoever owns the partitions now reads on from the last commit */
};

/* Commit the offsets of these deliveries (not of copies), and wait for it; passes the points around it. For ways that commit themselves. */
enum offsets_result offsets_commit(struct worker *worker, struct delivery *const *batch, int n);

#endif
