/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings of one of the demo's programs, as a table: flags, their checks and --help come from it. */
#ifndef PRODUCER_DEMO_OPTIONS_H
#define PRODUCER_DEMO_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct option_row {
    const char *name;     /* of the flag, without the dashes */
    const char *argument; /* what --help calls its value; NULL: the flag has none */
    const char *help;
    /* Where its value goes; one of the three. They hold the defaults before. */
    const char **text; /* lent from argv */
    int64_t *number;
    bool *flag;
    int64_t min, max; /* of a number, both included */
};

/* Read argv into the table's targets. Returns -1: go on; 0: --help was printed; 2: what is wrong was printed in one line. `what` is the
 * program in one sentence, for --help. Arguments that are no flags are refused. */
int options_read(int argc, char **argv, const char *what, const struct option_row *rows, int rows_n);

#endif
