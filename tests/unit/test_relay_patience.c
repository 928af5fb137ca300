/* SPDX-License-Identifier: BSD-2-Clause */
/* A Kafka that is slow for good: every report comes, but later than the second after which a lane goes behind. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static const char *const rows = "1 2/1 3/2 4/3"; /* of all partitions, more than half of the window */

static struct stage *stage_small(void)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.window_rows = limits.fetch_rows = 6;
    limits.stuck_ms = 1000;
    limits.lease_ttl_ms = 1000000;
    limits.backoff_min_ms = limits.backoff_max_ms = 0; /* the next session begins at once */
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    return s;
}

/* The session has ended; the next one is open and has the rows again. */
static void stage_again(struct stage *s)
{
    stage_forget_notes(s);
    (void)stage_published(s);
    stage_close(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, rows);
    CHECK_STR(stage_published(s), "1 2 3 4");
}

/* What comes after 3.5 s would never come, if each session ended after one. */
TEST(relay_session_has_twice_the_time_after_one_that_ended_without_a_report)
{
    struct stage *s = stage_small();
    uint64_t patience_ms = 1000;

    stage_fetch(s, rows);
    for (; patience_ms < 4000; patience_ms *= 2) {
        stage_idle_for(s, patience_ms - 1);
        CHECK(!s->asked[RELAY_SESSION_CLOSE]);
        stage_idle_for(s, 1);
        CHECK(stage_told(s, RELAY_NOTE_WINDOW_STUCK) && s->asked[RELAY_SESSION_CLOSE]);
        stage_again(s);
    }
    stage_idle_for(s, 3500);
    CHECK(!s->asked[RELAY_SESSION_CLOSE]);
    stage_deliver(s, rows);
    CHECK_EQ(relay_view(s->relay).handed_rows, 0);
}

TEST(relay_lane_may_wait_twice_as_long_as_reports_took)
{
    struct stage *s = stage_small();

    stage_fetch(s, "1");
    stage_idle_for(s, 900);
    stage_deliver(s, "1");
    stage_fetch(s, "2 3/1");
    stage_idle_for(s, 1799);
    CHECK_EQ(relay_view(s->relay).behind_lanes, 0);
    stage_idle_for(s, 1);
    CHECK_EQ(relay_view(s->relay).behind_lanes, 2);
}
