/* SPDX-License-Identifier: BSD-2-Clause */
/* What /metrics tells. Counters and histograms are kept here, and one of them costs nanoseconds; gauges are not kept, but taken from the
 * relay at the moment of rendering, so that none of them can be stale. The text is Prometheus's exposition format, version 0.0.4.
 *
 * Names of topics, error codes and reasons become labels. Each of these lists is bounded: what does not fit counts as "(other)". */
#ifndef RELAY_APP_STATS_H
#define RELAY_APP_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/relay.h"

struct stats;

/* `topics_max`: topic numbers are below it. NULL: out of memory. Everything is allocated here, but a copy of each label's text. */
struct stats *stats_new(uint32_t topics_max);
void stats_free(struct stats *s); /* NULL is allowed. */

/* From now on the number `topic` stands for `name`, copied; a number that was forgotten may get another name, and a name keeps its
 * count whatever its number. A number without a name counts as "(other)". */
void stats_name_topic(struct stats *s, uint32_t topic, const char *name);

/* A good report of a row of `topic`, `insert_to_ack_ms` after its created_at (below zero, between two clocks: zero). */
void stats_count_published(struct stats *s, uint32_t topic, int64_t insert_to_ack_ms);
/* A bad report or a row that could not be handed. `code` is librdkafka's name of the error, borrowed. */
void stats_count_error(struct stats *s, const char *code);
/* `session` ended; `reason` is a word or a code, one of few, borrowed. */
void stats_count_session(struct stats *s, enum relay_session session, const char *reason);
/* `rows` were handed again although Kafka may have them: the duplicates that are possible. */
void stats_count_republished(struct stats *s, uint64_t rows);
/* An answer to a fetch or a catch-up brought `rows` that got a slot. */
void stats_count_fetched(struct stats *s, uint64_t rows);
/* A mark of `rows` pairs was committed. */
void stats_count_marked(struct stats *s, uint64_t rows);
/* `rows` were marked when the lease was over: true marks, but another relay may have published these rows, too. */
void stats_count_superseded(struct stats *s, uint64_t rows);
/* RELAY_NOTE_PHANTOM and RELAY_NOTE_PATROL_FOUND. */
void stats_count_phantom(struct stats *s);
void stats_count_patrol_found(struct stats *s);
/* The database was reached again after a loss. */
void stats_count_reconnect(struct stats *s);
/* The relay started over (RELAY_NOTE_START_OVER). */
void stats_count_start_over(struct stats *s);

/* The gauges of one moment. */
struct stats_moment {
    struct relay_view view;
    uint64_t now_ms; /* of the relay's clock, for the ages of the oldest gap and key */
    bool database_up, kafka_up;
    size_t row_bytes; /* outbox_bytes() */
    uint64_t log_lines_dropped;
};

/* Render everything. `ret_text` is malloc'ed and the caller takes it. Returns false if out of memory. */
bool stats_render(const struct stats *s, const struct stats_moment *moment, char **ret_text, size_t *ret_text_n);

#endif
