/* SPDX-License-Identifier: BSD-2-Clause */
/* librdkafka may renew its producer in the middle of a session: what was appended, but answered with an error that it retries, is then
 * appended again, since the broker knows a batch by its producer's epoch. Nobody tells the relay, and no row is reported as failed. */
#include <stdio.h>

#include "tests/crash/network.h"
#include "tests/lib/test.h"

static int renewals(const struct process *relay)
{
    return kafka_line_told_both(relay, "event=librdkafka", "bumped epoch to");
}

/* Of a partition's batches in flight the first `appended` ones are appended, and the leader says to each that it leads no more. The next one
 * is refused as coming too early: for that answer the producer's epoch is raised, and all of them are sent again. Of these the first is
 * refused, too, while the second is on its way: a broker that took it would swap the two, and they would be acknowledged together (as in a
 * cold start). It must not, since it knows the producer: a new epoch begins with number 0. So there is one more renewal. The proxy holds
 * answers back until what follows is surely on its way. */
static void renew(struct network *n, const struct process *relay, unsigned number, unsigned appended)
{
    char first[20], next[20], again[20];
    int before = renewals(relay);

    (void)snprintf(first, sizeof first, "first%u", number);
    (void)snprintf(next, sizeof next, "next%u", number);
    (void)snprintf(again, sizeof again, "again%u", number);
    line_publishing(n->l);
    (void)proxy_command(&n->proxy, "rule %s kafka error code=6 delay=500 on=Produce topic=%s sequence=0 after=%s", again, n->l->name, next);
    (void)proxy_command(&n->proxy, "rule %s kafka error code=45 on=Produce topic=%s skip=%u after=%s", next, n->l->name, appended - 1,
                        first);
    (void)proxy_command(&n->proxy, "rule %s kafka spoil code=6 delay=1500 on=Produce topic=%s times=%u", first, n->l->name, appended);
    WAIT_UNTIL(proxy_hits(&n->proxy, next) == 1, 20);
    WAIT_UNTIL((line_look(n->l), n->l->unsettled >= LINE_UNSETTLED_MIN), 20);
    WAIT_UNTIL(proxy_hits(&n->proxy, again) == 1, 20);
    CHECK_EQ(proxy_hits(&n->proxy, first), appended);
    line_hit(n->l, "batches appended and answered with NOT_LEADER_OR_FOLLOWER, the next one with OUT_OF_ORDER_SEQUENCE_NUMBER",
             "proxy: %u hits, and one", appended);
    WAIT_UNTIL(renewals(relay) >= before + 2, 20);
}

/* One partition, so that nobody else takes the room for five requests; and batches of two rows, since librdkafka sends no further one while
 * five rows of a partition are in flight. */
TEST_WITHIN(crash_kafka_producer_renewed, 120)
{
    struct network *n = network_begin_with("renewed", (struct line_options){.e2e.partitions = 1, .rate = "400"});
    struct process *relay =
        LINE_RELAY(n->l, KAFKA_LINE_QUICK, "--kafka.batch.num.messages", "2", "--kafka.linger.ms", "0", "--lease-ttl-ms", "10000");

    renew(n, relay, 1, 1);
    renew(n, relay, 2, 2);
    line_publishing(n->l);
    kafka_line_check_no_attempts(n->l);
    network_end(n, &(struct line_expected){.windows = LINE_D(7), .duplicates_min = 3});
    CHECK_EQ(kafka_line_told(relay, "event=\"session ends"), 0);
}
