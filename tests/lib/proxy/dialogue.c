/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/proxy/dialogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proxy/kafka_wire.h"

/* A request that was let through, or that is answered here when its turn comes. */
struct exchange {
    struct exchange *next;
    int32_t correlation;
    int16_t version;
    bool one_byte;     /* the reply is a byte, not a message */
    bool swallowed;    /* its reply is that to the second copy */
    struct rule *rule; /* NULL: none took it */
    uint64_t lane;     /* of the rule */
    struct bytes made; /* our own reply; empty: the server's is awaited */
    bool fatal;        /* after which the server would close */
    char what[REQUEST_TOPIC_MAX + 80];
};

void dialogue_begin(struct dialogue *d, enum protocol protocol, const char *upstream, struct rules *rules,
                    const struct dialogue_callbacks *callbacks, void *data)
{
    *d = (struct dialogue){.protocol = protocol, .upstream = upstream, .rules = rules, .callbacks = *callbacks, .data = data};
}

static void send_on(const struct dialogue *d, enum side side, const uint8_t *bytes, size_t n, uint32_t delay_ms)
{
    if (n > 0)
        d->callbacks.send(d->data, side, bytes, n, delay_ms, false);
}

static void reset(struct dialogue *d)
{
    d->over = true;
    d->callbacks.reset(d->data);
}

/* --- exchanges ---------------------------------------------------------------------------------------------------- */

static void describe(char *text, size_t size, const struct request *q)
{
    if (q->topic[0] != 0)
        snprintf(text, size, "%s %s/%d producer=%lld sequence=%d", q->type, q->topic, q->partition, (long long)q->producer, q->sequence);
    else
        snprintf(text, size, "%s %.60s", q->type, q->text);
    text[strcspn(text, "\n")] = 0;
}

static struct exchange *exchange_push(struct dialogue *d, const struct request *q, struct rule *rule, uint64_t lane)
{
    struct exchange *e = calloc(1, sizeof *e);
    if (e == NULL)
        abort();
    *e = (struct exchange){.correlation = q->correlation, .version = q->version, .rule = rule, .lane = lane};
    e->one_byte = strcmp(q->type, "ssl") == 0;
    describe(e->what, sizeof e->what, q);
    *(d->last != NULL ? &d->last->next : &d->first) = e;
    d->last = e;
    return e;
}

static void exchange_pop(struct dialogue *d)
{
    struct exchange *e = d->first;
    d->first = e->next;
    if (d->first == NULL)
        d->last = NULL;
    bytes_reset(&e->made);
    free(e);
}

/* Our own replies go out in their turn, like the server's. */
static void made_send(struct dialogue *d)
{
    while (d->first != NULL && d->first->made.n > 0 && !d->over) {
        struct exchange *e = d->first;
        d->callbacks.send(d->data, SIDE_DOWN, e->made.list, e->made.n, e->rule->delay_ms, e->rule->aside);
        rule_hit(d->rules, e->rule, e->what);
        if (e->fatal)
            d->callbacks.end(d->data, SIDE_DOWN);
        exchange_pop(d);
    }
}

/* --- what happens to a request ------------------------------------------------------------------------------------ */

struct verdict {
    struct rule *rule;
    uint64_t lane;
    const uint8_t *bytes; /* of the request */
    size_t n;
};

static void hit(const struct dialogue *d, const struct verdict *v, const struct request *q)
{
    char what[REQUEST_TOPIC_MAX + 80];
    describe(what, sizeof what, q);
    rule_hit(d->rules, v->rule, what);
}

static bool answered(const struct request *q)
{
    return !q->unanswered && strcmp(q->type, "cancel") != 0;
}

static void forward(struct dialogue *d, const struct verdict *v, const struct request *q)
{
    if (answered(q))
        (void)exchange_push(d, q, v->rule, v->lane);
    send_on(d, SIDE_UP, v->bytes, v->n, v->rule != NULL ? v->rule->hold_ms : 0);
}

/* Where there is no reply that says so, it is passed on: a rule that hits nothing fails its test. */
static void refuse(struct dialogue *d, const struct verdict *v, const struct request *q)
{
    struct bytes made = {0};
    bool fatal = strcmp(q->type, "startup") == 0;
    if (d->protocol == PROTOCOL_POSTGRES && v->rule->sqlstate[0] != 0)
        postgres_refuse(v->rule->sqlstate, fatal, &made);
    else if (d->protocol == PROTOCOL_KAFKA)
        (void)kafka_refuse(v->bytes, v->n, v->rule->code, &made);
    if (made.n == 0) {
        bytes_reset(&made);
        forward(d, &(struct verdict){.bytes = v->bytes, .n = v->n}, q);
        return;
    }
    struct exchange *e = exchange_push(d, q, v->rule, v->lane);
    e->made = made;
    e->fatal = fatal;
    made_send(d);
}

static void duplicate(struct dialogue *d, const struct verdict *v, const struct request *q)
{
    forward(d, &(struct verdict){.bytes = v->bytes, .n = v->n}, q);
    if (answered(q))
        exchange_push(d, q, v->rule, v->lane)->swallowed = true;
    send_on(d, SIDE_UP, v->bytes, v->n, v->rule->hold_ms);
}

static void tear(struct dialogue *d, const struct verdict *v, const struct request *q)
{
    hit(d, v, q);
    send_on(d, SIDE_UP, v->bytes, v->n / 2, 0);
    d->over = true;
    d->callbacks.end(d->data, SIDE_UP);
    d->callbacks.end(d->data, SIDE_DOWN);
}

static void half_close(struct dialogue *d, const struct verdict *v, const struct request *q)
{
    forward(d, v, q);
    hit(d, v, q);
    if (v->rule->sides & RULE_UP)
        d->callbacks.end(d->data, SIDE_UP);
    if (v->rule->sides & RULE_DOWN)
        d->callbacks.end(d->data, SIDE_DOWN);
}

static void perform(struct dialogue *d, const struct verdict *v, const struct request *q)
{
    switch (v->rule->action) {
    case RULE_PASS:
        hit(d, v, q);
        forward(d, v, q);
        break;
    case RULE_DROP:
        hit(d, v, q);
        break;
    case RULE_CUT:
        hit(d, v, q);
        reset(d);
        break;
    case RULE_FREEZE:
        hit(d, v, q);
        d->callbacks.freeze(d->data, v->rule->sides);
        forward(d, v, q);
        break;
    case RULE_ERROR:
        refuse(d, v, q);
        break;
    case RULE_DUPLICATE:
        duplicate(d, v, q);
        break;
    case RULE_TEAR:
        tear(d, v, q);
        break;
    case RULE_HALF_CLOSE:
        half_close(d, v, q);
        break;
    case RULE_COUNT:
    case RULE_LOSE:
    case RULE_MUTE:
    case RULE_SPOIL:
    case RULE_TEAR_REPLY:
        forward(d, v, q);
        break;
    }
}

static void request_take(struct dialogue *d, const uint8_t *bytes, size_t n, const struct request *q)
{
    struct verdict v = {.bytes = bytes, .n = n};
    d->requests++;
    v.rule = rules_judge(d->rules, d->upstream, q, &v.lane);
    if (v.rule != NULL)
        perform(d, &v, q);
    else
        forward(d, &v, q);
}

/* --- what happens to a reply -------------------------------------------------------------------------------------- */

static void reply_tear(struct dialogue *d, const uint8_t *bytes, size_t n)
{
    rule_hit(d->rules, d->first->rule, d->first->what);
    send_on(d, SIDE_DOWN, bytes, n / 2, 0);
    exchange_pop(d);
    d->over = true;
    d->callbacks.end(d->data, SIDE_DOWN);
    d->callbacks.end(d->data, SIDE_UP);
}

static void reply_spoil(struct dialogue *d, const uint8_t *bytes, size_t n)
{
    struct bytes spoiled = {0};
    bytes_append(&spoiled, bytes, n);
    if (kafka_spoil(spoiled.list, n, d->first->version, d->first->rule->code) > 0)
        rule_hit(d->rules, d->first->rule, d->first->what);
    send_on(d, SIDE_DOWN, spoiled.list, n, d->first->rule->delay_ms);
    bytes_reset(&spoiled);
}

/* A part of the first exchange's reply; `whole`: its last. */
static void reply_take(struct dialogue *d, const uint8_t *bytes, size_t n, bool whole)
{
    struct exchange *e = d->first;
    enum rule_action action = e->rule != NULL ? e->rule->action : RULE_PASS;
    bool swallow = e->swallowed || action == RULE_LOSE || action == RULE_MUTE;
    if (action == RULE_TEAR_REPLY) {
        reply_tear(d, bytes, n);
        return;
    }
    if (action == RULE_SPOIL)
        reply_spoil(d, bytes, n);
    else if (!swallow)
        send_on(d, SIDE_DOWN, bytes, n, e->rule != NULL ? e->rule->delay_ms : 0);
    if (!whole)
        return;
    d->replies++;
    if (swallow)
        rule_hit(d->rules, e->rule, e->what);
    exchange_pop(d);
    if (action == RULE_LOSE)
        reset(d);
    else
        made_send(d);
}

/* --- frames ------------------------------------------------------------------------------------------------------- */

static void kafka_take(struct dialogue *d, enum side side, const uint8_t *bytes, size_t n)
{
    struct request q;
    if (side == SIDE_UP && kafka_request_read(bytes, n, &q)) {
        request_take(d, bytes, n, &q);
    } else if (side == SIDE_DOWN && d->first != NULL && d->first->correlation == kafka_reply_correlation(bytes, n)) {
        reply_take(d, bytes, n, true);
    } else {
        d->unmatched++;
        send_on(d, side, bytes, n, 0);
    }
}

static void postgres_up_take(struct dialogue *d, const uint8_t *bytes, size_t n)
{
    struct request q;
    enum postgres_part part = postgres_session_read(&d->postgres, bytes, n, &q);
    bytes_append(&d->unit, bytes, n);
    if (part == POSTGRES_PART)
        return;
    /* Otherwise what was held goes first, and undecided: the client may wait for an answer to it. */
    if (part == POSTGRES_WHOLE)
        request_take(d, d->unit.list, d->unit.n, &q);
    else
        send_on(d, SIDE_UP, d->unit.list, d->unit.n, 0);
    d->unit.n = 0;
}

/* A server that agrees to encryption says nothing more that could be read. */
static void postgres_down_take(struct dialogue *d, const uint8_t *bytes, size_t n)
{
    if (d->first == NULL) {
        d->unmatched++;
        send_on(d, SIDE_DOWN, bytes, n, 0);
        return;
    }
    bool one_byte = d->first->one_byte;
    reply_take(d, bytes, n, one_byte || bytes[0] == 'Z');
    if (one_byte && bytes[0] != 'N')
        d->protocol = PROTOCOL_RAW;
}

static int64_t frame_size(const struct dialogue *d, enum side side, const uint8_t *bytes, size_t n)
{
    if (d->protocol == PROTOCOL_KAFKA)
        return kafka_frame_size(bytes, n);
    if (side == SIDE_DOWN && d->first != NULL && d->first->one_byte)
        return n > 0 ? 1 : 0;
    return postgres_message_size(bytes, n, side == SIDE_DOWN || d->postgres.started);
}

static void frame_take(struct dialogue *d, enum side side, const uint8_t *bytes, size_t n)
{
    if (d->protocol == PROTOCOL_KAFKA)
        kafka_take(d, side, bytes, n);
    else if (side == SIDE_UP)
        postgres_up_take(d, bytes, n);
    else
        postgres_down_take(d, bytes, n);
}

void dialogue_feed(struct dialogue *d, enum side side, const uint8_t *bytes, size_t n)
{
    struct bytes *in = &d->in[side];
    size_t done = 0;
    if (d->over)
        return;
    bytes_append(in, bytes, n);
    while (done < in->n && !d->over && d->protocol != PROTOCOL_RAW) {
        int64_t size = frame_size(d, side, in->list + done, in->n - done);
        if (size == 0)
            break;
        if (size < 0) {
            d->protocol = PROTOCOL_RAW;
            break;
        }
        frame_take(d, side, in->list + done, (size_t)size);
        done += (size_t)size;
    }
    bytes_consume(in, done);
    if (d->protocol == PROTOCOL_RAW) {
        dialogue_end(d, SIDE_UP);
        dialogue_end(d, SIDE_DOWN);
    }
}

void dialogue_end(struct dialogue *d, enum side side)
{
    struct bytes *in = &d->in[side];
    if (d->over)
        return;
    if (side == SIDE_UP) {
        send_on(d, SIDE_UP, d->unit.list, d->unit.n, 0);
        d->unit.n = 0;
    }
    send_on(d, side, in->list, in->n, 0);
    in->n = 0;
}

void dialogue_reset(struct dialogue *d)
{
    while (d->first != NULL) {
        const struct exchange *e = d->first;
        enum rule_action action = e->rule != NULL ? e->rule->action : RULE_PASS;
        if (e->made.n > 0 || e->swallowed || action == RULE_LOSE || action == RULE_MUTE || action == RULE_SPOIL ||
            action == RULE_TEAR_REPLY)
            rule_return(e->rule, e->lane);
        exchange_pop(d);
    }
    bytes_reset(&d->in[SIDE_UP]);
    bytes_reset(&d->in[SIDE_DOWN]);
    bytes_reset(&d->unit);
    postgres_session_reset(&d->postgres);
}
