/* SPDX-License-Identifier: BSD-2-Clause */
/* The block of memory that a relay is: each of its parts has the room that the limits call for. */
#include "relay/core/behind.h"
#include "relay/core/gaps.h"
#include "relay/core/keys.h"
#include "relay/core/marks.h"
#include "relay/core/relay.h"
#include "relay/core/topics.h"
#include "relay/core/window.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

#define MORE 64u /* of anything: whole cache lines, so that no rounding hides a byte */

static size_t size_with(const struct relay_limits *limits)
{
    struct relay *r = relay_new(limits, 0);
    size_t size;

    CHECK(r != NULL);
    size = relay_size(r);
    relay_free(r);
    return size;
}

static struct relay_limits small_limits(void)
{
    struct relay_limits limits = stage_limits();

    limits.keys_max = MORE;
    return limits;
}

/* What `limits` need beyond the small ones. */
static size_t beyond_small(const struct relay_limits *limits)
{
    struct relay_limits small = small_limits();

    return size_with(limits) - size_with(&small);
}

/* A record: what `behind` has of it, its place in a save, its number there. */
static size_t records_size(void)
{
    return behind_size(MORE) - behind_size(0) + MORE * (sizeof(struct relay_behind) + sizeof(uint32_t));
}

TEST(relay_block_has_room_for_lanes_topics_and_keys)
{
    struct relay_limits small = small_limits(), more = small;

    more.lanes_max += MORE;
    CHECK_EQ(beyond_small(&more), window_size(small.window_rows, more.lanes_max) - window_size(small.window_rows, small.lanes_max) +
                                      topics_size(small.topics_max, more.lanes_max) - topics_size(small.topics_max, small.lanes_max) +
                                      records_size() + MORE * sizeof(int64_t));
    more = small;
    more.topics_max += MORE;
    CHECK_EQ(beyond_small(&more),
             topics_size(more.topics_max, small.lanes_max) - topics_size(small.topics_max, small.lanes_max) + records_size());
    more = small;
    more.keys_max += MORE;
    CHECK_EQ(beyond_small(&more), keys_size(more.keys_max) - keys_size(small.keys_max) + records_size());
}

TEST(relay_block_has_room_for_rows_gaps_and_marks)
{
    struct relay_limits small = small_limits(), more = small;
    struct pair {
        int64_t id;
        struct row_event_id event_id;
    };
    struct phantom {
        struct pair pair;
        uint32_t topic;
    };

    more.window_rows += MORE;
    CHECK_EQ(beyond_small(&more), window_size(more.window_rows, small.lanes_max) - window_size(small.window_rows, small.lanes_max));
    more = small;
    more.ranges_max += MORE;
    more.writers_max += MORE;
    CHECK_EQ(beyond_small(&more), gaps_size(more.ranges_max, more.writers_max) - gaps_size(small.ranges_max, small.writers_max));
    more = small;
    more.mark_rows += MORE;
    CHECK_EQ(beyond_small(&more), marks_size(more.mark_rows) - marks_size(small.mark_rows) + MORE * sizeof(struct phantom));
    more = small;
    more.recent_rows += MORE;
    CHECK_EQ(beyond_small(&more), MORE * sizeof(struct pair));
}

TEST(relay_block_ends_where_its_last_number_does)
{
    struct relay_limits limits = stage_limits();

    limits.recent_rows = 1;
    CHECK_EQ(size_with(&limits) % sizeof(uint32_t), 0); /* no part begins at an odd place */
}
