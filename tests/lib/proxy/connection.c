/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/proxy/connection.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_BYTES (64 * 1024)

static const enum side other[] = {[SIDE_UP] = SIDE_DOWN, [SIDE_DOWN] = SIDE_UP};

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void connection_unlist(struct connection *c)
{
    struct listener *l = c->listener;
    *(c->previous != NULL ? &c->previous->next : &l->connections) = c->next;
    if (c->next != NULL)
        c->next->previous = c->previous;
    l->open--;
    l->requests += c->dialogue.requests;
    l->replies += c->dialogue.replies;
    l->unmatched += c->dialogue.unmatched;
}

static void handle_closed(struct connection *c)
{
    if (--c->handles > 0)
        return;
    flow_discard(&c->flows[SIDE_UP]);
    flow_discard(&c->flows[SIDE_DOWN]);
    dialogue_reset(&c->dialogue);
    free(c);
}

static void on_socket_closed(uv_handle_t *handle)
{
    handle_closed(handle->data);
}

static void on_timer_closed(uv_handle_t *handle)
{
    handle_closed(((const struct flow *)handle->data)->connection);
}

/* The descriptor is told how to close, since libuv's own reset refuses while a shutdown is on its way. */
static void linger_set(uv_tcp_t *socket)
{
    uv_os_fd_t fd;
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    if (uv_fileno((const uv_handle_t *)socket, &fd) == 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

static void connection_close(struct connection *c, bool reset)
{
    if (c->closing)
        return;
    c->closing = true;
    connection_unlist(c);
    for (int side = 0; side < 2; side++) {
        if (reset)
            linger_set(&c->sockets[side]);
        uv_close((uv_handle_t *)&c->sockets[side], on_socket_closed);
        uv_close((uv_handle_t *)&c->flows[side].timer, on_timer_closed);
    }
}

void connection_reset(struct connection *c)
{
    connection_close(c, true);
}

void connection_flow_done(struct connection *c, bool reset)
{
    if (reset)
        connection_reset(c);
    else if (c->flows[SIDE_UP].done && c->flows[SIDE_DOWN].done)
        connection_close(c, false);
}

/* --- what is read ------------------------------------------------------------------------------------------------- */

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)handle, (void)suggested;
    char *bytes = malloc(READ_BYTES);
    *ret = uv_buf_init(bytes, bytes != NULL ? READ_BYTES : 0);
}

/* Its own direction ends when all is delivered; nothing can be delivered to it, if it did not just stop sending. */
static void source_ended(struct connection *c, enum side side, bool orderly)
{
    dialogue_end(&c->dialogue, side);
    if (!orderly) {
        c->flows[other[side]].done = true;
        flow_discard(&c->flows[other[side]]);
    }
    flow_finish(&c->flows[side], orderly ? FLOW_FIN : FLOW_RST);
    connection_flow_done(c, false);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct connection *c = stream->data;
    enum side side = stream == (uv_stream_t *)&c->sockets[SIDE_UP] ? SIDE_UP : SIDE_DOWN;
    if (n > 0)
        dialogue_feed(&c->dialogue, side, (const uint8_t *)buffer->base, (size_t)n);
    free(buffer->base);
    if (c->closing || n == 0)
        return;
    if (n < 0) {
        (void)uv_read_stop(stream);
        source_ended(c, side, n == UV_EOF);
    } else {
        connection_read(c, side);
    }
}

void connection_read(struct connection *c, enum side side)
{
    const struct flow *f = &c->flows[side];
    uv_stream_t *source = (uv_stream_t *)&c->sockets[side];
    if (c->closing || f->end != FLOW_OPEN)
        return;
    if (f->queued_n >= FLOW_QUEUE_MAX)
        (void)uv_read_stop(source);
    else if (uv_is_readable(source))
        (void)uv_read_start(source, on_allocate, on_read);
}

/* --- what the dialogue wants -------------------------------------------------------------------------------------- */

static void on_send(void *data, enum side side, const uint8_t *bytes, size_t n, uint32_t delay_ms, bool aside)
{
    struct connection *c = data;
    flow_append(&c->flows[side], bytes, n, delay_ms, aside);
}

static void on_reset(void *data)
{
    connection_reset(data);
}

static void on_end(void *data, enum side side)
{
    struct connection *c = data;
    if (!c->closing)
        flow_finish(&c->flows[side], FLOW_FIN);
}

static void on_freeze(void *data, enum rule_sides sides)
{
    struct listener *l = ((struct connection *)data)->listener;
    l->frozen[SIDE_UP] |= (sides & RULE_UP) != 0;
    l->frozen[SIDE_DOWN] |= (sides & RULE_DOWN) != 0;
}

static const struct dialogue_callbacks callbacks = {.send = on_send, .reset = on_reset, .end = on_end, .freeze = on_freeze};

/* --- the beginning ------------------------------------------------------------------------------------------------ */

static void on_connected(uv_connect_t *connect, int status)
{
    struct connection *c = connect->data;
    if (c->closing)
        return;
    if (status != 0) {
        connection_reset(c);
        return;
    }
    (void)uv_tcp_nodelay(&c->sockets[SIDE_DOWN], 1);
    c->flows[SIDE_UP].ready = true;
    connection_read(c, SIDE_DOWN);
    flow_pump(&c->flows[SIDE_UP]);
}

static void handles_open(struct connection *c, uv_loop_t *loop)
{
    for (int side = 0; side < 2; side++) {
        struct flow *f = &c->flows[side];
        f->connection = c;
        f->side = (enum side)side;
        (void)uv_tcp_init(loop, &c->sockets[side]);
        (void)uv_timer_init(loop, &f->timer);
        f->timer.data = f;
        c->sockets[side].data = c;
    }
    c->handles = 4;
}

static void connection_list(struct connection *c, struct listener *l)
{
    c->listener = l;
    c->next = l->connections;
    if (c->next != NULL)
        c->next->previous = c;
    l->connections = c;
    c->number = (unsigned)++l->accepted;
    l->open++;
}

void connection_accept(struct listener *l)
{
    struct connection *c = calloc(1, sizeof *c);
    struct sockaddr_in address;
    if (c == NULL)
        abort();
    connection_list(c, l);
    handles_open(c, l->socket.loop);
    dialogue_begin(&c->dialogue, l->protocol, l->name, l->rules, &callbacks, c);
    (void)uv_ip4_addr("127.0.0.1", l->upstream_port, &address);
    c->connect.data = c;
    if (uv_accept((uv_stream_t *)&l->socket, (uv_stream_t *)&c->sockets[SIDE_UP]) != 0 || l->cut ||
        uv_tcp_connect(&c->connect, &c->sockets[SIDE_DOWN], (const struct sockaddr *)&address, on_connected) != 0) {
        connection_reset(c);
        return;
    }
    (void)uv_tcp_nodelay(&c->sockets[SIDE_UP], 1);
    c->flows[SIDE_DOWN].ready = true;
    connection_read(c, SIDE_UP);
}
