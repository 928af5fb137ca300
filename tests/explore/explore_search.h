/* SPDX-License-Identifier: BSD-2-Clause */
/* The search through one play, in a process of its own: it ends that process. */
#ifndef TESTS_EXPLORE_EXPLORE_SEARCH_H
#define TESTS_EXPLORE_EXPLORE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/explore/explore.h"

struct search_options {
    const char *expected; /* rules with commas between, one of which must be broken: the core is a mutant; NULL: none may be */
    uint32_t states_max;
    bool progress; /* a line for each layer */
};

/* Ends the process: 0 if what was expected came true. */
_Noreturn void search_play(const struct play *play, const struct search_options *options);

#endif
