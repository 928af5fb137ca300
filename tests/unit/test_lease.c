/* SPDX-License-Identifier: BSD-2-Clause */
/* The lease, one promise of the header a test: it lasts 10 s, of which the last 2 s are the margin. */
#include "relay/core/lease.h"

#include "tests/lib/test.h"

static const struct relay_token ours = {{1, 2, 3}}, none = {{0}};

static struct lease lease_new(void)
{
    struct lease l;

    lease_init(&l, 10000, 2000);
    return l;
}

static struct lease lease_held_since(uint64_t asked_at_ms)
{
    struct lease l = lease_new();

    lease_asked(&l);
    lease_granted(&l, asked_at_ms, ours);
    return l;
}

TEST(lease_is_asked_for_at_once_and_once)
{
    struct lease l = lease_new();

    CHECK(lease_is_due(&l, 0) && !lease_is_valid(&l, 0) && !lease_has(&l, none));
    lease_asked(&l);
    CHECK(!lease_is_due(&l, 1000000));
    CHECK_EQ(lease_due_ms(&l), UINT64_MAX);
}

/* The answer may have been long on its way: the database counts from before it. */
TEST(lease_runs_from_before_the_question)
{
    struct lease l = lease_held_since(1000);

    CHECK(lease_is_valid(&l, 1000 + 7999) && !lease_is_valid(&l, 1000 + 8000));
    CHECK(lease_has(&l, ours) && !lease_has(&l, none));
    CHECK_EQ(lease_due_ms(&l), 1000 + 3333); /* the beat */
    lease_asked(&l);
    CHECK_EQ(lease_due_ms(&l), 1000 + 8000); /* the deadline */
    lease_kept(&l, 4333);
    CHECK(lease_is_valid(&l, 4333 + 7999) && !lease_is_valid(&l, 4333 + 8000));
    CHECK(!lease_is_due(&l, 4333 + 3332) && lease_is_due(&l, 4333 + 3333));
}

TEST(lease_that_another_relay_has_is_asked_for_again)
{
    struct lease l = lease_new();

    lease_asked(&l);
    lease_refused(&l, 5000);
    CHECK(!lease_is_valid(&l, 5000) && !lease_is_due(&l, 5199) && lease_is_due(&l, 5200));
    CHECK_EQ(lease_due_ms(&l), 5200);
}

TEST(lease_is_kept_though_a_beat_failed)
{
    struct lease l = lease_held_since(1000);

    lease_asked(&l);
    lease_failed(&l, 4500);
    CHECK(lease_is_valid(&l, 8999) && !lease_is_valid(&l, 9000));
    CHECK(!lease_is_due(&l, 4499) && lease_is_due(&l, 4500));
}

TEST(lease_that_is_lost_says_nothing_for_its_token)
{
    struct lease l = lease_held_since(1000);

    lease_lost(&l, 1500, false);
    CHECK(!lease_is_valid(&l, 1001) && !lease_has(&l, ours) && !lease_has(&l, none));
    CHECK(!lease_is_due(&l, 1499) && lease_is_due(&l, 1500));
}

/* Finding 24: an answer to a question from before the loss must neither keep nor grant anything. */
TEST(lease_answer_from_before_the_loss_is_stale)
{
    struct lease l = lease_held_since(1000);

    lease_asked(&l);
    lease_lost(&l, 1500, false);
    CHECK(!lease_is_due(&l, 2000)); /* not two questions at a time */
    CHECK(lease_answer_is_stale(&l));
    CHECK(lease_is_due(&l, 2000));
    lease_asked(&l);
    CHECK(!lease_answer_is_stale(&l));
    lease_granted(&l, 2000, ours);
    CHECK(lease_is_valid(&l, 2001));
}

TEST(lease_question_dies_with_its_connection)
{
    struct lease l = lease_held_since(1000);

    lease_asked(&l);
    lease_lost(&l, 1500, true);
    CHECK(lease_is_due(&l, 1500));
    lease_asked(&l);
    CHECK(!lease_answer_is_stale(&l));
}

TEST(lease_question_that_failed_is_not_stale_any_more)
{
    struct lease l = lease_held_since(1000);

    lease_asked(&l);
    lease_lost(&l, 1500, false);
    lease_failed(&l, 1600);
    CHECK(lease_is_due(&l, 1600));
    lease_asked(&l);
    CHECK(!lease_answer_is_stale(&l));
}

TEST(lease_digest_counts_distances_but_not_dates)
{
    struct lease a = lease_held_since(1000), b = lease_held_since(7000);

    CHECK(lease_digest(&a, 1100) == lease_digest(&b, 7100));
    CHECK(lease_digest(&a, 1100) != lease_digest(&b, 7101));
    lease_asked(&a);
    CHECK(lease_digest(&a, 1100) != lease_digest(&b, 7100));
    lease_asked(&b);
    lease_lost(&a, 1100, false);
    CHECK(lease_digest(&a, 1100) != lease_digest(&b, 7100));
}

/* Finding 20: the database's clock was set back, and its holder is dead. */
TEST(lease_beat_that_does_not_change_is_over)
{
    struct lease l;

    lease_init(&l, 10000, 2000);
    CHECK_EQ(lease_silent_beat(&l, 5000), 0);
    lease_seen(&l, 5000, 77, 3000);
    lease_seen(&l, 9000, 77, 3000);
    CHECK_EQ(lease_silent_beat(&l, 10000), 0); /* the margin is for what runs slower there */
    CHECK_EQ(lease_silent_beat(&l, 10001), 77);
    lease_seen(&l, 10002, 78, 3000);
    CHECK_EQ(lease_silent_beat(&l, 15002), 0);
    CHECK_EQ(lease_silent_beat(&l, 15003), 78);
    lease_asked(&l);
    lease_granted(&l, 15003, (struct relay_token){{1}});
    CHECK_EQ(lease_silent_beat(&l, 99999), 0);
}
