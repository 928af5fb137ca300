/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays, one promise of the header a test. */
#include "relay/core/pace.h"

#include "tests/lib/test.h"

static struct pace pace_new(uint64_t seed)
{
    struct pace p;

    pace_init(&p, 2, 50, 100, 30000, seed, 1000);
    return p;
}

/* How long after it was sent at `sent_ms` the next read is due, when it took `took_ms`. */
static uint64_t wait_after(struct pace *p, uint64_t sent_ms, uint64_t took_ms, bool useful, bool full)
{
    pace_read_sent(p, sent_ms);
    pace_read_answered(p, sent_ms + took_ms, useful, full);
    return pace_read_due_ms(p) - sent_ms;
}

TEST(pace_reads_at_once_when_there_is_more)
{
    struct pace p = pace_new(1);

    CHECK_EQ(wait_after(&p, 1000, 7, true, true), 7);
}

TEST(pace_polls_are_apart_and_not_that_plus_their_duration)
{
    struct pace p = pace_new(1);

    CHECK_EQ(wait_after(&p, 1000, 0, true, false), 2);
    CHECK_EQ(wait_after(&p, 1002, 1, true, false), 2);
}

TEST(pace_polls_ever_less_while_nothing_comes)
{
    struct pace p = pace_new(1);
    uint64_t now_ms = 1000, wait_ms, last_ms = 0, polls = 0;

    for (; now_ms < 3000; now_ms += wait_ms, polls++) {
        wait_ms = wait_after(&p, now_ms, 0, false, false);
        CHECK(wait_ms >= 2 && wait_ms <= 50 && wait_ms >= last_ms);
        CHECK(wait_ms <= 2 + (now_ms - 1000) / 16); /* a row waits a small part of the pause before it */
        last_ms = wait_ms;
    }
    CHECK_EQ(last_ms, 50);
    CHECK(polls < 150);
    CHECK_EQ(wait_after(&p, now_ms, 0, true, false), 2);
}

/* What is full and brings nothing wanted (everything is behind) must not spin. */
TEST(pace_full_reads_of_nothing_wanted_are_apart)
{
    struct pace p = pace_new(1);

    CHECK_EQ(wait_after(&p, 100000, 0, false, true), 2);
}

TEST(pace_slow_reads_take_a_quarter_of_the_time)
{
    struct pace p = pace_new(1);

    CHECK_EQ(wait_after(&p, 1000, 30, true, false), 120);
    CHECK_EQ(wait_after(&p, 5000, 30, false, false), 120);
    CHECK_EQ(wait_after(&p, 9000, 30, true, true), 30); /* but for what is useful and full */
}

TEST(pace_one_read_that_stalled_does_not_stop_reading_for_minutes)
{
    struct pace p = pace_new(1);

    CHECK_EQ(wait_after(&p, 1000, 20000, true, false), 21000);
}

TEST(pace_reads_now_when_told)
{
    struct pace p = pace_new(1);

    (void)wait_after(&p, 9000, 30, false, false);
    pace_read_now(&p, 9031);
    CHECK_EQ(pace_read_due_ms(&p), 9031);
}

TEST(pace_backs_off_by_a_random_part_of_a_doubling_time)
{
    struct pace p = pace_new(1);
    uint32_t most[3] = {0}, least[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    const uint32_t attempts[3] = {0, 3, 60};

    for (unsigned i = 0; i < 3000; i++) {
        uint32_t wait_ms = pace_backoff_ms(&p, attempts[i % 3]);

        most[i % 3] = wait_ms > most[i % 3] ? wait_ms : most[i % 3];
        least[i % 3] = wait_ms < least[i % 3] ? wait_ms : least[i % 3];
    }
    CHECK(most[0] <= 100 && most[0] > 95 && least[0] < 5);
    CHECK(most[1] <= 800 && most[1] > 780 && least[1] < 20);
    CHECK(most[2] <= 30000 && most[2] > 29000 && least[2] < 1000);
}

TEST(pace_jitter_is_its_own_for_each_seed)
{
    struct pace a = pace_new(1), b = pace_new(2), c = pace_new(1);
    unsigned same = 0;

    for (unsigned i = 0; i < 100; i++) {
        uint32_t wait_ms = pace_backoff_ms(&a, 5);

        CHECK_EQ(wait_ms, pace_backoff_ms(&c, 5));
        same += wait_ms == pace_backoff_ms(&b, 5);
    }
    CHECK(same < 5);
}

TEST(pace_patience_is_what_it_is_told_while_kafka_is_quick)
{
    struct pace p = pace_new(1);

    pace_acked(&p, 1000, 500, 1000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 0), 1000);
    pace_acked(&p, 1000, 501, 1000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 0), 1002);
}

TEST(pace_patience_is_twice_the_longest_wait)
{
    struct pace p = pace_new(1);

    pace_acked(&p, 1000, 900, 1000);
    pace_acked(&p, 2000, 2000, 1000);
    pace_acked(&p, 2001, 0, 1000);
    pace_acked(&p, 3000, 1500, 1000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 0), 4000);
}

/* An outage says little of how long the next one will be. */
TEST(pace_patience_learns_ten_times_of_what_it_is_told_at_most)
{
    struct pace p = pace_new(1);

    pace_acked(&p, 1000, 60000, 1000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 0), 10000);
}

/* One turn is ten seconds; the longest wait counts in its own and in the next one. */
TEST(pace_patience_ends_when_kafka_is_quick_again)
{
    struct pace p = pace_new(1);

    pace_acked(&p, 1000, 3000, 1000);
    pace_acked(&p, 10999, 0, 1000);
    pace_acked(&p, 11000, 1000, 1000);
    pace_acked(&p, 20999, 0, 1000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 0), 6000);
    pace_acked(&p, 21000, 0, 1000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 0), 2000);
    pace_acked(&p, 31000, 0, 1000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 0), 1000);
}

TEST(pace_patience_doubles_with_each_session_that_had_no_report)
{
    struct pace p = pace_new(1);

    CHECK_EQ(pace_patience_ms(&p, 1000, 1), 2000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 4), 16000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 5), 32000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 6), 32000);
    pace_acked(&p, 1000, 1500, 1000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 1), 3000);
    CHECK_EQ(pace_patience_ms(&p, 1000, 2), 4000);
}

TEST(pace_digest_knows_the_patience)
{
    struct pace a = pace_new(1), b = pace_new(1);

    pace_acked(&a, 1000, 3000, 1000);
    CHECK(pace_digest(&a, 1000) != pace_digest(&b, 1000));
    pace_acked(&b, 1000, 3000, 1000);
    CHECK(pace_digest(&a, 1000) == pace_digest(&b, 1000));
    pace_acked(&a, 11000, 3000, 1000);
    pace_acked(&b, 11000, 600, 1000);
    CHECK(pace_digest(&a, 11000) != pace_digest(&b, 11000));
}

/* So that a quick Kafka has no more states than one that is never slow. */
TEST(pace_remembers_nothing_of_a_quick_kafka)
{
    struct pace p = pace_new(1), fresh = pace_new(1);

    pace_acked(&p, 1000, 500, 1000);
    CHECK(pace_digest(&p, 1000) == pace_digest(&fresh, 1000));
    pace_acked(&p, 1000, 3000, 1000);
    for (uint64_t now_ms = 11000; now_ms <= 41000; now_ms += 10000)
        pace_acked(&p, now_ms, 500, 1000);
    CHECK(pace_digest(&p, 41000) == pace_digest(&fresh, 41000));
}

TEST(pace_digest_counts_distances_but_not_dates)
{
    struct pace a = pace_new(1), b;

    pace_init(&b, 2, 50, 100, 30000, 1, 8000);
    (void)wait_after(&a, 1500, 0, false, false);
    (void)wait_after(&b, 8500, 0, false, false);
    CHECK(pace_digest(&a, 1500) == pace_digest(&b, 8500));
    CHECK(pace_digest(&a, 1501) != pace_digest(&b, 8500));
}

/* An idle relay comes back to the same state: tests that explore every state end. */
TEST(pace_digest_of_a_long_pause_is_that_of_a_longer)
{
    struct pace p = pace_new(1), later;

    (void)wait_after(&p, 5000, 0, false, false);
    later = p;
    (void)wait_after(&later, 9000, 0, false, false);
    CHECK(pace_digest(&p, 5000) == pace_digest(&later, 9000));
}
