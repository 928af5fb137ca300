/* SPDX-License-Identifier: BSD-2-Clause */
/* Whatever two sides say through the fault proxy, in whatever pieces: without a rule both hear exactly what was said; with one, whatever it
 * does, it does within the bytes that are there. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proxy/dialogue.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t bytes_n);

static const char *const rules_of_faults[] = {
    "a up error code=6 on=Produce times=0",
    "a up spoil code=10 on=Produce times=0",
    "a up lose skip=1 times=0",
    "a up mute times=0",
    "a up duplicate times=0",
    "a up tear skip=1",
    "a up tear-reply",
    "a up drop times=0 chance=500",
    "a up error code=40001 times=0",
    "a up half-close side=up",
    "a up freeze",
    "a up cut skip=2",
    "a up error code=41 per=lane times=2",
    "a up error code=15 on=InitProducerId",
};

struct heard {
    struct bytes side[2];
};

static void on_send(void *data, enum side side, const uint8_t *more, size_t n, uint32_t delay_ms, bool aside)
{
    struct heard *h = data;
    (void)delay_ms, (void)aside;
    assert(n > 0);
    bytes_append(&h->side[side], more, n);
}

static void on_reset(void *data)
{
    (void)data;
}

static void on_end(void *data, enum side side)
{
    (void)data, (void)side;
}

static void on_freeze(void *data, enum rule_sides sides)
{
    (void)data, (void)sides;
}

/* Pieces: a byte whose top bit is the side and whose rest is the length. Returns what each side said. */
static void talk(struct dialogue *d, const uint8_t *bytes, size_t n, struct bytes said[2])
{
    while (n > 1) {
        enum side side = bytes[0] & 0x80 ? SIDE_DOWN : SIDE_UP;
        size_t piece = bytes[0] & 0x7f;
        bytes++, n--;
        piece = piece < n ? piece : n;
        dialogue_feed(d, side, bytes, piece);
        bytes_append(&said[side], bytes, piece);
        bytes += piece, n -= piece;
    }
    dialogue_end(d, SIDE_UP);
    dialogue_end(d, SIDE_DOWN);
}

/* The first byte chooses the protocol and the rule. */
int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t bytes_n)
{
    const struct dialogue_callbacks callbacks = {.send = on_send, .reset = on_reset, .end = on_end, .freeze = on_freeze};
    size_t faults_n = sizeof rules_of_faults / sizeof rules_of_faults[0];
    struct rules *rules = calloc(1, sizeof *rules);
    struct bytes said[2] = {{0}, {0}};
    struct heard heard = {0};
    struct dialogue d;
    if (bytes_n == 0 || rules == NULL) {
        free(rules);
        return 0;
    }
    size_t choice = (bytes[0] >> 1) % (faults_n + 1);
    if (choice < faults_n) {
        char line[100];
        strcpy(line, rules_of_faults[choice]);
        assert(rules_add(rules, line) == NULL);
    }
    dialogue_begin(&d, bytes[0] & 1 ? PROTOCOL_KAFKA : PROTOCOL_POSTGRES, "up", rules, &callbacks, &heard);
    talk(&d, bytes + 1, bytes_n - 1, said);
    for (int side = 0; side < 2 && choice == faults_n; side++) {
        assert(heard.side[side].n == said[side].n);
        assert(said[side].n == 0 || memcmp(heard.side[side].list, said[side].list, said[side].n) == 0);
    }
    dialogue_reset(&d);
    rules_reset(rules);
    free(rules);
    for (int side = 0; side < 2; side++) {
        bytes_reset(&said[side]);
        bytes_reset(&heard.side[side]);
    }
    return 0;
}
