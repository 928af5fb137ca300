/* SPDX-License-Identifier: BSD-2-Clause */
/* The faults of a network one after the other, chosen by a seed: TEST_SEED, which is told. Two relays, so that each may lose its lease. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/crash/network.h"
#include "tests/lib/test.h"

/* What can be told in one rule. */
static const char *const rules[] = {
    "db lose text=[mark]",
    "db lose text=[beat]",
    "db lose text=[save]",
    "db lose text=[fetch",
    "db error code=40001 text=[mark]",
    "db duplicate text=[mark]",
    "db tear text=[mark]",
    "db tear-reply text=[fetch",
    "db pass delay=1500 text=[beat]",
    "kafka lose on=Produce",
    "kafka cut on=Produce times=3",
    "kafka tear on=Produce",
    "kafka tear-reply on=Produce",
    "kafka duplicate on=Produce times=5",
    "kafka pass delay=400 on=Produce",
    "kafka pass hold=400 on=Produce",
    "kafka error code=6 delay=200 aside=1 on=Produce",
    "kafka error code=19 on=Produce times=5",
    "kafka error code=87 on=Produce",
    "kafka error code=31 on=Produce",
    "kafka spoil code=20 on=Produce",
    "kafka spoil code=-1 on=Produce",
    "kafka half-close side=up on=Produce",
};
#define RULES (sizeof rules / sizeof rules[0])

static const char *const sides[] = {"up", "down", "both"};
static const char *const upstreams[] = {"db", "kafka"};

static unsigned choose(uint64_t *seed, unsigned n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*seed >> 33) % n;
}

static void reset_some(struct network *n, const char *upstream)
{
    char command[40];

    (void)snprintf(command, sizeof command, "reset %s", upstream);
    line_publishing(n->l);
    /* In the middle of a reconnection there may be none. */
    long open;
    WAIT_UNTIL((open = strtol(network_strike(n, command), NULL, 10)) > 0, 20);
    line_hit(n->l, command, "proxy: %ld connections reset", open);
}

static void mix(const char *name, unsigned faults, uint64_t seed)
{
    struct network *n = network_begin(name, NULL);

    (void)network_relay(n);
    (void)network_relay(n);
    printf("seed %" PRIu64 "\n", seed);
    for (unsigned i = 0; i < faults; i++) {
        unsigned kind = choose(&seed, 10);
        const char *upstream = upstreams[choose(&seed, 2)];

        if (kind < 7)
            network_fault(n, "mixed faults of a network", "%s", rules[choose(&seed, RULES)]);
        else if (kind == 7)
            reset_some(n, upstream);
        else if (kind == 8)
            network_cut(n, upstream, 200 + choose(&seed, 2000));
        else
            network_freeze(n, upstream, sides[choose(&seed, 3)], 200 + choose(&seed, 3000));
        /* A hundred rules are a lot; healing clears them all. */
        if (i % 20 == 19) {
            line_publishing(n->l);
            proxy_stop(&n->proxy);
            n->proxy = proxy_start();
            network_listen(n);
        }
    }
    network_end(n, &(struct line_expected){.windows = LINE_D_ANY, .seconds = 60});
}

static uint64_t seed_given(uint64_t otherwise)
{
    const char *seed = getenv("TEST_SEED");

    return seed != NULL && seed[0] != 0 ? strtoull(seed, NULL, 10) : otherwise;
}

TEST_WITHIN(crash_network_mix, 180)
{
    mix("mix", 12, 5);
}

TEST_WITHIN(long_network_mix, 1200)
{
    mix("mix-long", 150, seed_given(1));
}
