/* SPDX-License-Identifier: BSD-2-Clause */
/* What the rules of the fault proxy see of a request, whichever protocol it came in. */
#ifndef TESTS_LIB_PROXY_REQUEST_H
#define TESTS_LIB_PROXY_REQUEST_H

#include <stdint.h>

#define REQUEST_TOPIC_MAX 250

struct request {
    const char *type; /* Kafka: the name of the API ("Produce"); PostgreSQL: startup, ssl, cancel, query, prepare. Constant */
    const char *text; /* PostgreSQL: "[name] statement" of each that is executed; lent, never NULL */

    /* Kafka only */
    int16_t key, version;
    int32_t correlation;
    int unanswered; /* Produce with acks=0: there will be no reply */
    /* Produce: of its first partition (librdkafka sends one in each request) */
    char topic[REQUEST_TOPIC_MAX];
    int32_t partition, partitions_n;
    int64_t producer; /* -1: not idempotent */
    int32_t sequence; /* of the first record: 0 in the first batch of a session */
};

#endif
