/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>

#include "tests/lib/proxy/connection.h"

static void on_client(uv_stream_t *stream, int status)
{
    if (status == 0)
        connection_accept(stream->data);
}

int listener_open(struct listener *l, uv_loop_t *loop, int port)
{
    struct sockaddr_in address;
    struct sockaddr_storage bound;
    int size = sizeof bound;
    (void)uv_ip4_addr("127.0.0.1", port, &address);
    (void)uv_tcp_init(loop, &l->socket);
    l->socket.data = l;
    if (uv_tcp_bind(&l->socket, (const struct sockaddr *)&address, 0) != 0 || uv_listen((uv_stream_t *)&l->socket, 128, on_client) != 0 ||
        uv_tcp_getsockname(&l->socket, (struct sockaddr *)&bound, &size) != 0)
        return -1;
    const void *at = &bound;
    return ntohs(((const struct sockaddr_in *)at)->sin_port);
}

void listener_reset_all(struct listener *l)
{
    while (l->connections != NULL)
        connection_reset(l->connections);
}

void listener_half_close(struct listener *l, enum side side)
{
    for (struct connection *c = l->connections, *next; c != NULL; c = next) {
        next = c->next;
        flow_finish(&c->flows[side], FLOW_FIN);
    }
}

void listener_pump(struct listener *l)
{
    for (struct connection *c = l->connections, *next; c != NULL; c = next) {
        next = c->next;
        flow_pump(&c->flows[SIDE_UP]);
        if (!c->closing)
            flow_pump(&c->flows[SIDE_DOWN]);
    }
}

struct listener_counts listener_count(const struct listener *l)
{
    struct listener_counts n = {.requests = l->requests, .replies = l->replies, .unmatched = l->unmatched};
    for (const struct connection *c = l->connections; c != NULL; c = c->next) {
        n.requests += c->dialogue.requests;
        n.replies += c->dialogue.replies;
        n.unmatched += c->dialogue.unmatched;
        for (int side = 0; side < 2; side++)
            n.waiting[side] += c->flows[side].queued_n;
    }
    return n;
}
