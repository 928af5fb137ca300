/* SPDX-License-Identifier: BSD-2-Clause */
/* What broke earlier versions of the design, each as short as the relay alone can show it. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct stage *stage_with(uint32_t gap_age_ms)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.stuck_ms = 1000;
    limits.gap_age_ms = gap_age_ms;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    return s;
}

static struct stage *stage_quick(void)
{
    return stage_with(100);
}

/* Loses the database, and has the lease again with what was saved. */
static void stage_again(struct stage *s, int64_t floor, const char *records)
{
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_grant(s, floor, records);
}

/* A gap closed because nobody holds the lock now, though its writer committed between the read and the question. */
TEST(finding_2_gap_closed_without_one_more_read)
{
    struct stage *s = stage_quick();

    stage_fetch(s, "1 3");
    stage_idle(s, RELAY_WRITERS, 1000);
    stage_writers(s, 3, "");
    CHECK_EQ(relay_view(s->relay).open_gaps, 1);
    stage_fetch(s, "2/1");
    CHECK_STR(stage_published(s), "1 2");
}

/* Three rows of a gap commit, the read is cut after the second, the writer is gone: the third was closed. */
TEST(finding_3_cut_read_closes_gaps_behind_the_cut)
{
    struct stage *s = stage_quick();

    stage_fetch(s, "1 5");
    stage_idle(s, RELAY_WRITERS, 1000);
    stage_writers(s, 5, "");
    stage_fetch_upto(s, "2/1 3/2", 3);
    CHECK_STR(stage_gaps(s), "4");
    stage_fetch(s, "4/3");
    CHECK_STR(stage_published(s), "1 2 3 4");
}

/* A tail read without a gap returns the second row of its key. */
TEST(finding_10_read_that_does_not_carry_every_gap)
{
    struct stage *s = stage_quick();

    stage_fetch(s, "1 3 6");
    for (unsigned i = 0; i < 20; i++) {
        stage_await(s, RELAY_FETCH, 100);
        CHECK_STR(stage_gaps(s), "2 4-5");
        CHECK_EQ(s->action[RELAY_FETCH].from, 6);
        stage_fetch(s, "");
    }
}

/* Ranges that run short were joined, and what lay between came twice. */
TEST(finding_11_ranges_joined_over_seen_ids)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.ranges_max = 21;
    limits.gap_age_ms = 1000000;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    stage_fetch_upto(s, "2 4 6 8 10 12", 12);
    stage_await(s, RELAY_FETCH, 100);
    CHECK_EQ(s->action[RELAY_FETCH].from, 12);
    stage_fetch_upto(s, "14 16 18 20 22 24", 24);
    CHECK_STR(stage_gaps(s), "1 3 5 7 9 11 13 15 17 19 21 23");
    CHECK_EQ(s->action[RELAY_FETCH].from, INT64_MAX); /* the tail stops, gaps are read on */
    stage_fetch(s, "");
    stage_fetch(s, "");
    stage_await(s, RELAY_FETCH, 100);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_GAPS_FULL), 1); /* told once, not with every read */
    stage_fetch(s, "1 5/1");
    stage_await(s, RELAY_FETCH, 100);
    CHECK_STR(stage_gaps(s), "3 7 9 11 13 15 17 19 21 23");
    stage_fetch(s, "3 7/1");
    stage_await(s, RELAY_FETCH, 100);
    CHECK_EQ(s->action[RELAY_FETCH].from, 24); /* it goes on by itself */
    CHECK(!relay_view(s->relay).drained);
}

/* The barrier succeeds under the token of a server that has lost the row. */
TEST(finding_23_barrier_across_a_crash)
{
    struct stage *s = stage_quick();

    s->insert_lsn = 100;
    stage_fetch(s, "1");
    CHECK(s->asked[RELAY_FLUSH]);
    s->token = 2;
    stage_flush(s, 150);
    CHECK_STR(stage_published(s), "");
    CHECK_STR(stage_dropped(s), "1");
}

/* A refused claimant, or an answer from before, overwrote the winner's token. */
TEST(finding_24_late_answer_overwrites_the_grant)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_bare(&limits, STAGE_ANSWERS(RELAY_CONNECT), STAGE_START_MS);

    stage_grant(s, 0, "");
    stage_idle(s, RELAY_LEASE_BEAT, limits.lease_ttl_ms);
    s->now_ms += limits.lease_ttl_ms; /* it is not answered */
    stage_run(s);
    CHECK(!relay_view(s->relay).lease_held);
    stage_beat(s); /* the old lease was kept, says the database */
    CHECK(!relay_view(s->relay).lease_held && s->asked[RELAY_LEASE_TAKE]);
}

/* The sequence was restarted while the relay was idle: the new id is below the floor, there is no gap, nothing is ever asked. */
TEST(finding_25_truncate_while_idle)
{
    struct stage *s = stage_quick();

    stage_again(s, 1000, "");
    stage_await(s, RELAY_FETCH, 100);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_BEAT);
    stage_idle(s, RELAY_LEASE_BEAT, 10000);
    s->last_id = 3;
    stage_beat(s);
    CHECK(stage_told(s, RELAY_NOTE_START_OVER) && s->asked[RELAY_LEASE_TAKE]);
    stage_grant(s, 0, "");
    stage_fetch(s, ""); /* from before */
    stage_fetch(s, "1 2/1");
    CHECK_STR(stage_published(s), "1 2");
}

/* What was settled since the floor looked like gaps that cannot close under a long writer. */
TEST(finding_28_restart_under_a_long_writer)
{
    struct stage *s = stage_quick();

    s->last_id = 9;
    stage_again(s, 2, "");
    CHECK_EQ(s->action[RELAY_FETCH].settled_upto, 9);
    stage_fetch(s, "3s 4s 5s 6s 8s 9s");
    stage_await(s, RELAY_FETCH, 100);
    CHECK_STR(stage_gaps(s), "7");
}

/* A draws 1, key 1 commits 2, A draws 3, key 1 commits 4; the lane goes behind after 2 was handed; then A commits. */
TEST(finding_32_catch_up_admits_rows_of_open_gaps)
{
    struct stage *s = stage_with(1000000);

    stage_fetch(s, "2");
    stage_pass(s, 1000); /* 2 gets no acknowledgement: the lane is behind from 3 */
    stage_deliver(s, "2");
    CHECK_EQ(relay_view(s->relay).behind_lanes, 1);
    stage_fetch(s, "4/1");
    stage_deliver(s, "4");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "3");
    CHECK_STR(stage_published(s), "2 4"); /* 3 is in an open gap: 1 may be below it */
    stage_fetch(s, "1 3");
    CHECK_STR(stage_published(s), "1 3");
}

/* A save that another's grant has fenced says: floor saved. */
TEST(finding_33_save_from_before_the_crash)
{
    struct stage *s = stage_quick();

    stage_fetch(s, "1");
    stage_deliver(s, "1");
    stage_idle(s, RELAY_SAVE, 1500);
    s->asked[RELAY_SAVE] = false;
    relay_on_saved(s->relay, s->now_ms, true);
    stage_run(s);
    CHECK(stage_told(s, RELAY_NOTE_LEASE_LOST));
    CHECK_EQ(relay_view(s->relay).floor, 0);
}

TEST(finding_35_rows_kept_waiting_across_a_start_over)
{
    struct stage *s = stage_quick();

    s->insert_lsn = 100;
    stage_fetch(s, "1");
    s->token = 2;
    stage_again(s, 0, "");
    CHECK_STR(stage_dropped(s), "1");
    s->insert_lsn = 0;
    stage_fetch(s, ""); /* the row is lost */
    stage_pass(s, 1000);
    CHECK_STR(stage_published(s), "");
    CHECK_EQ(relay_view(s->relay).window_rows, 0);
}

/* Its snapshot is older than the mark: the row is unsent there. */
TEST(finding_37_mark_answered_while_a_read_is_on_its_way)
{
    struct stage *s = stage_with(1000000);

    stage_fetch(s, "1 3");
    stage_await(s, RELAY_FETCH, 100);
    stage_deliver(s, "1"); /* and marked */
    stage_pass(s, 50);
    CHECK_EQ(relay_view(s->relay).window_rows, 2);
    stage_fetch(s, "1 4");
    CHECK_STR(stage_published(s), "1 3 4");
    CHECK_EQ(relay_view(s->relay).window_rows, 2); /* 3 and 4 */
    stage_fetch(s, "1'/2");                        /* but with the same id, another event is another row */
    CHECK_STR(stage_published(s), "1'");
}
