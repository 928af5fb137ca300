/* SPDX-License-Identifier: BSD-2-Clause */
/* Who the broker is. librdkafka's embedded one is enough for records and groups, and takes part in transactions without keeping them. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_BROKER_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_BROKER_H

enum broker_kind {
    BROKER_UNKNOWN, /* nobody answers, for now */
    BROKER_REAL,
    BROKER_EMBEDDED
};

/* Ask `kafka` (host:port); waits for the answer, 2 s at most. */
enum broker_kind broker_ask(const char *kafka);

#endif
