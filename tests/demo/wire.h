/* SPDX-License-Identifier: BSD-2-Clause */
/* HTTP for tests, byte by byte: what no library would send can be sent, and what comes back is seen as it is. Memory is the test's. Any
 * thread. */
#ifndef TESTS_DEMO_WIRE_H
#define TESTS_DEMO_WIRE_H

#include <stdbool.h>
#include <stddef.h>

struct wire_answer {
    int status;       /* 0: the connection ended without a whole answer */
    char head[4096];  /* status line and headers, each with its CR LF */
    const char *body; /* ends with a zero that is not counted; "" if there is none */
    size_t body_n;
};

int wire_connect(int port); /* to 127.0.0.1; -1: nobody listens */
/* false: the peer has closed. */
bool wire_write(int fd, const void *bytes, size_t n);
/* One answer, by its Content-Length; waits up to 30 seconds. `head_only`: to a HEAD, which has no body whatever its length says. */
struct wire_answer wire_read(int fd, bool head_only);
/* The value of a header, lent until the 16th next call; NULL: there is none. */
const char *wire_header(const struct wire_answer *answer, const char *name);

/* A request on a connection of its own. `headers`: lines that each end with CR LF, or "". `body` may be NULL; Content-Length is added. */
struct wire_answer wire_ask(int port, const char *method, const char *path, const char *headers, const char *body);
struct wire_answer wire_ask_bytes(int port, const char *method, const char *path, const char *headers, const void *body, size_t body_n);

#endif
