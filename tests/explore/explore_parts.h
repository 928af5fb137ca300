/* SPDX-License-Identifier: BSD-2-Clause */
/* A state is a few numbers: each of its parts, its relays, its database, what is late, is kept once however many states it is in. */
#ifndef TESTS_EXPLORE_EXPLORE_PARTS_H
#define TESTS_EXPLORE_EXPLORE_PARTS_H

#include <stdint.h>

#include "tests/explore/explore.h"

enum {
    PART_DATABASE = RELAYS, /* the relays come before */
    PART_LATE,
    PARTS
};

void parts_first(const struct world *w, uint32_t parts[PARTS]);
/* Fills in those of the relays; one that is as it was `before` has the number that it had. */
void parts_of_relays(const struct world *w, const struct world *before, const uint32_t parts_before[PARTS], uint32_t parts[PARTS]);
void parts_of_rest(const struct world *w, uint32_t parts[PARTS]); /* fills in the others */
void parts_world(const uint32_t parts[PARTS], struct world *ret_w);
uint32_t parts_n(unsigned part); /* different ones; relays have theirs together */

#endif
