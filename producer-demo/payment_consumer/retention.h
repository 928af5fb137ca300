/* SPDX-License-Identifier: BSD-2-Clause */
/* How long ids must be kept: as long as a copy may come. The broker keeps a record so long as retention.ms says, and a group may be set back to
 * its first; before that the event may have waited in the outbox. Checked when the program starts. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_RETENTION_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_RETENTION_H

#include "producer-demo/payment_consumer/way.h"

enum retention_verdict {
    RETENTION_FINE,
    RETENTION_SHORT,  /* ret_reason says by how much */
    RETENTION_UNKNOWN /* ret_reason says who did not answer; may be asked again */
};

/* Compare settings->retention_days with the topic's retention.ms and with what the outbox holds: its oldest unsent event, or settings->outbox_days
 * if that is longer. Asks Kafka and PostgreSQL, and waits for them some seconds. */
enum retention_verdict retention_check(const struct consumer_settings *settings, char *ret_reason, size_t reason_size);

/* The arithmetic alone. `topic_ms` -1: for ever. */
enum retention_verdict retention_compare(const struct consumer_settings *settings, int64_t topic_ms, int64_t outbox_ms, char *ret_reason,
                                         size_t reason_size);

#endif
