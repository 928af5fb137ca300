/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may publish: one relay of an outbox table at a time, by a row in the database that names its token.
 *
 *   NONE --take--> TAKING --granted--> HELD --deadline passed, or another's token seen--> NONE
 *
 * The database's clock decides when a lease is over; ours only stops us earlier: the local deadline runs from before the question was sent,
 * by a clock that counts while the machine sleeps, and ends a margin before the lease does. A database's clock that is set back must not keep
 * a dead holder alive: one that waits also measures, by its own clock, for how long the holder's beat has not changed.
 */
#ifndef RELAY_CORE_LEASE_H
#define RELAY_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "relay/core/relay.h"

struct lease {
    uint32_t ttl_ms, margin_ms;
    bool held, asking; /* asking: a take or a beat is on its way... */
    bool stale;        /* ...whose answer says nothing any more */
    struct relay_token token;
    uint64_t deadline_ms; /* while held: nothing may be handed from then on */
    uint64_t next_ms;     /* when to take or to beat next */
    int64_t beat;         /* of another holder, as it was seen last; 0: none was seen */
    uint64_t beat_ms;     /* since when, by our clock... */
    uint64_t beat_ttl_ms; /* ...and for how long it promised to be alive */
};

void lease_init(struct lease *l, uint32_t ttl_ms, uint32_t margin_ms);

bool lease_is_due(const struct lease *l, uint64_t now_ms);       /* a take, or a beat while held */
bool lease_is_valid(const struct lease *l, uint64_t now_ms);     /* held, and the deadline lies ahead */
uint64_t lease_due_ms(const struct lease *l);                    /* the next thing that time alone does */
bool lease_has(const struct lease *l, struct relay_token token); /* held under this token? */

void lease_asked(struct lease *l);
void lease_granted(struct lease *l, uint64_t asked_at_ms, struct relay_token token);
void lease_refused(struct lease *l, uint64_t now_ms); /* another relay has it; asked again in a tenth of the ttl */
/* Another holds it, whose last beat was `beat`. */
void lease_seen(struct lease *l, uint64_t now_ms, int64_t beat, uint64_t beat_ttl_ms);
/* A beat that did not change for longer than it promised, by our clock: its sender is dead, whatever the database's clock says. 0: none. */
int64_t lease_silent_beat(const struct lease *l, uint64_t now_ms);
void lease_kept(struct lease *l, uint64_t asked_at_ms);
void lease_failed(struct lease *l, uint64_t retry_ms); /* the question failed; held or not as before */
/* Not ours any more. `answered_no_more`: what is on its way will not be answered (the connection is gone). */
void lease_lost(struct lease *l, uint64_t retry_ms, bool answered_no_more);
bool lease_answer_is_stale(struct lease *l); /* an answer came: does it say nothing? Then nothing is on its way any more */

uint64_t lease_digest(const struct lease *l, uint64_t now_ms);

#endif
