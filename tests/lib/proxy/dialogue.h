/* SPDX-License-Identifier: BSD-2-Clause */
/* What is said on one connection: bytes of both sides go in as they come, whole requests are judged by the rules, replies are matched to
 * them in order, and what is to be sent, cut or frozen comes out through callbacks. No sockets and no clock here, so that it can be
 * fuzzed. Bytes that are not of the protocol, or encrypted, pass as they are from then on. */
#ifndef TESTS_LIB_PROXY_DIALOGUE_H
#define TESTS_LIB_PROXY_DIALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/proxy/postgres_wire.h"
#include "tests/lib/proxy/rule.h"
#include "tests/lib/proxy/wire.h"

enum side {
    SIDE_UP,
    SIDE_DOWN
}; /* from the client; from the server */
enum protocol {
    PROTOCOL_RAW,
    PROTOCOL_KAFKA,
    PROTOCOL_POSTGRES
};

/* None of them may feed the dialogue or free it. */
struct dialogue_callbacks {
    /* Borrows `bytes`. `aside`: what comes later and is due earlier may overtake it. */
    void (*send)(void *data, enum side side, const uint8_t *bytes, size_t n, uint32_t delay_ms, bool aside);
    void (*reset)(void *data);               /* both sides, at once */
    void (*end)(void *data, enum side side); /* once everything before is sent */
    void (*freeze)(void *data, enum rule_sides sides);
};

struct exchange;

struct dialogue {
    enum protocol protocol;
    const char *upstream;
    struct rules *rules;
    struct dialogue_callbacks callbacks;
    void *data;
    struct bytes in[2]; /* that are no whole frame yet */
    struct bytes unit;  /* messages of a request that is not whole yet */
    struct postgres_session postgres;
    struct exchange *first, *last; /* requests whose replies are awaited, in order */
    bool over;                     /* reset or torn: nothing more is said */
    uint64_t requests, replies, unmatched;
};

/* Zeroes `d`; keeps the rest. */
void dialogue_begin(struct dialogue *d, enum protocol protocol, const char *upstream, struct rules *rules,
                    const struct dialogue_callbacks *callbacks, void *data);
void dialogue_feed(struct dialogue *d, enum side side, const uint8_t *bytes, size_t n);
/* A side ended in the middle of something: that is passed on as it is. */
void dialogue_end(struct dialogue *d, enum side side);
void dialogue_reset(struct dialogue *d);

#endif
