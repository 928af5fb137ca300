/* SPDX-License-Identifier: BSD-2-Clause */
/* What the lines of the matrix share whose faults are Kafka's. */
#ifndef TESTS_CRASH_KAFKA_LINE_H
#define TESTS_CRASH_KAFKA_LINE_H

#include "tests/crash/line.h"

/* Short waits between tries, librdkafka's (10 s) included, so that a line need not wait long after something was put right. */
#define KAFKA_LINE_QUICK "--backoff-max-ms", "500", "--kafka.reconnect.backoff.max.ms", "500"

/* A line with a broker, or brokers, of its own: `bootstrap`, borrowed. `topics` as in line_options. */
struct line *kafka_line_begin(const char *name, const char *bootstrap, const char *topics);

/* Wait until the writers have committed `events` more: the only clock of these lines. The load writes 800 a second. */
void kafka_line_pass(struct line *l, int64_t events);
/* How often a relay's log has these words so far. */
int kafka_line_told(const struct process *relay, const char *words);
/* How many lines of its log have both. */
int kafka_line_told_both(const struct process *relay, const char *words, const char *more);
/* A row of this topic with at least this id is marked. */
bool kafka_line_marked(const struct line *l, const char *topic, int64_t id);
/* Wait until rows of this topic that are committed after the call are marked. */
void kafka_line_publishing(const struct line *l, const char *topic);
int64_t kafka_line_unmarked(const struct line *l, const char *topic);
/* No key has used up an attempt, and none is held: an outage needs no operator. */
void kafka_line_check_no_attempts(const struct line *l);
/* "S" sleeping, "T" stopped, ...: the state of a process; 0: there is none. */
char kafka_line_state(pid_t pid);
/* So many letters that no compression makes small; lent to the end of the test. */
const char *kafka_line_large_text(size_t bytes);

#endif
