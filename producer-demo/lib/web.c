/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/web.h"

#include "producer-demo/lib/web_feed.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A longer body than a handler takes is read to its end up to this size, so that a client which sends all before it reads sees the 413. */
#define DRAINED_MAX 33554432

/* A connection. Its requests must arrive within a deadline; a thread looks at all of them. */
struct peer {
    int fd;
    int64_t deadline_ms; /* INT64_MAX: a handler is at work */
    struct peer *next, **link;
};

/* A request on its way in. */
struct arrival {
    char *body;
    size_t body_n, size;
    bool too_long;
};

struct web {
    struct MHD_Daemon *daemon;
    int fd, port;
    size_t body_max;
    int64_t timeout_ms;
    web_handler *handler;
    void *context;
    pthread_t watch;
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t changed;
    struct peer *peers;
    int requests_n; /* that have begun and not ended */
    bool stopping;
};

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);

    if (!memory)
        abort();
    return memory;
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- where it listens --------------------------------------------------------------------------------------------- */

static int bound_socket(const struct addrinfo *address)
{
    int on = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 1024) == 0)
        return fd;
    on = errno;
    (void)close(fd);
    errno = on;
    return -1;
}

static int listen_at(const char *where, char *ret_reason, size_t reason_size)
{
    char host[100];
    const char *colon = strrchr(where, ':');
    const struct addrinfo numbers = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *address = NULL;
    int fd;

    if (!colon || colon == where || (size_t)(colon - where) >= sizeof host) {
        (void)snprintf(ret_reason, reason_size, "\"%s\" is no address to listen at; write 127.0.0.1:8080", where);
        return -1;
    }
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - where), where);
    if (getaddrinfo(host, colon + 1, &numbers, &address) != 0) {
        (void)snprintf(ret_reason, reason_size, "\"%s\" is no address to listen at; write numbers, as in 127.0.0.1:8080", where);
        return -1;
    }
    if ((fd = bound_socket(address)) < 0)
        (void)snprintf(ret_reason, reason_size, "cannot listen at %s: %s", where, strerror(errno));
    freeaddrinfo(address);
    return fd;
}

static int port_of(int fd)
{
    struct sockaddr_storage name;
    socklen_t name_n = sizeof name;
    struct sockaddr_in in;

    if (getsockname(fd, (struct sockaddr *)&name, &name_n) != 0)
        return 0;
    memcpy(&in, &name, sizeof in);
    return ntohs(in.sin_port); /* an IPv6 address has it at the same place */
}

/* --- connections and their deadlines ------------------------------------------------------------------------------ */

static void peer_open(struct web *web, struct peer **ret_peer, int fd)
{
    struct peer *peer = allocate(sizeof *peer);

    pthread_mutex_lock(&web->mutex);
    *peer = (struct peer){fd, now_ms() + web->timeout_ms, web->peers, &web->peers};
    if (peer->next)
        peer->next->link = &peer->next;
    web->peers = peer;
    pthread_mutex_unlock(&web->mutex);
    *ret_peer = peer;
}

static void peer_close(struct web *web, struct peer *peer)
{
    pthread_mutex_lock(&web->mutex);
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    pthread_mutex_unlock(&web->mutex);
    free(peer);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **peer, enum MHD_ConnectionNotificationCode code)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        peer_open(context, (struct peer **)peer, info->connect_fd);
    else
        peer_close(context, *peer);
}

static void peer_deadline(struct web *web, struct MHD_Connection *connection, int64_t deadline_ms)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct peer *peer = info->socket_context;

    pthread_mutex_lock(&web->mutex);
    peer->deadline_ms = deadline_ms;
    pthread_mutex_unlock(&web->mutex);
}

/* Whoever sends a byte now and then is never idle, so libmicrohttpd's own timeout does not end it. */
static void *watch_run(void *context)
{
    struct web *web = context;

    pthread_mutex_lock(&web->mutex);
    while (!web->stopping) {
        struct timespec next;
        int64_t now = now_ms(), next_ms = now + web->timeout_ms;

        for (struct peer *peer = web->peers; peer; peer = peer->next)
            if (peer->deadline_ms <= now)
                (void)shutdown(peer->fd, SHUT_RDWR); /* libmicrohttpd sees its end and closes it */
            else if (peer->deadline_ms < next_ms)
                next_ms = peer->deadline_ms;
        next = (struct timespec){next_ms / 1000, next_ms % 1000 * 1000000};
        (void)pthread_cond_timedwait(&web->changed, &web->mutex, &next);
    }
    pthread_mutex_unlock(&web->mutex);
    return NULL;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

struct search {
    const char *name;
    int found_n;
};

static enum MHD_Result on_value(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct search *search = context;

    (void)kind;
    (void)value;
    if (strcasecmp(name, search->name) == 0)
        search->found_n++;
    return MHD_YES;
}

static const char *value_get(const struct web_request *request, enum MHD_ValueKind kind, const char *name)
{
    const char *value = NULL;
    size_t value_n = 0;
    struct search search = {name, 0};

    (void)MHD_get_connection_values(request->connection, kind, on_value, &search);
    if (search.found_n > 1)
        return "";
    if (MHD_lookup_connection_value_n(request->connection, kind, name, strlen(name), &value, &value_n) != MHD_YES)
        return NULL;
    /* Cut off at a zero byte it would be another value. */
    return value && strlen(value) == value_n ? value : "";
}

const char *web_request_header(const struct web_request *request, const char *name)
{
    return value_get(request, MHD_HEADER_KIND, name);
}

const char *web_request_query(const struct web_request *request, const char *name)
{
    return value_get(request, MHD_GET_ARGUMENT_KIND, name);
}

static bool is_stopping(struct web *web)
{
    bool stopping;

    pthread_mutex_lock(&web->mutex);
    stopping = web->stopping;
    pthread_mutex_unlock(&web->mutex);
    return stopping;
}

static struct MHD_Response *answer_body(struct MHD_Connection *connection, struct web_response *answer)
{
    if (answer->feed)
        return web_feed_response(answer->feed, connection);
    return MHD_create_response_from_buffer(answer->body_n, answer->body, MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result answer_send(struct web *web, struct MHD_Connection *connection, struct web_response *answer, bool last)
{
    enum MHD_Result result;
    struct MHD_Response *response = answer_body(connection, answer);

    if (!response)
        abort();
    if (answer->content_type)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
    for (int i = 0; i < answer->headers_n; i++)
        if (MHD_add_response_header(response, answer->headers[i].name, answer->headers[i].value) != MHD_YES)
            (void)fprintf(stderr, "web: a header %s cannot be sent\n", answer->headers[i].name);
    if (last || is_stopping(web))
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    result = MHD_queue_response(connection, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result too_long_send(struct web *web, struct MHD_Connection *connection)
{
    struct web_response answer = {0};

    web_response_problem(&answer, 413, "the body is too long", "send at most %zu bytes", web->body_max);
    return answer_send(web, connection, &answer, true);
}

/* Its headers are here. Returning without an answer asks for the body. */
static enum MHD_Result arrival_begin(struct web *web, struct MHD_Connection *connection, void **ret_arrival)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *expect = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT);
    uintmax_t announced = length ? strtoumax(length, NULL, 10) : 0;
    struct arrival *arrival = allocate(sizeof *arrival);

    *ret_arrival = arrival;
    arrival->too_long = announced > web->body_max;
    pthread_mutex_lock(&web->mutex);
    web->requests_n++;
    pthread_mutex_unlock(&web->mutex);
    /* Who asks first, or has too much of it, is told before. */
    return arrival->too_long && (expect || announced > DRAINED_MAX) ? too_long_send(web, connection) : MHD_YES;
}

static void body_take(const struct web *web, struct arrival *arrival, const char *part, size_t part_n)
{
    if (arrival->body_n + part_n > web->body_max)
        arrival->too_long = true;
    if (arrival->too_long)
        return;
    if (arrival->body_n + part_n + 1 > arrival->size) {
        arrival->size = 2 * arrival->size + part_n + 1;
        arrival->body = realloc(arrival->body, arrival->size);
        if (!arrival->body)
            abort();
    }
    memcpy(arrival->body + arrival->body_n, part, part_n);
    arrival->body_n += part_n;
    arrival->body[arrival->body_n] = 0;
}

static enum MHD_Result request_answer(struct web *web, struct MHD_Connection *connection, const struct web_request *request)
{
    struct web_response response = {0};

    peer_deadline(web, connection, INT64_MAX);
    web->handler(web->context, request, &response);
    if (!response.feed) /* a feed may be silent for as long as it likes */
        peer_deadline(web, connection, now_ms() + web->timeout_ms);
    if (response.status == 0)
        web_response_problem(&response, 500, "no answer", "this is a mistake of the server; please report it");
    return answer_send(web, connection, &response, false);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *part, size_t *part_n, void **visit)
{
    struct arrival *arrival = *visit;

    (void)version;
    if (!arrival)
        return arrival_begin(context, connection, visit);
    if (*part_n > 0) {
        body_take(context, arrival, part, *part_n);
        *part_n = 0;
        return MHD_YES;
    }
    if (arrival->too_long)
        return too_long_send(context, connection);
    return request_answer(context, connection,
                          &(struct web_request){method, path, arrival->body ? arrival->body : "", arrival->body_n, connection});
}

static void on_end(void *context, struct MHD_Connection *connection, void **visit, enum MHD_RequestTerminationCode code)
{
    struct web *web = context;
    struct arrival *arrival = *visit;

    (void)code;
    if (!arrival)
        return;
    *visit = NULL;
    free(arrival->body);
    free(arrival);
    peer_deadline(web, connection, now_ms() + web->timeout_ms); /* for the next one */
    pthread_mutex_lock(&web->mutex);
    web->requests_n--;
    pthread_cond_broadcast(&web->changed);
    pthread_mutex_unlock(&web->mutex);
}

/* Paths and queries are handed on as they came: a %00 in them must not end a text. */
static size_t on_escape(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

/* --- start and stop ----------------------------------------------------------------------------------------------- */

static bool web_run(struct web *web, const struct web_settings *settings)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&web->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&web->mutex, NULL);
    /* Poll, not epoll: with that a thread takes several connections at once, which then wait for each other. */
    web->daemon =
        MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, web, MHD_OPTION_LISTEN_SOCKET,
                         web->fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)settings->threads, MHD_OPTION_CONNECTION_LIMIT, 4096U,
                         MHD_OPTION_NOTIFY_COMPLETED, on_end, web, MHD_OPTION_NOTIFY_CONNECTION, on_connection, web,
                         MHD_OPTION_UNESCAPE_CALLBACK, on_escape, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!web->daemon)
        return false;
    if (pthread_create(&web->watch, NULL, watch_run, web) != 0)
        abort();
    return true;
}

struct web *web_start(const struct web_settings *settings, char *ret_reason, size_t reason_size)
{
    int fd = listen_at(settings->listen, ret_reason, reason_size);
    struct web *web;

    assert(settings->threads > 0 && settings->timeout_s > 0);
    if (fd < 0)
        return NULL;
    web = allocate(sizeof *web);
    *web = (struct web){.fd = fd,
                        .port = port_of(fd),
                        .body_max = settings->body_max,
                        .timeout_ms = (int64_t)settings->timeout_s * 1000,
                        .handler = settings->handler,
                        .context = settings->context};
    if (web_run(web, settings))
        return web;
    (void)snprintf(ret_reason, reason_size, "the HTTP server for %s cannot be started; free memory or threads", settings->listen);
    free(web); /* the socket is libmicrohttpd's, even if it failed */
    return NULL;
}

int web_port(const struct web *web)
{
    return web->port;
}

static void stop_begin(struct web *web)
{
    int fd = MHD_quiesce_daemon(web->daemon);

    if (fd >= 0)
        (void)close(fd);
    pthread_mutex_lock(&web->mutex);
    web->stopping = true;
    pthread_cond_broadcast(&web->changed);
    pthread_mutex_unlock(&web->mutex);
    (void)pthread_join(web->watch, NULL);
}

void web_stop(struct web *web)
{
    int64_t deadline_ms = now_ms() + web->timeout_ms;
    struct timespec deadline = {deadline_ms / 1000, deadline_ms % 1000 * 1000000};

    stop_begin(web);
    pthread_mutex_lock(&web->mutex);
    while (web->requests_n > 0 && pthread_cond_timedwait(&web->changed, &web->mutex, &deadline) != ETIMEDOUT)
        continue;
    pthread_mutex_unlock(&web->mutex);
    MHD_stop_daemon(web->daemon);
    pthread_cond_destroy(&web->changed);
    pthread_mutex_destroy(&web->mutex);
    free(web);
}
