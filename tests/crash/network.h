/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of the matrix whose faults are the network's: between the relays and PostgreSQL ("db"), and between them and Kafka ("kafka"), the
 * fault proxy stands; writers and oracle go straight. */
#ifndef TESTS_CRASH_NETWORK_H
#define TESTS_CRASH_NETWORK_H

#include "tests/crash/kafka_line.h"
#include "tests/crash/line.h"
#include "tests/lib/proxy.h"

struct network {
    struct line *l;
    struct proxy proxy;
    char direct[400]; /* conninfo that does not go through the proxy */
    int port;         /* of the proxy before the database */
    unsigned rules_n;
};

/* A line between two proxies. Its relays are started by network_relay or line_relay. `rate` as in line_options. */
struct network *network_begin(const char *name, const char *rate);
/* With more to choose, but `options.e2e.settings` and `.kafka`. */
struct network *network_begin_with(const char *name, struct line_options options);
/* Listen before both, when the line begins, or with another proxy instead of the first: that is a cut of everything. */
void network_listen(struct network *n);
struct process *network_relay(struct network *n); /* with KAFKA_LINE_QUICK */

/* The fault of one rule: wait until a relay publishes, add the rule ("db lose text=[mark]"), burst until it hit, count it. */
void network_fault(struct network *n, const char *injected, const char *rule, ...) __attribute__((format(printf, 3, 4)));
/* Burst, perform a command ("cut db"), and tell what it answered. Count it with line_hit when it is proved. */
const char *network_strike(struct network *n, const char *command);
/* Cut "db" or "kafka" while the writers commit `events`, and heal it. */
void network_cut(struct network *n, const char *upstream, int64_t events);
/* Freeze a side of it ("up", "down", "both") for as long: bytes come to the proxy, and none goes on. */
void network_freeze(struct network *n, const char *upstream, const char *side, int64_t events);
/* Heal both sides, end the line, stop the proxy. */
void network_end(struct network *n, const struct line_expected *expected);

#endif
