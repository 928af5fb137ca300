/* SPDX-License-Identifier: BSD-2-Clause */
/* Does Kafka answer? One short session of the producer, for `outbox-relay check`. */
#ifndef RELAY_APP_BROKER_H
#define RELAY_APP_BROKER_H

#include <stdbool.h>
#include <stddef.h>

#include "relay/app/config.h"

/* Connect to c->kafka's brokers, on a loop of its own; blocks for at most `wait_ms` and the time that closing takes. `ret_sentence` says
 * that one answers, or why none does. */
bool broker_answers(const struct config *c, unsigned wait_ms, char *ret_sentence, size_t sentence_size);

#endif
