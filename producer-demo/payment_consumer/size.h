/* SPDX-License-Identifier: BSD-2-Clause */
/* What the ids of processed_messages take: messages a day x bytes x days. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_SIZE_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_SIZE_H

#include <stdint.h>
#include <stdio.h>

struct size_settings {
    const char *database; /* where to measure; "": by what is known of PostgreSQL's pages */
    int64_t messages_per_day, days;
};

/* Print the arithmetic. Returns the exit status: 0, or 2 when the database cannot be asked. */
int size_print(const struct size_settings *settings, FILE *to);

#endif
