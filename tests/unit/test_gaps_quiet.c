/* SPDX-License-Identifier: BSD-2-Clause */
/* Holders of the lock that draw no ids: findings 17 and 29 of the design review. */
#include "relay/core/gaps.h"

#include <string.h>

#include "relay/core/relay.h"
#include "tests/lib/test.h"

#define RANGES  6
#define WRITERS 4

static struct gaps *gaps_new(void)
{
    return gaps_init(memset(test_allocate(gaps_size(RANGES, WRITERS)), 0xa5, gaps_size(RANGES, WRITERS)), RANGES, WRITERS, 0);
}

/* A read that brings these ids, 0 ends them, and is whole up to `upto`. */
static void read_upto(struct gaps *g, int64_t upto, const int64_t *ids)
{
    gaps_read_begin(g);
    for (; *ids != 0; ids++)
        CHECK(gaps_read_see(g, 0, *ids));
    gaps_read_end(g, upto);
}

/* The ranges are these pairs, 0 ends them. */
static void gaps_check(const struct gaps *g, const int64_t *pairs)
{
    const int64_t *firsts, *lasts;
    uint32_t n = gaps_ranges(g, &firsts, &lasts), i;

    for (i = 0; i < n; i++) {
        CHECK_EQ(firsts[i], pairs[2 * i]);
        CHECK_EQ(lasts[i], pairs[2 * i + 1]);
    }
    CHECK_EQ(pairs[2 * i], 0);
}

#define SEE(g, ...)        read_upto((g), INT64_MAX, (const int64_t[]){__VA_ARGS__, 0})
#define SEE_NOTHING(g)     read_upto((g), INT64_MAX, (const int64_t[]){0})
#define CHECK_GAPS(g, ...) gaps_check((g), (const int64_t[]){__VA_ARGS__, 0})
#define NO_GAPS(g)         gaps_check((g), (const int64_t[]){0})

struct pair {
    uint64_t vxid, quiet_since;
};

static void ask(struct gaps *g, int64_t last_id, struct pair a, struct pair b)
{
    const struct relay_writer writers[] = {{.vxid = a.vxid, .quiet_since = a.quiet_since}, {.vxid = b.vxid, .quiet_since = b.quiet_since}};

    CHECK(gaps_wants_writers(g, 0, 0));
    gaps_writers_begin(g);
    gaps_writers_end(g, last_id, writers, (uint32_t)(a.vxid != 0) + (uint32_t)(b.vxid != 0));
}

static const struct pair nobody = {0, 0};
#define ACTIVE(vxid)       ((struct pair){(vxid), 0})
#define QUIET(vxid, since) ((struct pair){(vxid), (since)})

/* 29: a forgotten idle transaction holds up what it may have drawn, and nothing that was drawn after it was found so. */
TEST(gaps_quiet_holder_blocks_up_to_the_sequence_after_it_was_seen)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    SEE(g, 6);                       /* while 71 may have drawn, for all that we know, 4 and 5, too */
    ask(g, 6, QUIET(71, 5), nobody); /* it had drawn nothing above 6 */
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2, 4, 5);
    SEE(g, 9, 12);
    ask(g, 12, QUIET(71, 5), nobody);
    CHECK(gaps_wants_read(g));
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2, 4, 5);
    for (int64_t id = 14; id < 40; id += 2) { /* and so on for ever */
        SEE(g, id);
        ask(g, id, QUIET(71, 5), nobody);
        SEE_NOTHING(g);
        CHECK_GAPS(g, 2, 2, 4, 5);
    }
    ask(g, 40, nobody, nobody);
    SEE(g, 2);
    NO_GAPS(g);
}

/* Seen once so, it is not known when it came to be: it may have drawn between the reading of the sequence and the look at it. */
TEST(gaps_holder_seen_quiet_once_counts_as_active)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody); /* had drawn 4 by then, after 3 was read */
    SEE(g, 5);
    ask(g, 5, QUIET(71, 5), nobody);
    SEE(g, 7);
    ask(g, 7, QUIET(71, 5), nobody);
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2, 4, 4);
    ask(g, 7, nobody, nobody);
    SEE(g, 4);
    NO_GAPS(g);
}

TEST(gaps_quiet_holder_that_acts_counts_as_active_again)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    ask(g, 3, QUIET(71, 5), nobody);
    SEE(g, 6);
    ask(g, 6, QUIET(71, 8), nobody); /* it may have drawn 4 or 5 */
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2, 4, 5);
    ask(g, 6, QUIET(71, 8), nobody); /* nothing above 6 */
    SEE(g, 9);
    ask(g, 9, QUIET(71, 8), nobody);
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2, 4, 5);
    SEE(g, 11);
    ask(g, 11, ACTIVE(71), nobody);
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2, 4, 5, 10, 10);
}

/* What was decided in a round stays: a holder that was quiet when it began owns nothing above its ids in it, even if it acts now. */
TEST(gaps_of_a_round_do_not_come_back_when_a_quiet_holder_acts)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    ask(g, 3, QUIET(71, 5), nobody);
    SEE(g, 6);
    ask(g, 6, QUIET(71, 5), ACTIVE(72));
    CHECK(!gaps_wants_read(g));
    ask(g, 7, ACTIVE(71), nobody);
    CHECK(gaps_wants_read(g));
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2);
    CHECK(!gaps_wants_read(g));
}

/* The quiet do not make the others wait for the next round, nor the others them. */
TEST(gaps_wait_for_active_holders_beside_quiet_ones)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    ask(g, 3, QUIET(71, 5), nobody);
    SEE(g, 6);
    ask(g, 6, QUIET(71, 5), ACTIVE(72));
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2, 4, 5);
    ask(g, 6, ACTIVE(72), QUIET(71, 5));
    CHECK(!gaps_wants_read(g));
    ask(g, 6, ACTIVE(73), QUIET(71, 5)); /* 73 came later */
    SEE(g, 4);
    CHECK_GAPS(g, 2, 2);
}

/* A range that reaches over what a quiet holder may have drawn, and over a cut, is closed in its middle. */
TEST(gaps_close_the_middle_of_a_range)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    ask(g, 5, QUIET(71, 5), nobody); /* 4 and 5 may be its own */
    SEE(g, 12);
    CHECK_GAPS(g, 2, 2, 4, 11);
    ask(g, 12, QUIET(71, 5), nobody);
    read_upto(g, 8, (const int64_t[]){0});
    CHECK_GAPS(g, 2, 2, 4, 5, 9, 11);
    CHECK(gaps_wants_read(g));
    SEE(g, 10);
    CHECK_GAPS(g, 2, 2, 4, 5);
}

TEST(gaps_close_no_middle_where_there_is_no_room)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    ask(g, 14, QUIET(71, 5), nobody);
    SEE(g, 5, 7, 9, 11, 20); /* six ranges: 2, 4, 6, 8, 10, 12-19 */
    ask(g, 20, QUIET(71, 5), nobody);
    read_upto(g, 16, (const int64_t[]){0});
    CHECK_GAPS(g, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 19);
    SEE_NOTHING(g);
    CHECK_GAPS(g, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 14);
}

/* What only the quiet hold up is asked about again: they may have ended. */
TEST(gaps_behind_a_quiet_holder_are_asked_about_again)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    for (unsigned i = 0; i < 5; i++) {
        ask(g, 3, QUIET(71, 5), nobody);
        CHECK(!gaps_wants_read(g));
    }
    ask(g, 3, nobody, nobody);
    CHECK(gaps_wants_read(g));
    SEE_NOTHING(g);
    NO_GAPS(g);
}

/* Those who came since do not push out those of the round, however many they are. */
TEST(gaps_holders_of_the_round_always_find_room)
{
    struct gaps *g = gaps_new();
    struct relay_writer many[] = {{.vxid = 1, .quiet_since = 1}, {.vxid = 2, .quiet_since = 1}, {.vxid = 3, .quiet_since = 1},
                                  {.vxid = 4, .quiet_since = 1}, {.vxid = 5, .quiet_since = 1}, {.vxid = 71}};

    SEE(g, 1, 3);
    ask(g, 3, ACTIVE(71), nobody);
    ask(g, 3, ACTIVE(71), nobody);
    gaps_writers_begin(g);
    gaps_writers_end(g, 3, many, 6);
    CHECK(!gaps_wants_read(g));
    gaps_writers_begin(g);
    gaps_writers_end(g, 3, many, 5);
    CHECK(gaps_wants_read(g));
}

TEST(gaps_forget_the_quiet_when_reset)
{
    struct gaps *g = gaps_new(), *fresh = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    ask(g, 3, QUIET(71, 5), nobody);
    gaps_reset(g, 0);
    CHECK(gaps_digest(g, 0) == gaps_digest(fresh, 0));
    SEE(g, 5, 7);
    ask(g, 7, QUIET(71, 5), nobody);
    SEE_NOTHING(g);
    CHECK_GAPS(g, 1, 4, 6, 6);
}

/* The last read brings all that is not held up: there is nothing left to close. */
TEST(gaps_above_a_quiet_holder_may_all_show_in_the_last_read)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    ask(g, 3, QUIET(71, 5), nobody);
    SEE_NOTHING(g);
    SEE(g, 6);
    ask(g, 6, QUIET(71, 5), nobody);
    CHECK(gaps_wants_read(g));
    SEE(g, 4, 5);
    CHECK_GAPS(g, 2, 2);
}

/* They keep their ages, those that are left on either side of what closes. */
TEST(gaps_keep_their_age_when_the_middle_closes)
{
    struct gaps *g = gaps_new();

    SEE(g, 1, 3);
    ask(g, 3, QUIET(71, 5), nobody);
    ask(g, 3, QUIET(71, 5), nobody);
    SEE_NOTHING(g);
    SEE(g, 5);
    ask(g, 5, QUIET(71, 5), nobody);
    gaps_read_begin(g);
    CHECK(gaps_read_see(g, 50, 7));
    gaps_read_end(g, INT64_MAX);
    CHECK_GAPS(g, 2, 2, 6, 6);
    CHECK_EQ(gaps_oldest_ms(g), 0);
    SEE(g, 2);
    CHECK_EQ(gaps_oldest_ms(g), 50);
}

/* Active ones that are not waited for take no room from a quiet one, which is known for the next round. */
TEST(gaps_know_the_quiet_before_their_round)
{
    struct gaps *g = gaps_new();
    const struct relay_writer many[] = {{.vxid = 1}, {.vxid = 2}, {.vxid = 3}, {.vxid = 72, .quiet_since = 5}, {.vxid = 71}};

    SEE(g, 1, 3);
    ask(g, 3, ACTIVE(71), nobody);
    SEE(g, 6);
    for (unsigned i = 0; i < 2; i++) {
        gaps_writers_begin(g);
        gaps_writers_end(g, 6, many, 5);
    }
    ask(g, 6, QUIET(72, 5), nobody);
    SEE(g, 8);
    CHECK_GAPS(g, 4, 5, 7, 7);
    ask(g, 8, QUIET(72, 5), nobody);
    SEE_NOTHING(g);
    CHECK_GAPS(g, 4, 5); /* it had drawn nothing above 6 */
}
