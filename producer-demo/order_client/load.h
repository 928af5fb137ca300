/* SPDX-License-Identifier: BSD-2-Clause */
/* What the program order-client wants: so many orders, and for some of them a refund, a cancellation or a new address. What exactly is told by
 * the seed and the order's number, so two runs with one seed want the same. */
#ifndef PRODUCER_DEMO_LOAD_H
#define PRODUCER_DEMO_LOAD_H

#include "producer-demo/order_client/client.h"

#include <stdint.h>

struct load_settings {
    struct client_settings client;
    int64_t orders;  /* in all; those that the journal has already are some of them */
    int64_t rate;    /* orders begun a second, by all threads; 0: as fast as it goes */
    int64_t threads; /* one connection each */
    int64_t refund_percent, cancel_percent, move_percent;
};

/* First what the journal left open, then the rest. Returns when everything has an end, is given up, or when patience was ended: true unless the
 * journal could not be written. */
bool load_run(const struct load_settings *settings);

#endif
