/* SPDX-License-Identifier: BSD-2-Clause */
/* Two sessions at once: what happens to one is no business of the other. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/edge/producer_rig.h"
#include "tests/lib/services.h"

#define PRODUCE 0 /* Kafka's number of the request */

enum {
    EACH = 1000 /* rows of a session */
};

static struct mock mock_with_topic(int partitions_n)
{
    struct mock m = mock_start(1);

    mock_command(&m, "topic t %d", partitions_n);
    return m;
}

/* Slots below EACH are of the main session and go to partition 0; the others are of the probe. */
static void open_session(struct rig *rig, enum relay_session session)
{
    rig->session = session;
    rig_open(rig, 0);
}

static void close_session(struct rig *rig, enum relay_session session)
{
    rig->session = session;
    rig_close(rig);
}

static void publish_to(struct rig *rig, enum relay_session session, row_slot from, row_slot upto)
{
    rig->session = session;
    for (row_slot slot = from; slot < upto; slot++)
        rig_publish(rig, slot, "t", session == RELAY_PROBE, 100);
}

static uint32_t good_n(const struct rig *rig, row_slot from, row_slot upto)
{
    uint32_t n = 0;

    for (row_slot slot = from; slot < upto; slot++)
        n += rig->reports[slot] == 1 && rig->faults[slot] == RELAY_FAULT_NONE;
    return n;
}

static unsigned threads_n(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned n = 0;

    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        n += task->d_name[0] != '.';
    (void)closedir(tasks);
    return n;
}

TEST(producer_sessions_deliver_side_by_side)
{
    struct mock m = mock_with_topic(2);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    open_session(rig, RELAY_MAIN);
    open_session(rig, RELAY_PROBE);
    for (row_slot slot = 0; slot < EACH; slot += 100) {
        publish_to(rig, RELAY_MAIN, slot, slot + 100);
        publish_to(rig, RELAY_PROBE, EACH + slot, EACH + slot + 100);
    }
    RIG_WAIT(rig, rig->delivered_n == 2 * EACH, 10); /* each of its own session: the rig looks */
    close_session(rig, RELAY_PROBE);
    CHECK(!producer_is_closed(rig->producer));
    close_session(rig, RELAY_MAIN);
    CHECK(producer_is_closed(rig->producer));
    CHECK_EQ(rig->refused_n + rig->broken_n, 0);
    CHECK_EQ(rig->reachable_n, 1);
    CHECK_EQ(rig_read(m.bootstrap, "t", 2, NULL, NULL), 2 * EACH);
    rig_free(rig);
}

/* The row that the probe has on its way is refused (or is met by a fatal error); thousands of the main session are not even disturbed. */
static void check_end_of(enum relay_session refused, int error, bool fatal)
{
    struct mock m = mock_with_topic(2);
    struct rig *rig = rig_new(m.bootstrap, NULL);
    enum relay_session other = refused == RELAY_MAIN ? RELAY_PROBE : RELAY_MAIN;
    row_slot own = refused == RELAY_MAIN ? 0 : EACH, others = EACH - own;

    open_session(rig, other);
    open_session(rig, refused);
    publish_to(rig, other, others, others + 100);
    RIG_WAIT(rig, rig->delivered_n == 100, 10);
    mock_command(&m, "error %d %d 1", PRODUCE, error);
    publish_to(rig, refused, own, own + 1);
    RIG_WAIT(rig, rig->refused_n + rig->broken_n > 0, 10);
    CHECK(!fatal || rig->broken_by[refused] == 1); /* a refusal may become fatal too, a moment later */
    CHECK_EQ(rig->broken_by[other], 0);
    publish_to(rig, other, others + 100, others + 500);
    close_session(rig, refused);
    publish_to(rig, other, others + 500, others + EACH);
    RIG_WAIT(rig, good_n(rig, others, others + EACH) == EACH, 10);
    CHECK_EQ(rig_reports_n(rig), EACH + 1);
    open_session(rig, refused);
    publish_to(rig, refused, own, own + 1);
    RIG_WAIT(rig, good_n(rig, own, own + 1) == 1, 10);
    close_session(rig, other);
    CHECK_EQ(rig->closed_by[other], 1);
    close_session(rig, refused);
    CHECK_EQ(rig->closed_by[refused], 2);
    rig_free(rig);
}

TEST(producer_sessions_probe_ends_alone)
{
    check_end_of(RELAY_PROBE, 87, false);
}

TEST(producer_sessions_probe_with_a_fatal_error_ends_alone)
{
    check_end_of(RELAY_PROBE, 45, true);
}

TEST(producer_sessions_main_ends_alone)
{
    check_end_of(RELAY_MAIN, 10, false);
}

/* Both are closed in one turn with rows on their way: each row has one report, each session one end, and no thread is left. */
TEST_WITHIN(producer_sessions_close_together, 60)
{
    struct mock m = mock_with_topic(2);
    struct rig *rig = rig_new(m.bootstrap, (const char *[]){"batch.num.messages=10", NULL});
    unsigned at_rest_n = 0;

    for (unsigned round = 0; round < 5; round++) {
        open_session(rig, RELAY_MAIN);
        open_session(rig, RELAY_PROBE);
        publish_to(rig, RELAY_MAIN, 0, 1);
        publish_to(rig, RELAY_PROBE, EACH, EACH + 1);
        RIG_WAIT(rig, rig->reports[0] > 0 && rig->reports[EACH] > 0, 10);
        mock_command(&m, "rtt 200");
        publish_to(rig, RELAY_MAIN, 1, EACH);
        publish_to(rig, RELAY_PROBE, EACH + 1, 2 * EACH);
        rig->calling = true;
        producer_close(rig->producer, RELAY_MAIN);
        producer_close(rig->producer, RELAY_PROBE);
        rig->calling = false;
        RIG_WAIT(rig, rig->closed_n == 2 * (round + 1), 20);
        mock_command(&m, "rtt 0");
        CHECK_EQ(rig->closed_by[RELAY_MAIN], round + 1);
        for (row_slot slot = 0; slot < 2 * EACH; slot++)
            CHECK_EQ(rig->reports[slot], 1);
        if (round == 0) { /* our own, four of libuv, and those of the client that learns */
            WAIT_UNTIL((rig_turn(rig), at_rest_n = threads_n(), at_rest_n <= 9), 10);
        }
        WAIT_UNTIL((rig_turn(rig), threads_n() <= at_rest_n), 10);
    }
    CHECK(rig->refused_n > 0);
    CHECK(rig->longest_ns < 50000000);
    rig_free(rig);
}

/* One session's outage is the other's, and is told once. */
TEST_WITHIN(producer_sessions_tell_an_outage_once, 60)
{
    struct mock m = mock_with_topic(2);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    open_session(rig, RELAY_MAIN);
    open_session(rig, RELAY_PROBE);
    publish_to(rig, RELAY_MAIN, 0, 100);
    publish_to(rig, RELAY_PROBE, EACH, EACH + 1);
    RIG_WAIT(rig, rig->delivered_n == 101 && rig->reachable == 1, 10);
    mock_command(&m, "down");
    publish_to(rig, RELAY_MAIN, 100, 200);
    RIG_WAIT(rig, rig->reachable == 0, 20);
    close_session(rig, RELAY_PROBE);
    mock_command(&m, "up");
    RIG_WAIT(rig, rig->delivered_n == 201 && rig->reachable == 1, 30);
    CHECK_EQ(rig->reachable_n, 3);
    close_session(rig, RELAY_MAIN);
    rig_free(rig);
}

/* --- a broker that is frozen -------------------------------------------------------------------------------------- */

static void freeze(struct rig *rig, struct process *server, const char *topic)
{
    uint64_t begin_ms = test_now_ms(), lost_ms;

    rig_open(rig, 0);
    rig_publish(rig, 0, topic, 0, 100);
    RIG_WAIT(rig, rig->delivered_n == 1 && rig->reachable == 1, 20);
    RIG_WAIT(rig, test_now_ms() > begin_ms + 3000, 20); /* no question of the beginning is out any more */
    process_signal(server, SIGSTOP);
    begin_ms = test_now_ms();
    for (row_slot slot = 1; slot < 100; slot++)
        rig_publish(rig, slot, topic, 0, 100);
    RIG_WAIT(rig, rig->reachable == 0, 30);
    lost_ms = test_now_ms() - begin_ms;
    CHECK(strstr(rig->reachable_reason, "no Kafka broker answers") != NULL);
    process_signal(server, SIGCONT);
    RIG_WAIT(rig, rig->delivered_n == 100 && rig->reachable == 1, 30);
    printf("    lost after %u ms; %u changes; longest turn %.1f ms\n", (unsigned)lost_ms, rig->reachable_n, (double)rig->longest_ns / 1e6);
    CHECK_EQ(rig->reachable_n, 3); /* there, gone, there: it did not flap */
    CHECK_EQ(rig->refused_n + rig->broken_n, 0);
    rig_close(rig);
}

/* It keeps its connections, so that nothing is an error for a minute: rows without a report raise the question. */
TEST_WITHIN(producer_sessions_see_a_broker_that_is_frozen, 90)
{
    struct mock m = mock_with_topic(1);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    freeze(rig, &m.server, "t");
    rig_free(rig);
}

TEST_WITHIN(producer_sessions_see_a_kafka_that_is_frozen, 90)
{
    struct kafka k = kafka_start();
    struct rig *rig = rig_new(k.bootstrap, NULL);

    kafka_topic_create(k.bootstrap, "t", 1, NULL);
    freeze(rig, &k.server, "t");
    rig_free(rig);
}

/* A pause that raises the question, but not for long enough to be told. */
TEST_WITHIN(producer_sessions_do_not_tell_a_pause, 60)
{
    struct mock m = mock_with_topic(1);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    rig_open(rig, 0);
    rig_publish(rig, 0, "t", 0, 100);
    RIG_WAIT(rig, rig->delivered_n == 1 && rig->reachable == 1, 20);
    for (row_slot slot = 1; slot <= 3; slot++) {
        uint64_t until_ms = test_now_ms() + 4000;

        process_signal(&m.server, SIGSTOP);
        rig_publish(rig, slot, "t", 0, 100);
        RIG_WAIT(rig, test_now_ms() > until_ms, 20);
        process_signal(&m.server, SIGCONT);
        RIG_WAIT(rig, rig->delivered_n == slot + 1, 20);
    }
    CHECK_EQ(rig->reachable_n, 1);
    rig_close(rig);
    rig_free(rig);
}
