/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of events' ids in memory: open addressing, doubled when it is half full. Nothing is ever taken out of it. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_EVENT_SET_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_EVENT_SET_H

#include "producer-demo/lib/uuid.h"

#include <stdbool.h>
#include <stddef.h>

struct event_set { /* zeroed: empty */
    struct uuid *places;
    size_t places_n, used_n; /* places_n: a power of two, or 0 */
    bool zero;               /* the id of all zeros, which marks an empty place, is in it */
};

bool event_set_has(const struct event_set *set, struct uuid id);
/* false: it was in it already. Ends the program if there is no memory. */
bool event_set_add(struct event_set *set, struct uuid id);
size_t event_set_size(const struct event_set *set);
void event_set_clear(struct event_set *set); /* frees what it took */

#endif
