/* SPDX-License-Identifier: BSD-2-Clause */
/* Topics and the numbers of their lanes, one promise of the header a test. */
#include "relay/core/topics.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define TOPICS 4
#define LANES  3

static struct topics *topics_new(void)
{
    return topics_init(memset(test_allocate(topics_size(TOPICS, LANES)), 0xa5, topics_size(TOPICS, LANES)), TOPICS, LANES);
}

/* Topic 0 is open with as many partitions. */
static struct topics *topics_with(int32_t pinned_n, int32_t actual_n)
{
    struct topics *t = topics_new();

    topics_use(t, 0, 0);
    CHECK_EQ(topics_ask(t, 0), 0);
    topics_answered(t);
    topics_open(t, 0, pinned_n, actual_n, 0);
    return t;
}

TEST(topics_are_asked_about_at_once_one_at_a_time)
{
    struct topics *t = topics_new();

    CHECK_EQ(topics_ask_due_ms(t), UINT64_MAX);
    CHECK_EQ(topics_ask(t, 100), TOPICS_NO_TOPIC);
    topics_use(t, 100, 3);
    topics_use(t, 120, 1);
    topics_use(t, 150, 3); /* is in use */
    CHECK_EQ(topics_state(t, 3), TOPICS_ASKING);
    CHECK_EQ(topics_used(t), 2);
    CHECK_EQ(topics_age(t, 150, 3), 50);
    CHECK_EQ(topics_ask_due_ms(t), 100);
    CHECK_EQ(topics_ask(t, 120), 3);
    CHECK_EQ(topics_ask(t, 120), TOPICS_NO_TOPIC);
    CHECK_EQ(topics_ask_due_ms(t), UINT64_MAX);
    topics_answered(t);
    CHECK_EQ(topics_ask_due_ms(t), 120);
    CHECK_EQ(topics_ask(t, 120), 1);
    topics_answered(t);
    CHECK_EQ(topics_ask(t, 1000), TOPICS_NO_TOPIC);
}

TEST(topics_that_are_closed_are_asked_about_later)
{
    struct topics *t = topics_with(4, 4);

    topics_close(t, 100, 0, 50);
    CHECK_EQ(topics_state(t, 0), TOPICS_CLOSED);
    CHECK_EQ(topics_attempts(t, 0), 1);
    CHECK_EQ(topics_ask_due_ms(t), 150);
    CHECK_EQ(topics_ask(t, 149), TOPICS_NO_TOPIC);
    CHECK_EQ(topics_ask(t, 150), 0);
    topics_answered(t);
    topics_close(t, 150, 0, 50);
    CHECK_EQ(topics_attempts(t, 0), 2);
    topics_acked(t, 0);
    CHECK_EQ(topics_attempts(t, 0), 0);
}

/* The earlier of two questions is the next, whatever their order. */
TEST(topics_ask_about_the_earliest_first)
{
    struct topics *t = topics_with(4, 4);

    topics_use(t, 0, 1);
    CHECK_EQ(topics_ask(t, 0), 1);
    topics_answered(t);
    topics_close(t, 0, 0, 500);
    topics_close(t, 0, 1, 300);
    CHECK_EQ(topics_ask_due_ms(t), 300);
    CHECK_EQ(topics_ask(t, 300), 1);
    topics_answered(t);
    CHECK_EQ(topics_ask_due_ms(t), 500);
}

/* Many that are missing, each answer slower than they come back: all have their turn, and one that is new has it first. */
TEST(topics_that_are_missing_do_not_starve_others)
{
    struct topics *t = topics_new();
    unsigned asked[TOPICS] = {0};

    for (uint32_t topic = 0; topic < TOPICS - 1; topic++)
        topics_use(t, 0, topic);
    for (uint64_t now_ms = 0; now_ms < 3000; now_ms += 100) {
        uint32_t topic = topics_ask(t, now_ms);

        CHECK(topic < TOPICS - 1);
        asked[topic]++;
        topics_answered(t);
        topics_close(t, now_ms + 100, topic, 50);
    }
    for (uint32_t topic = 0; topic < TOPICS - 1; topic++)
        CHECK_EQ(asked[topic], 10);
    topics_use(t, 3000, TOPICS - 1);
    CHECK_EQ(topics_ask(t, 3000), TOPICS - 1);
    topics_answered(t);
    CHECK(topics_ask_due_ms(t) < 3000);
}

TEST(topics_stay_open_while_they_are_asked_about_again)
{
    struct topics *t = topics_with(4, 4);

    topics_ask_again(t, 100, 0, 50);
    topics_ask_again(t, 100, 0, 10); /* it is to be asked about already */
    CHECK_EQ(topics_state(t, 0), TOPICS_OPEN);
    CHECK_EQ(topics_ask_due_ms(t), 150);
    CHECK_EQ(topics_ask(t, 150), 0);
}

TEST(topics_that_are_forgotten_are_asked_about_no_more)
{
    struct topics *t = topics_with(4, 4);

    topics_close(t, 100, 0, 50);
    topics_forget(t, 0);
    CHECK_EQ(topics_state(t, 0), TOPICS_UNUSED);
    CHECK_EQ(topics_used(t), 0);
    CHECK_EQ(topics_ask(t, 1000), TOPICS_NO_TOPIC);
    topics_use(t, 1000, 0);
    CHECK_EQ(topics_attempts(t, 0), 0);
    CHECK_EQ(topics_lane_partition(t, 0, 2, 0), TOPICS_UNPLACED);
}

TEST(topics_in_use_take_turns)
{
    struct topics *t = topics_with(4, 4);

    CHECK_EQ(topics_next_used(t, 0), TOPICS_NO_TOPIC);
    topics_use(t, 0, 2);
    CHECK_EQ(topics_next_used(t, TOPICS_NO_TOPIC) + topics_next_used(t, TOPICS_NO_TOPIC), 2);
    CHECK_EQ(topics_next_used(t, 0), 2);
    CHECK_EQ(topics_next_used(t, 0), 2);
}

/* Partitions that are added move no key. */
TEST(topics_place_keys_by_the_pinned_count)
{
    struct topics *t = topics_with(4, 9);

    CHECK_EQ(topics_partition(t, 0, -1, 7), 3);
    CHECK_EQ(topics_partition(t, 0, -1, 0x80000005u), 1); /* Java drops the sign */
    CHECK_EQ(topics_lane_partition(t, 0, -1, 7), 3);
    CHECK_EQ(topics_partition(t, 0, 8, 7), 8); /* the row's own wish */
    CHECK_EQ(topics_lane_partition(t, 0, 8, 7), 8);
    CHECK_EQ(topics_lane_partition(t, 0, 9, 7), TOPICS_UNPLACED);
}

/* Partition 0 is a wish like any other. */
TEST(topics_rows_go_to_the_partition_that_they_wish)
{
    struct topics *t = topics_with(4, 4);

    for (int32_t wish = 0; wish < 4; wish++) {
        for (uint32_t spread = 0; spread < 4; spread++) {
            CHECK_EQ(topics_partition(t, 0, wish, spread), wish);
            CHECK_EQ(topics_lane_partition(t, 0, wish, spread), wish);
        }
    }
}

TEST(topics_not_yet_known_have_no_partitions)
{
    struct topics *t = topics_new();

    topics_use(t, 0, 0);
    CHECK_EQ(topics_lane_partition(t, 0, 0, 0), TOPICS_UNPLACED);
    CHECK(!topics_exists(t, 0, 0));
}

TEST(topics_that_are_closed_have_no_partitions_but_keep_their_lanes)
{
    struct topics *t = topics_with(4, 4);

    CHECK(topics_exists(t, 0, 3) && !topics_exists(t, 0, 4));
    topics_close(t, 0, 0, 50);
    CHECK(!topics_exists(t, 0, 3));
    CHECK_EQ(topics_lane_partition(t, 0, 3, 0), 3);
}

/* Rows that waited for a new partition must be gone before others take its lane. */
TEST(topics_added_partitions_get_lanes_when_told)
{
    struct topics *t = topics_with(4, 4);

    CHECK(!topics_wants_place(t, 0));
    topics_open(t, 0, 4, 6, 0);
    CHECK(topics_wants_place(t, 0) && topics_exists(t, 0, 5));
    CHECK_EQ(topics_lane_partition(t, 0, 5, 0), TOPICS_UNPLACED);
    topics_place(t, 0);
    CHECK(!topics_wants_place(t, 0));
    CHECK_EQ(topics_lane_partition(t, 0, 5, 0), 5);
}

TEST(topics_know_the_smallest_limit_of_a_message)
{
    struct topics *t = topics_with(4, 4);

    CHECK_EQ(topics_message_bytes_max(t), 0);
    topics_use(t, 0, 1);
    topics_use(t, 0, 2);
    topics_open(t, 1, 1, 1, 700);
    topics_open(t, 2, 1, 1, 500);
    CHECK_EQ(topics_message_bytes_max(t), 500);
    topics_open(t, 2, 1, 1, 1);
    CHECK_EQ(topics_message_bytes_max(t), 1);
    topics_close(t, 0, 2, 10);
    CHECK_EQ(topics_message_bytes_max(t), 700);
}

TEST(topics_number_their_lanes)
{
    struct topics *t = topics_with(4, 4);
    uint32_t a = topics_add_lane(t, 0, 3), b = topics_add_lane(t, 0, TOPICS_UNPLACED);

    CHECK(a != b && a < LANES && b < LANES);
    CHECK_EQ(topics_find_lane(t, 0, 3), a);
    CHECK_EQ(topics_find_lane(t, 0, TOPICS_UNPLACED), b);
    CHECK_EQ(topics_find_lane(t, 0, 2), TOPICS_NO_LANE);
    CHECK_EQ(topics_find_lane(t, 1, 3), TOPICS_NO_LANE);
    CHECK_EQ(topics_partition_of(t, a), 3);
    CHECK_EQ(topics_lane_topic(t, a), 0);
    CHECK(topics_lane_used(t, a) && topics_lane_used(t, b));
    CHECK(topics_lanes_top(t) > a && topics_lanes_top(t) > b);
}

TEST(topics_give_lane_numbers_away_again)
{
    struct topics *t = topics_with(4, 4);
    uint32_t lane[LANES];

    for (int32_t partition = 0; partition < LANES; partition++)
        lane[partition] = topics_add_lane(t, 0, partition);
    CHECK_EQ(topics_add_lane(t, 0, 3), TOPICS_NO_LANE);
    topics_remove_lane(t, lane[1]);
    CHECK(!topics_lane_used(t, lane[1]));
    CHECK_EQ(topics_find_lane(t, 0, 1), TOPICS_NO_LANE);
    CHECK_EQ(topics_find_lane(t, 0, 0), lane[0]);
    CHECK_EQ(topics_find_lane(t, 0, 2), lane[2]);
    CHECK_EQ(topics_add_lane(t, 0, 3), lane[1]);
    CHECK_EQ(topics_find_lane(t, 0, 3), lane[1]);
}

TEST(topics_list_the_lanes_of_each)
{
    struct topics *t = topics_with(4, 4);
    uint32_t a = topics_add_lane(t, 0, 0), b, c, found = 0;

    topics_use(t, 0, 1);
    b = topics_add_lane(t, 1, 0);
    c = topics_add_lane(t, 0, 1);
    for (uint32_t lane = topics_first_lane(t, 0); lane != TOPICS_NO_LANE; lane = topics_next_lane(t, lane))
        found |= 1u << lane;
    CHECK_EQ(found, 1u << a | 1u << c);
    CHECK_EQ(topics_first_lane(t, 1), b);
    topics_remove_lane(t, a);
    CHECK_EQ(topics_first_lane(t, 0), c);
    CHECK_EQ(topics_next_lane(t, c), TOPICS_NO_LANE);
}

/* Many lanes share few buckets of the hash. */
TEST(topics_find_every_one_of_many_lanes)
{
    struct topics *t = topics_init(test_allocate(topics_size(8, 300)), 8, 300);

    for (uint32_t topic = 0; topic < 8; topic++)
        topics_use(t, 0, topic);
    for (uint32_t i = 0; i < 300; i++)
        CHECK(topics_add_lane(t, i % 8, (int32_t)(i / 8)) == i);
    for (uint32_t i = 0; i < 300; i += 3)
        topics_remove_lane(t, i);
    for (uint32_t i = 0; i < 300; i++)
        CHECK_EQ(topics_find_lane(t, i % 8, (int32_t)(i / 8)), i % 3 == 0 ? TOPICS_NO_LANE : i);
}

TEST(topics_digest_counts_states_and_distances_but_not_dates)
{
    struct topics *a = topics_with(4, 4), *b = topics_with(4, 4);

    CHECK(topics_digest(a, 0) == topics_digest(b, 5000));
    topics_close(a, 100, 0, 50);
    CHECK(topics_digest(a, 100) != topics_digest(b, 100));
    topics_close(b, 900, 0, 50);
    CHECK(topics_digest(a, 100) == topics_digest(b, 900));
    CHECK(topics_digest(a, 101) != topics_digest(b, 900));
    (void)topics_add_lane(a, 0, 1);
    CHECK(topics_digest(a, 100) != topics_digest(b, 900));
}
