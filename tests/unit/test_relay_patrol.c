/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: the patrol, which finds what was passed by by mistake. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct relay_view view(const struct stage *s)
{
    return relay_view(s->relay);
}

static struct stage *stage_patrolling(void)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.patrol_ids = 10;
    limits.patrol_ms = 1000;
    limits.patrol_back_ids = 15;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_grant(s, 20, "0/k5:8+3");
    return s;
}

/* Finding 8: what it finds is published, not only counted. */
TEST(relay_patrol_publishes_what_was_passed_by)
{
    struct stage *s = stage_patrolling();

    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page(s, "8#5 9#5");
    stage_idle(s, RELAY_PATROL, 2000);
    CHECK(s->action[RELAY_PATROL].from == 6 && s->action[RELAY_PATROL].upto == 15);
    stage_forget_notes(s);
    stage_patrol(s, "7#1 9#5"); /* key 5 waits: that is known */
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_PATROL_FOUND), 1);
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 7);
    stage_page(s, "7#1 9#5");
    stage_idle_for(s, 100);
    CHECK_STR(stage_published(s), "8");
    stage_deliver(s, "8"); /* a probe lane takes its time */
    CHECK_STR(stage_published(s), "7");
    stage_deliver(s, "7");
    stage_page(s, "9#5");
    stage_deliver(s, "9");
    for (unsigned i = 0; i < 3 && !s->asked[RELAY_PATROL]; i++) {
        stage_idle_for(s, 500);
        if (s->asked[RELAY_CATCH_UP])
            stage_page(s, "");
    }
    stage_idle(s, RELAY_PATROL, 3000);
    CHECK(s->action[RELAY_PATROL].from == 16 && s->action[RELAY_PATROL].upto == 20);
}

TEST(relay_patrol_finds_nothing_in_the_window_or_behind)
{
    struct stage *s = stage_patrolling();

    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page(s, "8#5 9#5");
    stage_idle(s, RELAY_PATROL, 2000);
    stage_forget_notes(s);
    stage_patrol(s, "8#5 9#5");
    CHECK(!stage_told(s, RELAY_NOTE_PATROL_FOUND));
    CHECK_EQ(view(s).behind_keys, 1);
}

/* Its snapshot may be older than a mark that was answered meanwhile. */
TEST(relay_patrol_remembers_what_was_marked_meanwhile)
{
    struct stage *s = stage_patrolling();

    s->answered &= ~STAGE_ANSWERS(RELAY_MARK);
    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page(s, "8#5");
    stage_idle_for(s, 100);
    stage_deliver(s, "8");
    stage_idle(s, RELAY_PATROL, 2000);
    stage_mark(s, 0);
    stage_forget_notes(s);
    stage_patrol(s, "8#5");
    CHECK(!stage_told(s, RELAY_NOTE_PATROL_FOUND));
}

/* Until its topic is known nobody can tell which record covers a row. */
TEST(relay_patrol_waits_for_a_topic_that_is_not_known)
{
    struct stage *s = stage_patrolling();

    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page(s, "8#5");
    stage_idle(s, RELAY_PATROL, 2000);
    stage_forget_notes(s);
    stage_patrol(s, "9@1#1");
    CHECK(!stage_told(s, RELAY_NOTE_PATROL_FOUND));
    stage_await(s, RELAY_TOPIC, 100);
    CHECK_EQ(s->action[RELAY_TOPIC].topic, 1);
    stage_topic(s, 4, 4, 0);
    for (unsigned i = 0; i < 6 && !s->asked[RELAY_PATROL]; i++) {
        stage_idle_for(s, 500);
        if (s->asked[RELAY_CATCH_UP])
            stage_page(s, "");
    }
    CHECK(s->asked[RELAY_PATROL] && s->action[RELAY_PATROL].from == 9);
    stage_patrol(s, "9@1#1");
    CHECK(stage_told(s, RELAY_NOTE_PATROL_FOUND));
}

TEST(relay_patrol_may_look_at_one_id_at_a_time)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.patrol_ids = 1;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1 2");
    stage_drain(s);
    for (unsigned i = 0; i < 3 && !s->asked[RELAY_PATROL]; i++)
        stage_idle_for(s, 60 * limits.patrol_ms);
    CHECK(s->asked[RELAY_PATROL] && s->action[RELAY_PATROL].from == 1 && s->action[RELAY_PATROL].upto == 1);
}

/* A topic is held on to while a row of it was found, and no longer. */
TEST(relay_patrol_that_waits_for_nothing_lets_topics_be_forgotten)
{
    const char *const rows[] = {"1", "2@1", "3@2", "4@3"};
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.topics_max = 4;
    limits.patrol_ids = 10;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    for (unsigned i = 0; i < 4; i++) {
        stage_fetch(s, rows[i]);
        stage_drain(s);
        for (unsigned j = 0; j < 3 && i == 0 && !s->asked[RELAY_PATROL]; j++)
            stage_idle_for(s, 60 * limits.patrol_ms);
        if (s->asked[RELAY_PATROL])
            stage_patrol(s, "");
        stage_fetch(s, "");
    }
    CHECK_EQ(s->action[RELAY_FORGET].type, RELAY_FORGET);
}

/* A pass begins where the floor was one to two periods ago. */
TEST(relay_patrol_begins_again_where_the_floor_was)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.patrol_ids = 100;
    limits.patrol_ms = 10;
    limits.patrol_back_ms = 5000;
    limits.patrol_back_ids = 0;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1 2 3 4");
    stage_drain(s);
    for (uint64_t begun_ms = s->now_ms; s->now_ms < begun_ms + 9000;) { /* a second period begins after 5000, a third after 10000 */
        stage_idle(s, RELAY_PATROL, 3000);
        CHECK_EQ(s->action[RELAY_PATROL].from, 1);
        stage_patrol(s, "");
    }
    stage_idle_for(s, 500);
    for (unsigned i = 0; s->action[RELAY_PATROL].from == 1 && i < 10; i++) {
        if (s->asked[RELAY_PATROL])
            stage_patrol(s, "");
        stage_fetch(s, i == 0 ? "5 6" : "");
        stage_drain(s);
        stage_idle_for(s, 700);
    }
    CHECK_EQ(s->action[RELAY_PATROL].from, 5);
}
