/* SPDX-License-Identifier: BSD-2-Clause */
/* What a network does to single requests and replies. A reply that is lost leaves its asker in doubt about what was done: it was done. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/crash/mutant.h"
#include "tests/crash/network.h"
#include "tests/lib/test.h"

/* --- PostgreSQL ---------------------------------------------------------------------------------------------------- */

/* A statement is a transaction of its own, so the reply to it is the reply to its COMMIT. The rows were acknowledged: they are marked once
 * more, not published once more. */
TEST_WITHIN(crash_network_reply_to_mark_lost, 90)
{
    struct network *n = network_begin("mark-lost", NULL);
    struct process *relay = network_relay(n);

    for (int i = 1; i <= 8; i++) {
        network_fault(n, "reply to the COMMIT of a mark lost", "db lose text=[mark]");
        WAIT_UNTIL(kafka_line_told(relay, "event=\"database back\"") >= i, 20);
    }
    network_end(n, &(struct line_expected){.windows = 0});
}

TEST_WITHIN(crash_network_reply_to_beat_or_save_lost, 90)
{
    struct network *n = network_begin("beat-lost", NULL);
    struct process *relay = network_relay(n);

    for (int i = 1; i <= 6; i++) {
        network_fault(n, "reply to the COMMIT of a heartbeat or a save lost", "db lose text=[%s]", i % 2 == 0 ? "save" : "beat");
        WAIT_UNTIL(kafka_line_told(relay, "event=\"database back\"") >= i, 20);
    }
    network_end(n, &(struct line_expected){.windows = 0});
}

/* The lease was granted, and who asked does not know it: it is of its own process, which asks again and need not wait. */
TEST_WITHIN(crash_network_reply_to_grant_lost, 90)
{
    struct network *n = network_begin("grant-lost", NULL);
    struct process *relay = network_relay(n);

    for (int i = 1; i <= 3; i++) {
        char rule[16];

        (void)snprintf(rule, sizeof rule, "grant%d", i);
        (void)proxy_command(&n->proxy, "rule %s db lose times=2 text=[take]", rule);
        CHECK(atoi(network_strike(n, "reset db")) >= 3);
        WAIT_UNTIL(proxy_hits(&n->proxy, rule) == 2, 20);
        line_hit(n->l, "reply to the grant of a lease lost", "proxy: 2 hits, after its connections were reset");
    }
    line_publishing(n->l);
    CHECK(kafka_line_told(relay, "event=\"lease held\"") >= 4);
    network_end(n, &(struct line_expected){.windows = 0});
}

/* Whatever else is asked: the reply is lost once to each. */
TEST_WITHIN(crash_network_reply_to_any_statement_lost, 120)
{
    static const char *const statements[] = {"[fetch", "[sequence]", "[writers]", "[flush", "outbox.", "SELECT"};
    struct network *n = network_begin("any-lost", NULL);

    (void)network_relay(n);
    for (unsigned i = 0; i < sizeof statements / sizeof statements[0]; i++)
        network_fault(n, "reply to a statement lost", "db lose text=%s", statements[i]);
    network_end(n, &(struct line_expected){.windows = 0});
}

/* Refused statements: by the roles' default a stricter level, by chance, or by somebody who ends what takes long. */
TEST_WITHIN(crash_network_statements_refused, 120)
{
    static const char *const refusals[] = {"code=40001 text=[mark]", "code=57014 text=[fetch", "code=40P01 text=[save]",
                                           "code=55P03 text=[mark]", "code=53300 text=[beat]", "code=57P01 text=[fetch",
                                           "code=XX000 text=[flush"};
    struct network *n = network_begin("refused", NULL);

    (void)network_relay(n);
    for (unsigned i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        network_fault(n, "statement refused", "db error %s", refusals[i]);
    network_end(n, &(struct line_expected){.windows = 0});
}

/* --- Kafka --------------------------------------------------------------------------------------------------------- */

/* The batch is in the log. The session sends it again under the same sequence number, and the broker knows it. */
TEST_WITHIN(crash_network_reply_to_append_lost, 90)
{
    struct network *n = network_begin("append-lost", NULL);

    (void)network_relay(n);
    for (int i = 0; i < 10; i++)
        network_fault(n, "reply lost after the append", "kafka lose on=Produce topic=append-lost");
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* Both come twice, as if a network could repeat them. */
TEST_WITHIN(crash_network_requests_come_twice, 90)
{
    struct network *n = network_begin("twice", NULL);

    (void)network_relay(n);
    for (int i = 0; i < 4; i++) {
        network_fault(n, "Produce sent twice", "kafka duplicate on=Produce times=20");
        network_fault(n, "mark sent twice", "db duplicate text=[mark]");
    }
    network_end(n, &(struct line_expected){.windows = 0});
}

/* KAFKA-15591: a broker that does not know a producer accepts any first sequence number. The refusal of a lane's first batch is held back
 * alone, so that whatever was sent behind it is in the log before it is known. Order and marks are kept by the cold start alone. One lane at
 * a time: librdkafka has five requests on their way at most. */
static struct network *first_batches_refused(const char *name, int rounds)
{
    static const int codes[] = {6, 19, 5, 6, 19, 6};
    struct network *n = network_begin(name, NULL);

    for (int i = 0; i < rounds * E2E_PARTITIONS; i++) {
        char rule[16];

        (void)snprintf(rule, sizeof rule, "first%d", i);
        (void)proxy_command(&n->proxy, "rule %s kafka error code=%d delay=700 aside=1 topic=%s partition=%d sequence=0 per=lane", rule,
                            codes[i % E2E_PARTITIONS], name, i % E2E_PARTITIONS);
        if (i == 0)
            (void)network_relay(n);
        else /* the session ends, and the next one begins with all lanes cold */
            network_fault(n, "session ended", "kafka error code=-1 on=Produce topic=%s", name);
        WAIT_UNTIL((line_strike(n->l), proxy_hits(&n->proxy, rule) > 0), 30);
        line_hit(n->l, "first batch of a lane refused after 700 ms, later ones forwarded", "proxy: %lld refusals, code %d",
                 (long long)proxy_hits(&n->proxy, rule), codes[i % E2E_PARTITIONS]);
        line_publishing(n->l);
        (void)proxy_command(&n->proxy, "forget %s", rule);
    }
    return n;
}

TEST_WITHIN(crash_network_first_batch_refused_second_accepted, 120)
{
    network_end(first_batches_refused("first", 1), &(struct line_expected){.windows = LINE_D(3)});
}

/* Whether a second batch is on its way in time is a matter of luck. */
TEST_WITHIN(mutant_no_cold_start, 240)
{
    CHECK_EQ(setenv("TEST_RELAY_BINARY", MUTANT("NO_COLD_START"), 1), 0);
    struct oracle_verdict v = mutant_verdict(first_batches_refused("first-broken", 10)->l);

    CHECK(v.misordered > 0 || v.lost > 0);
}
