/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: partitions that a topic does not have, not yet or not any more. */
#include "relay/core/relay.h"

#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct relay_view view(const struct stage *s)
{
    return relay_view(s->relay);
}

/* The topic has four partitions by its pinned count, and two more. */
static struct stage *stage_with_six(const struct relay_limits *limits)
{
    struct stage *s = stage_set(limits);

    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_fetch(s, "1");
    stage_topic(s, 4, 6, 0);
    stage_drain(s);
    (void)stage_published(s);
    return s;
}

TEST(relay_row_for_a_partition_that_does_not_exist_is_tried_ever_less)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    uint64_t begun_ms;

    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1/9");
    begun_ms = s->now_ms;
    for (unsigned i = 0; i < 12; i++) {
        stage_idle(s, RELAY_CATCH_UP, limits.backoff_max_ms + 1000);
        stage_page(s, "1/9");
    }
    CHECK(s->now_ms > begun_ms + 4 * limits.backoff_max_ms / 4);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_LANE_BEHIND), 1);
}

/* Nothing waits that has no lane of its own: the new partitions get theirs at once. */
TEST(relay_added_partitions_get_lanes_when_nothing_waits_for_them)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_with_six(&limits);

    stage_fetch(s, "2/4");
    stage_unpublish(s, "2", RELAY_FAULT_SIZE); /* which has its topic asked about */
    stage_topic(s, 4, 8, 0);
    stage_fetch(s, "3/7");
    stage_deliver(s, "3");
    stage_fetch(s, "4/7 5/7");
    CHECK_STR(stage_published(s), "2 3 4 5"); /* both: without a lane they would go one at a time */
}

/* Not before what waits is gone, or it would be passed by. */
TEST(relay_added_partitions_get_no_lanes_while_rows_wait_for_them)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_with_six(&limits);

    stage_fetch(s, "2/7 3/4");
    CHECK(view(s).behind_lanes == 1);
    stage_deliver(s, "3");
    stage_idle(s, RELAY_TOPIC, 1000);
    stage_topic(s, 4, 8, 0);
    stage_idle(s, RELAY_CATCH_UP, 3000);
    stage_page(s, "2/7");
    CHECK_STR(stage_published(s), "3 2");
    stage_fetch(s, "4/7 5/7");
    CHECK_STR(stage_published(s), ""); /* the lane of 2 is not through, and these are of it */
}

/* Row 2 of partition 5 is about to be probed, and its lane has given its number to others: 3 and 4 are handed. */
static void probe_without_lane(struct stage *s)
{
    stage_fetch(s, "2/5#1");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    s->answered &= ~STAGE_ANSWERS(RELAY_SESSION_OPEN);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "2/5#1");
    CHECK(s->asked[RELAY_SESSION_OPEN]);
    stage_fetch(s, "3/1#2 4/2#3");
    CHECK_STR(stage_published(s), "2 3 4");
}

static void probe_open(struct stage *s)
{
    s->asked[RELAY_SESSION_OPEN] = false;
    relay_on_session_open(s->relay, s->now_ms, RELAY_PROBE);
    stage_run(s);
    CHECK_STR(stage_probed(s), "");
}

/* Then its partition is gone. */
TEST(relay_lane_of_a_probed_row_without_a_partition_gets_a_number_again)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = 3;
    s = stage_with_six(&limits);
    probe_without_lane(s);
    stage_unpublish(s, "3", RELAY_FAULT_SIZE);
    stage_topic(s, 4, 4, 0);
    stage_forget_notes(s);
    probe_open(s);
    CHECK(s->noted[0].note == RELAY_NOTE_LANE_BEHIND && s->noted[0].partition == 5);
    CHECK_EQ(view(s).behind_lanes, 1);
    s->answered &= ~STAGE_ANSWERS(RELAY_SAVE);
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_STR(stage_saving(s), "floor 3 0/k1:2+1 0/k2:3+1 0/5:2");
}

/* The same, and no number is left for its lane: its key alone remembers it. */
TEST(relay_key_of_a_probed_row_without_a_partition_waits)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.lanes_max = 3;
    s = stage_with_six(&limits);
    probe_without_lane(s);
    stage_deliver(s, "3");
    stage_fetch(s, "5/1#4 6/1#5");
    stage_unpublish(s, "6", RELAY_FAULT_SIZE);
    stage_topic(s, 4, 4, 0);
    probe_open(s);
    CHECK(view(s).behind_lanes == 0 && view(s).behind_topics == 0);
    stage_fetch(s, "");
    CHECK(!s->asked[RELAY_CATCH_UP]); /* not at once */
    stage_idle(s, RELAY_TOPIC, 1000);
    stage_topic(s, 4, 6, 0);
    stage_drain(s);                                                       /* numbers are free again */
    for (unsigned i = 0; i < 10 && strstr(s->probed, "2") == NULL; i++) { /* the key of 6 may be the first */
        stage_idle_for(s, 200);
        if (s->asked[RELAY_CATCH_UP])
            stage_page(s, "2/5#1 6/1#5");
    }
    CHECK(strstr(s->probed, "2") != NULL);
}
