/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/proxy.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"

struct proxy proxy_start(void)
{
    const char *program = TEST_BUILD_FOLDER "/fault-proxy";
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        test_fail(__FILE__, __LINE__, "socketpair: %s", strerror(errno));
    struct proxy p = {.commands = ends[0]};
    p.server = process_start_with((const char *[]){program, NULL}, NULL, NULL, (struct process_options){.input = ends[1]});
    close(ends[1]);
    return p;
}

/* One line, without its end. */
static void answer_read(struct proxy *p, char *ret, size_t size)
{
    struct pollfd wait = {.fd = p->commands, .events = POLLIN};
    size_t n = 0;
    for (;;) {
        if (poll(&wait, 1, 20000 * (int)test_slow()) != 1 || n + 1 >= size || read(p->commands, ret + n, 1) != 1)
            test_fail(__FILE__, __LINE__, "The fault proxy does not answer:\n%s", process_output(&p->server));
        if (ret[n] == '\n')
            break;
        n++;
    }
    ret[n] = 0;
}

const char *proxy_command(struct proxy *p, const char *format, ...)
{
    static char answer[400];
    char command[600];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof command)
        test_fail(__FILE__, __LINE__, "command too long: %s", format);
    if (dprintf(p->commands, "%s\n", command) < 0)
        test_fail(__FILE__, __LINE__, "The fault proxy is gone: %s", strerror(errno));
    answer_read(p, answer, sizeof answer);
    if (strncmp(answer, "ok", 2) != 0)
        test_fail(__FILE__, __LINE__, "fault proxy: %s: %s", command, answer);
    return answer[2] == ' ' ? answer + 3 : answer + 2;
}

int proxy_listen(struct proxy *p, const char *name, const char *protocol, int port, int upstream_port)
{
    return (int)strtol(proxy_command(p, "listen %s %s %d %d", name, protocol, port, upstream_port), NULL, 10);
}

/* The number after "NAME=" in an answer. */
static int64_t number_of(const char *answer, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = answer; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, n) == 0 && at[n] == '=')
            return strtoll(at + n + 1, NULL, 10);
    }
    test_fail(__FILE__, __LINE__, "there is no %s in \"%s\"", name, answer);
}

int64_t proxy_hits(struct proxy *p, const char *rule)
{
    return number_of(proxy_command(p, "hits %s", rule), "hits");
}

int64_t proxy_seen(struct proxy *p, const char *rule)
{
    return number_of(proxy_command(p, "hits %s", rule), "seen");
}

int64_t proxy_stat(struct proxy *p, const char *name, const char *what)
{
    return number_of(proxy_command(p, "stats %s", name), what);
}

void proxy_stop(struct proxy *p)
{
    close(p->commands);
    process_wait(&p->server, 20);
}
