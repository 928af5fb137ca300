/* SPDX-License-Identifier: BSD-2-Clause */
/* The pages, asked for over real sockets by clients that run on the server's own loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "relay/edge/http.h"
#include "tests/lib/test.h"

struct site {
    uv_loop_t loop;
    struct http *http;
    bool ready, freed;
    unsigned rendered_n;
};

static unsigned render(void *data, enum http_page page, char **ret_body, size_t *ret_body_n)
{
    static const char *const bodies[] = {[HTTP_METRICS] = "outbox_relay_x 1\n", [HTTP_HEALTH] = "healthy\n", [HTTP_READY] = "ready\n"};
    struct site *site = data;

    site->rendered_n++;
    *ret_body = strdup(bodies[page]);
    *ret_body_n = strlen(bodies[page]);
    return page != HTTP_READY || site->ready ? 200 : 503;
}

static void on_freed(void *data)
{
    ((struct site *)data)->freed = true;
}

static void site_open(struct site *site, const char *address)
{
    char error[300] = "";

    memset(site, 0, sizeof *site);
    CHECK_EQ(uv_loop_init(&site->loop), 0);
    site->http = http_new(&site->loop, address, render, site, error, sizeof error);
    CHECK_STR(error, "");
    CHECK(site->http != NULL && http_port(site->http) != 0);
}

static void turn(struct site *site)
{
    (void)uv_run(&site->loop, UV_RUN_NOWAIT);
}

static void site_close(struct site *site)
{
    http_free(site->http, on_freed, site);
    CHECK(!site->freed);
    WAIT_UNTIL((turn(site), site->freed), 5);
    CHECK_EQ(uv_loop_close(&site->loop), 0);
}

struct client {
    int fd;
    char text[4000];
    size_t text_n;
    bool ended;
};

static struct client client_connect(const struct site *site)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)http_port(site->http)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct client c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    CHECK(c.fd >= 0);
    CHECK_EQ(connect(c.fd, (const struct sockaddr *)&to, sizeof to), 0); /* the kernel accepts it, the loop need not turn */
    CHECK_EQ(fcntl(c.fd, F_SETFL, O_NONBLOCK), 0);
    return c;
}

static void client_send(const struct client *c, const char *text)
{
    CHECK_EQ(send(c->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static bool client_ended(struct client *c)
{
    ssize_t n = recv(c->fd, c->text + c->text_n, sizeof c->text - 1 - c->text_n, 0);

    if (n > 0)
        c->text_n += (size_t)n;
    if (n == 0 || (n < 0 && errno != EAGAIN))
        c->ended = true;
    return c->ended;
}

static struct client ask(struct site *site, const char *request)
{
    struct client c = client_connect(site);

    client_send(&c, request);
    WAIT_UNTIL((turn(site), client_ended(&c)), 5);
    close(c.fd);
    return c;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    size_t n = strlen(text), with_n = strlen(with);

    return n >= with_n && strcmp(text + n - with_n, with) == 0;
}

TEST(http_answers_its_pages)
{
    struct site site;
    struct client c;

    site_open(&site, "127.0.0.1:0");
    c = ask(&site, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(starts(c.text, "HTTP/1.1 200 "));
    CHECK(strstr(c.text, "Content-Type: text/plain; version=0.0.4") != NULL);
    CHECK(ends(c.text, "\r\n\r\noutbox_relay_x 1\n"));
    c = ask(&site, "GET /healthz HTTP/1.0\r\n\r\n");
    CHECK(ends(c.text, "\r\n\r\nhealthy\n"));
    c = ask(&site, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(starts(c.text, "HTTP/1.1 503 "));
    site.ready = true;
    c = ask(&site, "GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(starts(c.text, "HTTP/1.1 200 "));
    site_close(&site);
}

TEST(http_answers_head_without_a_body)
{
    struct site site;
    struct client c;

    site_open(&site, "127.0.0.1:0");
    c = ask(&site, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(starts(c.text, "HTTP/1.1 200 "));
    CHECK(strstr(c.text, "Content-Length: 17\r\n") != NULL);
    CHECK(ends(c.text, "\r\n\r\n"));
    site_close(&site);
}

TEST(http_refuses_everything_else)
{
    struct site site;
    struct client c;

    site_open(&site, "127.0.0.1:0");
    c = ask(&site, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(starts(c.text, "HTTP/1.1 404 "));
    c = ask(&site, "GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(starts(c.text, "HTTP/1.1 404 "));
    c = ask(&site, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc");
    CHECK(starts(c.text, "HTTP/1.1 405 "));
    CHECK(strstr(c.text, "Allow: GET, HEAD\r\n") != NULL);
    c = ask(&site, "no request at all\r\n\r\n");
    CHECK(!starts(c.text, "HTTP/1.1 200"));
    CHECK_EQ(site.rendered_n, 0);
    site_close(&site);
}

/* One byte at a time, each of which starts libmicrohttpd's own time-out anew. */
TEST_WITHIN(http_cuts_off_a_client_that_dribbles, 30)
{
    struct site site;
    struct client c;
    uint64_t begin_ms = test_now_ms(), last_ms = begin_ms;

    site_open(&site, "127.0.0.1:0");
    c = client_connect(&site);
    client_send(&c, "GET /metrics HTTP/1.1\r\nX: ");
    WAIT_UNTIL((turn(&site), client_ended(&c) || (test_now_ms() - last_ms > 300 &&
                                                  (last_ms = test_now_ms(), (void)!send(c.fd, "y", 1, MSG_NOSIGNAL), false))),
               15);
    CHECK(test_now_ms() - begin_ms >= 9000);
    CHECK_EQ(site.rendered_n, 0);
    CHECK(starts(ask(&site, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").text, "HTTP/1.1 200 "));
    site_close(&site);
}

TEST(http_bounds_a_header_without_end)
{
    struct site site;
    struct client c;
    char block[1000];
    size_t sent = 0;

    memset(block, 'x', sizeof block);
    site_open(&site, "127.0.0.1:0");
    c = client_connect(&site);
    client_send(&c, "GET /metrics HTTP/1.1\r\nX: ");
    WAIT_UNTIL((turn(&site), sent += send(c.fd, block, sizeof block, MSG_NOSIGNAL) > 0 ? sizeof block : 0, client_ended(&c)), 5);
    CHECK(!starts(c.text, "HTTP/1.1 200"));
    CHECK(sent < 20000000);
    close(c.fd);
    site_close(&site);
}

static bool all_ended(struct client *clients, unsigned n)
{
    unsigned ended_n = 0;

    for (unsigned i = 0; i < n; i++)
        ended_n += client_ended(&clients[i]);
    return ended_n == n;
}

/* More at once than are let in: the rest wait in the kernel's queue, and none is forgotten. */
TEST(http_answers_many_at_once)
{
    enum {
        N = 40
    };
    struct site site;
    struct client clients[N];

    site_open(&site, "127.0.0.1:0");
    for (unsigned i = 0; i < N; i++) {
        clients[i] = (struct client){.fd = -1};
        if (i < 16)
            clients[i] = client_connect(&site);
    }
    turn(&site);
    for (unsigned i = 16; i < N; i++)
        clients[i] = client_connect(&site), turn(&site);
    for (unsigned i = 0; i < N; i++)
        client_send(&clients[i], "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    WAIT_UNTIL((turn(&site), all_ended(clients, N)), 10);
    for (unsigned i = 0; i < N; i++) {
        CHECK(ends(clients[i].text, "outbox_relay_x 1\n"));
        close(clients[i].fd);
    }
    site_close(&site);
}

TEST(http_can_be_freed_while_clients_wait)
{
    struct site site;
    struct client c;

    site_open(&site, "127.0.0.1:0");
    c = client_connect(&site);
    client_send(&c, "GET /met");
    turn(&site);
    turn(&site);
    site_close(&site);
    WAIT_UNTIL(client_ended(&c), 5);
}

/* An idle server does not wake up the process. */
TEST(http_sets_no_timer_while_idle)
{
    struct site site;
    uint64_t begin_ms;

    site_open(&site, "127.0.0.1:0");
    (void)ask(&site, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    for (int i = 0; i < 5; i++)
        turn(&site);
    begin_ms = test_now_ms();
    CHECK(uv_backend_timeout(&site.loop) < 0 || uv_backend_timeout(&site.loop) > 1000);
    CHECK(test_now_ms() - begin_ms < 1000);
    site_close(&site);
}

static void check_refused(const char *address, const char *with)
{
    uv_loop_t loop;
    char error[300] = "";

    CHECK_EQ(uv_loop_init(&loop), 0);
    CHECK(http_new(&loop, address, render, NULL, error, sizeof error) == NULL);
    if (strstr(error, with) == NULL)
        test_fail(__FILE__, __LINE__, "\"%s\" is refused with: %s", address, error);
    CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(http_refuses_a_bad_address)
{
    static const char *const bad[] = {"",
                                      "9464",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "127.0.0.1:65536",
                                      "nohost:9464",
                                      "127.0.0.1:-1",
                                      "1.2.3:9464",
                                      "[::1:9464",
                                      "::1:9464",
                                      "127.0.0.1:94 64",
                                      "[]:9464",
                                      "]:1",
                                      "[nothing]:1",
                                      "127.0.0.1:0x1f40"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_refused(bad[i], "is not an address to listen at");
    check_refused("203.0.113.7:9464", "cannot listen at 203.0.113.7:9464");
}

TEST(http_refuses_a_port_in_use)
{
    struct site site;
    char address[40];

    site_open(&site, "127.0.0.1:0");
    snprintf(address, sizeof address, "127.0.0.1:%u", http_port(site.http));
    check_refused(address, "Address already in use");
    site_close(&site);
}

TEST(http_listens_everywhere)
{
    struct site site;

    site_open(&site, ":0");
    CHECK(starts(ask(&site, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").text, "HTTP/1.1 200 "));
    site_close(&site);
    site_open(&site, "localhost:0");
    CHECK(starts(ask(&site, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").text, "HTTP/1.1 200 "));
    site_close(&site);
}
