/* SPDX-License-Identifier: BSD-2-Clause */
/* refused_messages: what was not applied, and why, for people to look at. The stream goes on without it. */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_REFUSED_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_REFUSED_H

#include "producer-demo/payment_consumer/way.h"

/* Keep one; a record that was kept before is not kept again. `reason` is a word, `detail` a sentence. *ret_new: it was not there. */
enum way_result refused_keep(struct worker *worker, const struct delivery *delivery, const char *reason, const char *detail, bool *ret_new);

#endif
