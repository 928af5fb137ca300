/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/demo/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/lib/test.h"

int wire_connect(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {30 * (time_t)test_slow(), 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

bool wire_write(int fd, const void *bytes, size_t n)
{
    const char *from = bytes;

    while (n > 0) {
        ssize_t sent = send(fd, from, n, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        from += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* Byte by byte: what follows belongs to the next answer. */
static bool head_read(int fd, struct wire_answer *answer)
{
    size_t n = 0;

    while (n < 4 || memcmp(answer->head + n - 4, "\r\n\r\n", 4) != 0) {
        if (n == sizeof answer->head - 1 || recv(fd, answer->head + n, 1, 0) != 1)
            return false;
        n++;
    }
    answer->head[n] = 0;
    return true;
}

static bool body_read_whole(int fd, struct wire_answer *answer, size_t n)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char *body;

    pthread_mutex_lock(&mutex);
    body = test_allocate(n + 1);
    pthread_mutex_unlock(&mutex);
    answer->body = body;
    while (answer->body_n < n) {
        ssize_t got = recv(fd, body + answer->body_n, n - answer->body_n, 0);

        if (got <= 0)
            return false;
        answer->body_n += (size_t)got;
    }
    return true;
}

struct wire_answer wire_read(int fd, bool head_only)
{
    struct wire_answer answer = {.body = ""};
    const char *length;
    int status;

    do {
        if (!head_read(fd, &answer) || sscanf(answer.head, "HTTP/1.%*c %d", &status) != 1)
            return answer;
    } while (status == 100);
    length = wire_header(&answer, "Content-Length");
    if (!length || head_only || body_read_whole(fd, &answer, strtoul(length, NULL, 10)))
        answer.status = status;
    return answer;
}

const char *wire_header(const struct wire_answer *answer, const char *name)
{
    static _Thread_local char values[16][300];
    static _Thread_local int next;
    size_t name_n = strlen(name);

    for (const char *line = strchr(answer->head, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
        if (strncasecmp(line + 1, name, name_n) == 0 && line[1 + name_n] == ':') {
            char *value = values[next++ % 16];
            const char *from = line + 2 + name_n;

            from += strspn(from, " ");
            (void)snprintf(value, sizeof values[0], "%.*s", (int)strcspn(from, "\r"), from);
            return value;
        }
    return NULL;
}

struct wire_answer wire_ask_bytes(int port, const char *method, const char *path, const char *headers, const void *body, size_t body_n)
{
    struct wire_answer answer = {.body = ""};
    int fd = wire_connect(port);
    char head[8192];
    int n =
        snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %zu\r\n\r\n", method, path, headers, body_n);

    CHECK(n > 0 && (size_t)n < sizeof head);
    if (fd < 0)
        return answer;
    if (wire_write(fd, head, (size_t)n) && wire_write(fd, body, body_n))
        answer = wire_read(fd, strcmp(method, "HEAD") == 0);
    (void)close(fd);
    return answer;
}

struct wire_answer wire_ask(int port, const char *method, const char *path, const char *headers, const char *body)
{
    return wire_ask_bytes(port, method, path, headers, body ? body : "", body ? strlen(body) : 0);
}
