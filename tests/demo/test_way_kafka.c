/* SPDX-License-Identifier: BSD-2-Clause */
/* What Kafka's transactions are worth, on a real broker: nothing for an effect beside them, everything for one inside. */
#include <signal.h>
#include <string.h>

#include "tests/demo/stream.h"
#include "tests/lib/test.h"

#define ORDERS 300

static struct stream scene_start(void)
{
    struct kafka *broker = test_allocate(sizeof *broker);

    *broker = kafka_start();
    kafka_topic_create(broker->bootstrap, "orders", STREAM_PARTITIONS, NULL);
    return stream_start(broker->bootstrap);
}

static void caught_up(const struct stream *stream, const char *way)
{
    WAIT_UNTIL(stream_lag(stream, way) == 0, 120);
}

static void stop(struct program *p)
{
    process_signal(&p->process, SIGTERM);
    CHECK_EQ(process_wait(&p->process, 60), 0);
}

static void die(const struct stream *stream, const char *way, const char *fault)
{
    struct program p = stream_consumer(stream, way, (const char *[]){"--fault", fault, "--redeliver", "10", NULL});

    CHECK_EQ(process_wait(&p.process, 90), 128 + SIGKILL);
}

TEST(demo_way_kafka_says_that_it_needs_a_real_one)
{
    static const char *const ways[] = {"kafka-eos", "kafka-to-kafka"};
    struct mock broker = mock_start(1);

    for (int i = 0; i < 2; i++) {
        struct program p =
            program_run("payment-consumer", (const char *[]){"--way", ways[i], "--kafka", program_text("%s", broker.bootstrap), NULL});

        CHECK_EQ(process_wait(&p.process, 15), 2);
        CHECK(strstr(process_output(&p.process), program_text("--way %s needs a real Kafka: ", ways[i])));
    }
}

TEST_WITHIN(demo_way_kafka_eos_doubles_its_effect_in_the_database, 240)
{
    struct stream stream = scene_start();
    struct program p;

    stream_place(&stream, ORDERS);
    die(&stream, "kafka-eos", "between:2:kill");
    p = stream_consumer(&stream, "kafka-eos", NULL);
    caught_up(&stream, "kafka-eos");
    stop(&p);
    CHECK(stream_doubled(&stream, "kafka-eos") > 0);
    CHECK_EQ(stream_lost(&stream, "kafka-eos"), 0);
}

static void exact(const struct stream *stream)
{
    struct program p = stream_consumer(stream, "kafka-to-kafka", (const char *[]){"--redeliver", "30", NULL});

    caught_up(stream, "kafka-to-kafka");
    stop(&p);
    CHECK_EQ(stream_lost(stream, "kafka-to-kafka"), 0);
    CHECK_EQ(stream_doubled(stream, "kafka-to-kafka"), 0);
    CHECK_EQ(stream_drift(stream, "kafka-to-kafka"), 0);
}

TEST_WITHIN(demo_way_kafka_to_kafka_is_exact_whatever_comes_twice, 300)
{
    struct stream stream = scene_start();

    stream_place(&stream, ORDERS);
    stream_repeat(&stream, 200);
    exact(&stream);
    /* Nothing of it is known in memory any more. */
    stream_repeat(&stream, 300);
    exact(&stream);
}
