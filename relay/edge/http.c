/* SPDX-License-Identifier: BSD-2-Clause */
/* One request a connection, answered at once from memory. A client that does not come to its end in time is cut off, however busily it
 * dribbles: with a limit on connections and on the memory of each, nobody can make the relay hold more than a few hundred kilobytes. */
#include "relay/edge/http.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define CONNECTIONS      16    /* a scraper, two probes, a person, and some */
#define QUEUE            128   /* that wait in the kernel, where they cost us nothing */
#define CONNECTION_BYTES 16384 /* of request and answer's header; a request line with every header a browser sends is 2 kB */
#define CONNECTION_MS    10000 /* from its begin to its end */

/* An open connection, so that it can be cut off. */
struct visit {
    int fd; /* -1: free */
    uint64_t since_ms;
};

struct http {
    uv_loop_t *loop;
    http_render render;
    void *data;
    struct MHD_Daemon *daemon;
    struct visit visits[CONNECTIONS];
    unsigned port;
    uv_poll_t poll;
    uv_timer_t timeout; /* when libmicrohttpd, or the oldest visit, wants to be looked at */
    unsigned handles;
    void (*on_freed)(void *data);
    void *freed_data;
};

/* --- address ------------------------------------------------------------------------------------------------------ */

struct address {
    struct sockaddr_storage storage;
    socklen_t storage_n;
    bool everywhere;
};

static bool parse_port(const char *text, uint16_t *ret_port)
{
    char *end;
    unsigned long port;

    if (*text < '0' || *text > '9')
        return false;
    port = strtoul(text, &end, 10);
    *ret_port = (uint16_t)port;
    return *end == '\0' && port <= UINT16_MAX;
}

static void set_ipv6(struct address *a, struct in6_addr host, uint16_t port)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = host};

    memcpy(&a->storage, &in, sizeof in);
    a->storage_n = sizeof in;
}

static void set_ipv4(struct address *a, struct in_addr host, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};

    memcpy(&a->storage, &in, sizeof in);
    a->storage_n = sizeof in;
}

/* Numbers only: a name would have to be resolved, and would listen somewhere else tomorrow. */
static bool parse_address(const char *text, struct address *ret_address)
{
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN + 2] = "";
    size_t host_n;
    struct in_addr in;
    struct in6_addr in6;
    uint16_t port;

    memset(ret_address, 0, sizeof *ret_address);
    if (colon == NULL || (host_n = (size_t)(colon - text)) >= sizeof host || !parse_port(colon + 1, &port))
        return false;
    memcpy(host, text, host_n);
    if (strcmp(host, "localhost") == 0)
        (void)snprintf(host, sizeof host, "127.0.0.1");
    if (host_n == 0) {
        ret_address->everywhere = true;
        set_ipv6(ret_address, in6addr_any, port);
    } else if (host[0] == '[' && host[host_n - 1] == ']') {
        host[host_n - 1] = '\0';
        if (inet_pton(AF_INET6, host + 1, &in6) != 1)
            return false;
        set_ipv6(ret_address, in6, port);
    } else if (inet_pton(AF_INET, host, &in) == 1) {
        set_ipv4(ret_address, in, port);
    } else {
        return false;
    }
    return true;
}

static int bind_socket(const struct address *a)
{
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1, v6only = !a->everywhere;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->storage.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only);
    if (bind(fd, (const struct sockaddr *)&a->storage, a->storage_n) == 0 && listen(fd, QUEUE) == 0)
        return fd;
    int reason = errno;
    (void)close(fd);
    errno = reason;
    return -1;
}

static int listen_at(const char *text, char *error, size_t error_size)
{
    struct address a;
    int fd;

    if (!parse_address(text, &a)) {
        snprintf(error, error_size, "\"%.100s\" is not an address to listen at; write it like 127.0.0.1:9464, [::1]:9464 or :9464", text);
        return -1;
    }
    fd = bind_socket(&a);
    if (fd < 0 && a.everywhere && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) { /* a machine without IPv6 */
        uint16_t port = 0;

        (void)parse_port(strrchr(text, ':') + 1, &port);
        set_ipv4(&a, (struct in_addr){.s_addr = htonl(INADDR_ANY)}, port);
        fd = bind_socket(&a);
    }
    if (fd < 0)
        snprintf(error, error_size, "cannot listen at %.100s (%s); set `listen` to an address of this machine and a port that is free",
                 text, strerror(errno));
    return fd;
}

static unsigned port_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t name_n = sizeof name;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    if (getsockname(fd, (struct sockaddr *)&name, &name_n) != 0)
        return 0;
    memcpy(&in, &name, sizeof in);
    memcpy(&in6, &name, sizeof in6);
    return ntohs(name.ss_family == AF_INET6 ? in6.sin6_port : in.sin_port);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type, char *body, size_t body_n)
{
    enum MHD_Result result;
    struct MHD_Response *response = MHD_create_response_from_buffer(body_n, body, MHD_RESPMEM_MUST_FREE);

    if (response == NULL) {
        free(body);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
    char *body = strdup(text);

    return body == NULL ? MHD_NO : answer(connection, status, "text/plain; charset=utf-8", body, strlen(text));
}

static bool find_page(const char *url, enum http_page *ret_page)
{
    static const char *const urls[] = {[HTTP_METRICS] = "/metrics", [HTTP_HEALTH] = "/healthz", [HTTP_READY] = "/readyz"};

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        if (strcmp(urls[i], url) == 0) {
            *ret_page = (enum http_page)i;
            return true;
        }
    return false;
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                                  const char *upload, size_t *upload_n, void **visit)
{
    struct http *h = data;
    enum http_page page;
    char *body = NULL;
    size_t body_n = 0;
    unsigned status;

    (void)version;
    (void)upload;
    (void)upload_n;
    (void)visit;
    if (!find_page(url, &page))
        return answer_text(connection, MHD_HTTP_NOT_FOUND, "not found; there are /metrics, /healthz and /readyz\n");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    status = h->render(h->data, page, &body, &body_n);
    assert(body != NULL);
    return answer(connection, status, page == HTTP_METRICS ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain; charset=utf-8", body,
                  body_n);
}

static void on_visit(void *data, struct MHD_Connection *connection, void **ret_visit, enum MHD_ConnectionNotificationCode code)
{
    struct http *h = data;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct visit *visit = *ret_visit;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (visit != NULL)
            visit->fd = -1;
        return;
    }
    for (size_t i = 0; i < CONNECTIONS && visit == NULL; i++)
        if (h->visits[i].fd < 0)
            visit = &h->visits[i];
    if (visit != NULL) {
        visit->fd = info->connect_fd;
        visit->since_ms = uv_now(h->loop);
    }
    *ret_visit = visit;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* Cuts off what is too old; returns when the next one will be, UINT64_MAX for never. */
static uint64_t cut_off(struct http *h)
{
    uint64_t now_ms = uv_now(h->loop), next_ms = UINT64_MAX;

    for (size_t i = 0; i < CONNECTIONS; i++) {
        uint64_t age_ms = now_ms - h->visits[i].since_ms;

        if (h->visits[i].fd < 0)
            continue;
        if (age_ms >= CONNECTION_MS)
            (void)shutdown(h->visits[i].fd, SHUT_RDWR); /* libmicrohttpd sees the end of it and closes */
        else if (CONNECTION_MS - age_ms < next_ms)
            next_ms = CONNECTION_MS - age_ms;
    }
    return next_ms;
}

static void on_timeout(uv_timer_t *timeout);

static bool is_full(const struct http *h)
{
    for (size_t i = 0; i < CONNECTIONS; i++)
        if (h->visits[i].fd < 0)
            return false;
    return true;
}

static void turn(struct http *h)
{
    MHD_UNSIGNED_LONG_LONG wanted_ms;
    uint64_t next_ms;
    bool was_full = is_full(h);

    (void)MHD_run(h->daemon);
    next_ms = cut_off(h);
    /* While it is full it does not listen, and it begins to listen again with the next run only. */
    if (was_full && !is_full(h))
        next_ms = 0;
    if (MHD_get_timeout(h->daemon, &wanted_ms) == MHD_YES && wanted_ms < next_ms)
        next_ms = wanted_ms;
    if (next_ms == UINT64_MAX)
        (void)uv_timer_stop(&h->timeout);
    else
        (void)uv_timer_start(&h->timeout, on_timeout, next_ms, 0);
}

static void on_timeout(uv_timer_t *timeout)
{
    turn(timeout->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    turn(poll->data);
}

static bool start(struct http *h, int fd)
{
    const union MHD_DaemonInfo *info;

    h->daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)(CONNECTION_MS / 1000), MHD_OPTION_NOTIFY_CONNECTION, on_visit, h, MHD_OPTION_END);
    if (h->daemon == NULL)
        return false;
    info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (uv_poll_init(h->loop, &h->poll, info->epoll_fd) != 0) {
        MHD_stop_daemon(h->daemon);
        return false;
    }
    (void)uv_timer_init(h->loop, &h->timeout);
    h->poll.data = h->timeout.data = h;
    (void)uv_poll_start(&h->poll, UV_READABLE, on_readable);
    return true;
}

struct http *http_new(struct uv_loop_s *loop, const char *address, http_render render, void *data, char *error, size_t error_size)
{
    struct http *h;
    int fd = listen_at(address, error, error_size);

    if (fd < 0)
        return NULL;
    h = calloc(1, sizeof *h);
    if (h == NULL) {
        (void)close(fd);
    } else {
        h->loop = loop;
        h->render = render;
        h->data = data;
        h->port = port_of(fd);
        for (size_t i = 0; i < CONNECTIONS; i++)
            h->visits[i].fd = -1;
        if (start(h, fd)) /* the socket is libmicrohttpd's now, even if it failed */
            return h;
    }
    free(h);
    snprintf(error, error_size, "the HTTP server for %.100s cannot be started; free memory or file descriptors", address);
    return NULL;
}

unsigned http_port(const struct http *h)
{
    return h->port;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct http *h = handle->data;
    void (*on_freed)(void *data) = h->on_freed;
    void *data = h->freed_data;

    if (--h->handles > 0)
        return;
    free(h);
    on_freed(data);
}

void http_free(struct http *h, void (*on_freed)(void *data), void *data)
{
    h->on_freed = on_freed;
    h->freed_data = data;
    h->handles = 2;
    uv_close((uv_handle_t *)&h->poll, on_handle_closed);
    uv_close((uv_handle_t *)&h->timeout, on_handle_closed);
    MHD_stop_daemon(h->daemon);
}
