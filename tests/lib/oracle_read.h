/* SPDX-License-Identifier: BSD-2-Clause */
/* What the oracle reads before it judges: the history joined with the marks, and a dump of the topics. */
#ifndef TESTS_LIB_ORACLE_READ_H
#define TESTS_LIB_ORACLE_READ_H

#include "tests/lib/oracle.h"

#define ORACLE_NO_TOPIC UINT32_MAX

struct oracle_event {
    unsigned char event_id[16];
    uint64_t key_hash; /* of (topic, key); 0: no key, no order */
    int64_t payload_hash, version;
    int64_t marked_ms;    /* sent_at */
    int64_t first_offset; /* filled by the judge; -1: in no partition */
    uint32_t topic;       /* number in the question's `topics`, or ORACLE_NO_TOPIC */
    int32_t partition;    /* of the first copy */
    size_t name;          /* "topic/key", an offset in `names` */
    bool marked;
};

struct oracle_record {
    unsigned char event_id[16]; /* all zero: it has no header `id` that is a UUID, or several */
    uint64_t key_hash, copy_hash;
    int64_t payload_hash, offset, timestamp_ms;
    uint32_t topic;
    int32_t partition;
};

struct oracle_reading {
    struct oracle_event *event;
    size_t events_n, events_max;
    struct oracle_record *record;
    size_t records_n, records_max;
    char *names; /* strings one after the other */
    size_t names_n, names_max;
    char **topic;
    uint32_t topics_n;
};

/* Split the question's topics; then read the history, then Kafka. Each returns false with a sentence in `error`. */
bool oracle_read_history(struct oracle_reading *reading, const struct oracle_question *question, char *error, size_t error_size);
bool oracle_read_topics(struct oracle_reading *reading, const char *bootstrap, char *error, size_t error_size);
void oracle_reading_init(struct oracle_reading *reading, const char *topics);
void oracle_reading_reset(struct oracle_reading *reading);

/* realloc to hold one more element, or abort: a test has no use for half an answer. */
void *oracle_grow(void *list, size_t n, size_t *max, size_t element_size);

#endif
