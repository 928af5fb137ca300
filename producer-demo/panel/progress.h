/* SPDX-License-Identifier: BSD-2-Clause */
/* How far each consumer group has come, so that what a ledger does not have *yet* is not taken for lost: the offsets a group has committed are
 * compared with where the topic ended a moment ago. */
#ifndef PRODUCER_DEMO_PANEL_PROGRESS_H
#define PRODUCER_DEMO_PANEL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress;

/* `groups` are the names of n groups, lent until it returns. NULL: ret_reason says why not. An unreachable broker is no reason. */
struct progress *progress_open(const char *kafka, const char *topic, const char *const *groups, int groups_n, char *ret_reason,
                               unsigned long reason_size);
void progress_close(struct progress *progress);

struct progress_group {
    int64_t settled_ms; /* since 1970: what was in the topic then was delivered and committed some seconds ago; 0: unknown */
    int64_t lag;        /* records between its offsets and the topic's end; -1: unknown */
};

/* Of the group with that number. Any thread. */
struct progress_group progress_look(struct progress *progress, int group);
/* Did the broker answer within the last seconds? */
bool progress_broker_is_up(struct progress *progress);

#endif
