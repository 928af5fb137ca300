/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

/* How many whole lines of its output are answers. `ret_last` becomes the last one. */
static unsigned answers_count(const struct mock *m, char *ret_last, size_t size)
{
    unsigned n = 0;
    const char *line = process_output(&m->server);
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        if (strncmp(line, "ok", 2) != 0 && strncmp(line, "no: ", 4) != 0)
            continue;
        snprintf(ret_last, size, "%.*s", (int)(end - line), line);
        n++;
    }
    return n;
}

struct mock mock_start(int brokers)
{
    const char *program = TEST_BUILD_FOLDER "/mock-cluster";
    char count[16], first[300] = "";
    snprintf(count, sizeof count, "%d", brokers);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        test_fail(__FILE__, __LINE__, "pipe: %s", strerror(errno));
    struct mock m = {.commands = ends[1]};
    m.server = process_start_with((const char *[]){program, count, NULL}, NULL, NULL, (struct process_options){.input = ends[0]});
    close(ends[0]);
    WAIT_UNTIL(answers_count(&m, first, sizeof first) > 0 || !process_running(&m.server), 20);
    if (sscanf(first, "ok %255s", m.bootstrap) != 1)
        test_fail(__FILE__, __LINE__, "The mock cluster does not start:\n%s", process_output(&m.server));
    return m;
}

void mock_command(struct mock *m, const char *format, ...)
{
    char command[300], answer[300];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(command, sizeof command - 1, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof command - 1)
        test_fail(__FILE__, __LINE__, "command too long: %s", format);
    unsigned before = answers_count(m, answer, sizeof answer);
    if (dprintf(m->commands, "%s\n", command) < 0)
        test_fail(__FILE__, __LINE__, "The mock cluster is gone: %s", strerror(errno));
    WAIT_UNTIL(answers_count(m, answer, sizeof answer) > before || !process_running(&m->server), 20);
    if (strcmp(answer, "ok") != 0)
        test_fail(__FILE__, __LINE__, "mock cluster: %s: %s", command, answer);
}

void mock_stop(struct mock *m)
{
    close(m->commands);
    process_wait(&m->server, 20);
}
