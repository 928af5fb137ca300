/* SPDX-License-Identifier: BSD-2-Clause */
/* One thread that tends the partitions of processed_messages, for a way that keeps ids. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_KEEPER_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_KEEPER_H

#include "producer-demo/payment_consumer/crew.h"

struct keeper;

/* Start it: it keeps crew->floor_ms, which is 0 until the partitions are there. NULL: the way keeps no ids. */
struct keeper *keeper_start(struct crew *crew);
void keeper_join(struct keeper *keeper); /* after crew->stopping was set; waits. NULL is fine */

#endif
