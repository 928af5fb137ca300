/* SPDX-License-Identifier: BSD-2-Clause */
/* Three nodes of the line's own: leaders move, too few replicas are left, one broker's partitions are dead. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/crash/kafka_line.h"
#include "tests/lib/test.h"

/* A busy machine is no reason to think a node dead. */
#define PATIENT "broker.session.timeout.ms=4000\ncontroller.quorum.fetch.timeout.ms=4000\ncontroller.quorum.election.timeout.ms=2000\n"
/* A leader that comes back leads again after a second. */
#define REPLICATED PATIENT "default.replication.factor=3\nmin.insync.replicas=2\nleader.imbalance.check.interval.seconds=1\n"

/* Of nodes that end and come back: a session may end, and librdkafka may renew its producer inside of one. A batch that was appended is
 * answered with an error, or not at all, when its leader ends or has too few replicas; while it waits to be sent again, the next leader, or the
 * same one when it leads again, may refuse one batch and find the one behind it out of sequence. */
#define NODES_END (LINE_D(3) | LINE_D(7))

/* As many partitions of the topic as usual have a leader, and all replicas are in sync. */
static bool whole(const struct kafka_cluster *c, const char *topic)
{
    if (kafka_topic_led_by(c->bootstrap, topic, -1) != 0)
        return false;
    for (int p = 0; p < E2E_PARTITIONS; p++)
        if (kafka_topic_in_sync(c->bootstrap, topic, p) != KAFKA_NODES)
            return false;
    return true;
}

static int led_by(const struct kafka_cluster *c, const char *topic, int i)
{
    return kafka_topic_led_by(c->bootstrap, topic, c->node[i].node);
}

static void kill_node(struct line *l, struct kafka *node)
{
    line_strike(l);
    kafka_kill(node);
    CHECK_EQ(WTERMSIG(node->server.status), SIGKILL);
}

/* --- leaders ------------------------------------------------------------------------------------------------------ */

#define SILENCE_MS 4500 /* after five seconds without an answer the relay says that Kafka is lost */

/* A leader is killed; the other nodes lead its partitions; it comes back and is elected again as the preferred leader. Kafka is not lost by
 * that; if the node was the controller as well, or the machine is busy, nobody acknowledges anything, nor answers behind it, for longer than
 * the relay's patience: then it may say so once. */
TEST_WITHIN(crash_kafka_leaders_move, 120)
{
    struct kafka_cluster c = kafka_cluster_start(REPLICATED);
    struct line *l = kafka_line_begin("leaders", c.bootstrap, NULL);
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);

    line_publishing(l);
    int led = 0;
    WAIT_UNTIL((led = led_by(&c, "leaders", 0)) > 0, 30);
    uint64_t killed_ms = test_now_ms();
    kill_node(l, &c.node[0]);
    WAIT_UNTIL(led_by(&c, "leaders", 0) == 0 && kafka_topic_led_by(c.bootstrap, "leaders", -1) == 0, 30);
    uint64_t took_ms = test_now_ms() - killed_ms;
    line_hit(l, "kill -9 of a leader, two nodes go on", "%d partitions have another leader after %llu ms", led,
             (unsigned long long)took_ms);
    line_publishing(l);
    kafka_restart(&c.node[0]);
    WAIT_UNTIL((line_strike(l), led_by(&c, "leaders", 0) == led), 40);
    line_hit(l, "leaders move back", "%d partitions are led by the node that was killed", led);
    line_publishing(l);
    CHECK(kafka_line_told(relay, "event=\"kafka lost\"") <= (took_ms < SILENCE_MS ? 0 : 1));
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = NODES_END});
}

/* Each node is stopped in an orderly way and comes back. */
TEST_WITHIN(long_kafka_rolling_restart, 600)
{
    struct kafka_cluster c = kafka_cluster_start(REPLICATED);
    struct line *l = kafka_line_begin("rolling", c.bootstrap, NULL);

    (void)LINE_RELAY(l, KAFKA_LINE_QUICK);
    for (int i = 0; i < KAFKA_NODES; i++) {
        struct kafka *node = &c.node[i];

        line_publishing(l);
        WAIT_UNTIL(whole(&c, "rolling"), 60);
        line_strike(l);
        kafka_stop(node);
        line_hit(l, "rolling restart", "exit status %d", WEXITSTATUS(node->server.status));
        line_publishing(l);
        kafka_restart(node);
    }
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = NODES_END});
}

/* --- too few replicas --------------------------------------------------------------------------------------------- */

/* Two of three are killed. What is left cannot acknowledge (nor elect a controller): rows wait. When one is back, they go out. */
TEST_WITHIN(crash_kafka_below_min_insync, 120)
{
    struct kafka_cluster c = kafka_cluster_start(REPLICATED);
    struct line *l = kafka_line_begin("min-insync", c.bootstrap, NULL);
    int64_t marked;

    (void)LINE_RELAY(l, KAFKA_LINE_QUICK);
    line_publishing(l);
    kill_node(l, &c.node[0]);
    kafka_kill(&c.node[1]);
    line_look(l);
    WAIT_UNTIL((marked = e2e_marked(&l->e), kafka_line_pass(l, 800), e2e_marked(&l->e) == marked), 30);
    line_look(l);
    line_hit(l, "two of three nodes killed, min.insync.replicas 2", "nothing was acknowledged in a second, %lld events wait",
             (long long)e2e_unmarked(&l->e));
    kafka_line_pass(l, 2400);
    CHECK_EQ(e2e_marked(&l->e), marked);
    kafka_line_check_no_attempts(l);
    kafka_restart(&c.node[1]);
    line_publishing(l);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = NODES_END, .seconds = 60});
}

/* --- one dead partition ------------------------------------------------------------------------------------------- */

static int64_t marked_above(const struct line *l, int64_t id)
{
    return postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE sent_at IS NOT NULL AND id > %lld", (long long)id);
}

/* No partition has a second replica, and the node of two of them is killed, so that they are dead while the other four are well. Whatever
 * comes for them, only their lanes wait; they go behind, and catch up when the node is back. */
static void dead_partitions(const char *name, int64_t events)
{
    struct kafka_cluster c = kafka_cluster_start(PATIENT);
    struct line *l = kafka_line_begin(name, c.bootstrap, NULL);
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);
    int dead = 0;

    line_publishing(l);
    WAIT_UNTIL((dead = led_by(&c, name, 0)) > 0, 30);
    CHECK(dead < E2E_PARTITIONS);
    kill_node(l, &c.node[0]);
    WAIT_UNTIL(kafka_topic_led_by(c.bootstrap, name, -1) == dead, 30);
    WAIT_UNTIL(e2e_number(&l->e, "SELECT count(*) FROM outbox.behind WHERE partition >= 0 AND key_hash = 0") == dead, 20);
    line_look(l);
    line_hit(l, "kill -9 of the only replica of some partitions", "%d of %d have no leader, %d lanes are behind", dead, E2E_PARTITIONS,
             dead);
    for (int64_t passed = 0; passed < events; passed += 800) {
        int64_t from = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");

        line_burst(l, 3000);
        kafka_line_pass(l, 800);
        WAIT_UNTIL(marked_above(l, from) > 2000, 20);
        CHECK_EQ(e2e_number(&l->e, "SELECT count(*) FROM outbox.behind WHERE partition >= 0 AND key_hash = 0"), dead);
    }
    kafka_line_check_no_attempts(l);
    kafka_restart(&c.node[0]);
    WAIT_UNTIL(kafka_topic_led_by(c.bootstrap, name, -1) == 0, 30);
    WAIT_UNTIL(kafka_line_told(relay, "event=\"partition has caught up\"") >= dead, 60);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = NODES_END, .seconds = 60});
    CHECK_EQ(e2e_number(&l->e, "SELECT count(*) FROM outbox.behind"), 0);
}

TEST_WITHIN(crash_kafka_one_node_dead, 120)
{
    dead_partitions("one-node-dead", 2400);
}

TEST_WITHIN(long_kafka_one_node_dead, 300)
{
    dead_partitions("one-node-dead-long", 48000);
}
