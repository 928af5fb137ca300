/* SPDX-License-Identifier: BSD-2-Clause */
/* Gaps, one promise of the header a test. */
#include "relay/core/gaps.h"

#include <stdlib.h>
#include <string.h>

#include "relay/core/relay.h"
#include "tests/lib/test.h"

#define RANGES  6
#define WRITERS 4

/* In memory that was used before. */
static struct gaps *gaps_new(void)
{
    return gaps_init(memset(test_allocate(gaps_size(RANGES, WRITERS)), 0xa5, gaps_size(RANGES, WRITERS)), RANGES, WRITERS, 0);
}

/* A read that brings these ids, 0 ends them, and is whole up to `upto`. Returns how many of them were taken. */
static unsigned read_upto(struct gaps *g, uint64_t now_ms, int64_t upto, const int64_t *ids)
{
    unsigned n = 0;

    gaps_read_begin(g);
    while (ids[n] != 0 && gaps_read_see(g, now_ms, ids[n]))
        n++;
    gaps_read_end(g, upto);
    return n;
}

#define SEE(g, ...)        read_upto((g), 0, INT64_MAX, (const int64_t[]){__VA_ARGS__, 0})
#define SEE_NOTHING(g)     read_upto((g), 0, INT64_MAX, (const int64_t[]){0})
#define CHECK_GAPS(g, ...) gaps_check((g), (const int64_t[]){__VA_ARGS__, 0})

/* The ranges are these pairs, 0 ends them. */
static void gaps_check(const struct gaps *g, const int64_t *pairs)
{
    const int64_t *firsts, *lasts;
    uint32_t n = gaps_ranges(g, &firsts, &lasts), i;

    CHECK_EQ(n, gaps_n(g));
    for (i = 0; i < n; i++) {
        CHECK_EQ(firsts[i], pairs[2 * i]);
        CHECK_EQ(lasts[i], pairs[2 * i + 1]);
    }
    CHECK_EQ(pairs[2 * i], 0);
}

/* Ask who may still use an id, be told that the sequence stands at `last_id`, and these writers; 0 ends them. */
static void ask(struct gaps *g, int64_t last_id, uint64_t a, uint64_t b)
{
    const struct relay_writer writers[] = {{.vxid = a}, {.vxid = b}};

    gaps_writers_begin(g);
    gaps_writers_end(g, last_id, writers, (uint32_t)(a != 0) + (uint32_t)(b != 0));
}

TEST(gaps_are_the_ids_between_those_seen)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 2, 5, 6, 9);
    CHECK_GAPS(g, 3, 4, 7, 8);
    CHECK_EQ(gaps_highest(g), 9);
    CHECK_EQ(gaps_closed_upto(g), 2);
}

TEST(gaps_are_set_up_above_the_floor)
{
    CHECK_EQ(gaps_highest(gaps_init(test_allocate(gaps_size(RANGES, WRITERS)), RANGES, WRITERS, 7)), 7);
}

TEST(gaps_begin_above_the_floor)
{
    struct gaps *g = gaps_new();

    SEE(g, 5);
    gaps_reset(g, 100);
    CHECK_EQ(gaps_highest(g), 100);
    CHECK_EQ(gaps_closed_upto(g), 100);
    SEE(g, 101, 103);
    CHECK_GAPS(g, 102, 102);
}

TEST(gaps_shrink_and_split_where_an_id_shows)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 9);
    SEE(g, 5);
    CHECK_GAPS(g, 2, 4, 6, 8);
    SEE(g, 2, 8);
    CHECK_GAPS(g, 3, 4, 6, 7);
    SEE(g, 3, 4);
    CHECK_GAPS(g, 6, 7);
    CHECK_EQ(gaps_closed_upto(g), 5);
    SEE(g, 6, 7);
    CHECK_EQ(gaps_n(g), 0);
    CHECK_EQ(gaps_closed_upto(g), 9);
}

/* An id that is in no gap was seen before: another event with it, or a row that is read again. */
TEST(gaps_do_not_change_where_an_id_was_seen_before)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 5);
    CHECK_EQ(SEE(g, 1, 5), 2);
    CHECK_GAPS(g, 2, 4);
}

TEST(gaps_know_whether_an_id_is_open)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 4, 6, 9);
    for (int64_t id = 1; id <= 10; id++)
        CHECK_EQ(gaps_open_at(g, id), id == 2 || id == 3 || id == 5 || id == 7 || id == 8);
}

TEST(gaps_close_after_sequence_holders_and_one_more_read)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 1);
    CHECK(!gaps_wants_read(g));
    ask(g, 3, 0, 0); /* nobody */
    CHECK_EQ(gaps_n(g), 1);
    CHECK(gaps_wants_read(g));
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
    CHECK_EQ(gaps_closed_upto(g), 3);
    CHECK(!gaps_wants_read(g));
}

/* The one more read may bring the row after all: its transaction ended between the first read and the question. */
TEST(gaps_that_show_in_the_last_read_are_not_closed_but_seen)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 4);
    ask(g, 4, 0, 0);
    CHECK_EQ(SEE(g, 3), 1);
    CHECK_EQ(gaps_n(g), 0);
    CHECK_EQ(gaps_highest(g), 4);
}

/* A read whose snapshot is older than the answer proves nothing. */
TEST(gaps_are_not_closed_by_a_read_that_began_before_the_answer)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    gaps_writers_begin(g);
    gaps_read_begin(g);
    gaps_writers_end(g, 3, NULL, 0);
    CHECK(gaps_wants_read(g));
    gaps_read_end(g, INT64_MAX);
    CHECK_EQ(gaps_n(g), 1);
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
}

TEST(gaps_stay_open_when_the_last_read_failed)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, 0, 0);
    gaps_read_begin(g);
    CHECK(!gaps_wants_read(g));
    gaps_read_fail(g);
    CHECK_EQ(gaps_n(g), 1);
    CHECK(gaps_wants_read(g));
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
}

/* Finding 3: what a cut read lacks may lie behind the cut. */
TEST(gaps_above_a_cut_are_not_closed)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 10);
    ask(g, 10, 0, 0);
    read_upto(g, 0, 4, (const int64_t[]){3, 4, 0});
    CHECK_GAPS(g, 5, 9);
    CHECK(gaps_wants_read(g));
    SEE(g, 6);
    CHECK_EQ(gaps_n(g), 0);
}

TEST(gaps_that_reach_over_a_cut_are_closed_up_to_it)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 10);
    ask(g, 10, 0, 0);
    read_upto(g, 0, 6, (const int64_t[]){3, 0});
    CHECK_GAPS(g, 7, 9);
}

TEST(gaps_wait_for_every_writer_that_was_there)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, 71, 72);
    ask(g, 3, 72, 99); /* 71 has ended; 99 came later and cannot hold id 2 */
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 1);
    ask(g, 3, 99, 0);
    CHECK(gaps_wants_read(g));
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
}

TEST(gaps_younger_than_the_question_wait_for_the_next_round)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, 71, 0);
    SEE(g, 6); /* 4 and 5 were drawn later, perhaps by somebody whom the question did not see */
    ask(g, 6, 0, 0);
    SEE_NOTHING(g);
    CHECK_GAPS(g, 4, 5);
    ask(g, 6, 0, 0);
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
}

/* The sequence must have been read at or above the gap: else the answer is older than what the gap waits for. */
TEST(gaps_need_the_sequence_to_stand_above_them)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 2, 0, 0);
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 1);
    ask(g, 3, 0, 0);
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
}

TEST(gaps_ask_again_when_the_question_failed_or_named_too_many)
{
    struct gaps *g = gaps_new();
    const struct relay_writer many[WRITERS + 1] = {{.vxid = 1}, {.vxid = 2}, {.vxid = 3}, {.vxid = 4}, {.vxid = 5}};

    SEE(g, 1, 3);
    gaps_writers_begin(g);
    gaps_writers_fail(g);
    CHECK(gaps_wants_writers(g, 0, 0) && !gaps_wants_read(g));
    gaps_writers_begin(g);
    gaps_writers_end(g, 3, many, WRITERS + 1);
    CHECK(gaps_wants_writers(g, 0, 0) && !gaps_wants_read(g));
    ask(g, 3, 71, 0);
    gaps_writers_begin(g);
    gaps_writers_fail(g); /* 71 is still waited for */
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 1);
    ask(g, 3, 72, 0);
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
}

/* Its gaps showed while it was asked who still stands in their way: the round is over, though there was no answer. */
TEST(gaps_round_ends_with_its_gaps_though_the_question_failed)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, 71, 0);
    gaps_writers_begin(g);
    SEE(g, 2, 6);
    gaps_writers_fail(g);
    CHECK_EQ(gaps_wants_writers_due_ms(g, 100), 100); /* a new one, for 4 and 5, when they are old enough */
}

/* A question that is asked again is a new one: it is for the gaps that showed meanwhile, too. */
TEST(gaps_that_showed_since_a_failed_question_are_in_the_next)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    gaps_writers_begin(g);
    gaps_writers_fail(g);
    SEE(g, 5);
    ask(g, 5, 0, 0);
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
}

TEST(gaps_wait_for_as_many_writers_as_fit)
{
    struct gaps *g = gaps_new();
    const struct relay_writer all[WRITERS] = {{.vxid = 1}, {.vxid = 2}, {.vxid = 3}, {.vxid = 4}};

    SEE(g, 1, 3);
    gaps_writers_begin(g);
    gaps_writers_end(g, 3, all, WRITERS);
    CHECK(!gaps_wants_read(g));
    ask(g, 3, 4, 0);
    CHECK(!gaps_wants_read(g));
    ask(g, 3, 0, 0);
    CHECK(gaps_wants_read(g));
}

TEST(gaps_are_asked_about_when_old_enough)
{
    struct gaps *g = gaps_new();

    CHECK_EQ(gaps_wants_writers_due_ms(g, 100), UINT64_MAX);
    read_upto(g, 1000, INT64_MAX, (const int64_t[]){1, 3, 0});
    read_upto(g, 1050, INT64_MAX, (const int64_t[]){5, 0});
    CHECK_EQ(gaps_oldest_ms(g), 1000);
    CHECK_EQ(gaps_wants_writers_due_ms(g, 100), 1100);
    CHECK(!gaps_wants_writers(g, 1099, 100) && gaps_wants_writers(g, 1100, 100));
    gaps_writers_begin(g);
    CHECK_EQ(gaps_wants_writers_due_ms(g, 100), UINT64_MAX); /* on its way */
    gaps_writers_end(g, 5, &(struct relay_writer){.vxid = 7}, 1);
    CHECK(gaps_wants_writers(g, 1101, 100)); /* has 7 ended? */
    ask(g, 5, 0, 0);
    CHECK_EQ(gaps_wants_writers_due_ms(g, 100), UINT64_MAX); /* a read is what is missing */
}

/* A part of a split gap is as old as the whole. */
TEST(gaps_keep_their_age_when_they_split)
{
    struct gaps *g = gaps_new();

    read_upto(g, 1000, INT64_MAX, (const int64_t[]){1, 9, 0});
    read_upto(g, 2000, INT64_MAX, (const int64_t[]){2, 5, 0});
    CHECK_EQ(gaps_oldest_ms(g), 1000);
    read_upto(g, 3000, INT64_MAX, (const int64_t[]){3, 4, 0});
    CHECK_EQ(gaps_oldest_ms(g), 1000);
    SEE(g, 6, 7, 8);
    CHECK_EQ(gaps_oldest_ms(g), 0);
}

/* A round whose gaps all showed by themselves is over: the next gap gets a question of its own. */
/* And when those below them are closed. */
TEST(gaps_keep_their_age_when_others_close)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, 0, 0);
    (void)read_upto(g, 50, INT64_MAX, (const int64_t[]){5, 0});
    CHECK_GAPS(g, 4, 4);
    CHECK_EQ(gaps_oldest_ms(g), 50);
}

TEST(gaps_that_showed_need_no_round)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, 71, 0);
    SEE(g, 2, 5);
    ask(g, 5, 0, 0); /* begins a round for 4, and nobody holds the lock */
    SEE_NOTHING(g);
    CHECK_EQ(gaps_n(g), 0);
}

/* Finding 11: joined over seen ids, those would come back. */
TEST(gaps_are_never_joined_when_they_run_short)
{
    struct gaps *g = gaps_new();

    CHECK_EQ(SEE(g, 2, 4, 6, 8, 10, 12, 14), RANGES);
    CHECK_GAPS(g, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11);
    CHECK_EQ(gaps_highest(g), 12);
    CHECK_EQ(SEE(g, 13), 1); /* leaves no gap */
    CHECK_EQ(SEE(g, 15), 0);
    CHECK_EQ(gaps_highest(g), 13);
}

TEST(gaps_say_when_a_read_may_not_fit)
{
    struct gaps *g = gaps_new();

    SEE(g, 2, 4);
    CHECK(!gaps_full(g, RANGES - 2));
    CHECK(gaps_full(g, RANGES - 1));
}

/* Rows at an end of a gap need no further range; a row in the middle does, and waits. */
TEST(gaps_shrink_though_there_is_no_room_to_split)
{
    struct gaps *g = gaps_new();

    SEE(g, 2, 4, 6, 8, 10, 14);
    CHECK_EQ(SEE(g, 12), 0);
    CHECK_EQ(SEE(g, 11), 1);
    CHECK_EQ(SEE(g, 13), 1);
    CHECK_GAPS(g, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 12, 12);
    CHECK_EQ(SEE(g, 1, 12), 2);
    CHECK_EQ(gaps_n(g), RANGES - 2);
}

TEST(gaps_forget_everything_when_reset)
{
    struct gaps *g = gaps_new(), *fresh = gaps_new();

    SEE(g, 1, 5);
    gaps_writers_begin(g);
    gaps_read_begin(g);
    gaps_reset(g, 0);
    CHECK_EQ(gaps_n(g), 0);
    CHECK_EQ(gaps_highest(g), 0);
    CHECK(gaps_digest(g, 0) == gaps_digest(fresh, 0));
    SEE(g, 2);
    CHECK_GAPS(g, 1, 1);
}

TEST(gaps_digest_counts_ids_and_ages_but_not_dates)
{
    struct gaps *a = gaps_new(), *b = gaps_new();

    read_upto(a, 1000, INT64_MAX, (const int64_t[]){1, 5, 0});
    read_upto(b, 3000, INT64_MAX, (const int64_t[]){1, 5, 0});
    CHECK(gaps_digest(a, 1010) == gaps_digest(b, 3010));
    CHECK(gaps_digest(a, 1010) != gaps_digest(b, 3011));
    gaps_writers_begin(a);
    CHECK(gaps_digest(a, 1010) != gaps_digest(b, 3010));
    gaps_writers_begin(b);
    gaps_writers_end(a, 5, &(struct relay_writer){.vxid = 7}, 1);
    gaps_writers_end(b, 5, &(struct relay_writer){.vxid = 8}, 1);
    CHECK(gaps_digest(a, 1010) != gaps_digest(b, 3010));
    read_upto(a, 1000, INT64_MAX, (const int64_t[]){3, 0});
    CHECK_EQ(gaps_n(a), 2);
}
