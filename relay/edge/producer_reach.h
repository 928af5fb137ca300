/* SPDX-License-Identifier: BSD-2-Clause */
/* Does any broker answer, and if not, why? Errors of connections only raise a doubt and give the reason; whether a question for metadata
 * is answered decides: an idle connection that a broker closes is no outage. Within the edge only. */
#ifndef RELAY_EDGE_PRODUCER_REACH_H
#define RELAY_EDGE_PRODUCER_REACH_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed before the first use: not known. */
struct reach {
    enum {
        REACH_UNKNOWN,
        REACH_GOOD,
        REACH_LOST
    } state;
    bool all_down, doubtful;
    bool told_cause; /* of this outage: more than that nobody answers */
    uint64_t doubt_since_ms;
    rd_kafka_resp_err_t trouble; /* the most telling error since a broker last answered */
    char text[300];              /* of it */
};

bool reach_is_good(const struct reach *r);

/* A doubt begins, or goes on. */
void reach_doubt(struct reach *r, uint64_t now_ms);
/* librdkafka told an error of a connection; `text` is borrowed. */
void reach_trouble(struct reach *r, rd_kafka_resp_err_t error, const char *text);

/* These three return true if it changed, which is to be told. */
bool reach_answered(struct reach *r);
bool reach_lost(struct reach *r);
/* A question was not answered; `ret_reason` is a sentence if it changed, or if only now the cause is known: a broker that was down comes
 * back with another password. */
bool reach_silent(struct reach *r, uint64_t now_ms, rd_kafka_resp_err_t error, char *ret_reason, size_t reason_size);

#endif
