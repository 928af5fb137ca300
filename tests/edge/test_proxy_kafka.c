/* SPDX-License-Identifier: BSD-2-Clause */
/* The fault proxy between a real producer and a real broker. A broker takes seconds to start, so that one serves all faults; each has a
 * topic of its own. What is expected of the client is what librdkafka promises, so that a fault that is told wrong is noticed. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/edge/producer_rig.h"
#include "tests/lib/proxy.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define PARTITIONS 3

/* The clients come to the first of three listeners; that in the middle reads, the outer ones can cut the bytes into slices. */
struct box {
    struct kafka kafka;
    struct proxy proxy;
    char through[64];
};

static struct box *box_new(void)
{
    struct box *b = test_allocate(sizeof *b);
    b->kafka = kafka_start();
    b->proxy = proxy_start();
    int back = proxy_listen(&b->proxy, "back", "raw", 0, b->kafka.proxied_port);
    int middle = proxy_listen(&b->proxy, "kafka", "kafka", 0, back);
    CHECK_EQ(proxy_listen(&b->proxy, "front", "raw", b->kafka.proxy_port, middle), b->kafka.proxy_port);
    (void)snprintf(b->through, sizeof b->through, "127.0.0.1:%d", b->kafka.proxy_port);
    return b;
}

/* --- a producer ---------------------------------------------------------------------------------------------------- */

struct client {
    rd_kafka_t *rk;
    const char *topic;
    unsigned handed_n, delivered_n, failed_n;
    rd_kafka_resp_err_t error; /* of the first that failed */
};

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *m, void *data)
{
    struct client *c = data;
    (void)rk;
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        c->delivered_n++;
    else if (c->failed_n++ == 0)
        c->error = m->err;
}

static void log_ignore(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    (void)rk, (void)level, (void)facility, (void)text;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char error[200];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
        test_fail(__FILE__, __LINE__, "%s", error);
}

static struct client *client_of(const struct box *b, const char *topic, bool idempotent)
{
    char error[200];
    struct client *c = test_allocate(sizeof *c);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", b->through);
    set(conf, "enable.idempotence", idempotent ? "true" : "false");
    set(conf, "linger.ms", "0");
    set(conf, "socket.timeout.ms", "3000");
    set(conf, "message.max.bytes", "1000000");
    rd_kafka_conf_set_log_cb(conf, log_ignore);
    rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    rd_kafka_conf_set_opaque(conf, c);
    c->topic = topic;
    c->rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    if (c->rk == NULL)
        test_fail(__FILE__, __LINE__, "%s", error);
    return c;
}

/* A new topic and a producer to it. */
static struct client *client_new(const struct box *b, const char *topic, bool idempotent)
{
    kafka_topic_create(b->kafka.bootstrap, topic, PARTITIONS, NULL);
    return client_of(b, topic, idempotent);
}

static void hand(struct client *c, int32_t partition, size_t payload_n)
{
    char *payload = test_allocate(payload_n);
    memcpy(payload, &c->handed_n, sizeof c->handed_n);
    CHECK_EQ(rd_kafka_producev(c->rk, RD_KAFKA_V_TOPIC(c->topic), RD_KAFKA_V_PARTITION(partition), RD_KAFKA_V_VALUE(payload, payload_n),
                               RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
             0);
    c->handed_n++;
}

static bool reported(struct client *c, unsigned n)
{
    rd_kafka_poll(c->rk, 0);
    return c->delivered_n + c->failed_n == n;
}

/* One at a time, so that each is a request. */
static void hand_each(struct client *c, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        hand(c, 0, 100);
        WAIT_UNTIL(reported(c, c->handed_n), 30);
    }
}

/* --- what is in the topic ------------------------------------------------------------------------------------------ */

struct content {
    unsigned n, repeated_n, misplaced_n, next;
    bool seen[1000];
};

static void on_message(void *data, const struct rig_message *m)
{
    struct content *c = data;
    unsigned number;
    memcpy(&number, m->payload, sizeof number);
    CHECK(number < 1000);
    c->n++;
    c->repeated_n += c->seen[number];
    c->misplaced_n += number != c->next++;
    c->seen[number] = true;
}

static struct content content_read(const struct box *b, const char *topic)
{
    struct content c = {0};
    (void)rig_read(b->kafka.bootstrap, topic, PARTITIONS, on_message, &c);
    return c;
}

/* Everything handed is there once and in order, and the rule hit so often. */
static void check_whole(struct box *b, struct client *c, const char *rule, int64_t hits)
{
    struct content content = content_read(b, c->topic);
    CHECK_EQ(c->delivered_n, c->handed_n);
    CHECK_EQ(content.n, c->handed_n);
    CHECK_EQ(content.repeated_n, 0);
    CHECK_EQ(content.misplaced_n, 0);
    CHECK_EQ(proxy_hits(&b->proxy, rule), hits);
    (void)proxy_command(&b->proxy, "heal kafka");
    rd_kafka_destroy(c->rk);
}

/* --- faults -------------------------------------------------------------------------------------------------------- */

static void passes_everything(struct box *b)
{
    struct client *c = client_new(b, "everything", true);
    (void)proxy_command(&b->proxy, "rule pass kafka count on=Produce");
    hand_each(c, 5);
    hand(c, 0, 900000);
    WAIT_UNTIL(reported(c, 6), 30);
    CHECK_EQ(proxy_seen(&b->proxy, "pass"), 6);
    check_whole(b, c, "pass", 0);
    CHECK_EQ(proxy_stat(&b->proxy, "kafka", "unmatched"), 0);
}

static void joins_what_was_cut(struct box *b)
{
    struct client *c = client_new(b, "cut-frames", true);
    (void)proxy_command(&b->proxy, "throttle front 15000");
    (void)proxy_command(&b->proxy, "throttle back 15000");
    (void)proxy_command(&b->proxy, "rule slices kafka lose on=Produce skip=2");
    hand_each(c, 4);
    hand(c, 0, 10000);
    WAIT_UNTIL(reported(c, 5), 30);
    (void)proxy_command(&b->proxy, "heal front");
    (void)proxy_command(&b->proxy, "heal back");
    check_whole(b, c, "slices", 1);
    CHECK_EQ(proxy_stat(&b->proxy, "kafka", "unmatched"), 0);
}

/* The idempotent producer and its broker make each of these invisible; that the rule hit shows that it was there. */
static void is_survived(struct box *b, const char *name, const char *rule, int64_t hits)
{
    struct client *c = client_new(b, name, true);
    (void)proxy_command(&b->proxy, "rule %s kafka %s on=Produce topic=%s", name, rule, name);
    hand_each(c, 8);
    check_whole(b, c, name, hits);
}

/* Without idempotence the broker has no way to know: the request was really there twice. */
static void is_repeated(struct box *b, const char *name, const char *rule)
{
    struct client *c = client_new(b, name, false);
    (void)proxy_command(&b->proxy, "rule %s kafka %s on=Produce skip=3", name, rule);
    hand_each(c, 8);
    struct content content = content_read(b, name);
    CHECK_EQ(content.n, 9);
    CHECK_EQ(content.repeated_n, 1);
    CHECK_EQ(proxy_hits(&b->proxy, name), 1);
    (void)proxy_command(&b->proxy, "heal kafka");
    rd_kafka_destroy(c->rk);
}

static void is_refused(struct box *b, const char *name, int code, bool appended)
{
    struct client *c = client_new(b, name, false);
    /* A topic that was just made may refuse the first one by itself. */
    hand_each(c, 1);
    (void)proxy_command(&b->proxy, "rule %s kafka %s code=%d on=Produce", name, appended ? "spoil" : "error", code);
    hand_each(c, 2);
    CHECK_EQ(c->failed_n, 1);
    CHECK_EQ(c->error, code);
    CHECK_EQ(content_read(b, name).n, appended ? 3 : 2);
    CHECK_EQ(proxy_hits(&b->proxy, name), 1);
    (void)proxy_command(&b->proxy, "heal kafka");
    rd_kafka_destroy(c->rk);
}

/* Refused and forgotten, although its successor is there: what a cold start is for (KAFKA-15591). */
static void refuses_the_first_and_not_the_second(struct box *b)
{
    struct client *before = client_new(b, "first", true), *c = client_of(b, "first", true);
    hand_each(before, 1);
    (void)proxy_command(&b->proxy, "rule first kafka error code=6 delay=2000 sequence=0 per=lane");
    hand(c, 0, 100);
    WAIT_UNTIL(proxy_hits(&b->proxy, "first") == 1, 20);
    hand(c, 0, 100);
    WAIT_UNTIL(content_read(b, "first").n == 2, 10);
    CHECK_EQ(content_read(b, "first").repeated_n, 0); /* the second has number 1, as a new one of `before` would have */
    CHECK_EQ(proxy_hits(&b->proxy, "first"), 1);
    (void)proxy_command(&b->proxy, "heal kafka");
    rd_kafka_destroy(before->rk);
    rd_kafka_destroy(c->rk);
}

/* A refusal that waits aside holds up nobody else's report. */
static void is_overtaken(struct box *b)
{
    struct client *c = client_new(b, "aside", true);
    hand_each(c, 1);
    (void)proxy_command(&b->proxy, "rule aside kafka error code=6 delay=2500 aside=1 topic=aside partition=0");
    hand(c, 0, 100);
    WAIT_UNTIL(proxy_hits(&b->proxy, "aside") == 1, 20);
    for (unsigned i = 0; i < 5; i++) {
        hand(c, 1, 100);
        WAIT_UNTIL(reported(c, c->handed_n - 1), 20);
    }
    CHECK(!reported(c, c->handed_n));
    CHECK(proxy_stat(&b->proxy, "kafka", "waiting-down") > 0);
    WAIT_UNTIL(reported(c, c->handed_n), 20);
    CHECK_EQ(c->delivered_n, 7);
    (void)proxy_command(&b->proxy, "heal kafka");
    rd_kafka_destroy(c->rk);
}

static void tells_lanes_apart(struct box *b)
{
    struct client *c = client_new(b, "lanes", true);
    (void)proxy_command(&b->proxy, "rule one kafka count topic=lanes partition=1");
    (void)proxy_command(&b->proxy, "rule lanes kafka error code=6 sequence=0 per=lane");
    for (int round = 0; round < 3; round++)
        for (int32_t p = 0; p < PARTITIONS; p++) {
            hand(c, p, 100);
            WAIT_UNTIL(reported(c, c->handed_n), 20);
        }
    CHECK_EQ(c->delivered_n, 9);
    CHECK_EQ(content_read(b, "lanes").n, 9);
    CHECK_EQ(proxy_hits(&b->proxy, "lanes"), PARTITIONS);
    CHECK(proxy_seen(&b->proxy, "one") >= 4);
    (void)proxy_command(&b->proxy, "heal kafka");
    rd_kafka_destroy(c->rk);
}

/* A rule that waits for another takes the very next request, and none of those before. */
static void waits_for_another_rule(struct box *b)
{
    struct client *c = client_new(b, "after", true);
    (void)proxy_command(&b->proxy, "rule second kafka error code=6 topic=after after=leader");
    hand_each(c, 2);
    CHECK_EQ(proxy_seen(&b->proxy, "second"), 0);
    (void)proxy_command(&b->proxy, "rule leader kafka error code=6 topic=after skip=1");
    hand_each(c, 1);
    CHECK_EQ(proxy_hits(&b->proxy, "leader"), 0);
    CHECK_EQ(proxy_seen(&b->proxy, "second"), 0);
    hand_each(c, 1);
    CHECK_EQ(proxy_hits(&b->proxy, "leader"), 1);
    check_whole(b, c, "second", 1);
}

static void refuses_producers(struct box *b)
{
    (void)proxy_command(&b->proxy, "rule login kafka error code=15 on=InitProducerId");
    struct client *c = client_new(b, "producers", true);
    hand_each(c, 1);
    check_whole(b, c, "login", 1);
}

static void freezes_and_cuts(struct box *b)
{
    struct client *c = client_new(b, "frozen", true);
    (void)proxy_command(&b->proxy, "rule all kafka count on=Produce");
    hand_each(c, 1);
    static const char *const faults[] = {"freeze kafka down", "freeze kafka up", "freeze kafka both", "cut kafka", "half-close kafka down"};
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        (void)proxy_command(&b->proxy, "%s", faults[i]);
        hand(c, 0, 100);
        if (i == 0)
            WAIT_UNTIL(content_read(b, "frozen").n == 2, 10);
        /* Whoever waits for so long would have had its report. */
        CHECK_EQ(kafka_topic_partitions(b->through, "frozen"), i < 4 ? -1 : PARTITIONS);
        CHECK(!reported(c, c->handed_n) || i == 4);
        (void)proxy_command(&b->proxy, "heal kafka");
        WAIT_UNTIL(reported(c, c->handed_n), 30);
    }
    check_whole(b, c, "all", 0);
}

TEST_WITHIN(proxy_kafka_does_what_rules_say, 240)
{
    struct box *b = box_new();
    passes_everything(b);
    joins_what_was_cut(b);
    is_survived(b, "lose", "lose times=3 skip=1", 3);
    is_survived(b, "mute", "mute", 1);
    is_survived(b, "drop", "drop skip=2", 1);
    is_survived(b, "cut", "cut times=2 skip=1", 2);
    is_survived(b, "tear", "tear skip=1", 1);
    is_survived(b, "torn", "tear-reply skip=1", 1);
    is_survived(b, "half", "half-close side=up skip=1", 1);
    is_survived(b, "not-leader", "error code=6 skip=1 times=2", 2);
    is_survived(b, "few-replicas", "spoil code=20 skip=1", 1);
    is_survived(b, "twice", "duplicate times=5", 5);
    is_repeated(b, "loud-twice", "duplicate");
    is_repeated(b, "loud-lose", "lose");
    is_refused(b, "too-large", 10, false);
    is_refused(b, "too-late", 32, true);
    refuses_the_first_and_not_the_second(b);
    is_overtaken(b);
    tells_lanes_apart(b);
    waits_for_another_rule(b);
    refuses_producers(b);
    freezes_and_cuts(b);
    CHECK_EQ(proxy_stat(&b->proxy, "kafka", "unmatched"), 0);
    kafka_stop(&b->kafka);
}
