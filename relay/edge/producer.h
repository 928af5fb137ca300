/* SPDX-License-Identifier: BSD-2-Clause */
/* Kafka, through librdkafka: two sessions that know nothing of each other, and whose ends are ordinary events.
 *
 *   CLOSED --open--> OPEN --any bad report, or a fatal error--> BROKEN --close: purge, reports--> CLOSED
 *
 * One rd_kafka_t is one session, RELAY_MAIN or RELAY_PROBE. After the first bad report nothing may be handed to it; producer_close purges it, tells every report
 * that is left, destroys it on another thread and calls on_closed. Payloads and keys are lent until the report; nothing is copied but
 * what librdkafka itself copies (keys, headers). Reports come over librdkafka's event queue, which wakes the loop through a file
 * descriptor; topics are learned through a handle of their own on a worker thread. All callbacks run on the loop's thread, never before the
 * call that caused them returns.
 */
#ifndef RELAY_EDGE_PRODUCER_H
#define RELAY_EDGE_PRODUCER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/relay.h"

struct producer;
struct uv_loop_s;

struct producer_property {
    const char *name, *value; /* librdkafka's, without the prefix "kafka." */
};

enum producer_log_level {
    PRODUCER_LOG_ERROR,
    PRODUCER_LOG_WARNING,
    PRODUCER_LOG_INFO,
    PRODUCER_LOG_DEBUG
};

struct producer_callbacks {
    /* `later_slot` is told a few calls later, the processor may fetch it; ROW_NO_SLOT: not known. */
    void (*on_delivered)(void *data, enum relay_session session, row_slot slot, row_slot later_slot);
    /* `code` is librdkafka's name of the error ("MSG_SIZE_TOO_LARGE"), lent for the call. */
    void (*on_refused)(void *data, enum relay_session session, row_slot slot, enum relay_fault fault, const char *code);
    void (*on_broken)(void *data, enum relay_session session, enum relay_fault fault, const char *code, const char *reason);
    void (*on_closed)(void *data, enum relay_session session);
    /* partitions_n 0: `reason` says why. message_bytes_max 0: the broker did not tell. */
    void (*on_topic)(void *data, uint32_t topic, int32_t partitions_n, uint32_t message_bytes_max, const char *reason);
    /* A broker forgets producers that were silent for so long. Told for each main session, if the broker tells it. */
    void (*on_idle_limit)(void *data, uint64_t expiration_ms);
    /* Some broker answers, or none does any more; only changes are told, and once more in an outage if its cause becomes known. */
    void (*on_reachable)(void *data, bool reachable, const char *reason);
    void (*on_log)(void *data, enum producer_log_level level, const char *facility, const char *text);
};

/* Is `property` one that the relay forces or that must not be set? Returns NULL, or the reason in one sentence (static). */
const char *producer_refuses(const char *name, const char *value);
/* Would librdkafka take it? Returns false with a sentence in `error`. */
bool producer_accepts(const struct producer_property *properties, size_t properties_n, char *error, size_t error_size);

/* Copies `properties` and `callbacks`; keeps `loop` and `data`. `topics_max`: topic numbers are below it. `queue_rows`, `queue_bytes`:
 * more than the caller will ever have handed; librdkafka's own queue limits are set above them. NULL: out of memory. */
struct producer *producer_new(struct uv_loop_s *loop, const struct producer_property *properties, size_t properties_n, uint32_t topics_max,
                              uint32_t queue_rows, uint64_t queue_bytes, const struct producer_callbacks *callbacks, void *data);
/* Needs closed sessions. `on_freed` is called when the handles on the loop are gone; `p` is gone then. */
void producer_free(struct producer *p, void (*on_freed)(void *data), void *data);

/* Open `session` with batches of at most `batch_bytes` (0: as configured). Returns false with a sentence in `error`. */
bool producer_open(struct producer *p, enum relay_session session, uint64_t batch_bytes, char *error, size_t error_size);
/* End it: reports, then on_closed. */
void producer_close(struct producer *p, enum relay_session session);
bool producer_is_closed(const struct producer *p); /* Neither is open, nor ending. */

struct producer_header {
    const char *name;
    size_t name_n;
    const void *value;
    size_t value_n;
};

struct producer_record {
    row_slot slot;
    uint32_t topic;
    const char *topic_name;
    int32_t partition;
    const void *key, *payload; /* NULL: none; a NULL payload is a tombstone. Lent until the report of `slot` */
    size_t key_n, payload_n;
    int64_t timestamp_ms;
    const struct producer_header *headers; /* borrowed */
    size_t headers_n;
};

/* RELAY_FAULT_NONE: handed, a report will come. Anything else: it is in no sequence and no report comes; `ret_code` names the error
 * (static). Asserts that `session` is open and its queue not full. */
enum relay_fault producer_publish(struct producer *p, enum relay_session session, const struct producer_record *record,
                                  const char **ret_code);

/* Ask for the partitions and the size limit of `topic`. Copies `name`. Answered by on_topic. Several may be outstanding. */
void producer_learn(struct producer *p, uint32_t topic, const char *name);
/* The number is free again; nothing of it is in flight. */
void producer_forget(struct producer *p, uint32_t topic);

/* The largest message that the client's own settings let through. */
uint32_t producer_message_bytes_max(const struct producer *p);

#endif
