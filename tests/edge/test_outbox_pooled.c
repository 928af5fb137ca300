/* SPDX-License-Identifier: BSD-2-Clause */
/* What only a transaction pooler can do to a relay, and a relay to those who share it. */
#include <stdio.h>
#include <string.h>

#include "tests/edge/outbox_box.h"

static struct box *box_ready(const struct postgres *p)
{
    struct box *b = box_new(p->conninfo);

    box_connect(b);
    CHECK(box_take(b));
    return b;
}

static void insert(const struct postgres *p, unsigned n)
{
    postgres_query(p->conninfo, "INSERT INTO outbox.event (event_id, topic) SELECT gen_random_uuid(), 't' FROM generate_series(1, %u)", n);
}

static void check_says(const char *sentence, const char *what)
{
    if (strstr(sentence, what) == NULL)
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", sentence, what);
}

/* Everything that a relay asks, once. */
static void do_all(struct box *b, const struct postgres *p)
{
    uint32_t topic;

    insert(p, 5);
    CHECK_EQ(box_fetch(b, b->saved.last_id), 5);
    topic = b->rows[0].topic;
    CHECK_EQ(box_fetch_with(b, &(struct outbox_fetch){.from = b->saved.last_id, .settled_upto = INT64_MAX, .rows = 9, .bytes = 1 << 20}),
             5);
    box_mark(b, 0, 5);
    CHECK_EQ(b->missed_n, 0);
    CHECK(box_save(b, 3, &(struct relay_behind){.topic = topic, .partition = 1, .first_id = 4}, 1));
    box_flush(b, true);
    (void)box_pin(b, topic, 3);
    box_writers(b);
    CHECK_EQ(b->writers_count, 0);
    (void)box_catch_up(b, topic, 1, 5, 10);
    box_beat(b);
    CHECK(b->held && box_token_is(b, b->saved.token));
}

/* --- crashes of the server that the pooler hides ------------------------------------------------------------------- */

/* Design review 4: no connection is lost, and no error comes: only the token tells. */
TEST_WITHIN(outbox_crash_behind_a_pooler_is_seen_by_the_token, 60)
{
    struct postgres p =
        box_postgres("wal_writer_delay = 10s\nwal_writer_flush_after = 1GB\nbgwriter_lru_maxpages = 0\nfull_page_writes = off");
    struct relay_token token;
    struct row_event_id lost;
    struct box *b;

    box_pool();
    b = box_ready(&p);
    insert(&p, 30);
    CHECK(box_save(b, 3, NULL, 0));
    token = b->saved.token;
    postgres_query(p.conninfo, "SET synchronous_commit = off; INSERT INTO outbox.event (event_id, topic)"
                               " SELECT gen_random_uuid(), 't' FROM generate_series(1, 10)");
    CHECK_EQ(box_fetch(b, 30), 10);
    CHECK(b->read.flush_lsn < b->read.insert_lsn);
    CHECK(memcmp(b->read.token.bytes, token.bytes, 16) == 0);
    lost = b->rows[3].event_id;
    postgres_kill(&p);
    postgres_restart(&p);
    /* Whether the step of the sequence was on the disk already is chance; here it was not. */
    postgres_query(p.conninfo, "SELECT setval('outbox.event_id_seq', 33)");
    insert(&p, 1);

    /* The same id, and what it means now. */
    CHECK_EQ(box_fetch(b, 30), 1);
    CHECK_EQ(b->rows[0].id, 34);
    CHECK(memcmp(b->rows[0].event_id.bytes, lost.bytes, 16) != 0);
    CHECK(memcmp(b->read.token.bytes, token.bytes, 16) != 0);
    (void)box_catch_up(b, b->rows[0].topic, 1, 5, 10);
    CHECK(memcmp(b->read.token.bytes, token.bytes, 16) != 0);
    box_flush(b, false);
    CHECK(!box_token_is(b, token));
    box_flush(b, true);
    CHECK(!box_token_is(b, token));
    box_beat(b);
    CHECK(b->held && !box_token_is(b, token));
    CHECK(!box_save(b, 4, NULL, 0));
    outbox_mark(b->outbox, &(int64_t){34}, &lost, 1, false);
    BOX_UNTIL(b, b->marked_n == 1, 10);
    CHECK_EQ(b->missed_n, 1);
    CHECK_EQ(b->lost_n + b->failed_n, 0);
    CHECK(box_take(b));
    CHECK_EQ(b->saved.floor, 3);
    CHECK(box_save(b, 4, NULL, 0));
    box_free(b);
}

/* An orderly restart changes nothing, and is no event at all. */
TEST_WITHIN(outbox_restart_behind_a_pooler_is_not_noticed, 60)
{
    struct postgres p = box_postgres("max_prepared_transactions = 5");
    struct box *b;

    box_pool();
    b = box_ready(&p);
    postgres_query(p.conninfo, "BEGIN; INSERT INTO outbox.event (event_id, topic) VALUES (gen_random_uuid(), 't');"
                               " PREPARE TRANSACTION 'one'");
    postgres_stop(&p);
    postgres_restart(&p);
    (void)box_fetch(b, 0);
    CHECK(memcmp(b->read.token.bytes, b->saved.token.bytes, 16) == 0);
    box_writers(b);
    CHECK_EQ(b->writers_count, 1);
    CHECK(b->writers[0].vxid >> 32 == UINT32_MAX);
    postgres_query(p.conninfo, "COMMIT PREPARED 'one'");
    CHECK_EQ(box_fetch(b, 0), 1);
    CHECK_EQ(b->lost_n + b->failed_n, 0);
    box_free(b);
}

/* --- the pooler goes away ------------------------------------------------------------------------------------------- */

TEST_WITHIN(outbox_loses_all_connections_to_a_pooler_together, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;

    box_pool();
    b = box_ready(&p);
    for (unsigned i = 1; i <= 3; i++) {
        pgbouncer_kill(box_pooler());
        BOX_UNTIL(b, b->lost_n == i, 10);
        box_connect_refused(b);
        CHECK_EQ(b->lost_n, ++i);
        check_says(b->reason, "cannot connect to the database: ");
        pgbouncer_restart(box_pooler());
        box_connect(b);
        do_all(b, &p);
        CHECK(box_take(b));
    }
    box_free(b);
}

/* Whoever waits in a pooler's queue has no statement that a server could end: the connection is closed. */
TEST_WITHIN(outbox_waits_in_a_poolers_queue_to_its_deadline, 60)
{
    struct postgres p = box_postgres(NULL);
    struct outbox_settings settings = box_settings(p.conninfo);
    struct box *b;

    box_pool_with("default_pool_size = 1");
    settings.statement_ms = 300;
    b = box_new_with(&settings);
    box_connect(b);
    CHECK(box_take(b));
    struct process holder =
        process_start((const char *[]){"psql", "-Xq", box_pooler()->conninfo, "-c", "SELECT pg_sleep(600)", NULL}, NULL, NULL);
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1, 10);
    outbox_flush(b->outbox, false);
    BOX_UNTIL(b, b->lost_n == 1, 10);
    check_says(b->reason, "did not answer within 600 ms");
    process_signal(&holder, 9);
    box_free(b);
}

/* Every statement is planned anew, so a change of the table need not end anything. */
TEST_WITHIN(outbox_goes_on_behind_a_pooler_when_the_table_changed, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;

    box_pool();
    b = box_ready(&p);
    insert(&p, 10);
    CHECK_EQ(box_fetch(b, 0), 10);
    postgres_query(p.conninfo, "DROP TRIGGER event_moved ON outbox.event; ALTER TABLE outbox.event ALTER partition TYPE bigint");
    CHECK_EQ(box_fetch(b, 0), 10);
    postgres_query(p.conninfo, "DROP TABLE outbox.event");
    outbox_fetch(b->outbox, &(struct outbox_fetch){.from = 0, .rows = 500, .bytes = 1 << 20});
    BOX_UNTIL(b, b->lost_n == 1, 10);
    box_connect_refused(b);
    check_says(b->reason, "correct the setting `table`");
    box_free(b);
}

/* --- strangers in the same sessions --------------------------------------------------------------------------------- */

/* What others see of a session after a relay used it: settings that are not the server's, statements, locks. */
static const char *left_behind(const struct pgbouncer *pooler)
{
    return postgres_query(pooler->conninfo,
                          "SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings WHERE source = 'session'"
                          " AND name NOT IN ('application_name', 'client_encoding') UNION ALL"
                          " SELECT string_agg(name, ',') FROM pg_prepared_statements UNION ALL"
                          " SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' UNION ALL SELECT pg_backend_pid()::text");
}

TEST_WITHIN(outbox_pooled_leaves_nothing_behind, 60)
{
    struct postgres p = box_postgres(NULL);
    char before[2000];
    struct box *b;

    box_pool_with("default_pool_size = 1");
    b = box_ready(&p);
    snprintf(before, sizeof before, "%s", left_behind(box_pooler()));
    CHECK(strncmp(before, "\n\n0\n", 4) == 0);
    do_all(b, &p);
    CHECK_STR(left_behind(box_pooler()), before);
    /* Neither after errors. */
    postgres_query(p.conninfo, "REVOKE ALL ON outbox.event FROM postgres; ALTER ROLE postgres NOSUPERUSER");
    outbox_fetch(b->outbox, &(struct outbox_fetch){.rows = 100, .bytes = 1 << 20});
    outbox_mark(b->outbox, &(int64_t){4}, &(struct row_event_id){{1}}, 1, false);
    BOX_UNTIL(b, b->failed_n == 2, 10);
    check_says(b->reason, "permission denied");
    CHECK_EQ(b->lost_n, 0);
    CHECK_STR(left_behind(box_pooler()), before);
    box_free(b);
}

/* Whatever others left there must not matter. */
TEST_WITHIN(outbox_pooled_survives_what_others_left_behind, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;

    box_pool_with("default_pool_size = 1");
    b = box_ready(&p);
    postgres_query(p.conninfo, "CREATE SCHEMA evil; CREATE FUNCTION evil.coalesce_me() RETURNS int LANGUAGE sql AS 'SELECT 1';"
                               "CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil''; END';"
                               "CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS"
                               " 'BEGIN RAISE EXCEPTION ''evil''; END'");
    postgres_query(box_pooler()->conninfo,
                   "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE;"
                   "SET search_path = evil, pg_catalog; SET statement_timeout = 5000; SET lock_timeout = 1; SET enable_indexscan = off;"
                   "SET synchronous_commit = off; SET plan_cache_mode = force_custom_plan; SET idle_in_transaction_session_timeout = 1;"
                   "PREPARE \"fetch\" AS SELECT 1; PREPARE beat AS SELECT 2; PREPARE mark AS SELECT 3");
    do_all(b, &p);
    CHECK_STR(postgres_query(box_pooler()->conninfo, "SHOW default_transaction_isolation"), "serializable");
    /* A flush is forced by a commit that waits for the disk, and a save is on it. */
    CHECK_EQ(b->lost_n + b->failed_n, 0);
    box_connect(b);
    CHECK(box_take(b));
    box_free(b);
}

/* --- which form ----------------------------------------------------------------------------------------------------- */

/* A relay that is not told of the pooler must stop before it sets anything. */
TEST_WITHIN(outbox_start_refuses_a_pooler_unless_pooled, 60)
{
    struct postgres p = box_postgres(NULL);
    struct pgbouncer pooler = pgbouncer_start(&p, "default_pool_size = 1");
    struct pgbouncer of_sessions = pgbouncer_start(&p, "pool_mode = session");
    struct box *b = box_new(pooler.conninfo);

    box_connect_refused(b);
    check_says(b->reason, "set pooled = on");
    CHECK(strncmp(left_behind(&pooler), "\n\n0\n", 4) == 0);
    box_free(b);
    b = box_new(of_sessions.conninfo);
    box_connect_refused(b);
    check_says(b->reason, "set pooled = on");
    box_free(b);

    /* Pooled works in front of sessions, too, and where there is no pooler. */
    const char *const both[] = {of_sessions.conninfo, p.conninfo};
    for (unsigned i = 0; i < 2; i++) {
        struct outbox_settings settings = box_settings(both[i]);
        settings.pooled = true;
        b = box_new_with(&settings);
        box_connect(b);
        CHECK(box_take(b));
        do_all(b, &p);
        box_release(b);
        box_free(b);
        postgres_query(p.conninfo, "TRUNCATE outbox.event RESTART IDENTITY");
    }
}

/* A transaction that is one message is a statement to PgBouncer. Only an error costs the connection. */
TEST_WITHIN(outbox_pooled_works_with_statement_pooling, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;

    box_pool_with("pool_mode = statement");
    b = box_ready(&p);
    do_all(b, &p);
    postgres_query(p.conninfo, "DROP FUNCTION outbox.beat");
    outbox_beat(b->outbox);
    BOX_UNTIL(b, b->lost_n == 1, 10);
    box_free(b);
}

struct findings {
    unsigned bad_n;
    char text[4000];
};

static void on_finding(void *data, bool bad, const char *sentence)
{
    struct findings *f = data;

    f->bad_n += bad;
    strncat(f->text, sentence, sizeof f->text - strlen(f->text) - 2);
    strcat(f->text, "\n");
}

static struct findings check(const char *conninfo, bool pooled)
{
    struct findings f = {0};
    struct outbox_settings settings = box_settings(conninfo);

    settings.pooled = pooled;
    bool good = outbox_check(&settings, &(struct outbox_report){.finding = on_finding, .data = &f});
    CHECK_EQ(good, f.bad_n == 0);
    return f;
}

TEST_WITHIN(check_sees_a_pooler, 60)
{
    struct postgres p = box_postgres(NULL);
    struct pgbouncer pooler = pgbouncer_start(&p, "default_pool_size = 1");
    struct findings f = check(pooler.conninfo, false);

    CHECK_EQ(f.bad_n, 1);
    check_says(f.text, "set pooled = on");
    CHECK(strncmp(left_behind(&pooler), "\n\n0\n", 4) == 0);
    f = check(pooler.conninfo, true);
    CHECK_EQ(f.bad_n, 0);
    check_says(f.text, "a connection pooler is in between, and pooled is on");
    check_says(f.text, "the lease is free");
    CHECK(strncmp(left_behind(&pooler), "\n\n0\n", 4) == 0);
    f = check(p.conninfo, true);
    CHECK_EQ(f.bad_n, 0);
    check_says(f.text, "no pooler is seen");
    f = check(p.conninfo, false);
    CHECK_EQ(f.bad_n, 0);
    CHECK(strstr(f.text, "pool") == NULL);
}

/* A migration needs nothing of a session. */
TEST_WITHIN(migrate_through_a_pooler, 60)
{
    struct postgres p = postgres_start(NULL);
    struct pgbouncer pooler = pgbouncer_start(&p, "default_pool_size = 1");
    struct outbox_settings settings = box_settings(pooler.conninfo);
    struct findings f = {0};
    char error[800] = "";

    settings.pooled = true;
    if (!outbox_migrate(&settings, false, &(struct outbox_report){.finding = on_finding, .data = &f}, error, sizeof error))
        test_fail(__FILE__, __LINE__, "%s", error);
    CHECK(strncmp(left_behind(&pooler), "\n\n0\n", 4) == 0);
    CHECK_EQ(check(pooler.conninfo, true).bad_n, 0);
}
