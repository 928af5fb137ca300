/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/page.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/lib/test.h"

static int page_port(const struct process *relay)
{
    const char *line = NULL, *port = NULL;

    WAIT_UNTIL((line = strstr(process_output(relay), "event=started")) != NULL && (port = strstr(line, " port=")) != NULL, 10);
    return atoi(port + strlen(" port="));
}

/* Everything up to the end of the connection, which HTTP/1.0 says is the end of the page. */
static size_t page_read(int port, char *ret, size_t size)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 10};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t n = 0;
    ssize_t got = 0;

    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        connect(s, (const struct sockaddr *)&address, sizeof address) != 0 ||
        send(s, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1)
        test_fail(__FILE__, __LINE__, "/metrics at port %d: %s", port, strerror(errno));
    while (n + 1 < size && (got = recv(s, ret + n, size - 1 - n, 0)) > 0)
        n += (size_t)got;
    if (got < 0)
        test_fail(__FILE__, __LINE__, "/metrics at port %d: %s", port, strerror(errno));
    (void)close(s);
    return n;
}

int64_t page_metric(const struct process *relay, const char *name)
{
    static char page[1 << 17];
    size_t n = strlen(name);

    page[page_read(page_port(relay), page, sizeof page)] = '\0';
    for (const char *at = page; (at = strchr(at, '\n')) != NULL;) {
        const char *line = ++at, *value = strchr(line, ' ');

        if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == '{') && value != NULL)
            return (int64_t)strtod(value, NULL);
    }
    /* What has labels has no line before it was counted. */
    char type[128];
    (void)snprintf(type, sizeof type, "\n# TYPE %s ", name);
    if (strstr(page, type) == NULL)
        test_fail(__FILE__, __LINE__, "/metrics has no %s", name);
    return 0;
}
