/* SPDX-License-Identifier: BSD-2-Clause */
/* What a network does to connections: cut, frozen in one direction or both, slow, reset, half closed, torn in the middle of a message. None of
 * it uses up an attempt, and none needs an operator. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/crash/network.h"
#include "tests/lib/test.h"

#define SECOND 800 /* events that the writers commit in one */

TEST_WITHIN(crash_network_database_cut_and_healed, 90)
{
    struct network *n = network_begin("db-cut", NULL);
    struct process *relay = network_relay(n);

    for (int i = 1; i <= 3; i++) {
        network_cut(n, "db", i == 3 ? 3 * SECOND : SECOND);
        WAIT_UNTIL(kafka_line_told(relay, "event=\"database back\"") >= i, 20);
    }
    kafka_line_check_no_attempts(n->l);
    network_end(n, &(struct line_expected){.windows = 0});
}

TEST_WITHIN(crash_network_kafka_cut_and_healed, 90)
{
    struct network *n = network_begin("kafka-cut", NULL);

    (void)network_relay(n);
    for (int i = 1; i <= 3; i++)
        network_cut(n, "kafka", i == 3 ? 3 * SECOND : SECOND);
    line_publishing(n->l);
    kafka_line_check_no_attempts(n->l);
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* Longer than the lease, which cannot be kept meanwhile. */
TEST_WITHIN(crash_network_database_frozen_one_way, 120)
{
    struct network *n = network_begin("db-frozen", NULL);

    (void)network_relay(n);
    network_freeze(n, "db", "up", 3 * SECOND);
    network_freeze(n, "db", "down", 3 * SECOND);
    network_freeze(n, "db", "both", 3 * SECOND);
    line_publishing(n->l);
    kafka_line_check_no_attempts(n->l);
    network_end(n, &(struct line_expected){.windows = LINE_D(2)});
}

/* The lease is kept; the rows wait, and nothing is given up. */
TEST_WITHIN(crash_network_kafka_frozen_one_way, 120)
{
    struct network *n = network_begin("kafka-frozen", NULL);
    struct process *relay = network_relay(n);

    network_freeze(n, "kafka", "up", 3 * SECOND);
    network_freeze(n, "kafka", "down", 3 * SECOND);
    network_freeze(n, "kafka", "both", 3 * SECOND);
    line_publishing(n->l);
    CHECK_EQ(kafka_line_told(relay, "event=\"lease lost\""), 0);
    kafka_line_check_no_attempts(n->l);
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* The holder's way to the database is frozen, that to Kafka is not. Another relay takes over; what the first handed before is there. */
TEST_WITHIN(crash_network_holder_frozen_past_its_lease, 120)
{
    struct network *n = network_begin("holder-frozen", NULL);
    struct process *frozen = network_relay(n);

    line_publishing(n->l);
    (void)snprintf(n->l->e.database, sizeof n->l->e.database, "%s", n->direct);
    struct process *other = network_relay(n);
    WAIT_UNTIL(kafka_line_told(other, "event=\"database reached\"") == 1, 20);
    for (int i = 1; i <= 2; i++) {
        int before = kafka_line_told(other, "event=\"lease held\"");

        (void)network_strike(n, "freeze db both");
        uint64_t began_ms = test_now_ms();
        WAIT_UNTIL(kafka_line_told(other, "event=\"lease held\"") > before, 20);
        uint64_t took_ms = test_now_ms() - began_ms;
        WAIT_UNTIL(kafka_line_told(frozen, "event=\"lease lost\"") >= i, 20);
        line_hit(n->l, "database frozen for the holder past its lease", "the other took over after %llu ms, the first stopped",
                 (unsigned long long)took_ms);
        (void)proxy_command(&n->proxy, "heal db");
        line_publishing(n->l);
        CHECK(took_ms < 5000 * test_slow());
        WAIT_UNTIL(kafka_line_told(frozen, "event=\"database back\"") >= i, 20);
        /* The first gets it back by an orderly hand-over. */
        if (i == 2)
            break;
        e2e_stop(other);
        WAIT_UNTIL(kafka_line_told(frozen, "event=\"lease held\"") == 2, 20);
        other = network_relay(n);
        WAIT_UNTIL(kafka_line_told(other, "event=\"database reached\"") == 1, 20);
    }
    network_end(n, &(struct line_expected){.windows = LINE_D(2) | LINE_D(4)});
}

TEST_WITHIN(crash_network_slow, 120)
{
    struct network *n = network_begin("slow", NULL);

    (void)network_relay(n);
    line_publishing(n->l);
    (void)proxy_command(&n->proxy, "latency db 200");
    (void)proxy_command(&n->proxy, "latency kafka 200");
    for (int i = 0; i < 3; i++) {
        line_publishing(n->l);
        line_strike(n->l);
        uint64_t began_ms = test_now_ms();
        CHECK_EQ(postgres_number(n->l->e.database, "SELECT 1"), 1);
        uint64_t took_ms = test_now_ms() - began_ms;
        CHECK(took_ms >= 400);
        line_hit(n->l, "200 ms delay each way", "a question through the proxy took %llu ms", (unsigned long long)took_ms);
        kafka_line_pass(n->l, SECOND);
    }
    network_end(n, &(struct line_expected){.windows = 0});
}

TEST_WITHIN(crash_network_throttled, 120)
{
    static const char *const upstreams[] = {"kafka", "db"};
    struct network *n = network_begin("throttled", NULL);

    (void)network_relay(n);
    for (int i = 0; i < 2; i++) {
        char command[40];

        (void)snprintf(command, sizeof command, "throttle %s 60000", upstreams[i]);
        (void)network_strike(n, command);
        const char *way = i == 0 ? "up" : "down";
        int64_t before = proxy_stat(&n->proxy, upstreams[i], way);
        uint64_t began_ms = test_now_ms();
        kafka_line_pass(n->l, 3 * SECOND);
        line_look(n->l);
        int64_t rate = (proxy_stat(&n->proxy, upstreams[i], way) - before) * 1000 / (int64_t)(test_now_ms() - began_ms);
        CHECK(rate < 250000); /* of all connections */
        line_hit(n->l, command, "proxy: %lld bytes a second, %lld rows wait", (long long)rate, (long long)n->l->unsettled);
        (void)proxy_command(&n->proxy, "heal %s", upstreams[i]);
    }
    network_end(n, &(struct line_expected){.windows = LINE_D(2)});
}

TEST_WITHIN(crash_network_connections_reset, 120)
{
    static const char *const commands[] = {"reset db", "reset kafka"};
    struct network *n = network_begin("reset", NULL);

    (void)network_relay(n);
    for (int i = 0; i < 10; i++) {
        long open = strtol(network_strike(n, commands[i % 2]), NULL, 10);

        CHECK(open > 0);
        line_hit(n->l, commands[i % 2], "proxy: %ld connections reset", open);
    }
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

TEST_WITHIN(crash_network_connections_half_closed, 120)
{
    static const char *const commands[] = {"half-close db up", "half-close kafka up", "half-close db down", "half-close kafka down"};
    struct network *n = network_begin("half-closed", NULL);

    (void)network_relay(n);
    for (int i = 0; i < 4; i++) {
        const char *upstream = i % 2 == 0 ? "db" : "kafka";
        int64_t accepted = proxy_stat(&n->proxy, upstream, "accepted");
        long open = strtol(network_strike(n, commands[i]), NULL, 10);

        CHECK(open > 0);
        /* Whoever noticed comes again. */
        WAIT_UNTIL(proxy_stat(&n->proxy, upstream, "accepted") > accepted, 20);
        line_hit(n->l, commands[i], "proxy: %ld connections half closed, new ones came", open);
    }
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

TEST_WITHIN(crash_network_messages_torn, 120)
{
    struct network *n = network_begin("torn", NULL);

    (void)network_relay(n);
    network_fault(n, "request torn", "kafka tear on=Produce");
    network_fault(n, "reply torn", "kafka tear-reply on=Produce");
    network_fault(n, "statement torn", "db tear text=[mark]");
    network_fault(n, "reply torn", "db tear-reply text=[mark]");
    network_fault(n, "statement torn", "db tear text=[save]");
    network_fault(n, "reply torn", "db tear-reply text=[fetch");
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* The network brings late what a relay sent before it was killed: after another one has published the same rows, and later ones. */
TEST_WITHIN(crash_network_late_requests_of_killed_relays, 120)
{
    struct network *n = network_begin("late", NULL);

    for (int i = 0; i < 4; i++) {
        struct process *relay = network_relay(n);
        char rule[16];

        line_publishing(n->l);
        line_strike(n->l);
        (void)snprintf(rule, sizeof rule, "late%d", i);
        (void)proxy_command(&n->proxy, "rule %s kafka pass hold=2500 on=Produce times=10", rule);
        WAIT_UNTIL(proxy_hits(&n->proxy, rule) >= 2 || (line_strike(n->l), false), 20);
        process_signal(relay, SIGKILL);
        CHECK_EQ(process_wait(relay, 5), 128 + SIGKILL);
        (void)proxy_command(&n->proxy, "forget %s", rule);
        line_hit(n->l, "requests of a killed relay come 2.5 s later", "exit status %d, proxy: %lld requests held", 128 + SIGKILL,
                 (long long)proxy_hits(&n->proxy, rule));
    }
    (void)network_relay(n);
    line_publishing(n->l);
    kafka_line_pass(n->l, 2 * SECOND);
    network_end(n, &(struct line_expected){.windows = LINE_D(1) | LINE_D(4)});
}
