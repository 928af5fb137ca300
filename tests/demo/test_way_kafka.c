/* SPDX-License-Identifier: BSD-2-Clause */
/* What Kafka's transactions are worth, on a real broker: nothing for an effect beside them, everything for one inside. */
#include <signal.h>
#include <string.h>

#include "tests/demo/stream.h"
#include "tests/lib/test.h"

#define ORDERS 300

static struct stream scene_on(struct kafka *broker)
{
    *broker = kafka_start();
    kafka_topic_create(broker->bootstrap, "orders", STREAM_PARTITIONS, NULL);
    return stream_start(broker->bootstrap);
}

static struct stream scene_start(void)
{
    return scene_on(test_allocate(sizeof(struct kafka)));
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

TEST_WITHIN(demo_way_kafka_to_kafka_is_exact_through_a_death_at_each_point, 400)
{
    static const char *const points[] = {"between", "before-offsets", "after-offsets"};
    struct stream stream = scene_start();

    for (int i = 0; i < 3; i++) {
        stream_place(&stream, 100);
        stream_repeat(&stream, 60);
        die(&stream, "kafka-to-kafka", program_text("%s:2:kill", points[i]));
    }
    exact(&stream);
}

/* Not killed but frozen, in the middle of a transaction: the group gives its partitions away, and then it wakes, with everything ready to be
 * committed. The broker knows its generation, and refuses. */
TEST_WITHIN(demo_way_kafka_to_kafka_is_exact_when_a_former_owner_wakes, 300)
{
    struct stream stream = scene_start();
    struct program former, next;

    stream_place(&stream, ORDERS);
    former = stream_consumer(&stream, "kafka-to-kafka", (const char *[]){"--fault", "between:2:stop", NULL});
    WAIT_UNTIL(strstr(process_output(&former.process), "between: stop"), 60);
    next = stream_consumer(&stream, "kafka-to-kafka", (const char *[]){"--state", program_text("%s", temp_folder()), NULL});
    WAIT_UNTIL(stream_members(&stream, "kafka-to-kafka") == 4, 30);
    WAIT_UNTIL(stream_members(&stream, "kafka-to-kafka") == 2, 30);
    process_signal(&former.process, SIGCONT);
    stream_repeat(&stream, 100);
    caught_up(&stream, "kafka-to-kafka");
    stop(&former);
    stop(&next);
    exact(&stream);
}

static int64_t written(const struct stream *stream)
{
    if (postgres_number(stream->db.conninfo, "SELECT count(*) FROM pg_tables WHERE schemaname = 'ledger_kafka_to_kafka'") == 0)
        return 0;
    return postgres_number(stream->db.conninfo, "SELECT count(*) FROM ledger_kafka_to_kafka.output");
}

/* Two processes, killed in turn while the other works: partitions go back and forth. */
TEST_WITHIN(demo_way_kafka_to_kafka_is_exact_while_partitions_wander, 500)
{
    struct stream stream = scene_start();
    struct program p[2];
    const char *const flags[2][7] = {{"--redeliver", "20", "--batch", "10", NULL},
                                     {"--redeliver", "20", "--batch", "10", "--state", program_text("%s", temp_folder()), NULL}};

    for (int i = 0; i < 2; i++)
        p[i] = stream_consumer(&stream, "kafka-to-kafka", flags[i]);
    for (int i = 0; i < 6; i++) {
        int64_t before = stream.events;

        stream_place(&stream, 100);
        stream_repeat(&stream, 50);
        WAIT_UNTIL(written(&stream) > before + 20, 90);
        process_signal(&p[i % 2].process, SIGKILL);
        process_wait(&p[i % 2].process, 10);
        p[i % 2] = stream_consumer(&stream, "kafka-to-kafka", flags[i % 2]);
    }
    caught_up(&stream, "kafka-to-kafka");
    for (int i = 0; i < 2; i++)
        stop(&p[i]);
    exact(&stream);
}

/* A commit whose answer never comes happened, or did not; whoever goes on finds out first. */
TEST_WITHIN(demo_way_kafka_to_kafka_is_exact_through_deaths_of_the_broker, 500)
{
    struct kafka *broker = test_allocate(sizeof *broker);
    struct stream stream = scene_on(broker);
    struct program p;

    stream_place(&stream, ORDERS);
    stream_repeat(&stream, 100);
    p = stream_consumer(&stream, "kafka-to-kafka", (const char *[]){"--redeliver", "20", "--batch", "5", NULL});
    for (int i = 0; i < 2; i++) {
        WAIT_UNTIL(written(&stream) > 30 + 60 * i, 120);
        kafka_kill(broker);
        kafka_restart(broker);
    }
    caught_up(&stream, "kafka-to-kafka");
    stop(&p);
    exact(&stream);
}
