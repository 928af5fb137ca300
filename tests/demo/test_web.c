/* SPDX-License-Identifier: BSD-2-Clause */
/* The HTTP server of the demo's programs under rude clients: long bodies, slow senders, pipelining, an end in the middle. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "producer-demo/lib/web.h"
#include "tests/demo/wire.h"
#include "tests/lib/test.h"

/* Says what it was asked; "/slow" says that it is there in the second pipe, and waits until the first one can be read. */
static void on_request(void *context, const struct web_request *request, struct web_response *response)
{
    char byte;

    if (strcmp(request->path, "/slow") == 0) {
        const int *pipes = context;

        CHECK_EQ(write(pipes[3], "t", 1), 1);
        CHECK_EQ(read(pipes[0], &byte, 1), 1);
    }
    web_response_text(response, 200, "text/plain", "%s %s %zu", request->method, request->path, request->body_n);
}

static struct web *server_start(unsigned timeout_s, const int *pipes)
{
    char reason[200];
    struct web *web = web_start(&(struct web_settings){.listen = "127.0.0.1:0",
                                                       .threads = 2,
                                                       .body_max = 1000,
                                                       .timeout_s = timeout_s,
                                                       .handler = on_request,
                                                       .context = (void *)(uintptr_t)pipes},
                                reason, sizeof reason);

    if (!web)
        test_fail(__FILE__, __LINE__, "%s", reason);
    return web;
}

TEST_WITHIN(demo_web_bodies_up_to_the_limit, 60)
{
    struct web *web = server_start(10, NULL);
    char *body = test_allocate(10000001);

    memset(body, 'b', 10000000);
    CHECK_STR(wire_ask_bytes(web_port(web), "POST", "/a", "", body, 1000).body, "POST /a 1000");
    CHECK_EQ(wire_ask_bytes(web_port(web), "POST", "/a", "", body, 1001).status, 413);
    /* The whole of it is sent before the answer is read. */
    CHECK_EQ(wire_ask_bytes(web_port(web), "POST", "/a", "", body, 10000000).status, 413);
    CHECK_EQ(wire_ask(web_port(web), "POST", "/a", "Expect: 100-continue\r\n", "small").status, 200);
    web_stop(web);
}

/* Without a length nobody knows beforehand. */
TEST_WITHIN(demo_web_chunks_up_to_the_limit, 60)
{
    struct web *web = server_start(10, NULL);
    static const char head[] = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    char chunk[420];
    int fd = wire_connect(web_port(web));

    (void)snprintf(chunk, sizeof chunk, "190\r\n%0400d\r\n", 0);
    CHECK(wire_write(fd, head, sizeof head - 1) && wire_write(fd, chunk, strlen(chunk)) && wire_write(fd, "0\r\n\r\n", 5));
    CHECK_STR(wire_read(fd, false).body, "POST /a 400");
    CHECK(wire_write(fd, head, sizeof head - 1));
    for (int i = 0; i < 3; i++)
        CHECK(wire_write(fd, chunk, strlen(chunk)));
    CHECK(wire_write(fd, "0\r\n\r\n", 5));
    CHECK_EQ(wire_read(fd, false).status, 413);
    (void)close(fd);
    web_stop(web);
}

TEST_WITHIN(demo_web_answers_a_pipeline_in_order, 60)
{
    struct web *web = server_start(10, NULL);
    static const char requests[] = "POST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
                                   "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n"
                                   "BREW /3 HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"
                                   "HEAD /4 HTTP/1.1\r\nHost: h\r\n\r\n";
    int fd = wire_connect(web_port(web));

    CHECK(wire_write(fd, requests, sizeof requests - 1));
    CHECK_STR(wire_read(fd, false).body, "POST /1 3");
    CHECK_STR(wire_read(fd, false).body, "GET /2 0");
    CHECK_STR(wire_read(fd, false).body, "BREW /3 1");
    CHECK_EQ(wire_read(fd, true).status, 200);
    (void)close(fd);
    web_stop(web);
}

static bool is_closed(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Whoever sends a byte now and then is cut off all the same, and keeps nobody waiting: the server has two threads. */
static void slow_sender(const char *beginning)
{
    struct web *web = server_start(1, NULL);
    int slow[4];

    for (int i = 0; i < 4; i++) {
        slow[i] = wire_connect(web_port(web));
        CHECK(wire_write(slow[i], beginning, strlen(beginning)));
    }
    CHECK_EQ(wire_ask(web_port(web), "GET", "/", "", NULL).status, 200);
    for (int i = 0; i < 4; i++)
        WAIT_UNTIL(!wire_write(slow[i], "a", 1) || is_closed(slow[i]), 10);
    CHECK_EQ(wire_ask(web_port(web), "GET", "/", "", NULL).status, 200);
    web_stop(web);
}

TEST_WITHIN(demo_web_cuts_off_slow_headers, 60)
{
    slow_sender("GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ");
}

TEST_WITHIN(demo_web_cuts_off_slow_bodies, 60)
{
    slow_sender("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999\r\n\r\n");
}

TEST_WITHIN(demo_web_cuts_off_the_silent, 60)
{
    slow_sender("");
}

static void *stop_run(void *web)
{
    web_stop(web);
    return NULL;
}

/* What is being answered when the end comes is answered. */
TEST_WITHIN(demo_web_ends_after_its_answers, 60)
{
    int pipes[4], fd;
    char byte;
    pthread_t stopper;
    struct web *web;
    struct wire_answer answer;

    CHECK(pipe(pipes) == 0 && pipe(pipes + 2) == 0);
    web = server_start(20, pipes);
    fd = wire_connect(web_port(web));
    CHECK(wire_write(fd, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n", 31));
    CHECK_EQ(read(pipes[2], &byte, 1), 1);
    CHECK_EQ(pthread_create(&stopper, NULL, stop_run, web), 0);
    WAIT_UNTIL(wire_connect(web_port(web)) < 0, 10);
    CHECK_EQ(write(pipes[1], "g", 1), 1);
    answer = wire_read(fd, false);
    CHECK_STR(answer.body, "GET /slow 0");
    CHECK_STR(wire_header(&answer, "Connection"), "close");
    CHECK_EQ(pthread_join(stopper, NULL), 0);
}
