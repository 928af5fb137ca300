/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay driven by hand: batches and rows that a topic refuses for their size. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

static struct stage *stage_impatient(void)
{
    struct relay_limits limits = stage_limits();
    struct stage *s;

    limits.stuck_ms = 1000;
    s = stage_set(&limits);
    s->answered |= STAGE_ANSWERS(RELAY_MARK);
    return s;
}

/* The topic is asked about, and the test answers. */
static struct stage *stage_curious(void)
{
    struct stage *s = stage_impatient();

    s->answered &= ~STAGE_ANSWERS(RELAY_TOPIC);
    return s;
}

/* Lowered while we run, each batch would be refused for ever; raised for a row that waits, nobody would notice. */
TEST(relay_topic_is_asked_for_its_limit_again_when_it_refuses_a_size)
{
    struct stage *s = stage_curious();

    stage_fetch(s, "1");
    stage_topic(s, 4, 4, 9000);
    stage_close(s);
    stage_pass(s, 200);
    CHECK_STR(stage_published(s), "1");
    CHECK(!s->asked[RELAY_TOPIC]);
    stage_refuse(s, "1", RELAY_FAULT_SIZE);
    stage_close(s);
    stage_idle(s, RELAY_TOPIC, 1);
    stage_topic(s, 4, 4, 5000);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1");
    stage_pass(s, 500);
    CHECK_EQ(s->action[RELAY_SESSION_OPEN].bytes, 5000);
    stage_unpublish(s, "1", RELAY_FAULT_SIZE); /* larger than that itself */
    stage_idle(s, RELAY_TOPIC, 1);
    stage_topic(s, 4, 4, 9000);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "1");
    stage_deliver(s, "1");
}

/* A broker need not tell the limit: batches get smaller until they are taken. */
TEST(relay_session_with_batches_above_a_limit_that_is_not_known_makes_them_smaller)
{
    struct stage *s = stage_impatient();

    s->answered |= STAGE_ANSWERS(RELAY_SAVE);
    stage_fetch(s, "1 2/1");
    stage_drain(s);
    stage_fetch(s, "3 4 5/1 6/1");
    (void)stage_published(s);
    stage_refuse(s, "3 4 5 6", RELAY_FAULT_SIZE); /* one session, one step */
    stage_close(s);
    stage_idle_for(s, 200);
    CHECK_EQ(s->action[RELAY_SESSION_OPEN].bytes, s->limits.batch_bytes / 2);
    stage_idle(s, RELAY_CATCH_UP, 1000);
    stage_page(s, "3");
    stage_pass(s, 200);
    stage_refuse(s, "3", RELAY_FAULT_SIZE); /* alone: it is too large itself */
    stage_close(s);
    stage_idle_for(s, 500);
    CHECK_EQ(s->action[RELAY_SESSION_OPEN].bytes, s->limits.batch_bytes / 2);
}
