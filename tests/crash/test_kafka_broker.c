/* SPDX-License-Identifier: BSD-2-Clause */
/* A broker of the line's own that is killed, frozen, away, or forgets its producers. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/crash/kafka_line.h"
#include "tests/lib/proxy.h"
#include "tests/lib/test.h"

/* Of a broker that ends and comes back: a session may end, and librdkafka may renew its producer inside of one. What was appended before the
 * end has no answer and is sent again; before the broker leads again it refuses such a batch, and may lead when the one behind it comes, which
 * is out of sequence then if the first was not appended. */
#define BROKER_ENDS (LINE_D(3) | LINE_D(7))

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
    CHECK(kafka_line_told(relay, "event=\"kafka lost\"") > 0);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = BROKER_ENDS});
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
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK, "--lease-ttl-ms", "3000");

    line_publishing(l);
    freeze(l, &k);
    line_hit(l, "SIGSTOP of the broker for 5 s, lease 3 s", "state T in /proc");
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
    CHECK(e2e_unmarked(&l->e) >= 700 * (int64_t)seconds); /* some were rolled back */
    int64_t last_id = e2e_number(&l->e, "SELECT max(id) FROM outbox.event");
    kafka_restart(&k);
    WAIT_UNTIL(kafka_line_told(relay, "event=\"kafka back\"") > 0, 60);
    /* What came meanwhile is published first; half a million rows take their time. */
    WAIT_UNTIL(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE id <= %lld AND sent_at IS NULL",
                               (long long)last_id) == 0,
               60 + seconds / 2);
    line_publishing(l);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = BROKER_ENDS, .seconds = 60});
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

/* Its name says where it runs: in check-long, if that has the time, and in release-check. */
TEST_WITHIN(outage_of_ten_minutes, 1500)
{
    outage("kafka-away-very-long", 600);
}

/* --- forgotten ---------------------------------------------------------------------------------------------------- */

static int producers(const struct kafka *k, const char *topic)
{
    int n = 0;

    for (int p = 0; p < E2E_PARTITIONS; p++)
        n += kafka_topic_producers(k->bootstrap, topic, p);
    return n;
}

/* Finding 15. The broker forgets producers that were silent for 4 s, and takes any sequence number from one that it does not know. After
 * such a silence the first batch of each lane is refused, while the next ones come: if a lane were still warm, they would be taken, and the
 * first one overtaken, or acknowledged with them without being there. */
TEST_WITHIN(crash_kafka_forgets_producers, 180)
{
    struct proxy p = proxy_start();
    struct kafka k = kafka_start_with("producer.id.expiration.ms=4000\nproducer.id.expiration.check.interval.ms=500\n");
    struct line *l = kafka_line_begin("forgotten", k.bootstrap, NULL);
    int64_t refused = 0;

    (void)snprintf(l->e.brokers, sizeof l->e.brokers, "127.0.0.1:%d", proxy_listen(&p, "broker", "kafka", k.proxy_port, k.proxied_port));
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK, "--kafka.batch.num.messages", "5", "--kafka.linger.ms", "0");
    for (int i = 0; i < 2; i++) {
        line_publishing(l);
        int known = producers(&k, "forgotten");
        CHECK(known > 0);
        process_signal(&l->e.load, SIGSTOP);
        WAIT_UNTIL(producers(&k, "forgotten") == 0, 60);
        proxy_command(&p, "rule first%d broker error on=Produce per=lane times=1 code=6 delay=100", i);
        process_signal(&l->e.load, SIGCONT);
        line_strike(l);
        WAIT_UNTIL((refused = proxy_hits(&p, i == 0 ? "first0" : "first1")) >= E2E_PARTITIONS, 20);
        line_hit(l, "idle until the broker forgot the producer, and the first batches refused then",
                 "the broker knew %d producers of partitions, then none; %lld first batches refused", known, (long long)refused);
        proxy_command(&p, "forget first%d", i);
    }
    line_publishing(l);
    CHECK_EQ(kafka_line_told(relay, "event=\"session ends"), 0);
    line_end(l, &(struct line_expected){0});
}
