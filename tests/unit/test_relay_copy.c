/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies and digests of whole relays: what the exhaustive search in tests/sim stands on. */
#include "relay/core/relay.h"

#include "tests/lib/test.h"
#include "tests/unit/stage.h"

#define ACTS 14

/* A play in as many acts, each of which changes something. */
static void act(struct stage *s, unsigned number)
{
    switch (number) {
    case 0:
        s->insert_lsn = 10;
        stage_fetch(s, "1 2 3/1 5/1 7@1");
        break;
    case 1:
        stage_flush(s, 10);
        break;
    case 2:
        stage_deliver(s, "1");
        break;
    case 3:
        stage_pass(s, 7);
        break;
    case 4:
        stage_fetch(s, "4 8/1");
        break;
    case 5:
        stage_refuse(s, "3", RELAY_FAULT_ROW);
        break;
    case 6:
        stage_close(s);
        break;
    case 7:
        stage_mark(s, 0);
        break;
    case 8:
        stage_pass(s, 400);
        break;
    case 9:
        stage_idle(s, RELAY_SAVE, 2000);
        stage_save(s);
        break;
    case 10:
        stage_idle(s, RELAY_CATCH_UP, 3000);
        stage_page(s, "3/1");
        break;
    case 11:
        stage_lose(s);
        break;
    case 12:
        stage_pass(s, 5000);
        break;
    case 13:
        relay_on_stop(s->relay, s->now_ms);
        stage_run(s);
        break;
    default:
        break;
    }
}

static uint64_t digest(const struct stage *s)
{
    return relay_digest(s->relay, s->now_ms);
}

static struct stage *stage_at(uint64_t now_ms)
{
    struct relay_limits limits = stage_limits();

    limits.gap_age_ms = 1000000;
    return stage_bare(&limits,
                      STAGE_ANSWERS(RELAY_CONNECT) | STAGE_ANSWERS(RELAY_LEASE_TAKE) | STAGE_ANSWERS(RELAY_LEASE_BEAT) |
                          STAGE_ANSWERS(RELAY_SESSION_OPEN) | STAGE_ANSWERS(RELAY_TOPIC),
                      now_ms);
}

TEST(relay_copy_behaves_as_the_original)
{
    for (unsigned copied = 0; copied < ACTS; copied++) {
        struct stage *s = stage_at(STAGE_START_MS), *twin = NULL;

        for (unsigned i = 0; i < ACTS; i++) {
            if (i == copied)
                twin = stage_twin(s);
            act(s, i);
            if (twin == NULL)
                continue;
            CHECK(digest(s) != digest(twin)); /* the copy is apart: nothing of it has changed */
            act(twin, i);
            CHECK(digest(s) == digest(twin));
            CHECK(s->now_ms == twin->now_ms && s->wait_ms == twin->wait_ms && s->noted_n == twin->noted_n);
            CHECK_STR(s->published, twin->published);
            CHECK_STR(s->dropped, twin->dropped);
        }
        relay_free(s->relay);
        relay_free(twin->relay);
    }
    relay_free(NULL);
}

TEST(relay_digest_changes_with_every_act)
{
    struct stage *s = stage_at(STAGE_START_MS);

    for (unsigned i = 0; i < ACTS; i++) {
        uint64_t before = digest(s);

        act(s, i);
        if (digest(s) == before)
            test_fail(__FILE__, __LINE__, "act %u changes nothing", i);
    }
}

TEST(relay_digest_does_not_depend_on_the_date)
{
    struct stage *s = stage_at(STAGE_START_MS), *later = stage_at(STAGE_START_MS + 86400123);

    for (unsigned i = 0; i < ACTS; i++) {
        CHECK(digest(s) == digest(later));
        act(s, i);
        act(later, i);
    }
    CHECK(digest(s) == digest(later));
}

/* Nothing happens and much time passes: the same state, seen at the same moment of its beat. */
TEST(relay_digest_of_an_idle_relay_comes_back)
{
    struct stage *s = stage_at(STAGE_START_MS);
    uint64_t before;

    s->answered |= STAGE_ANSWERS(RELAY_SAVE);
    stage_idle_for(s, 20000);
    s->answered &= ~STAGE_ANSWERS(RELAY_LEASE_BEAT);
    stage_idle(s, RELAY_LEASE_BEAT, 5000);
    before = digest(s);
    stage_beat(s);
    stage_idle(s, RELAY_LEASE_BEAT, 5000);
    while (digest(s) != before && s->now_ms < STAGE_START_MS + 600000) {
        stage_beat(s);
        stage_idle(s, RELAY_LEASE_BEAT, 5000);
    }
    CHECK(digest(s) == before);
}
