/* SPDX-License-Identifier: BSD-2-Clause */
/* A broker of the line's own that is killed, frozen, away, or forgets its producers. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/crash/kafka_line.h"
#include "tests/lib/test.h"

/* --- killed ------------------------------------------------------------------------------------------------------- */

static void kills(const char *name, int times)
{
    struct kafka k = kafka_start();
    struct line *l = kafka_line_begin(name, k.bootstrap, NULL);
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);

    for (int i = 0; i < times; i++) {
        line_publishing(l);
        line_strike(l);
        kafka_kill(&k);
        CHECK_EQ(WTERMSIG(k.server.status), SIGKILL);
        line_hit(l, "kill -9 of the broker, and restart", "ended by signal %d", SIGKILL);
        kafka_line_pass(l, 200);
        kafka_restart(&k);
    }
    line_publishing(l);
    CHECK_EQ(e2e_number(&l->e, "SELECT epoch FROM outbox.lease"), 1);
    CHECK(kafka_line_told(relay, "event=\"kafka lost\"") > 0);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
}

TEST_WITHIN(crash_kafka_killed, 120)
{
    kills("kafka-killed", 2);
}

TEST_WITHIN(long_kafka_killed, 400)
{
    kills("kafka-killed-often", 15);
}

/* --- slow --------------------------------------------------------------------------------------------------------- */

static void freeze(struct line *l, struct kafka *k)
{
    line_strike(l);
    process_signal(&k->server, SIGSTOP);
    WAIT_UNTIL(kafka_line_state(k->server.pid) == 'T', 5);
}

/* Shorter than the second after which a lane goes behind: nobody notices, and there is no duplicate. */
TEST_WITHIN(crash_kafka_slow, 60)
{
    struct kafka k = kafka_start();
    struct line *l = kafka_line_begin("kafka-slow", k.bootstrap, NULL);
    struct process *relay = LINE_RELAY(l, NULL);

    for (int i = 0; i < 8; i++) {
        line_publishing(l);
        freeze(l, &k);
        line_hit(l, "SIGSTOP of the broker for a quarter of a second", "state T in /proc");
        kafka_line_pass(l, 200);
        process_signal(&k.server, SIGCONT);
    }
    line_publishing(l);
    CHECK_EQ(kafka_line_told(relay, "event=\"session ends"), 0);
    line_end(l, &(struct line_expected){0});
}

/* Longer than the lease and than the second after which lanes go behind: the lease is the database's matter and stays. */
TEST_WITHIN(crash_kafka_frozen_beyond_the_lease, 90)
{
    struct kafka k = kafka_start();
    struct line *l = kafka_line_begin("kafka-frozen", k.bootstrap, NULL);
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);

    line_publishing(l);
    freeze(l, &k);
    line_hit(l, "SIGSTOP of the broker for 5 s, lease 2 s", "state T in /proc");
    kafka_line_pass(l, 4000);
    CHECK(kafka_line_state(k.server.pid) == 'T');
    process_signal(&k.server, SIGCONT);
    line_publishing(l);
    CHECK_EQ(e2e_number(&l->e, "SELECT epoch FROM outbox.lease"), 1);
    CHECK(kafka_line_told(relay, "event=\"partition waits") > 0);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
}

/* --- away --------------------------------------------------------------------------------------------------------- */

/* From the start, and later for `seconds`. Everything that was pending is published without anybody's help, and nothing was charged. */
static void outage(const char *name, unsigned seconds)
{
    struct kafka k = kafka_start();
    struct line *l = kafka_line_begin(name, k.bootstrap, NULL);

    kafka_stop(&k);
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);
    WAIT_UNTIL(kafka_line_told(relay, "event=\"kafka not reached\"") > 0, 20);
    line_strike(l);
    CHECK_EQ(e2e_marked(&l->e), 0);
    line_hit(l, "no broker from the start", "kafka not reached");
    kafka_restart(&k);
    line_publishing(l);
    line_strike(l);
    kafka_kill(&k);
    WAIT_UNTIL(kafka_line_told(relay, "event=\"kafka lost\"") > 0, 20);
    line_hit(l, "no broker for a while", "ended by signal %d, kafka lost", SIGKILL);
    kafka_line_pass(l, 800 * (int64_t)seconds);
    kafka_line_check_no_attempts(l);
    CHECK(e2e_unmarked(&l->e) >= 800 * (int64_t)seconds);
    kafka_restart(&k);
    line_publishing(l);
    WAIT_UNTIL(kafka_line_told(relay, "event=\"kafka back\"") > 0, 20);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(3), .seconds = 60});
    CHECK_EQ(e2e_number(&l->e, "SELECT count(*) FROM outbox.behind"), 0);
}

TEST_WITHIN(crash_kafka_away, 120)
{
    outage("kafka-away", 15);
}

TEST_WITHIN(long_kafka_away_for_a_minute, 240)
{
    outage("kafka-away-long", 60);
}
