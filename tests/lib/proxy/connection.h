/* SPDX-License-Identifier: BSD-2-Clause */
/* The sockets of the fault proxy. A listener stands before one upstream; each client it accepts gets a connection to the upstream, and the
 * bytes of each direction wait in a queue (a flow) until they are due: delayed, throttled, or frozen for as long as the listener is. A
 * direction whose source is gone is still delivered: what a network has taken, it may bring late. */
#ifndef TESTS_LIB_PROXY_CONNECTION_H
#define TESTS_LIB_PROXY_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "tests/lib/proxy/dialogue.h"

struct chunk {
    struct chunk *next;
    uint64_t due_ms;
    bool aside;
    size_t n, sent_n;
    uint8_t bytes[];
};

enum flow_end {
    FLOW_OPEN,
    FLOW_FIN,
    FLOW_RST
};

struct flow {
    struct connection *connection;
    enum side side;
    struct chunk *first;
    size_t queued_n;
    uint64_t paced_ms;   /* throttled: nothing goes out before */
    enum flow_end end;   /* what comes after the last chunk */
    bool writing, ready; /* ready: its destination is connected */
    bool done;           /* its end is sent, or its destination is gone: what comes is discarded */
    uv_write_t write;
    uv_shutdown_t shutdown;
    uv_timer_t timer;
};

struct connection {
    struct connection *previous, *next;
    struct listener *listener;
    unsigned number;
    uv_tcp_t sockets[2]; /* [SIDE_UP] is the client's: the source of that direction, and the destination of the other */
    struct flow flows[2];
    uv_connect_t connect;
    struct dialogue dialogue;
    bool closing;
    unsigned handles; /* not closed yet */
};

struct listener {
    struct listener *next;
    char name[NAME_MAX_LEN];
    enum protocol protocol;
    uv_tcp_t socket;
    int upstream_port;
    struct rules *rules;
    struct connection *connections;

    bool cut;            /* who comes is reset */
    bool frozen[2];      /* nothing of that direction goes on */
    uint32_t latency_ms; /* of every chunk */
    uint32_t rate;       /* bytes a second of each direction of each connection; 0: no limit */

    uint64_t accepted, open, requests, replies, unmatched, bytes[2]; /* of connections that ended, but for `open` and `bytes` */
};

/* Listen on 127.0.0.1; port 0: any. Returns the port; -1: cannot. Keeps `rules`. */
int listener_open(struct listener *l, uv_loop_t *loop, int port);
void listener_reset_all(struct listener *l); /* RST on both sides of every connection */
void listener_half_close(struct listener *l, enum side side);
void listener_pump(struct listener *l); /* after it was thawed, or its rate changed */

void connection_accept(struct listener *l);
void connection_reset(struct connection *c); /* RST on both sides */
struct listener_counts {
    uint64_t requests, replies, unmatched;
    uint64_t waiting[2]; /* bytes that are here and did not go on yet */
};

/* Of all connections there ever were. */
struct listener_counts listener_count(const struct listener *l);

void flow_append(struct flow *f, const uint8_t *bytes, size_t n, uint32_t delay_ms, bool aside); /* copies */
void flow_finish(struct flow *f, enum flow_end end);                                             /* once all that waits is sent */
void flow_pump(struct flow *f);                                                                  /* send what is due */
void flow_discard(struct flow *f);

/* For flows: both are done, or one was reset. */
void connection_flow_done(struct connection *c, bool reset);
/* Read on, or stop reading, as the queue of this direction has room. */
void connection_read(struct connection *c, enum side side);

#define FLOW_QUEUE_MAX (1024 * 1024)

#endif
