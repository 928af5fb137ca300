/* SPDX-License-Identifier: BSD-2-Clause */
/* The lease, and the ways by which a relay learns that ids may mean other events now. */
#include <stdio.h>
#include <string.h>

#include "tests/edge/outbox_box.h"

static void insert(const struct postgres *p, unsigned n)
{
    postgres_query(p->conninfo, "INSERT INTO outbox.event (event_id, topic) SELECT gen_random_uuid(), 't' FROM generate_series(1, %u)", n);
}

static struct box *box_named(const struct postgres *p, const char *instance)
{
    struct outbox_settings settings = box_settings(p->conninfo);
    struct box *b;

    settings.instance = instance;
    b = box_new_with(&settings);
    box_connect(b);
    return b;
}

BOX_TEST_WITHIN(outbox_lease_belongs_to_one, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *a = box_named(&p, "a:1"), *b = box_named(&p, "b:2");

    CHECK(box_take(a));
    CHECK_EQ(a->saved.floor, 0);
    CHECK_EQ(a->saved.behind_n, 0);
    CHECK(!box_take(b));
    CHECK_STR(b->holder, "test (a:1)");
    box_beat(a);
    CHECK(a->held && box_token_is(a, a->saved.token));
    /* Given back, it is free at once. */
    box_release(a);
    CHECK(box_take(b));
    box_beat(a);
    CHECK(!a->held);
    /* A late release of the old holder takes nothing away. */
    box_release(a);
    box_beat(b);
    CHECK(b->held);
    /* Run out by the database's clock. */
    postgres_query(p.conninfo, "UPDATE outbox.beat SET expires_at = clock_timestamp()");
    CHECK(box_take(a));
    CHECK_EQ(postgres_number(p.conninfo, "SELECT epoch FROM outbox.lease"), 3);
    box_free(a);
    box_free(b);
}

/* A relay that lost its connections, or the answer to its question, need not wait for itself. */
BOX_TEST_WITHIN(outbox_lease_does_not_wait_for_its_own_process, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *a = box_named(&p, "a:1");
    struct relay_token first;

    CHECK(box_take(a));
    first = a->saved.token;
    outbox_take(a->outbox, 0);
    box_connect(a);
    CHECK(box_take(a));
    CHECK(!box_token_is(a, first));
    box_beat(a);
    CHECK(a->held && box_token_is(a, a->saved.token));
    box_free(a);
}

/* Design review 24: of many who ask at once one is granted, and the token that everybody reads is the winner's. */
BOX_TEST_WITHIN(outbox_lease_is_granted_to_one_of_many_at_once, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *boxes[4];

    for (unsigned i = 0; i < 4; i++)
        boxes[i] = box_named(&p, "x:1");
    for (unsigned round = 0; round < 30; round++) {
        unsigned granted = 0, winner = 0;
        unsigned before[4];
        for (unsigned i = 0; i < 4; i++) {
            before[i] = boxes[i]->lease_n;
            outbox_take(boxes[i]->outbox, 0);
        }
        for (unsigned i = 0; i < 4; i++) {
            BOX_UNTIL(boxes[i], boxes[i]->lease_n == before[i] + 1, 10);
            granted += boxes[i]->granted;
            winner = boxes[i]->granted ? i : winner;
        }
        CHECK_EQ(granted, 1);
        for (unsigned i = 0; i < 4; i++) {
            box_beat(boxes[i]);
            CHECK_EQ(boxes[i]->held, i == winner);
            CHECK(box_token_is(boxes[i], boxes[winner]->saved.token));
        }
        box_release(boxes[winner]);
    }
    for (unsigned i = 0; i < 4; i++)
        box_free(boxes[i]);
}

static bool take_over(struct box *b, int64_t beat)
{
    unsigned before = b->lease_n;

    outbox_take(b->outbox, beat);
    BOX_UNTIL(b, b->lease_n == before + 1, 10);
    return b->granted;
}

/* Design review 20: the server's clock was set back by an hour after the holder's last beat. Whoever has seen that beat for too long may
 * take the lease; not if it was a later one. */
BOX_TEST_WITHIN(outbox_lease_of_a_silent_holder_is_taken, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *a = box_named(&p, "a:1"), *b = box_named(&p, "b:2");

    CHECK(box_take(a));
    box_beat(a);
    postgres_query(p.conninfo, "UPDATE outbox.beat SET beat_at = beat_at + '1 h', expires_at = expires_at + '1 h'");
    CHECK(!box_take(b));
    CHECK(b->beat > 0);
    CHECK_EQ(b->beat_ttl_ms, box_settings("").lease_ttl_ms);
    int64_t silent = b->beat;
    box_beat(a); /* it lives */
    CHECK(!take_over(b, silent));
    CHECK(b->beat != silent);
    CHECK(take_over(b, b->beat));
    box_beat(a);
    CHECK(!a->held);
    box_free(a);
    box_free(b);
}

/* Relays that wait do not hold up the holder: a refusal takes no lock. */
BOX_TEST_WITHIN(outbox_lease_is_refused_without_a_lock, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *a = box_named(&p, "a:1"), *b = box_named(&p, "b:2");

    CHECK(box_take(a));
    struct process holder = process_start(
        (const char *[]){"psql", "-Xq", p.conninfo, "-c", "BEGIN; SELECT FROM outbox.lease FOR UPDATE; SELECT pg_sleep(60)", NULL}, NULL,
        NULL);
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1, 10);
    CHECK(!box_take(b));
    /* Nor is a beat held up by a save that waits. */
    box_beat(a);
    CHECK(a->held);
    process_signal(&holder, 9);
    box_free(a);
    box_free(b);
}

/* Design review 4: a crash of the server empties incarnation, whatever else survives; an orderly restart does not. (Behind
 * a pooler no connection is lost: outbox_crash_behind_a_pooler_is_seen_by_the_token.) */
TEST_WITHIN(outbox_token_is_gone_after_a_crash, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_named(&p, "a:1");
    struct relay_token token;

    insert(&p, 5);
    CHECK(box_take(b));
    CHECK(box_save(b, 3, NULL, 0));
    token = b->saved.token;
    postgres_stop(&p);
    BOX_UNTIL(b, b->lost_n == 1, 10);
    postgres_restart(&p);
    box_connect(b);
    (void)box_fetch(b, 0);
    CHECK(memcmp(b->read.token.bytes, token.bytes, 16) == 0);
    box_beat(b);
    CHECK(b->held && box_token_is(b, token));

    postgres_kill(&p);
    BOX_UNTIL(b, b->lost_n == 2, 10);
    postgres_restart(&p);
    box_connect(b);
    (void)box_fetch(b, 0);
    CHECK(memcmp(b->read.token.bytes, token.bytes, 16) != 0);
    (void)box_catch_up(b, 0, 1, 5, 10);
    CHECK(memcmp(b->read.token.bytes, token.bytes, 16) != 0);
    box_flush(b, false);
    CHECK(!box_token_is(b, token));
    box_beat(b);
    CHECK(b->held && !box_token_is(b, token));
    CHECK(!box_save(b, 4, NULL, 0));
    CHECK(box_take(b));
    CHECK_EQ(b->saved.floor, 3);
    CHECK(box_save(b, 4, NULL, 0));
    box_free(b);
}

/* Design review 25: the beat tells where the sequence stands. */
BOX_TEST_WITHIN(outbox_beat_brings_the_sequence, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_named(&p, "a:1");

    CHECK(box_take(b));
    CHECK_EQ(b->saved.last_id, 0);
    box_beat(b);
    CHECK_EQ(b->last_id, 0);
    insert(&p, 7);
    box_beat(b);
    CHECK_EQ(b->last_id, 7);
    box_writers(b);
    CHECK_EQ(b->last_id, 7);
    box_free(b);
}

/* Design review 36: TRUNCATE empties it all in the same transaction. */
BOX_TEST_WITHIN(outbox_truncate_starts_over, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_named(&p, "a:1");
    struct relay_behind change = {.partition = 1, .first_id = 3};

    insert(&p, 7);
    CHECK(box_take(b));
    (void)box_fetch(b, 0);
    change.topic = b->rows[0].topic;
    CHECK(box_save(b, 5, &change, 1));
    postgres_query(p.conninfo, "TRUNCATE outbox.event RESTART IDENTITY; INSERT INTO outbox.event (event_id, topic)"
                               " SELECT gen_random_uuid(), 't' FROM generate_series(1, 20)");
    (void)box_fetch(b, 7);
    CHECK(!box_token_is(b, b->read.token));
    CHECK(!box_save(b, 6, &change, 1));
    CHECK(box_take(b));
    CHECK_EQ(b->saved.floor, 0);
    CHECK_EQ(b->saved.behind_n, 0);
    CHECK_EQ(b->saved.last_id, 20);
    CHECK(!b->saved.floor_reset);
    CHECK_EQ(box_fetch(b, 0), 20);
    box_free(b);
}

/* A save that runs at the same time is either undone by the TRUNCATE or refused because of it. */
BOX_TEST_WITHIN(outbox_truncate_beside_a_save, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_named(&p, "a:1");

    insert(&p, 7);
    CHECK(box_take(b));
    struct process holder = process_start(
        (const char *[]){"psql", "-Xq", p.conninfo, "-c", "BEGIN; TRUNCATE outbox.event; SELECT pg_sleep(1); COMMIT", NULL}, NULL, NULL);
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1, 10);
    CHECK(!box_save(b, 5, NULL, 0));
    CHECK_EQ(process_wait(&holder, 10), 0);
    CHECK_EQ(postgres_number(p.conninfo, "SELECT floor FROM outbox.position"), 0);

    /* In a stricter level, where the trigger would not see what a save wrote, the TRUNCATE fails. */
    CHECK(box_take(b));
    holder = process_start((const char *[]){"psql", "-Xq", p.conninfo, "-v", "ON_ERROR_STOP=1", "-c",
                                            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox.meta; SELECT pg_sleep(1);"
                                            " TRUNCATE outbox.event; COMMIT",
                                            NULL},
                           NULL, NULL);
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1, 10);
    CHECK(box_save(b, 6, NULL, 0));
    CHECK(process_wait(&holder, 10) != 0);
    CHECK(strstr(process_output(&holder), "could not serialize") != NULL);
    CHECK_EQ(postgres_number(p.conninfo, "SELECT floor FROM outbox.position"), 6);
    box_free(b);
}

/* 2.3 start over: below the saved floor, everything is read from the beginning. */
BOX_TEST_WITHIN(outbox_floor_is_reset_below_a_restarted_sequence, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_named(&p, "a:1");
    struct relay_behind change = {.partition = 1, .first_id = 3};

    insert(&p, 7);
    CHECK(box_take(b));
    (void)box_fetch(b, 0);
    change.topic = b->rows[0].topic;
    CHECK(box_save(b, 7, &change, 1));
    CHECK(box_take(b));
    CHECK(!b->saved.floor_reset && b->saved.floor == 7 && b->saved.behind_n == 1);
    postgres_query(p.conninfo, "ALTER SEQUENCE outbox.event_id_seq RESTART 7; SELECT nextval('outbox.event_id_seq')");
    CHECK(box_take(b));
    CHECK(!b->saved.floor_reset && b->saved.floor == 7);
    postgres_query(p.conninfo, "ALTER SEQUENCE outbox.event_id_seq RESTART 6; SELECT nextval('outbox.event_id_seq')");
    CHECK(box_take(b));
    CHECK(b->saved.floor_reset);
    CHECK_EQ(b->saved.floor, 0);
    CHECK_EQ(b->saved.behind_n, 0);
    CHECK_EQ(postgres_number(p.conninfo, "SELECT floor FROM outbox.position"), 0);
    CHECK(box_take(b));
    CHECK(!b->saved.floor_reset);
    box_free(b);
}

/* Topics that are behind have numbers from the grant on. */
BOX_TEST_WITHIN(outbox_grant_names_the_topics_behind, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;

    postgres_query(p.conninfo,
                   "INSERT INTO outbox.behind (topic, partition, first_id) SELECT 'topic' || i / 2, i, i + 1 FROM generate_series(0, 39) i;"
                   "SELECT setval('outbox.event_id_seq', 100)");
    b = box_named(&p, "a:1");
    CHECK(box_take(b));
    CHECK_EQ(b->saved.behind_n, 40);
    for (unsigned i = 0; i < 40; i++) {
        char wanted[20];
        snprintf(wanted, sizeof wanted, "topic%d", b->behind[i].partition / 2);
        CHECK_STR(outbox_topic(b->outbox, b->behind[i].topic), wanted);
        CHECK_EQ(b->behind[i].first_id, b->behind[i].partition + 1);
    }
    box_free(b);
}

/* A relay that has nothing to mark is silent on that connection for as long as nothing comes. (A pooler's idle sessions are its own
 * matter.) */
TEST_WITHIN(outbox_outlives_an_idle_session_timeout, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;

    postgres_query(p.conninfo, "ALTER ROLE postgres SET idle_session_timeout = 500");
    b = box_named(&p, "a:1");
    BOX_UNTIL(b,
              b->lost_n > 0 || strcmp(postgres_query(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE"
                                                                 " 'outbox-relay %%' AND clock_timestamp() - state_change > '1500 ms'"),
                                      "3") == 0,
              20);
    CHECK_EQ(b->lost_n, 0);
    box_free(b);
}

/* In a stricter level the grant would read what was saved before it: the role's default does not matter, and the functions insist. */
BOX_TEST_WITHIN(outbox_sets_its_own_isolation, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;

    postgres_query(p.conninfo, "ALTER ROLE postgres SET default_transaction_isolation = 'serializable';"
                               "ALTER ROLE postgres SET default_transaction_deferrable = on;"
                               "ALTER ROLE postgres SET enable_indexscan = off");
    b = box_named(&p, "a:1");
    insert(&p, 3);
    CHECK(box_take(b));
    CHECK_EQ(box_fetch(b, 0), 3);
    box_mark(b, 0, 3);
    CHECK(box_save(b, 3, NULL, 0));
    CHECK_STR(postgres_error(p.conninfo, "SELECT outbox.take(gen_random_uuid(), gen_random_uuid(), '', 1, 'outbox.event_id_seq', 0)"),
              "25000");
    CHECK_STR(postgres_error(p.conninfo, "SELECT outbox.save(gen_random_uuid(), 1, '{}', '{}', '{}', '{}', '{}', '{}')"), "25000");
    box_free(b);
}
