/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of a relay's log that tell of duplicates, for attribution.c; and their times. */
#ifndef TESTS_LIB_ATTRIBUTION_LOG_H
#define TESTS_LIB_ATTRIBUTION_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum attribution_fact_kind {
    ATTRIBUTION_STOPPED, /* the closing line */
    ATTRIBUTION_HELD,    /* the lease */
    ATTRIBUTION_LEASE_LOST,
    ATTRIBUTION_STARTED_OVER,
    ATTRIBUTION_DATABASE_LOST,
    ATTRIBUTION_MARK_FAILED,
    ATTRIBUTION_MARK_WORKS, /* again; or the database does */
    ATTRIBUTION_OVERRAN,    /* an orderly stop ended with rows unmarked */
    ATTRIBUTION_SESSION_ENDED,
    ATTRIBUTION_RENEWED /* the producer of a session, by librdkafka itself, which says so with debug=eos */
};

struct attribution_fact {
    enum attribution_fact_kind kind;
    unsigned process;
    int64_t ms;
    int64_t rows;      /* in doubt; -1: the line does not say */
    int64_t beat_rows; /* acknowledged since the lease was certain last: another holder may have read them before their mark */
};

struct attribution_facts {
    struct attribution_fact *list;
    size_t n, max;
    int64_t trouble_ms; /* of the log read last: its first warning or error; 0: none */
};

/* Add the facts of one log. A last line without its end is no line. Returns false with a sentence if it cannot be read. */
bool attribution_log_read(struct attribution_facts *facts, const char *path, unsigned process, char *error, size_t error_size);
/* When a line was written, ms since 1970. Returns false if it does not begin with that. */
bool attribution_time_read(const char *line, int64_t *ret_ms);
void attribution_facts_reset(struct attribution_facts *facts);

#endif
