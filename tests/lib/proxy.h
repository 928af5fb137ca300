/* SPDX-License-Identifier: BSD-2-Clause */
/* The fault proxy: a process between a client and its servers that knows where Kafka's and PostgreSQL's requests begin and end, and does
 * to them what a network or a dying server may do. Beside services.h.
 *
 *     struct proxy p = proxy_start();
 *     int port = proxy_listen(&p, "db", "postgres", 0, db.port);
 *     proxy_command(&p, "rule marks db lose times=3 text=[mark]");
 *     ...
 *     CHECK_EQ(proxy_hits(&p, "marks"), 3);
 *
 * Commands to an upstream (NAME as given to proxy_listen):
 *   cut NAME                 reset every connection, and whoever comes, until it is healed; answers with how many were open
 *   reset NAME               reset every connection once; answers with how many
 *   freeze NAME SIDE         nothing goes on, connections stay open. SIDE: up (client to server), down, both
 *   half-close NAME SIDE     every connection says that nothing more comes that way
 *   latency NAME MS          each way, from now on
 *   throttle NAME BYTES      a second, each way of each connection
 *   heal NAME                the end of all that, and of its rules; what was frozen goes on
 *   stats NAME               accepted= open= requests= replies= unmatched=, bytes that went up= down=, and that are held, or wait
 *                            for their time, waiting-up= waiting-down=
 * and to the rules:
 *   seed N                   of chance=
 *   forget RULE              it takes nothing any more; its counters stay
 *   hits RULE                hits= seen=
 *   rule RULE NAME ACTION [key=value ...]
 *
 * A rule's action on a request: pass, count (counted only, later rules are asked), drop, lose (forwarded; when the reply is here, it is
 * swallowed and the connection reset), mute (the same, but the connection stays), error (refused by the proxy: Produce, InitProducerId,
 * or any request to PostgreSQL), spoil (forwarded, the codes in the reply replaced: Produce), duplicate (sent twice, the second reply is
 * swallowed), cut (the connection is reset), tear and tear-reply (half of it, then the end), freeze, half-close (after it).
 * Which requests:
 *   on=TYPE        Kafka: the name or number of the API; PostgreSQL: startup, query (simple or prepared), prepare, ssl, cancel
 *   text=PART      PostgreSQL: of "[NAME] STATEMENT", as executed; the last key, since it may have spaces
 *   topic=, partition=, sequence=    Produce; sequence=0: the first batch of a session
 *   skip=N, times=M     let N pass, then take M (1; 0: all)
 *   after=RULE     none before that rule took one, on whichever connection; what came earlier is not counted, nor skipped
 *   per=lane            skip and times count for each (producer, topic, partition)
 *   chance=N            in 1000
 * How: code= (Kafka's number or a SQLSTATE), side= (freeze, half-close), hold=MS and delay=MS (of the request and of the reply; everything
 * behind them on the connection waits, too, but behind a refusal with aside=1: Kafka's clients know replies by their numbers).
 * The first rule that takes a request has it. A hit is counted when the fault has happened. A rule that took a request on a connection
 * that ended before that takes another.
 */
#ifndef TESTS_LIB_PROXY_H
#define TESTS_LIB_PROXY_H

#include <stdint.h>

#include "tests/lib/services.h"

struct proxy {
    int commands; /* a socket */
    struct process server;
};

struct proxy proxy_start(void);
/* Listen on 127.0.0.1:`port` (0: any) for an upstream on 127.0.0.1. `protocol`: kafka, postgres or raw. Returns the port. */
int proxy_listen(struct proxy *p, const char *name, const char *protocol, int port, int upstream_port);
/* Waits until it is done. Returns what follows "ok ", lent until the next call; a refusal fails the test. */
const char *proxy_command(struct proxy *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t proxy_hits(struct proxy *p, const char *rule);
int64_t proxy_seen(struct proxy *p, const char *rule);                   /* requests that it was asked about, taken or not */
int64_t proxy_stat(struct proxy *p, const char *name, const char *what); /* "open" and so on */
void proxy_stop(struct proxy *p);

#endif
