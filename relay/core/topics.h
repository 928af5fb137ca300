/* SPDX-License-Identifier: BSD-2-Clause */
/* The topics in use, their pinned partition counts, and a number for each lane: a topic-partition that rows go to. A second number, its
 * probe lane, is for rows that may be refused: they go through a session of their own.
 *
 *   ASKING --learned--> OPEN --missing, forbidden, fewer partitions than pinned--> CLOSED --learned--> OPEN
 *
 * A key's partition is computed from the pinned count, which never follows the real one by itself: partitions that are added move no key. Rows
 * of a topic not yet known, and rows that wish for a partition which does not exist, share the topic's UNPLACED lane.
 */
#ifndef RELAY_CORE_TOPICS_H
#define RELAY_CORE_TOPICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/row.h"

struct topics;

enum topics_state {
    TOPICS_UNUSED,
    TOPICS_ASKING,
    TOPICS_OPEN,
    TOPICS_CLOSED
};

#define TOPICS_NO_LANE  UINT32_MAX
#define TOPICS_NO_TOPIC UINT32_MAX
#define TOPICS_UNPLACED (-2)

size_t topics_size(uint32_t topics_max, uint32_t lanes_max);
/* Lies in `memory` of topics_size() bytes, kept. */
struct topics *topics_init(void *memory, uint32_t topics_max, uint32_t lanes_max);

/* --- topics ------------------------------------------------------------------------------------------------------- */

enum topics_state topics_state(const struct topics *t, uint32_t topic);
/* Take `topic` into use if it is not: it is asked about at once. */
void topics_use(struct topics *t, uint64_t now_ms, uint32_t topic);
/* None of its lanes is left; its number is free. */
void topics_forget(struct topics *t, uint32_t topic);
uint32_t topics_used(const struct topics *t);
/* A topic in use, another one each time it is asked, never `but`; TOPICS_NO_TOPIC: there is none. */
uint32_t topics_next_used(struct topics *t, uint32_t but);
uint64_t topics_age(const struct topics *t, uint64_t now_ms, uint32_t topic); /* ms since it was taken into use */

/* The topic that is to be asked about now, TOPICS_NO_TOPIC if none; and when there will be one. One question at a time. */
uint32_t topics_ask(struct topics *t, uint64_t now_ms);
uint64_t topics_ask_due_ms(const struct topics *t);
/* The question that topics_ask gave out was answered: one of the next three says how. */
void topics_answered(struct topics *t);
/* Missing, or not ours to write: ask again in `delay_ms`. */
void topics_close(struct topics *t, uint64_t now_ms, uint32_t topic, uint32_t delay_ms);
void topics_open(struct topics *t, uint32_t topic, int32_t pinned_n, int32_t actual_n, uint32_t message_bytes_max);
/* It stays open and is asked about in `delay_ms`: a row wished for a partition that did not exist. */
void topics_ask_again(struct topics *t, uint64_t now_ms, uint32_t topic, uint32_t delay_ms);
uint32_t topics_attempts(const struct topics *t, uint32_t topic); /* times it was closed since something of it was acknowledged */
void topics_acked(struct topics *t, uint32_t topic);

/* The smallest limit of a message among the open topics, 0: none is known. Scans the topics. */
uint32_t topics_message_bytes_max(const struct topics *t);
uint32_t topics_limit(const struct topics *t, uint32_t topic);  /* of a message of this topic, 0: not known */
uint32_t topics_pinned(const struct topics *t, uint32_t topic); /* partitions that its keys are spread over; 0: not known */

/* --- lanes -------------------------------------------------------------------------------------------------------- */

/* The partition for a row of an open topic: its wish, or from `spread` and the pinned count. */
int32_t topics_partition(const struct topics *t, uint32_t topic, int32_t wish, uint32_t spread);
/* The partition that names its lane: the same, or TOPICS_UNPLACED where the topic is not open or the partition does not exist. */
int32_t topics_lane_partition(const struct topics *t, uint32_t topic, int32_t wish, uint32_t spread);
/* Is this partition's lane the one that its rows go to? Until the topic is known, none is told to be not. */
bool topics_places(const struct topics *t, uint32_t topic, int32_t partition);
bool topics_exists(const struct topics *t, uint32_t topic, int32_t partition);
/* Rows for partitions that did not exist may leave the UNPLACED lane, which is empty: from now on these partitions have lanes. */
void topics_place(struct topics *t, uint32_t topic);
bool topics_wants_place(const struct topics *t, uint32_t topic); /* is there such a partition? */

uint32_t topics_find_lane(const struct topics *t, uint32_t topic, int32_t partition);  /* TOPICS_NO_LANE: it has no number */
uint32_t topics_add_lane(struct topics *t, uint32_t topic, int32_t partition);         /* TOPICS_NO_LANE: no number is left */
uint32_t topics_find_probe(const struct topics *t, uint32_t topic, int32_t partition); /* the same for its probe lane */
uint32_t topics_add_probe(struct topics *t, uint32_t topic, int32_t partition);
bool topics_lane_probe(const struct topics *t, uint32_t lane); /* is it one? */
void topics_remove_lane(struct topics *t, uint32_t lane);
bool topics_lane_used(const struct topics *t, uint32_t lane);
uint32_t topics_lanes_top(const struct topics *t); /* lane numbers in use are below it */
uint32_t topics_lane_topic(const struct topics *t, uint32_t lane);
int32_t topics_partition_of(const struct topics *t, uint32_t lane);
uint32_t topics_first_lane(const struct topics *t, uint32_t topic); /* of its list, probe lanes too; TOPICS_NO_LANE ends it */
uint32_t topics_next_lane(const struct topics *t, uint32_t lane);

uint64_t topics_digest(const struct topics *t, uint64_t now_ms);

#endif
