/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: rows that are refused, the probe session that finds them, and keys that wait. */
#include "relay/core/relay.h"

#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct relay_view view(const struct stage *s)
{
    return relay_view(s->relay);
}

static struct stage *stage_probing(void)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    return s;
}

/* Rows 2 to 5 of partition 0 were refused as one batch; row 1 made the lane warm. The next page is asked for. */
static void refuse_batch(struct stage *s)
{
    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2 4#3 5#2");
    stage_refuse(s, "2 3 4 5", RELAY_FAULT_ROW);
    stage_close(s);
    (void)stage_published(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
}

/* 1, 2, 4, ... rows are in flight, each flight after the whole of the one before. */
TEST(relay_probes_one_row_then_twice_as_many)
{
    struct stage *s = stage_probing();

    refuse_batch(s);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 2);
    stage_page(s, "2#1 3#2 4#3 5#2");
    CHECK_STR(stage_probed(s), "2");
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 3);
    stage_page(s, "3#2 4#3 5#2");
    CHECK_STR(stage_probed(s), "3 4");
    stage_deliver(s, "3");
    stage_idle_for(s, 50);
    CHECK(!s->asked[RELAY_CATCH_UP]); /* not before the whole flight */
    stage_deliver(s, "4");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(view(s).behind_keys, 0); /* nobody failed alone */
}

/* Finding 14: only the row that fails alone is charged, only its key waits. */
TEST(relay_row_that_fails_alone_makes_its_key_wait)
{
    struct stage *s = stage_probing();

    refuse_batch(s);
    stage_page(s, "2#1 3#2 4#3 5#2");
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 100);
    stage_page(s, "3#2 4#3 5#2");
    stage_refuse(s, "3 4", RELAY_FAULT_ROW); /* two: none of them is charged */
    stage_close(s);
    CHECK_EQ(view(s).behind_keys, 0);
    stage_idle_for(s, 200);
    CHECK_STR(stage_probed(s), "2 3 4 3");
    stage_forget_notes(s);
    stage_refuse(s, "3", RELAY_FAULT_ROW);
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_KEY_BEHIND), 1);
    CHECK_EQ(view(s).behind_keys, 1);
    stage_close(s);
    s->answered &= ~STAGE_ANSWERS(RELAY_SAVE);
    stage_idle_for(s, 200);
    CHECK_STR(stage_probed(s), "4"); /* of another key */
    stage_deliver(s, "4");
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_STR(stage_saving(s), "floor 5 0/0:5 0/k2:3+1");
}

/* One waits, the others of its partition go on through the main session. */
TEST(relay_key_that_waits_stops_nobody_else)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "2#1 3#2 4#1");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    CHECK(view(s).session_open && view(s).behind_keys == 1);
    CHECK_STR(stage_dropped(s), "2 4");
    stage_deliver(s, "3");
    stage_fetch(s, "5#2 6#1 7#3");
    CHECK_STR(stage_published(s), "2 3 5 7");
    CHECK_STR(stage_probed(s), "");
}

/* The retry goes through the probe session as one row, later rows of its key after it, one at a time. */
TEST(relay_retries_a_key_row_by_row)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1/1#9 2#1 3#1 4#2");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    stage_deliver(s, "1 4");
    (void)stage_published(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "2#1 3#1");
    CHECK_STR(stage_probed(s), "2");
    stage_idle_for(s, 100);
    CHECK(!s->asked[RELAY_CATCH_UP]); /* a row of it is under way */
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 3);
    stage_page(s, "3#1");
    stage_deliver(s, "3");
    stage_idle_for(s, 200);
    CHECK(stage_told(s, RELAY_NOTE_KEY_LIVE) && view(s).behind_keys == 0);
    stage_fetch(s, "5#1");
    CHECK_STR(stage_published(s), "2 3 5");
    CHECK_STR(stage_probed(s), "3");
}

TEST(relay_key_is_charged_once_for_each_failure_and_waits_longer)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    for (unsigned i = 0; i < 5; i++) {
        stage_idle(s, RELAY_CATCH_UP, s->limits.backoff_max_ms);
        stage_page(s, "2#1");
        stage_idle_for(s, 200);
        stage_refuse(s, "2", RELAY_FAULT_ROW);
        stage_close(s);
    }
    s->answered &= ~STAGE_ANSWERS(RELAY_SAVE);
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_STR(stage_saving(s), "floor 2 0/k1:2+6");
    CHECK_EQ(view(s).behind_lanes, 0);
}

/* A refused batch says who may be at fault, not that it is too early: the first is tried at once. */
TEST(relay_lane_of_a_refused_batch_is_probed_at_once)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2");
    stage_refuse(s, "2 3", RELAY_FAULT_ROW);
    stage_close(s);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 2);
    CHECK_EQ(s->asked_ms[RELAY_CATCH_UP], s->now_ms);
}

/* The other rows of the batch come back when the session is closed; nothing is waited for then. */
TEST(relay_lane_is_probed_as_soon_as_its_session_is_closed)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2");
    stage_refuse(s, "2", RELAY_FAULT_ROW);
    CHECK(!s->asked[RELAY_CATCH_UP]);
    stage_close(s);
    CHECK(s->asked[RELAY_CATCH_UP] && s->action[RELAY_CATCH_UP].from == 2);
}

/* What stops a lane has precedence over what stops one key of it, which is looked at again later. */
TEST(relay_key_gives_way_to_its_lane)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2 4#3");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    stage_idle(s, RELAY_CATCH_UP, 1000); /* the key is due */
    stage_refuse(s, "3 4", RELAY_FAULT_ROW);
    stage_close(s);
    stage_page(s, "2#1 3#2 4#3");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 3); /* for the lane alone */
    stage_page(s, "3#2 4#3");
    CHECK_STR(stage_probed(s), "3");
}

/* An outage is nobody's fault. */
TEST(relay_outages_charge_nobody)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1");
    stage_unpublish(s, "2", RELAY_FAULT_ROW);
    s->answered &= ~STAGE_ANSWERS(RELAY_SAVE);
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_STR(stage_saving(s), "floor 2 0/k1:2+1");
    stage_save(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "2#1");
    stage_idle_for(s, 100);
    stage_refuse(s, "2", RELAY_FAULT_SESSION);
    stage_close(s);
    stage_idle_for(s, 5000);
    CHECK_STR(stage_probed(s), "2 2");
    CHECK(!s->asked[RELAY_SAVE] || s->action[RELAY_SAVE].rows == 0);
}

/* What comes of an end of the probe session is no business of the main one. */
TEST(relay_probe_ends_alone)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1 2/1#2");
    stage_deliver(s, "1 2");
    stage_fetch(s, "3#1 4/1#2 5/1#2");
    stage_unpublish(s, "3", RELAY_FAULT_ROW);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "3#1");
    stage_idle_for(s, 100);
    stage_forget_notes(s);
    stage_refuse(s, "3", RELAY_FAULT_ROW);
    CHECK(s->asked[RELAY_SESSION_CLOSE] && s->action[RELAY_SESSION_CLOSE].session == RELAY_PROBE);
    CHECK(view(s).session_open && view(s).handed_rows == 2);
    CHECK(s->noted[0].note == RELAY_NOTE_SESSION_BROKEN && s->noted[0].rows == 1);
    stage_close(s);
    stage_deliver(s, "4 5");
    CHECK_EQ(stage_told_n(s, RELAY_NOTE_SESSION_BROKEN), 1);
}

TEST(relay_probe_is_closed_when_it_has_nothing_to_do)
{
    struct stage *s = stage_probing();

    refuse_batch(s);
    stage_page(s, "2#1");
    stage_deliver(s, "2");
    CHECK(!s->asked[RELAY_SESSION_CLOSE]);
    stage_idle(s, RELAY_SESSION_CLOSE, s->limits.probe_rest_ms + 100);
    CHECK_EQ(s->action[RELAY_SESSION_CLOSE].session, RELAY_PROBE);
    stage_forget_notes(s);
    stage_close(s);
    stage_idle_for(s, 1000);
    CHECK(!stage_told(s, RELAY_NOTE_SESSION_BROKEN));
}

/* Finding 7: what waits is found again by whoever takes over, with its attempts. */
TEST(relay_keys_that_wait_survive_a_takeover)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_grant(s, 20, "0/k5:8+3");
    CHECK_EQ(view(s).behind_keys, 1);
    stage_fetch(s, "21#5 22#6");
    CHECK_STR(stage_published(s), "22");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 8);
    stage_page(s, "8#5 21#5");
    stage_idle_for(s, 100);
    CHECK_STR(stage_probed(s), "8");
    stage_refuse(s, "8", RELAY_FAULT_ROW);
    stage_close(s);
    stage_idle(s, RELAY_SAVE, 2000);
    CHECK_STR(stage_saving(s), "floor 21 0/k5:8+4"); /* 22 is with the producer */
}

/* Rows of it that were handed before must have their report first: an earlier one may come back. */
TEST(relay_key_is_not_retried_before_its_earlier_rows_have_their_reports)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#1");
    stage_unpublish(s, "3", RELAY_FAULT_ROW);
    stage_idle_for(s, 1000);
    CHECK(!s->asked[RELAY_CATCH_UP]);
    s->answered &= ~STAGE_ANSWERS(RELAY_SAVE);
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 3);
    stage_idle_for(s, 1000);
    CHECK_STR(stage_saving(s), "floor 3 0/k1:3+1"); /* and 2 says nothing of the row that failed */
}

/* A row of a gap shows below what waits: it is not handed past it. */
TEST(relay_gap_of_a_key_that_waits_is_brought_by_a_page)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1 5#2");
    stage_deliver(s, "1");
    stage_unpublish(s, "5", RELAY_FAULT_ROW);
    (void)stage_published(s);
    stage_fetch(s, "3#2"); /* of the key that waits from 5 on */
    CHECK_STR(stage_published(s), "");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 3);
    stage_page(s, "3#2 5#2");
    CHECK_STR(stage_probed(s), "3");
}

/* The same for a lane that is probed: the row goes through the probe session in its turn. */
TEST(relay_gap_of_a_lane_that_is_probed_is_brought_by_a_page)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1 5#2 6#4");
    stage_deliver(s, "1");
    stage_refuse(s, "5 6", RELAY_FAULT_ROW);
    stage_close(s);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "5#2 6#4");
    CHECK_STR(stage_probed(s), "5");
    (void)stage_published(s);
    stage_fetch(s, "3#3");
    CHECK_STR(stage_published(s), "");
    stage_deliver(s, "5");
    stage_idle(s, RELAY_CATCH_UP, 100);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 3);
}

/* And for a topic that is probed. */
TEST(relay_gap_of_a_topic_that_is_probed_is_brought_by_a_page)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);

    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_TAKE);
    stage_lose(s);
    stage_await(s, RELAY_LEASE_TAKE, 1000);
    stage_grant(s, 20, "0/all:24");
    stage_fetch(s, "24 25");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "24 25");
    CHECK_STR(stage_probed(s), "24");
    (void)stage_published(s);
    stage_fetch(s, "23");
    CHECK_STR(stage_published(s), "");
    stage_deliver(s, "24");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK_EQ(s->action[RELAY_CATCH_UP].from, 23);
}

/* More keys than there are numbers: the lane waits. */
TEST(relay_lane_waits_where_too_many_keys_would)
{
    struct stage *s = stage_probing();

    stage_fetch(s, "1#1");
    stage_deliver(s, "1");
    stage_fetch(s, "2#1 3#2 4#3 5#4 6#5");
    stage_unpublish(s, "2 3 4 5", RELAY_FAULT_ROW);
    CHECK(view(s).behind_keys == 4 && view(s).behind_lanes == 0);
    stage_unpublish(s, "6", RELAY_FAULT_ROW);
    CHECK(stage_told(s, RELAY_NOTE_KEYS_FULL));
    CHECK(view(s).behind_keys == 4 && view(s).behind_lanes == 1);
    for (unsigned i = 0; i < 10 && strstr(s->probed, "6") == NULL; i++) { /* when its turn has come */
        stage_idle_for(s, 200);
        if (s->asked[RELAY_CATCH_UP])
            stage_page(s, "2#1 3#2 4#3 5#4 6#5");
    }
    CHECK(strstr(s->probed, "6") != NULL);
}

/* Found by the mutator: the numbers of keys that wait no more, all of them, are given to others. */
TEST(relay_keys_that_are_live_again_make_room)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.keys_max = 2;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK) | STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1#1 2/1#2");
    stage_unpublish(s, "1", RELAY_FAULT_ROW);
    stage_unpublish(s, "2/1", RELAY_FAULT_ROW);
    CHECK_EQ(view(s).behind_keys, 2);
    for (unsigned i = 0; view(s).behind_keys > 0 && i < 10; i++) { /* one after the other is due */
        stage_idle(s, RELAY_CATCH_UP, 1000);
        stage_page(s, "1#1 2/1#2");
        stage_drain(s);
        stage_idle_for(s, 300);
    }
    stage_idle_for(s, 5000); /* and saved */
    CHECK_EQ(view(s).behind_keys, 0);
    stage_forget_notes(s);
    stage_fetch(s, "3#3 4/1#4");
    stage_unpublish(s, "3", RELAY_FAULT_ROW);
    stage_unpublish(s, "4/1", RELAY_FAULT_ROW);
    CHECK(view(s).behind_keys == 2 && !stage_told(s, RELAY_NOTE_KEYS_FULL));
}

/* A row without a key waits for itself alone. */
TEST(relay_row_without_a_key_waits_alone)
{
    struct relay_limits limits = stage_limits();
    struct stage *s = stage_set(&limits);
    struct row rows[3] = {{.id = 1, .bytes = 10}, {.id = 2, .bytes = 10}, {.id = 3, .bytes = 10}};
    row_slot slots[3];
    struct relay_read read = {.token = stage_token(1), .rows = rows, .rows_n = 3, .upto = INT64_MAX};

    for (unsigned i = 0; i < 3; i++)
        rows[i].event_id.bytes[0] = (unsigned char)(i + 1);
    s->asked[RELAY_FETCH] = false;
    relay_on_fetched(s->relay, s->now_ms, &read, slots);
    for (unsigned i = 0; i < 3; i++)
        s->row[slots[i]] = rows[i];
    stage_run(s);
    s->handed[slots[0]] = false;
    relay_on_unpublished(s->relay, s->now_ms, slots[0], RELAY_FAULT_ROW);
    stage_run(s);
    CHECK_EQ(view(s).behind_keys, 1);
    CHECK_EQ(view(s).window_rows, 2);
}

/* --- cold after silence --------------------------------------------------------------------------------------------- */

/* Finding 15: the broker forgets producers that are silent. */
TEST(relay_lane_is_cold_after_silence)
{
    struct stage *s = stage_probing();

    relay_on_idle_limit(s->relay, s->now_ms, 4000);
    stage_fetch(s, "1");
    stage_deliver(s, "1");
    (void)stage_published(s);
    stage_idle_for(s, 900);
    stage_fetch(s, "2 3");
    CHECK_STR(stage_published(s), "2 3");
    stage_deliver(s, "2 3");
    stage_idle_for(s, 1100);
    stage_fetch(s, "4 5");
    CHECK_STR(stage_published(s), "4");
}

/* Rows under way for so long: their producer may be forgotten, and only a new session is cold. */
TEST(relay_session_with_a_silent_lane_ends)
{
    struct stage *s = stage_probing();

    relay_on_idle_limit(s->relay, s->now_ms, 40000);
    stage_fetch(s, "1 2/1");
    stage_deliver(s, "2");
    stage_idle_for(s, 9000);
    CHECK(!s->asked[RELAY_SESSION_CLOSE]);
    stage_idle(s, RELAY_SESSION_CLOSE, 3000);
}

/* Rows that are with the probe session when everything starts over: later rows of their keys go there too, since two sessions know no order. */
TEST(relay_rows_that_are_probed_are_not_passed_after_a_start_over)
{
    struct stage *s = stage_probing();

    refuse_batch(s);
    stage_page(s, "2#1 3#2 4#3 5#2");
    CHECK_STR(stage_probed(s), "2");
    stage_lose(s);
    stage_idle_for(s, 500);
    (void)stage_published(s);
    stage_fetch(s, "1#1 2#1 3#1 4#3");
    CHECK_STR(stage_published(s), ""); /* 2 has no report yet */
    CHECK_EQ(view(s).behind_lanes, 1);
    stage_deliver(s, "2");
    stage_idle(s, RELAY_CATCH_UP, 1000);
    CHECK(s->action[RELAY_CATCH_UP].from <= 3);
}
