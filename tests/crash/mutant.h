/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines that a relay with one rule broken goes through: they end with what the oracle found, which must be something. */
#ifndef TESTS_CRASH_MUTANT_H
#define TESTS_CRASH_MUTANT_H

#include "tests/crash/line.h"

#define MUTANT(name) TEST_SOURCE_FOLDER "/build/mutant-" name "/outbox-relay"

/* Stop the writers, give the relays some seconds, kill them, judge, tell. Whatever is not marked by then stays so. The list of duplicates is
 * gone from the verdict, their number is not. */
struct oracle_verdict mutant_verdict(struct line *l);

#endif
