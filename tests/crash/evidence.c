/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

static int shown = -1; /* the program's stdout; each test inherits it */

void evidence_open(void)
{
    shown = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
}

/* One write a line: programs that run side by side do not mix theirs. */
static void put(int fd, const char *text)
{
    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        test_fail(__FILE__, __LINE__, "evidence cannot be written: %s", strerror(errno));
}

void evidence_tell(unsigned faults, const char *format, ...)
{
    const char *path = getenv("TEST_EVIDENCE");
    char text[1024], line[1200];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)snprintf(line, sizeof line, "    %s\n", text);
    put(shown, line);
    if (path == NULL)
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    if (fd < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    (void)snprintf(line, sizeof line, "faults=%u %s\n", faults, text);
    put(fd, line);
    (void)close(fd);
}
