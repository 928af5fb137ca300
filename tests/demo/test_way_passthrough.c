/* SPDX-License-Identifier: BSD-2-Clause */
/* An effect in somebody else's house, and the key that goes along. */
#include <signal.h>
#include <string.h>

#include "tests/demo/stream.h"
#include "tests/lib/test.h"

#define ORDERS 200
#define WAY    "passthrough"

struct scene {
    struct mock broker;
    struct stream stream;
    struct program card;
};

static void scene_start(struct scene *s, const char *card_flag, const char *card_value)
{
    s->broker = mock_start(1);
    mock_command(&s->broker, "topic orders %d", STREAM_PARTITIONS);
    s->stream = stream_start(s->broker.bootstrap);
    s->card = program_serve("card-processor",
                            (const char *[]){"--database", program_text("%s", s->stream.db.conninfo), card_flag, card_value, NULL});
}

static struct program consumer(const struct scene *s, const char *flag, const char *value)
{
    return stream_consumer(&s->stream, WAY, (const char *[]){"--card-url", program_text("%s", s->card.url), flag, value, NULL});
}

static void stop(struct program *p)
{
    process_signal(&p->process, SIGTERM);
    CHECK_EQ(process_wait(&p->process, 30), 0);
}

static void finish(const struct scene *s, struct program *p)
{
    WAIT_UNTIL(stream_lag(&s->stream, WAY) == 0, 90);
    stop(p);
}

/* Movements that the card processor must have made: a charge for each order, a refund for each that was cancelled. */
static int64_t movements_wanted(const struct scene *s)
{
    return postgres_number(s->stream.db.conninfo, "SELECT count(*) + count(*) FILTER (WHERE cents = 0) FROM shop.intended");
}

static int64_t movements(const struct scene *s)
{
    return postgres_number(s->stream.db.conninfo, "SELECT count(*) FROM card.movement");
}

TEST_WITHIN(demo_way_passthrough_charges_once_whatever_comes_twice, 180)
{
    struct scene s;
    struct program p;

    scene_start(&s, NULL, NULL);
    stream_place(&s.stream, ORDERS);
    stream_repeat(&s.stream, 100);
    p = consumer(&s, "--redeliver", "50");
    finish(&s, &p);
    CHECK_EQ(stream_drift(&s.stream, WAY), 0);
    CHECK_EQ(movements(&s), movements_wanted(&s));
    /* Under the client's key and name, as it made them. */
    CHECK_EQ(postgres_number(s.stream.db.conninfo,
                             "SELECT count(*) FROM card.movement WHERE kind = 'charge' AND key = order_id::text AND scope = 'tests \"1\"'"),
             ORDERS);
    CHECK_EQ(postgres_number(s.stream.db.conninfo,
                             "SELECT count(*) FROM card.movement JOIN shop.event ON key = event_id::text WHERE kind = 'refund'"),
             ORDERS / 7);
}

TEST_WITHIN(demo_way_passthrough_is_exact_through_its_deaths, 240)
{
    static const char *const faults[] = {"between:1:kill", "before-offsets:1:kill", "after-offsets:1:kill"};
    struct scene s;
    struct program p;

    scene_start(&s, NULL, NULL);
    stream_place(&s.stream, ORDERS);
    for (int i = 0; i < 3; i++) {
        p = consumer(&s, "--fault", faults[i]);
        CHECK_EQ(process_wait(&p.process, 60), 128 + SIGKILL);
        stream_place(&s.stream, 50);
    }
    p = consumer(&s, NULL, NULL);
    finish(&s, &p);
    CHECK_EQ(stream_drift(&s.stream, WAY), 0);
    CHECK_EQ(movements(&s), movements_wanted(&s));
}

TEST_WITHIN(demo_way_passthrough_doubles_if_the_card_ignores_keys, 180)
{
    struct scene s;
    struct program p;

    scene_start(&s, "--ignore-keys", NULL);
    stream_place(&s.stream, ORDERS);
    stream_repeat(&s.stream, 50);
    p = consumer(&s, NULL, NULL);
    finish(&s, &p);
    CHECK(movements(&s) > movements_wanted(&s));
}

/* Dead in the middle of a charge, away for a while: the consumer asks again, and nothing is charged twice for it. */
TEST_WITHIN(demo_way_passthrough_waits_for_the_card_processor, 180)
{
    struct scene s;
    struct program p;

    scene_start(&s, "--fault", "after-movement:20:kill");
    stream_place(&s.stream, ORDERS);
    p = consumer(&s, NULL, NULL);
    CHECK_EQ(process_wait(&s.card.process, 60), 128 + SIGKILL);
    WAIT_UNTIL(strstr(process_output(&p.process), "card processor: "), 60);
    program_forget(&s.card, "--fault");
    program_restart(&s.card);
    finish(&s, &p);
    CHECK_EQ(stream_drift(&s.stream, WAY), 0);
    CHECK_EQ(movements(&s), movements_wanted(&s));
}
