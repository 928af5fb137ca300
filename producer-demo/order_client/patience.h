/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting that somebody else can end: all threads of a client wait here between two tries, and none of them holds up its end. */
#ifndef PRODUCER_DEMO_PATIENCE_H
#define PRODUCER_DEMO_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

struct patience;

struct patience *patience_new(void);
void patience_free(struct patience *patience); /* nobody waits any more */
/* Wait so long; false: it was ended, before or meanwhile. */
bool patience_wait(struct patience *patience, int64_t ms);
bool patience_ended(struct patience *patience);
void patience_end(struct patience *patience); /* for good; any thread */

int64_t patience_now_ms(void); /* of a clock that never jumps */

#endif
