/* SPDX-License-Identifier: BSD-2-Clause */
/* What reports become, against the mock cluster: it answers with any error that is asked for. It does not check sequences; nothing here
 * is about order or duplicates. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/edge/producer_rig.h"
#include "tests/lib/services.h"

#define PRODUCE 0 /* Kafka's number of the request */

static struct mock mock_with_topic(int partitions_n)
{
    struct mock m = mock_start(1);

    mock_command(&m, "topic t %d", partitions_n);
    return m;
}

static void check_each_once(const struct rig *rig, uint32_t rows_n)
{
    for (uint32_t slot = 0; slot < rows_n; slot++)
        CHECK_EQ(rig->reports[slot], 1);
}

TEST(producer_delivers)
{
    struct mock m = mock_with_topic(4);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    rig_open(rig, 0);
    for (row_slot slot = 0; slot < 1000; slot++)
        rig_publish(rig, slot, "t", (int32_t)(slot % 4), 100);
    RIG_WAIT(rig, rig->delivered_n == 1000, 10);
    check_each_once(rig, 1000);
    CHECK_EQ(rig->reachable, 1);
    rig_close(rig);
    CHECK_EQ(rig->refused_n + rig->broken_n, 0);
    CHECK_EQ(rig_read(m.bootstrap, "t", 4, NULL, NULL), 1000);
    rig_free(rig);
}

/* One error of the broker, on the first batch: what the core is told of it. A fatal error comes first and names no row. */
static void check_error(int error, enum relay_fault fault, const char *code, bool fatal)
{
    struct mock m = mock_with_topic(1);
    struct rig *rig = rig_new(m.bootstrap, (const char *[]){"batch.num.messages=10", NULL});
    struct producer_record late;
    uint32_t handed_n = 0;

    rig_open(rig, 0);
    mock_command(&m, "error %d %d 1", PRODUCE, error);
    for (bool open = true; open && handed_n < 100; handed_n += open) { /* its end may come while rows are handed */
        struct producer_record record = rig_record(rig, handed_n, "t", 0, 100);

        open = rig_hand(rig, &record) == RELAY_FAULT_NONE;
    }
    CHECK(handed_n > 0);
    RIG_WAIT(rig, rig->refused_n > 0 || (fatal && rig->broken_n > 0), 10);
    late = rig_record(rig, 200, "t", 0, 10);
    CHECK_EQ(rig_hand(rig, &late), RELAY_FAULT_SESSION);
    rig_close(rig);
    CHECK(rig->broken_n <= 1);
    CHECK_EQ(rig_reports_n(rig), handed_n);
    check_each_once(rig, handed_n);
    CHECK_EQ(rig->reports[200], 0);
    if (!fatal) {
        CHECK_STR(rig->refused_code, code);
        CHECK_EQ(rig->refused_fault, fault);
        CHECK_EQ(rig->faults[0], fault);
    } else {
        CHECK_EQ(rig->broken_n, 1);
        CHECK_EQ(rig->broken_fault, fault);
        CHECK_STR(rig->broken_code, code);
        CHECK(rig->broken_reason[0] != '\0');
    }
    rig_open(rig, 0); /* and the next session is as good as new */
    rig_publish(rig, 0, "t", 0, 100);
    RIG_WAIT(rig, rig->delivered_n > 0, 10);
    rig_close(rig);
    rig_free(rig);
    mock_stop(&m);
}

TEST(producer_session_ends_with_a_row_too_large)
{
    check_error(10, RELAY_FAULT_SIZE, "MSG_SIZE_TOO_LARGE", false);
}

TEST(producer_session_ends_with_an_invalid_row)
{
    check_error(87, RELAY_FAULT_ROW, "INVALID_RECORD", false);
}

TEST(producer_session_ends_with_a_forbidden_topic)
{
    check_error(29, RELAY_FAULT_TOPIC, "TOPIC_AUTHORIZATION_FAILED", false);
}

TEST(producer_session_ends_with_a_passing_error)
{
    check_error(89, RELAY_FAULT_PASSING, "THROTTLING_QUOTA_EXCEEDED", false);
}

TEST(producer_session_ends_with_an_error_nobody_knows)
{
    check_error(-1, RELAY_FAULT_PASSING, "UNKNOWN", false);
}

TEST(producer_session_ends_with_a_fatal_error)
{
    check_error(45, RELAY_FAULT_SESSION, "OUT_OF_ORDER_SEQUENCE_NUMBER", true);
}

TEST(producer_session_survives_what_librdkafka_retries)
{
    static const int errors[] = {5, 6, 7, 19, 56}; /* leader not available, not the leader, timed out, not enough replicas, disk */
    struct mock m = mock_with_topic(2);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    rig_open(rig, 0);
    for (row_slot slot = 0; slot < 5; slot++) {
        mock_command(&m, "error %d %d 1", PRODUCE, errors[slot]);
        rig_publish(rig, slot, "t", 0, 100);
        RIG_WAIT(rig, rig->delivered_n == slot + 1, 15);
    }
    CHECK_EQ(rig->refused_n + rig->broken_n, 0);
    rig_close(rig);
    rig_free(rig);
}

static void see_slot(void *data, const struct rig_message *m)
{
    struct rig *rig = data;
    row_slot slot;

    memcpy(&slot, m->payload, sizeof slot);
    rig->reports[slot] = 2;
}

/* Rows are in librdkafka's queues, on the wire, and not yet placed; each of them has its report. */
TEST(producer_close_in_the_middle_reports_each_row_once)
{
    struct mock m = mock_with_topic(4);
    struct rig *rig = rig_new(m.bootstrap, (const char *[]){"batch.num.messages=100", NULL});

    rig_open(rig, 0);
    rig_publish(rig, 0, "t", 0, 100);
    RIG_WAIT(rig, rig->delivered_n == 1, 10);
    mock_command(&m, "rtt 300");
    for (row_slot slot = 1; slot < 20000; slot++)
        rig_publish(rig, slot, "t", (int32_t)(slot % 4), slot % 1000 == 0 ? 100000 : 100);
    RIG_WAIT(rig, rig->delivered_n > 1, 10);
    rig_close(rig);
    CHECK_EQ(rig_reports_n(rig), 20000);
    CHECK(rig->refused_n > 0);
    check_each_once(rig, 20000);
    CHECK_EQ(rig->refused_fault, RELAY_FAULT_SESSION);
    mock_command(&m, "rtt 0");
    rig_read(m.bootstrap, "t", 4, see_slot, rig);
    for (row_slot slot = 0; slot < 20000; slot++) /* what was reported good is there */
        CHECK(rig->faults[slot] != RELAY_FAULT_NONE || rig->reports[slot] == 2);
    rig_free(rig);
}

TEST(producer_close_of_an_idle_session)
{
    struct mock m = mock_with_topic(1);
    struct rig *rig = rig_new(m.bootstrap, NULL);
    unsigned slow_n = 0;

    for (int i = 0; i < 5; i++) {
        uint64_t begin_ms = test_now_ms();

        rig_open(rig, 0);
        rig_close(rig);
        slow_n += test_now_ms() - begin_ms > 200; /* it takes no tick of the safety timer */
    }
    CHECK(slow_n < 4);
    rig_free(rig);
}

/* The relay's loop is late for seconds: librdkafka's threads must not stand still (their wake-up would block), and afterwards every report
 * comes without any further event. */
TEST_WITHIN(producer_drains_after_a_pause_without_further_events, 60)
{
    struct mock m = mock_with_topic(4);
    struct rig *rig = rig_new(m.bootstrap, NULL);
    uint64_t begin_ms;

    rig_open(rig, 0);
    rig_publish(rig, 0, "t", 0, 100);
    RIG_WAIT(rig, rig->delivered_n == 1, 10);
    for (row_slot slot = 1; slot < 200000; slot++) /* without a turn of the loop */
        rig_publish(rig, slot, "t", (int32_t)(slot % 4), 20);
    WAIT_UNTIL(rig_read(m.bootstrap, "t", 4, NULL, NULL) == 200000, 40);
    rig->work_ns = 2000; /* 0.4 s in all: not in one turn, nor only when the safety timer comes */
    begin_ms = test_now_ms();
    RIG_WAIT(rig, rig->delivered_n == 200000, 30);
    printf("    200000 reports in %u ms, longest turn %.1f ms\n", (unsigned)(test_now_ms() - begin_ms), (double)rig->longest_ns / 1e6);
    CHECK(rig->longest_ns < 50000000);
    CHECK(test_now_ms() - begin_ms < 5000);
    rig_close(rig);
    rig_free(rig);
}

/* A wake-up is never lost: the safety timer of half a second is not what brings the reports. */
TEST(producer_wakes_up_for_each_report)
{
    struct mock m = mock_with_topic(1);
    struct rig *rig = rig_new(m.bootstrap, NULL);
    unsigned slow_n = 0;

    rig_open(rig, 0);
    for (row_slot slot = 0; slot < 300; slot++) {
        uint64_t begin_ms = test_now_ms();

        rig_publish(rig, slot, "t", 0, 20);
        RIG_WAIT(rig, rig->delivered_n == slot + 1, 10);
        slow_n += slot > 0 && test_now_ms() - begin_ms > 150;
    }
    CHECK(slow_n < 10);
    rig_close(rig);
    rig_free(rig);
}

/* An outage of all brokers is not an error of any row: they wait, and go out when the brokers are back. */
TEST_WITHIN(producer_outage_refuses_nothing, 60)
{
    struct mock m = mock_with_topic(2);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    rig_open(rig, 0);
    rig_publish(rig, 0, "t", 0, 100);
    RIG_WAIT(rig, rig->delivered_n == 1 && rig->reachable == 1, 10);
    mock_command(&m, "down");
    for (row_slot slot = 1; slot < 500; slot++)
        rig_publish(rig, slot, "t", (int32_t)(slot % 2), 100);
    RIG_WAIT(rig, rig->reachable == 0, 20);
    CHECK(strstr(rig->reachable_reason, "no Kafka broker answers") != NULL);
    CHECK_EQ(rig->delivered_n, 1);
    mock_command(&m, "up");
    RIG_WAIT(rig, rig->delivered_n == 500 && rig->reachable == 1, 30);
    CHECK_EQ(rig->reachable_n, 3);
    CHECK_EQ(rig->refused_n + rig->broken_n, 0);
    CHECK(rig->longest_ns < 50000000);
    rig_close(rig);
    rig_free(rig);
}

/* Nothing is published, and still an outage and its end are seen. */
TEST_WITHIN(producer_sees_an_outage_while_idle, 60)
{
    struct mock m = mock_with_topic(1);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    rig_open(rig, 0);
    RIG_WAIT(rig, rig->reachable == 1, 10);
    mock_command(&m, "down");
    RIG_WAIT(rig, rig->reachable == 0, 20);
    mock_command(&m, "up");
    RIG_WAIT(rig, rig->reachable == 1, 20);
    rig_close(rig);
    rig_free(rig);
}

TEST(producer_learns_topics)
{
    struct mock m = mock_with_topic(7);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    rig_learn(rig, "t", 7);
    CHECK_EQ(rig->message_bytes_max[0], 0); /* the mock cluster does not know the question */
    mock_command(&m, "topic-error nothing 3");
    rig_learn(rig, "nothing", 0);
    CHECK(strstr(rig->topic_reason, "topic \"nothing\" does not exist") != NULL);
    mock_command(&m, "topic-error forbidden 29");
    rig_learn(rig, "forbidden", 0);
    CHECK(strstr(rig->topic_reason, "not ours to write") != NULL);
    rig_learn(rig, "", 0);
    CHECK(rig->topic_reason[0] != '\0');
    /* Several at once, each answered; but not one that was forgotten. */
    rig->partitions_n[3] = -1;
    for (uint32_t topic = 0; topic < 4; topic++)
        producer_learn(rig->producer, topic, "t");
    producer_forget(rig->producer, 3);
    RIG_WAIT(rig, rig->topics_n == 7, 15);
    producer_learn(rig->producer, 4, "t");
    RIG_WAIT(rig, rig->partitions_n[4] == 7, 15);
    CHECK_EQ(rig->partitions_n[3], -1);
    CHECK(rig->longest_ns < 50000000);
    rig_free(rig);
}

static double cpu_ms(void)
{
    struct rusage usage;

    CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* With a client of its own for each question it was 20 ms of the processor. */
TEST_WITHIN(producer_learns_many_topics_cheaply, 60)
{
    struct mock m = mock_with_topic(7);
    struct rig *rig = rig_new(m.bootstrap, NULL);
    double begin_ms;

    rig_learn(rig, "t", 7);
    begin_ms = cpu_ms();
    for (int i = 0; i < 100; i++)
        rig_learn(rig, "t", 7);
    printf("    %.2f ms of the processor a question\n", (cpu_ms() - begin_ms) / 100);
    CHECK(cpu_ms() - begin_ms < 100 * 6);
    /* What is kept knows nothing stale, and is given up when nobody answered. */
    mock_command(&m, "topic-error t 3");
    rig_learn(rig, "t", 0);
    mock_command(&m, "topic-error t 0");
    rig_learn(rig, "t", 7);
    mock_command(&m, "down");
    rig_learn(rig, "t", 0);
    mock_command(&m, "up");
    rig_learn(rig, "t", 7);
    rig_free(rig);
}

TEST(producer_can_be_freed_while_it_learns)
{
    struct mock m = mock_with_topic(1);
    struct rig *rig = rig_new(m.bootstrap, NULL);

    producer_learn(rig->producer, 0, "t");
    producer_learn(rig->producer, 1, "t");
    rig_free(rig); /* frees the payloads and counters that a late answer would touch */
}

/* --- nobody there ------------------------------------------------------------------------------------------------- */

static void check_unreachable(const char *bootstrap, const char *with)
{
    struct rig *rig = rig_new(bootstrap, NULL);

    rig_open(rig, 0);
    producer_learn(rig->producer, 0, "t");
    rig_publish(rig, 0, "t", 0, 100);
    RIG_WAIT(rig, rig->reachable == 0 && rig->topics_n == 1, 20);
    if (strstr(rig->reachable_reason, with) == NULL)
        test_fail(__FILE__, __LINE__, "%s: %s", bootstrap, rig->reachable_reason);
    CHECK_EQ(rig->partitions_n[0], 0);
    if (strstr(rig->topic_reason, with) == NULL)
        test_fail(__FILE__, __LINE__, "%s: %s", bootstrap, rig->topic_reason);
    rig_close(rig);
    CHECK_EQ(rig->refused_n, 1);
    printf("    %s: longest turn %.1f ms: %s\n", bootstrap, (double)rig->longest_ns / 1e6, rig->topic_reason);
    CHECK(rig->longest_ns < 50000000);
    rig_free(rig);
}

TEST_WITHIN(producer_without_a_broker, 60)
{
    char bootstrap[40];

    snprintf(bootstrap, sizeof bootstrap, "127.0.0.1:%d", free_port());
    check_unreachable(bootstrap, "no Kafka broker answers");
}

/* `check` ends its producer as soon as its session is closed, which a tick may tell: then the tick has nothing left to do. A sanitizer sees
 * it, and the loop's late turn makes sure that the tick comes first. */
TEST_WITHIN(producer_is_freed_by_what_a_tick_tells, 60)
{
    char bootstrap[40];

    snprintf(bootstrap, sizeof bootstrap, "127.0.0.1:%d", free_port());
    struct rig *rig = rig_new(bootstrap, NULL);

    rig_open(rig, 0);
    RIG_WAIT(rig, rig->reachable == 0, 20);
    uint64_t until_ms = test_now_ms() + 3000; /* what it asked about the broker has failed by then */
    RIG_WAIT(rig, test_now_ms() > until_ms, 20);
    rig->ends_with_session = true;
    producer_close(rig->producer, rig->session);
    until_ms = test_now_ms() + 700;
    WAIT_UNTIL(test_now_ms() > until_ms, 20);
    rig_free(rig);
}

TEST_WITHIN(producer_with_a_wrong_name, 90)
{
    check_unreachable("no-such-host.invalid:9092", "cannot be resolved");
}

/* A socket that is never accepted: connecting succeeds, and nobody ever says a word. */
TEST_WITHIN(producer_with_a_silent_broker, 60)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char bootstrap[40];

    CHECK_EQ(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(listen(fd, 100), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)&at, &at_n), 0);
    snprintf(bootstrap, sizeof bootstrap, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    check_unreachable(bootstrap, "no Kafka broker answers");
    close(fd);
}
