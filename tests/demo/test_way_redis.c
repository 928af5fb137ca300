/* SPDX-License-Identifier: BSD-2-Clause */
/* What marks in Redis are worth around an effect in PostgreSQL: before it they lose, after it they double, and Redis forgets. */
#include <signal.h>
#include <string.h>

#include "tests/demo/stream.h"
#include "tests/lib/test.h"

#define ORDERS 300

struct scene {
    struct mock broker;
    struct redis redis;
    struct stream stream;
};

static void scene_start(struct scene *s)
{
    s->broker = mock_start(1);
    mock_command(&s->broker, "topic orders %d", STREAM_PARTITIONS);
    s->redis = redis_start();
    s->stream = stream_start(s->broker.bootstrap);
}

static struct program consumer(const struct scene *s, const char *way, const char *flag, const char *value)
{
    return stream_consumer(&s->stream, way, (const char *[]){"--redis", s->redis.address, flag, value, NULL});
}

static void caught_up(const struct scene *s, const char *way)
{
    WAIT_UNTIL(stream_lag(&s->stream, way) == 0, 60);
}

static void stop(struct program *p)
{
    process_signal(&p->process, SIGTERM);
    CHECK_EQ(process_wait(&p->process, 30), 0);
}

/* Its point strikes, it dies, and comes again without the fault. One worker, so that no other dies elsewhere with it. */
static void die_and_return(const struct scene *s, const char *way, const char *fault)
{
    struct program p =
        stream_consumer(&s->stream, way, (const char *[]){"--redis", s->redis.address, "--fault", fault, "--workers", "1", NULL});

    CHECK_EQ(process_wait(&p.process, 60), 128 + SIGKILL);
    p = consumer(s, way, NULL, NULL);
    caught_up(s, way);
    stop(&p);
}

TEST_WITHIN(demo_way_redis_before_is_right_while_all_is_well, 120)
{
    struct scene s;
    struct program p;

    scene_start(&s);
    stream_place(&s.stream, ORDERS);
    stream_repeat(&s.stream, 100);
    p = consumer(&s, "redis-before", "--redeliver", "50");
    caught_up(&s, "redis-before");
    CHECK_EQ(stream_drift(&s.stream, "redis-before"), 0);
    stop(&p);
}

TEST_WITHIN(demo_way_redis_before_loses_what_dies_between, 120)
{
    struct scene s;

    scene_start(&s);
    stream_place(&s.stream, ORDERS);
    die_and_return(&s, "redis-before", "between:2:kill");
    CHECK(stream_lost(&s.stream, "redis-before") > 0);
    CHECK_EQ(stream_doubled(&s.stream, "redis-before"), 0);
}

/* Between effect and offsets it is safe: the records come again, and are known. */
TEST_WITHIN(demo_way_redis_is_right_where_its_marks_are_set, 240)
{
    struct scene s;

    scene_start(&s);
    stream_place(&s.stream, ORDERS);
    die_and_return(&s, "redis-before", "before-offsets:1:kill");
    CHECK_EQ(stream_drift(&s.stream, "redis-before"), 0);
    die_and_return(&s, "redis-after", "before-offsets:1:kill");
    CHECK_EQ(stream_drift(&s.stream, "redis-after"), 0);
}

TEST_WITHIN(demo_way_redis_after_doubles_what_dies_between, 120)
{
    struct scene s;

    scene_start(&s);
    stream_place(&s.stream, ORDERS);
    die_and_return(&s, "redis-after", "between:2:kill");
    CHECK(stream_doubled(&s.stream, "redis-after") > 0);
    CHECK_EQ(stream_lost(&s.stream, "redis-after"), 0);
}

/* Two workers look for a mark that is not there yet. */
TEST_WITHIN(demo_way_redis_after_doubles_what_comes_to_two_workers_at_once, 120)
{
    struct scene s;
    struct program p;

    scene_start(&s);
    p = consumer(&s, "redis-after", "--redeliver", "100");
    for (int i = 0; i < 20 && (i == 0 || stream_drift(&s.stream, "redis-after") == 0); i++) {
        stream_place(&s.stream, 50);
        caught_up(&s, "redis-after");
    }
    CHECK(stream_drift(&s.stream, "redis-after") > 0);
    CHECK_EQ(stream_lost(&s.stream, "redis-after"), 0);
    stop(&p);
}

/* It was full, or restarted, or its time to live was shorter than the relay's outage: the marks are gone and the copies come. */
static void forgetful(const char *way, bool by_restart)
{
    struct scene s;
    struct program p;

    scene_start(&s);
    stream_place(&s.stream, ORDERS);
    p = consumer(&s, way, NULL, NULL);
    caught_up(&s, way);
    CHECK_EQ(stream_drift(&s.stream, way), 0);
    if (by_restart) {
        redis_kill(&s.redis);
        redis_restart(&s.redis);
    } else
        redis_number(&s.redis, "FLUSHALL");
    stream_repeat(&s.stream, 70);
    caught_up(&s, way);
    CHECK_EQ(postgres_number(s.stream.db.conninfo, "SELECT count(*) FROM ledger_%s.entry",
                             strcmp(way, "redis-before") == 0 ? "redis_before" : "redis_after"),
             s.stream.events + 70);
    stop(&p);
}

TEST_WITHIN(demo_way_redis_before_doubles_what_redis_forgot, 120)
{
    forgetful("redis-before", false);
}

TEST_WITHIN(demo_way_redis_after_doubles_what_redis_forgot_by_a_restart, 120)
{
    forgetful("redis-after", true);
}

TEST_WITHIN(demo_way_redis_marks_live_as_long_as_they_were_told, 120)
{
    struct scene s;
    struct program p;

    scene_start(&s);
    stream_place(&s.stream, 20);
    p = consumer(&s, "redis-before", "--redis-ttl-s", "2");
    caught_up(&s, "redis-before");
    WAIT_UNTIL(redis_number(&s.redis, "DBSIZE") == 0, 30);
    CHECK_EQ(stream_drift(&s.stream, "redis-before"), 0);
    stream_repeat(&s.stream, 1);
    WAIT_UNTIL(postgres_number(s.stream.db.conninfo, "SELECT count(*) FROM ledger_redis_before.entry") == s.stream.events + 1, 30);
    stop(&p);
}

/* Away is not gone: what could not be marked waits. */
TEST_WITHIN(demo_way_redis_is_waited_for, 120)
{
    struct scene s;
    struct program p;

    scene_start(&s);
    stream_place(&s.stream, 20);
    p = consumer(&s, "redis-before", NULL, NULL);
    caught_up(&s, "redis-before");
    redis_kill(&s.redis);
    stream_place(&s.stream, 20);
    WAIT_UNTIL(strstr(process_output(&p.process), "Redis at "), 30);
    CHECK(stream_drift(&s.stream, "redis-before") < 0);
    redis_restart(&s.redis);
    caught_up(&s, "redis-before");
    CHECK_EQ(stream_drift(&s.stream, "redis-before"), 0);
    stop(&p);
}
