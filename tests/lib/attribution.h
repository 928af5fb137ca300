/* SPDX-License-Identifier: BSD-2-Clause */
/* Puts every duplicate down to the window that made it, by what the relays themselves logged. The windows are those of the README:
 *
 *   D1  a process whose log ends without its closing line, though it ended
 *   D2  a mark that failed, or whose connection was lost, or that the time of an orderly stop did not suffice for
 *   D3  a session that ended with rows in flight
 *   D4  a lease that was lost with rows in flight or unmarked, while another process got it
 *   D5  a process that started over, or that lost the database: it lost marks
 *   D7  librdkafka renewed its producer inside a session, and said so, which it does with debug=eos only: what it had sent without a good
 *       report is sent again. (A broker that forgot its producers leaves no word in a log, and no test lets it.)
 *
 * A window has a time: the copy before must lie before its end, the later copy after its beginning. Where the log tells how many rows were
 * in doubt, no more duplicates fit into the window. D5 cannot be told from much else by a log alone; it counts only where a test says that the
 * database lost marks. */
#ifndef TESTS_LIB_ATTRIBUTION_H
#define TESTS_LIB_ATTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/oracle.h"

#define ATTRIBUTION_WINDOWS  8 /* D1 to D7, by their number */
#define ATTRIBUTION_FINDINGS 4

/* One process of the relay. All times are of the clock of the broker and the database, in ms since 1970. */
struct attribution_process {
    const char *log;  /* path, logfmt */
    int64_t ended_ms; /* when it was gone; 0: it was not */
};

struct attribution {
    int64_t duplicates[ATTRIBUTION_WINDOWS];
    int64_t unexplained;
    char finding[ATTRIBUTION_FINDINGS][400]; /* the first unexplained ones, each a sentence */
    unsigned findings_n;
};

/* `windows`: a mask of those that the test allows, bit 1 for D1 and so on. `duplicates` are those of a verdict. Returns false with a
 * sentence if a log cannot be read. */
bool attribution_judge(const struct attribution_process *processes, unsigned processes_n, const struct oracle_duplicate *duplicates,
                       int64_t duplicates_n, unsigned windows, struct attribution *ret, char *error, size_t error_size);

#endif
