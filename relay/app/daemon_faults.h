/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault points of the daemon: around every action that it performs, and before every event that it tells the relay. Nothing is left of them in
 * a build without FAULTS=1. */
#ifndef RELAY_APP_DAEMON_FAULTS_H
#define RELAY_APP_DAEMON_FAULTS_H

#include "relay/app/daemon_state.h"

#ifdef FAULTS
/* At the point before `action`. Returns true if it fails instead of being performed; its failure has been told then. */
bool daemon_fault_before(struct daemon *d, const struct relay_action *action);
/* At the point after `action`: perhaps its answer is lost. */
void daemon_fault_after(struct daemon *d, const struct relay_action *action);
/* Before the relay is asked what to do: events that were lost took their connections with them. */
void daemon_fault_turn(struct daemon *d);
/* `callbacks` with a point before each; lent for ever. */
const struct outbox_callbacks *daemon_fault_outbox(const struct outbox_callbacks *callbacks);
const struct producer_callbacks *daemon_fault_producer(const struct producer_callbacks *callbacks);
#else
static inline bool daemon_fault_before(struct daemon *d, const struct relay_action *action)
{
    (void)d, (void)action;
    return false;
}

static inline void daemon_fault_after(struct daemon *d, const struct relay_action *action)
{
    (void)d, (void)action;
}

static inline void daemon_fault_turn(struct daemon *d)
{
    (void)d;
}

static inline const struct outbox_callbacks *daemon_fault_outbox(const struct outbox_callbacks *callbacks)
{
    return callbacks;
}

static inline const struct producer_callbacks *daemon_fault_producer(const struct producer_callbacks *callbacks)
{
    return callbacks;
}
#endif

#endif
