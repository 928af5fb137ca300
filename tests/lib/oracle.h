/* SPDX-License-Identifier: BSD-2-Clause */
/* The oracle reads PostgreSQL and Kafka, never a program's own words, and judges whether the promises were kept.
 *
 * The truth is a history table that a writer fills in the same transaction as the outbox: one line an event, with a version that counts
 * 1, 2, 3, ... for each (topic, key) and is drawn while the key is locked. The rest is every record of every partition, read uncommitted.
 *
 *   lost          committed, but in no partition                                    P1
 *   phantom       in a partition, but no transaction committed it                   P2
 *   misordered    the first occurrences of a key do not have versions 1, 2, 3, ...  P3
 *   duplicates    records beyond the first of their event: counted and listed, the caller knows which faults allow them   P4
 *   unlike        a record that is not what was committed, or not what its first copy was: key, partition, payload, headers
 *   false marks   marked in the outbox, but in no partition                         P6
 *   unmarked      in a partition, but not marked, although everything is over
 *
 * Ask it when the writers have stopped and the relay has caught up or is gone. It links neither the relay nor the harness.
 */
#ifndef TESTS_LIB_ORACLE_H
#define TESTS_LIB_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oracle_question {
    const char *database;  /* conninfo */
    const char *bootstrap; /* of Kafka */
    const char *topics;    /* names separated by commas: all that the relay may have written to */
    const char *table;     /* of the rows; NULL: outbox.event */
    const char *history;   /* (event_id uuid, topic, key text, version bigint, payload_hash bigint); NULL: demo.history */
};

struct oracle_duplicate {
    int64_t earlier_ms, later_ms; /* the records' timestamps: of the copy before, and of this one. The times of the appends only if the
                                     topic has message.timestamp.type=LogAppendTime; else both are created_at */
    int64_t marked_ms;            /* sent_at; 0: not marked, or the row is gone */
    int64_t offset;               /* of this copy */
    uint32_t topic;               /* number in `topics` */
    int32_t partition;
};

#define ORACLE_FINDINGS_MAX 16

struct oracle_verdict {
    int64_t committed, marked; /* events of the history; of these, marked (sent_at, or the row deleted) */
    int64_t records;           /* in all partitions */
    int64_t published;         /* events of the history that are in a partition */
    int64_t lost, phantoms, misordered, unlike, false_marks, unmarked;
    int64_t broken_history; /* keys whose own history has not versions 1, 2, 3, ...: the writer is at fault */
    int64_t duplicates;
    struct oracle_duplicate *duplicate; /* `duplicates` of them */
    char finding[ORACLE_FINDINGS_MAX][256];
    unsigned findings_n; /* the first few offenders, one sentence each */
};

/* Judge. Returns false with a sentence in `error` if it could not read everything. `ret_verdict` is to be given to oracle_forget. */
bool oracle_judge(const struct oracle_question *question, struct oracle_verdict *ret_verdict, char *error, size_t error_size);
void oracle_forget(struct oracle_verdict *verdict);

/* Nothing is wrong: duplicates do not count, unmarked events do. */
bool oracle_clean(const struct oracle_verdict *verdict);

/* What a writer stores as payload_hash: FNV-1a, 64 bits, as a signed number. NULL (a tombstone): 0. */
int64_t oracle_payload_hash(const void *payload, size_t payload_n);

#endif
