/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of what the tail passed by, one promise of the header a test. */
#include "relay/core/behind.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define RECORDS 4

/* In memory that was used before, as all of these are. */
static struct behind *behind_new(void)
{
    return behind_init(memset(test_allocate(behind_size(RECORDS)), 0xa5, behind_size(RECORDS)), RECORDS);
}

TEST(behind_record_admits_only_below_its_first_row)
{
    struct behind *b = behind_new();

    CHECK(behind_admits(b, 1, 7) && !behind_is(b, 1) && !behind_covers(b, 1) && behind_is_clear(b, 1));
    CHECK(behind_go(b, 1, 7, 0, false));
    CHECK(behind_admits(b, 1, 6) && !behind_admits(b, 1, 7) && !behind_admits(b, 1, 8) && behind_admits(b, 2, 8));
    CHECK(behind_is(b, 1) && behind_covers(b, 1) && !behind_is_clear(b, 1));
    CHECK_EQ(behind_n(b), 1);
}

TEST(behind_goes_further_back_but_never_forward)
{
    struct behind *b = behind_new();

    CHECK(behind_go(b, 1, 7, 0, false));
    CHECK(!behind_go(b, 1, 9, 0, false));
    CHECK_EQ(behind_from(b, 1), 7);
    CHECK(!behind_go(b, 1, 5, 0, false));
    CHECK_EQ(behind_from(b, 1), 5);
    behind_back(b, 1, 6);
    CHECK_EQ(behind_from(b, 1), 5);
    behind_back(b, 1, 3);
    CHECK_EQ(behind_from(b, 1), 3);
    CHECK_EQ(behind_n(b), 1);
}

/* A record that goes behind anew begins where it is told to, not where it once was. */
TEST(behind_record_that_was_covered_begins_anew)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    behind_catch_up(b, 1);
    CHECK(!behind_is(b, 1) && behind_covers(b, 1) && behind_admits(b, 1, 100));
    CHECK_EQ(behind_n(b), 0);
    CHECK(behind_go(b, 1, 50, 0, false));
    CHECK_EQ(behind_from(b, 1), 50);
}

TEST(behind_counts_attempts_until_acknowledged)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 10, false);
    CHECK(!behind_suspect(b, 1) && behind_attempts(b, 1) == 0 && behind_retry_ms(b, 1) == 10);
    (void)behind_go(b, 1, 7, 20, true);
    (void)behind_go(b, 1, 7, 30, true);
    CHECK(behind_suspect(b, 1) && behind_attempts(b, 1) == 2 && behind_retry_ms(b, 1) == 30);
    (void)behind_go(b, 1, 7, 30, false);
    CHECK(behind_suspect(b, 1));
    behind_acked(b, 1);
    CHECK(!behind_suspect(b, 1) && behind_attempts(b, 1) == 0);
    behind_wait(b, 1, 40);
    CHECK_EQ(behind_retry_ms(b, 1), 40);
}

/* A number that is given away must not bring its last user's failures along. */
TEST(behind_record_that_is_clear_has_no_past)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 10, true);
    behind_dissolve(b, 1);
    CHECK(behind_is_clear(b, 1) && behind_attempts(b, 1) == 0 && !behind_suspect(b, 1));
}

/* Nor one that is dissolved, and still to be deleted from the database. */
TEST(behind_record_that_is_dissolved_has_no_past)
{
    struct behind *b = behind_new();

    behind_load(b, 1, 7, 3);
    behind_dissolve(b, 1);
    CHECK(!behind_is_clear(b, 1));
    (void)behind_go(b, 1, 9, 0, false);
    CHECK(!behind_suspect(b, 1) && !behind_probes(b, 1) && behind_attempts(b, 1) == 0);
}

TEST(behind_record_saves_its_first_unsettled_id)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    CHECK_EQ(behind_save(b, 1, INT64_MAX, 100), 7);
    CHECK_EQ(behind_save(b, 1, 3, 100), 3); /* in the window, not settled yet */
    CHECK_EQ(behind_save(b, 1, 9, 100), 7);
    CHECK_EQ(behind_save(b, 2, 9, 100), 0);
}

/* The floor ignores its rows: it may have passed some that are in the window still. */
TEST(behind_covered_record_is_saved_until_its_rows_are_above_the_floor)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    behind_on_saved(b, 1, 7, 0);
    behind_catch_up(b, 1);
    CHECK_EQ(behind_save(b, 1, 8, 8), 8);
    CHECK(behind_covers(b, 1));
    CHECK_EQ(behind_save(b, 1, 9, 8), 0);
    CHECK(!behind_covers(b, 1) && !behind_is_clear(b, 1)); /* to be deleted */
    CHECK_EQ(behind_first(b), 1);
    behind_on_saved(b, 1, 0, 0);
    CHECK(behind_is_clear(b, 1));
    CHECK_EQ(behind_first(b), BEHIND_NONE);
}

TEST(behind_covered_record_without_rows_is_done)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    behind_catch_up(b, 1);
    CHECK_EQ(behind_save(b, 1, INT64_MAX, 8), 0);
    CHECK(!behind_covers(b, 1));
}

TEST(behind_dissolved_record_is_deleted_with_the_next_save)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    behind_on_saved(b, 1, 7, 0);
    behind_dissolve(b, 1);
    CHECK(!behind_covers(b, 1) && !behind_is_clear(b, 1) && behind_n(b) == 0);
    CHECK(behind_is_saved(b, 1, 7, 0));
    CHECK_EQ(behind_save(b, 1, INT64_MAX, 8), 0);
    behind_on_saved(b, 1, 0, 0);
    CHECK(behind_is_clear(b, 1));
    (void)behind_go(b, 2, 7, 0, false);
    behind_dissolve(b, 2); /* never saved: nothing to delete */
    CHECK(behind_is_clear(b, 2));
    CHECK_EQ(behind_first(b), BEHIND_NONE);
}

/* Until the save is answered nobody knows what the database has of it. */
TEST(behind_record_is_not_clear_while_its_save_is_on_its_way)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    behind_on_saved(b, 1, BEHIND_UNKNOWN, 0);
    behind_dissolve(b, 1);
    CHECK(!behind_is_clear(b, 1));
    CHECK_EQ(behind_first(b), 1);
}

TEST(behind_record_that_is_not_saved_need_not_be_deleted)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, true);
    CHECK(behind_is_saved(b, 1, 0, 1) && !behind_is_saved(b, 1, 7, 1));
    behind_on_saved(b, 1, 7, 1);
    CHECK(behind_is_saved(b, 1, 7, 1) && !behind_is_saved(b, 1, 7, 2) && !behind_is_saved(b, 1, 8, 1) && !behind_is_saved(b, 1, 0, 1));
}

TEST(behind_loads_what_was_saved)
{
    struct behind *b = behind_new();

    behind_load(b, 3, 12, 0);
    CHECK(behind_is(b, 3) && behind_from(b, 3) == 12 && behind_is_saved(b, 3, 12, 0) && behind_retry_ms(b, 3) == 0);
    CHECK(behind_suspect(b, 3) && behind_attempts(b, 3) == 0); /* nobody knows what is wrong with it */
}

TEST(behind_lists_records_in_the_order_in_which_they_came)
{
    struct behind *b = behind_new();

    for (uint32_t record = 4; record-- > 0;)
        (void)behind_go(b, record, 7, 0, false);
    CHECK_EQ(behind_n(b), 4);
    behind_dissolve(b, 2);
    CHECK_EQ(behind_first(b), 3);
    CHECK_EQ(behind_next(b, 3), 1);
    behind_dissolve(b, 3);
    CHECK_EQ(behind_first(b), 1);
    behind_dissolve(b, 0);
    CHECK_EQ(behind_next(b, 1), BEHIND_NONE);
    (void)behind_go(b, 0, 7, 0, false);
    (void)behind_go(b, 0, 7, 0, false); /* listed once */
    CHECK_EQ(behind_next(b, 1), 0);
    CHECK_EQ(behind_next(b, 0), BEHIND_NONE);
    CHECK_EQ(behind_n(b), 2);
}

/* Finding 38: a page that was asked for before a record went back would swap its rows. */
TEST(behind_page_does_not_count_when_the_record_went_back)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    CHECK(!behind_page_has(b, 1));
    behind_page_join(b, 1);
    CHECK(behind_page_has(b, 1));
    behind_back(b, 1, 6);
    CHECK(!behind_page_has(b, 1));
    behind_page_join(b, 1);
    behind_page_leave(b, 1);
    CHECK(!behind_page_has(b, 1));
}

TEST(behind_page_moves_a_record_on_once)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    behind_page_join(b, 1);
    behind_page_move(b, 1, 10);
    CHECK_EQ(behind_from(b, 1), 10);
    CHECK(!behind_page_has(b, 1) && behind_admits(b, 1, 9) && !behind_admits(b, 1, 10));
}

/* Gone and back at the same place: the page that is on its way was asked for by the one before. */
TEST(behind_page_does_not_count_for_a_record_that_is_new)
{
    struct behind *b = behind_new();

    (void)behind_go(b, 1, 7, 0, false);
    behind_page_join(b, 1);
    behind_dissolve(b, 1);
    (void)behind_go(b, 1, 7, 0, false);
    CHECK(!behind_page_has(b, 1));
    behind_page_join(b, 1);
    behind_catch_up(b, 1);
    (void)behind_go(b, 1, 7, 0, false);
    CHECK(!behind_page_has(b, 1));
}

TEST(behind_reset_makes_every_record_live)
{
    struct behind *b = behind_new();

    behind_load(b, 1, 7, 0);
    (void)behind_go(b, 2, 7, 5, true);
    behind_dissolve(b, 1);
    behind_reset(b);
    CHECK(behind_is_clear(b, 1) && behind_is_clear(b, 2) && behind_attempts(b, 2) == 0 && !behind_suspect(b, 2));
    CHECK_EQ(behind_first(b), BEHIND_NONE);
    CHECK_EQ(behind_n(b), 0);
    CHECK(behind_digest(b, 0) == behind_digest(behind_new(), 0));
}

TEST(behind_digest_counts_records_and_distances_but_not_dates)
{
    struct behind *a = behind_new(), *b = behind_new();

    (void)behind_go(a, 1, 7, 100, true);
    (void)behind_go(b, 1, 7, 900, true);
    CHECK(behind_digest(a, 50) == behind_digest(b, 850));
    CHECK(behind_digest(a, 50) != behind_digest(b, 851));
    CHECK(behind_digest(a, 100) == behind_digest(b, 1000)); /* due is due */
    behind_back(b, 1, 6);
    CHECK(behind_digest(a, 50) != behind_digest(b, 850));
    behind_back(a, 1, 6);
    behind_page_join(a, 1);
    CHECK(behind_digest(a, 50) != behind_digest(b, 850));
    behind_page_leave(a, 1);
    behind_on_saved(a, 1, 6, 0);
    CHECK(behind_digest(a, 50) != behind_digest(b, 850));
}
