/* SPDX-License-Identifier: BSD-2-Clause */
/* What the consumer counts: the rows of its tally. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_METRICS_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_METRICS_H

#include "producer-demo/lib/tally.h"
#include "producer-demo/payment_consumer/idset.h"

enum metric {
    METRIC_DELIVERIES,
    METRIC_APPLIED,
    METRIC_SUPPRESSED,
    METRIC_LOST,
    METRIC_REDELIVERED,
    METRIC_DUPLICATES,
    METRIC_RETRIES,
    METRIC_REFUSED_TOO_OLD,
    METRIC_REFUSED_FUTURE,
    METRIC_REFUSED_UNREADABLE,
    METRIC_REFUSED_POISON,
    METRIC_OLDEST_DAY,
    METRICS_N
};

/* The tally of this way: in the folder `state`, or in memory if that is NULL or "". NULL: ret_reason says why not. */
struct tally *metrics_open(const char *state, const char *way, char *ret_reason, size_t reason_size);

/* The set of all events that were delivered, kept in the same folder. NULL: ret_reason says why not. */
struct idset *metrics_witness(const char *state, const char *way, char *ret_reason, size_t reason_size);

#endif
