/* SPDX-License-Identifier: BSD-2-Clause */
/* One direction of a connection. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proxy/connection.h"

/* A throttled direction sends so many times a second. */
#define SLICES_PER_SECOND 50

static uv_stream_t *destination(struct flow *f)
{
    return (uv_stream_t *)&f->connection->sockets[f->side == SIDE_UP ? SIDE_DOWN : SIDE_UP];
}

static uint64_t now_ms(const struct flow *f)
{
    return uv_now(f->timer.loop);
}

static void chunk_remove(struct flow *f)
{
    struct chunk *c = f->first;
    f->first = c->next;
    free(c);
}

void flow_discard(struct flow *f)
{
    while (f->first != NULL && !f->writing)
        chunk_remove(f);
    f->queued_n = 0;
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct flow *f = shutdown->data;
    (void)status;
    connection_flow_done(f->connection, false);
}

static void destination_close(struct flow *f)
{
    f->done = true;
    f->shutdown.data = f;
    if (f->end == FLOW_RST)
        connection_flow_done(f->connection, true);
    else if (uv_shutdown(&f->shutdown, destination(f), on_shutdown) != 0)
        connection_flow_done(f->connection, false);
}

/* Nobody is there any more: what is still to come is discarded, the other direction goes on. */
static void destination_lost(struct flow *f)
{
    f->done = true;
    flow_discard(f);
    connection_flow_done(f->connection, false);
}

static void on_written(uv_write_t *write, int status)
{
    struct flow *f = write->data;
    f->writing = false;
    if (f->connection->closing)
        return;
    if (status != 0 || f->done) {
        destination_lost(f);
        return;
    }
    if (f->first->sent_n == f->first->n)
        chunk_remove(f);
    connection_read(f->connection, f->side);
    flow_pump(f);
}

static void on_timer(uv_timer_t *timer)
{
    flow_pump(timer->data);
}

static void slice_write(struct flow *f)
{
    struct listener *l = f->connection->listener;
    struct chunk *c = f->first;
    size_t n = c->n - c->sent_n;
    if (l->rate > 0) {
        size_t slice = l->rate / SLICES_PER_SECOND + 1;
        n = n < slice ? n : slice;
        f->paced_ms = now_ms(f) + n * 1000 / l->rate;
    }
    uv_buf_t buffer = uv_buf_init((char *)c->bytes + c->sent_n, (unsigned)n);
    c->sent_n += n;
    f->queued_n -= n;
    l->bytes[f->side] += n;
    f->write.data = f;
    f->writing = true;
    if (uv_write(&f->write, destination(f), &buffer, 1, on_written) == 0)
        return;
    f->writing = false;
    destination_lost(f);
}

void flow_pump(struct flow *f)
{
    if (f->writing || f->done || !f->ready || f->connection->closing || f->connection->listener->frozen[f->side])
        return;
    if (f->first == NULL) {
        if (f->end != FLOW_OPEN)
            destination_close(f);
        return;
    }
    uint64_t due_ms = f->first->due_ms > f->paced_ms ? f->first->due_ms : f->paced_ms;
    if (due_ms > now_ms(f))
        (void)uv_timer_start(&f->timer, on_timer, due_ms - now_ms(f), 0);
    else
        slice_write(f);
}

/* At the end, but before those that wait aside and are due later. The queue is short. */
static void chunk_insert(struct flow *f, struct chunk *c)
{
    struct chunk **place = &f->first;
    for (struct chunk **p = &f->first; *p != NULL; p = &(*p)->next)
        if (!(*p)->aside || (*p)->sent_n > 0 || (*p)->due_ms <= c->due_ms)
            place = &(*p)->next;
    c->next = *place;
    *place = c;
}

void flow_append(struct flow *f, const uint8_t *bytes, size_t n, uint32_t delay_ms, bool aside)
{
    if (f->done || f->end != FLOW_OPEN)
        return;
    struct chunk *c = malloc(sizeof *c + n);
    if (c == NULL)
        abort();
    *c = (struct chunk){.due_ms = now_ms(f) + delay_ms + f->connection->listener->latency_ms, .aside = aside, .n = n};
    memcpy(c->bytes, bytes, n);
    chunk_insert(f, c);
    f->queued_n += n;
    flow_pump(f);
}

void flow_finish(struct flow *f, enum flow_end end)
{
    if (f->end == FLOW_OPEN)
        f->end = end;
    flow_pump(f);
}
