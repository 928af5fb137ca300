/* SPDX-License-Identifier: BSD-2-Clause */
/* A producer on a loop of its own, and everything that it told: how often for each row, which errors, how long the longest turn took. */
#ifndef TESTS_EDGE_PRODUCER_RIG_H
#define TESTS_EDGE_PRODUCER_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <uv.h>

#include "relay/edge/producer.h"
#include "tests/lib/test.h"

#define RIG_ROWS   250000
#define RIG_TOPICS 8

struct rig {
    uv_loop_t loop;
    struct producer *producer;

    enum relay_session session; /* that the functions below use */
    unsigned char *sessions;    /* of each slot: that it was handed to last */
    unsigned char *reports;     /* of each slot */
    unsigned char *faults;      /* of its last report */
    void *payloads[RIG_ROWS];   /* freed with their report: what reads them later is found by a sanitizer */
    uint32_t delivered_n, refused_n;
    bool repeated; /* a slot had two reports */
    bool confused; /* or one of a session that it was not handed to */
    bool early;    /* a callback came before the call that caused it returned */
    bool calling;
    uint64_t work_ns; /* that each report costs its receiver */

    /* Of the first one. Rows that wait behind a refused batch are purged by librdkafka and may be told before it: then of the batch. */
    enum relay_fault refused_fault, broken_fault;
    char refused_code[64], broken_code[64], broken_reason[400];
    unsigned broken_n, closed_n, freed_n;
    bool ends_with_session; /* on_closed frees the producer; rig_free then waits for that */
    unsigned broken_by[RELAY_SESSIONS], closed_by[RELAY_SESSIONS];

    unsigned topics_n;
    int32_t partitions_n[RIG_TOPICS]; /* -1: not told yet */
    uint32_t message_bytes_max[RIG_TOPICS];
    char topic_reason[700];

    unsigned idle_limit_n;
    uint64_t idle_limit_ms;

    int reachable; /* -1: not told yet */
    unsigned reachable_n;
    char reachable_reason[500];
    unsigned logs_n;

    uv_prepare_t turns;
    uint64_t turn_ns, longest_ns;
    struct rusage usage;
};

/* `extra`: more properties, "name=value" each, ended by NULL; or NULL. */
struct rig *rig_new(const char *bootstrap, const char *const *extra);
void rig_free(struct rig *rig); /* Closes the session if one is open; checks that nothing is left on the loop. */

void rig_turn(struct rig *rig);
#define RIG_WAIT(rig, condition, seconds) WAIT_UNTIL((rig_turn(rig), (condition)), seconds)

void rig_open(struct rig *rig, uint64_t batch_bytes);
void rig_close(struct rig *rig); /* and waits for on_closed */
/* The record that rig_publish would hand: an own payload of `payload_n` bytes that begins with the slot's number, no key, no header. */
struct producer_record rig_record(struct rig *rig, row_slot slot, const char *topic, int32_t partition, size_t payload_n);
enum relay_fault rig_hand(struct rig *rig, const struct producer_record *record);
/* Both of these, and fails the test if it is not handed. */
void rig_publish(struct rig *rig, row_slot slot, const char *topic, int32_t partition, size_t payload_n);
uint32_t rig_reports_n(const struct rig *rig);
/* Topic number 0 is learned; fails the test if it has not `partitions_n`. */
void rig_learn(struct rig *rig, const char *topic, int32_t partitions_n);

/* Reads a topic with a plain consumer, from its begin to its present end. */
struct rig_message {
    int32_t partition;
    const void *key, *payload;
    size_t key_n, payload_n;
    int64_t timestamp_ms;
    const void *native; /* rd_kafka_message_t */
};
unsigned rig_read(const char *bootstrap, const char *topic, int32_t partitions_n,
                  void (*on_message)(void *data, const struct rig_message *message), void *data);

#endif
