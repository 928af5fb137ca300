/* SPDX-License-Identifier: BSD-2-Clause */
/* A small window and its rows: 8 of at most 100 bytes together, 10 bytes each, in lanes 0 and 1 of 4, which hand 3 rows at once. */
#ifndef TESTS_UNIT_WINDOW_RIG_H
#define TESTS_UNIT_WINDOW_RIG_H

#include "relay/core/window.h"

#define RIG_ROWS  8
#define RIG_BYTES 100
#define RIG_LANES 4
#define RIG_SHARE 3

struct window *rig_window(void);
struct row rig_row(int64_t id);
row_slot rig_admit(struct window *w, uint32_t lane, int64_t id); /* needs no flush */
bool rig_knows(const struct window *w, int64_t id);
int64_t rig_hand(struct window *w);             /* the id handed next, 0 if there is none */
void rig_warm(struct window *w, uint32_t lane); /* one row of it was acknowledged and is gone */

#endif
