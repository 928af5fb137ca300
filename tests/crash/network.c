/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/network.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

void network_listen(struct network *n)
{
    CHECK_EQ(proxy_listen(&n->proxy, "db", "postgres", n->port, n->l->e.db.port), n->port);
    CHECK_EQ(proxy_listen(&n->proxy, "kafka", "kafka", e2e_broker()->proxy_port, e2e_broker()->proxied_port), e2e_broker()->proxy_port);
}

struct network *network_begin(const char *name, const char *rate)
{
    return network_begin_with(name, (struct line_options){.rate = rate});
}

struct network *network_begin_with(const char *name, struct line_options options)
{
    struct network *n = test_allocate(sizeof *n);

    options.e2e.settings = "listen_addresses = '127.0.0.1'";
    n->l = line_begin(name, &options);
    n->proxy = proxy_start();
    (void)snprintf(n->direct, sizeof n->direct, "%s", n->l->e.database);
    n->port = free_port();
    network_listen(n);
    (void)snprintf(n->l->e.database, sizeof n->l->e.database, "host=127.0.0.1 port=%d user=postgres dbname=postgres", n->port);
    (void)snprintf(n->l->e.brokers, sizeof n->l->e.brokers, "127.0.0.1:%d", e2e_broker()->proxy_port);
    return n;
}

struct process *network_relay(struct network *n)
{
    return LINE_RELAY(n->l, KAFKA_LINE_QUICK);
}

void network_fault(struct network *n, const char *injected, const char *rule, ...)
{
    char text[300], name[16];
    va_list arguments;

    va_start(arguments, rule);
    (void)vsnprintf(text, sizeof text, rule, arguments);
    va_end(arguments);
    (void)snprintf(name, sizeof name, "fault%u", ++n->rules_n);
    line_publishing(n->l);
    line_strike(n->l);
    (void)proxy_command(&n->proxy, "rule %s %s", name, text);
    WAIT_UNTIL(proxy_hits(&n->proxy, name) > 0 || (line_strike(n->l), false), 20);
    line_hit(n->l, injected, "proxy: %lld hit of \"%s\"", (long long)proxy_hits(&n->proxy, name), text);
    (void)proxy_command(&n->proxy, "forget %s", name);
}

const char *network_strike(struct network *n, const char *command)
{
    line_publishing(n->l);
    line_strike(n->l);
    return proxy_command(&n->proxy, "%s", command);
}

void network_cut(struct network *n, const char *upstream, int64_t events)
{
    char command[40];

    (void)snprintf(command, sizeof command, "cut %s", upstream);
    long open = strtol(network_strike(n, command), NULL, 10);
    int64_t accepted = proxy_stat(&n->proxy, upstream, "accepted");

    kafka_line_pass(n->l, events);
    WAIT_UNTIL(proxy_stat(&n->proxy, upstream, "accepted") > accepted, 20);
    CHECK(open > 0);
    line_hit(n->l, command, "proxy: %ld connections reset, %lld tries refused", open,
             (long long)(proxy_stat(&n->proxy, upstream, "accepted") - accepted));
    (void)proxy_command(&n->proxy, "heal %s", upstream);
}

/* Bytes that wait in the proxy. With both sides frozen, a client whose requests have all left waits for the replies and sends nothing more. */
static int64_t held(struct network *n, const char *upstream, const char *side)
{
    int64_t bytes = 0;

    if (strcmp(side, "down") != 0)
        bytes += proxy_stat(&n->proxy, upstream, "waiting-up");
    if (strcmp(side, "up") != 0)
        bytes += proxy_stat(&n->proxy, upstream, "waiting-down");
    return bytes;
}

void network_freeze(struct network *n, const char *upstream, const char *side, int64_t events)
{
    char command[40];
    const char *still = strcmp(side, "down") == 0 ? "down" : "up";

    (void)snprintf(command, sizeof command, "freeze %s %s", upstream, side);
    (void)network_strike(n, command);
    int64_t bytes = proxy_stat(&n->proxy, upstream, still), most = 0;

    /* A client that gives up takes with it what is held. */
    WAIT_UNTIL((most = held(n, upstream, side)) > 0, 20);
    kafka_line_pass(n->l, events);
    CHECK_EQ(proxy_stat(&n->proxy, upstream, still), bytes);
    line_hit(n->l, command, "proxy: %lld bytes held, none went %s", (long long)most, still);
    (void)proxy_command(&n->proxy, "heal %s", upstream);
}

void network_end(struct network *n, const struct line_expected *expected)
{
    (void)proxy_command(&n->proxy, "heal db");
    (void)proxy_command(&n->proxy, "heal kafka");
    line_end(n->l, expected);
    proxy_stop(&n->proxy);
}
