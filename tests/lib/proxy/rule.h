/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules say what happens to which request. A rule is written in one line (tests/lib/proxy.h has the words), chooses requests, counts those
 * it chose, and counts a hit when its fault really happened: for a reply that is to be lost, when the reply was there. */
#ifndef TESTS_LIB_PROXY_RULE_H
#define TESTS_LIB_PROXY_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/proxy/request.h"

#define RULES_MAX    256
#define NAME_MAX_LEN 40

enum rule_action {
    RULE_PASS,       /* forwarded; with hold= and delay=, later */
    RULE_COUNT,      /* only counted: later rules are asked too */
    RULE_DROP,       /* swallowed */
    RULE_LOSE,       /* forwarded, the reply swallowed, the connection reset */
    RULE_MUTE,       /* forwarded, the reply swallowed */
    RULE_ERROR,      /* not forwarded, refused by the proxy */
    RULE_SPOIL,      /* forwarded, the reply's error code replaced (Produce) */
    RULE_DUPLICATE,  /* forwarded twice, the second reply swallowed */
    RULE_CUT,        /* not forwarded, the connection reset */
    RULE_TEAR,       /* the first half forwarded, then the end of the stream */
    RULE_TEAR_REPLY, /* the first half of the reply, then the end of the stream */
    RULE_FREEZE,     /* not forwarded, and nothing after it, until the upstream is healed */
    RULE_HALF_CLOSE, /* forwarded, then one direction closed */
};

/* Of sides: bits. */
enum rule_sides {
    RULE_UP = 1,
    RULE_DOWN = 2,
    RULE_BOTH = 3
};

struct rule_lane {
    uint64_t key;
    uint32_t seen, taken;
};

struct rule {
    char name[NAME_MAX_LEN], upstream[NAME_MAX_LEN];
    bool active;
    enum rule_action action;

    /* which requests */
    int key;        /* of Kafka; -1: any */
    char type[24];  /* of PostgreSQL; "": any */
    char text[200]; /* a part of what is executed; "": any */
    char topic[REQUEST_TOPIC_MAX];
    int32_t partition; /* -1: any */
    int32_t sequence;  /* -1: any */
    uint32_t skip, times;
    char after[NAME_MAX_LEN]; /* a rule that must have taken one before; "": none */
    bool per_lane;            /* skip and times for each (producer, topic, partition) alone */
    uint32_t chance;          /* in 1000 */

    /* what happens to them */
    int16_t code;
    char sqlstate[6];
    uint32_t hold_ms, delay_ms; /* of the request, of the reply */
    bool aside;                 /* the reply waits alone: others may overtake it */
    enum rule_sides sides;

    uint64_t seen, hits;
    struct rule_lane *lanes;
    unsigned lanes_n, lanes_max;
};

struct rules {
    struct rule list[RULES_MAX];
    unsigned n;
    uint64_t seed;
    void (*on_hit)(const struct rule *r, const char *what); /* NULL, or told of each */
};

void rules_reset(struct rules *rules);
/* Read "NAME UPSTREAM ACTION [key=value ...]", which is changed. Returns NULL, or what is wrong with it. */
const char *rules_add(struct rules *rules, char *line);
struct rule *rules_find(struct rules *rules, const char *name); /* NULL: there is none */

/* The first rule that takes this request, NULL: none does. `ret_lane` is to be given to rule_return. */
struct rule *rules_judge(struct rules *rules, const char *upstream, const struct request *request, uint64_t *ret_lane);
void rule_hit(const struct rules *rules, struct rule *r, const char *what);
/* It was taken, but the connection ended before the fault happened: it may be taken again. */
void rule_return(struct rule *r, uint64_t lane);
void rules_clear(struct rules *rules, const char *upstream); /* none of this upstream takes anything any more */

#endif
