/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 60

static const char *program_name(const char *argv0)
{
    const char *slash = strrchr(argv0, '/');

    return slash ? slash + 1 : argv0;
}

static void row_print(const struct option_row *row)
{
    int width = printf("  --%s %s", row->name, row->argument ? row->argument : "");

    printf("%*s%s", width < 32 ? 32 - width : 1, "", row->help);
    if (row->number)
        printf(" (%" PRId64 ")", *row->number);
    else if (row->text && *row->text)
        printf(" (%s)", *row->text);
    putchar('\n');
}

static void help_print(const char *program, const char *what, const struct option_row *rows, int rows_n)
{
    printf("%s: %s\n\n", program, what);
    for (int i = 0; i < rows_n; i++)
        row_print(&rows[i]);
    puts("  --help                        this; in brackets: the default");
}

static bool value_take(const char *program, const struct option_row *row, const char *value)
{
    char *end;
    long long number;

    if (row->flag)
        *row->flag = true;
    if (row->text)
        *row->text = value;
    if (!row->number)
        return true;
    errno = 0;
    number = strtoll(value, &end, 10);
    if (errno || end == value || *end || number < row->min || number > row->max) {
        (void)fprintf(stderr, "%s: --%s: \"%s\" is not a number from %" PRId64 " to %" PRId64 "\n", program, row->name, value, row->min,
                      row->max);
        return false;
    }
    *row->number = number;
    return true;
}

int options_read(int argc, char **argv, const char *what, const struct option_row *rows, int rows_n)
{
    struct option flags[ROWS_MAX + 2] = {{0}};
    const char *program = program_name(argv[0]);
    int chosen;

    assert(rows_n <= ROWS_MAX);
    for (int i = 0; i < rows_n; i++)
        flags[i] = (struct option){rows[i].name, rows[i].argument ? required_argument : no_argument, NULL, 1000 + i};
    flags[rows_n] = (struct option){"help", no_argument, NULL, 'h'};
    while ((chosen = getopt_long(argc, argv, "", flags, NULL)) != -1) {
        if (chosen == 'h') {
            help_print(program, what, rows, rows_n);
            return 0;
        }
        if (chosen < 1000) {
            (void)fprintf(stderr, "%s: --help lists the flags\n", program);
            return 2;
        }
        if (!value_take(program, &rows[chosen - 1000], optarg))
            return 2;
    }
    if (optind < argc) {
        (void)fprintf(stderr, "%s: \"%s\" is no flag; --help lists them\n", program, argv[optind]);
        return 2;
    }
    return -1;
}
