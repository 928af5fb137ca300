/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that end at any time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/edge/outbox_box.h"

static void insert(const struct postgres *p, unsigned n)
{
    postgres_query(p->conninfo,
                   "INSERT INTO outbox.event (event_id, topic, key, payload) SELECT gen_random_uuid(), 't', 'k' || i,"
                   " decode(repeat('ab', 300), 'hex') FROM generate_series(1, %u) i",
                   n);
}

static void kill_some(const struct postgres *p, const char *which)
{
    postgres_query(p->conninfo, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay %s'",
                   which);
}

/* One is lost, all are closed, and it is told once; rows that are held stay. (Connections to a
 * pooler: outbox_loses_all_connections_to_a_pooler_together.) */
TEST_WITHIN(outbox_loses_all_connections_together, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_new(p.conninfo);
    const char *const which[] = {"read%%", "mark%%", "lease%%", "%%"};
    struct outbox_row row;

    insert(&p, 10);
    b->keep = true;
    for (unsigned i = 0; i < 4; i++) {
        box_connect(b);
        CHECK(box_take(b));
        if (i == 0)
            CHECK_EQ(box_fetch(b, 0), 10);
        CHECK_EQ(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay%%'"), 3);
        kill_some(&p, which[i]);
        BOX_UNTIL(b, b->lost_n == i + 1, 10);
        CHECK(strstr(b->reason, "terminating connection due to administrator command") != NULL);
        WAIT_UNTIL((box_turn(b),
                    postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay%%'")) == 0,
                   10);
        CHECK_EQ(b->lost_n, i + 1);
    }
    outbox_row(b->outbox, b->slots[9], &row);
    CHECK(row.key_n == 3 && memcmp(row.key, "k10", 3) == 0);
    box_free(b);
}

/* Everything is outstanding when it happens: each is answered before, or never; and what was outstanding may be sent again at once. */
BOX_TEST_WITHIN(outbox_survives_being_terminated_at_any_time, 120)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_new(p.conninfo);
    struct process killer;

    insert(&p, 3000);
    killer = process_start((const char *[]){"psql", "-Xq", p.conninfo, "-c",
                                            "DO $$ BEGIN FOR i IN 1..400 LOOP"
                                            " PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"
                                            " 'outbox-relay%' AND random() < 0.4; PERFORM pg_stat_clear_snapshot();"
                                            /* one in eight leaves time for a fetch to be answered */
                                            " PERFORM pg_sleep(random() * CASE WHEN i % 8 = 0 THEN 0.15 ELSE 0.02 END); END LOOP; END $$",
                                            NULL},
                           NULL, NULL);
    unsigned connected_n = 0, fetched_n = 0;
    while (process_running(&killer)) {
        unsigned lost_before = b->lost_n, connected_before = b->connected_n;
        outbox_connect(b->outbox);
        BOX_UNTIL(b, b->lost_n > lost_before || b->connected_n > connected_before, 10);
        if (b->connected_n == connected_before)
            continue;
        connected_n++;
        while (b->lost_n == lost_before && b->failed_n == 0) {
            struct {
                unsigned fetched, marked, saved, flushed, beaten;
            } n = {b->fetched_n, b->marked_n, b->saved_n, b->flushed_n, b->beaten_n};
            bool marking = b->read.rows_n > 0;
            outbox_fetch(b->outbox, &(struct outbox_fetch){.from = 0, .rows = 500, .bytes = 1 << 20});
            outbox_beat(b->outbox);
            outbox_flush(b->outbox, true);
            outbox_save(b->outbox, 0, NULL, 0);
            if (marking)
                outbox_mark(b->outbox, &b->rows[0].id, &b->rows[0].event_id, 1, false);
            BOX_UNTIL(b,
                      b->lost_n > lost_before || (b->fetched_n > n.fetched && b->saved_n > n.saved && b->flushed_n > n.flushed &&
                                                  b->beaten_n > n.beaten && b->marked_n >= n.marked + marking),
                      10);
            fetched_n += b->fetched_n > n.fetched;
            if (!process_running(&killer))
                break;
        }
        CHECK_EQ(b->failed_n, 0);
    }
    CHECK(connected_n > 5 && fetched_n > 0 && b->lost_n > 5);
    box_connect(b);
    CHECK(box_take(b));
    CHECK(box_fetch(b, 0) > 0);
    CHECK_EQ(outbox_bytes(b->outbox), 0);
    box_free(b);
}

/* The table was replaced, or a statement's result has other columns now: the next start says so, or works.
 * (Behind a pooler every statement is planned anew: outbox_goes_on_behind_a_pooler_when_the_table_changed.) */
TEST_WITHIN(outbox_connects_anew_when_the_table_changed, 60)
{
    struct postgres p = box_postgres(NULL);
    const struct outbox_fetch summed = {.from = 0, .rows = 500, .bytes = 450000}; /* of less than 1 KB a row */
    struct box *b = box_new(p.conninfo);

    insert(&p, 10);
    box_connect(b);
    CHECK(box_take(b));
    CHECK_EQ(box_fetch(b, 0), 10);
    CHECK_EQ(box_fetch_with(b, &summed), 10);
    postgres_query(p.conninfo, "DROP TRIGGER event_moved ON outbox.event; ALTER TABLE outbox.event ALTER partition TYPE bigint");
    CHECK_EQ(box_fetch(b, 0), 10); /* a small read's columns are what they were */
    outbox_fetch(b->outbox, &summed);
    BOX_UNTIL(b, b->lost_n == 1, 10);
    box_connect(b);
    CHECK_EQ(box_fetch(b, 0), 10);
    postgres_query(p.conninfo, "DROP TABLE outbox.event");
    outbox_fetch(b->outbox, &(struct outbox_fetch){.from = 0, .rows = 500, .bytes = 1 << 20});
    BOX_UNTIL(b, b->lost_n == 2, 10);
    box_connect_refused(b);
    CHECK(strstr(b->reason, "correct the setting `table`") != NULL);
    box_free(b);
}

/* A server that takes no more connections is an outage like another. */
BOX_TEST_WITHIN(outbox_tells_why_it_cannot_connect, 60)
{
    struct postgres p = box_postgres("max_connections = 5\nsuperuser_reserved_connections = 3");
    struct outbox_settings settings = box_settings(p.conninfo);
    char conninfo[400];
    struct box *b;

    postgres_query(p.conninfo, "CREATE ROLE sidecar LOGIN IN ROLE outbox_relay");
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=sidecar dbname=postgres", p.socket_folder, p.port);
    settings.database = conninfo;
    b = box_new_with(&settings);
    box_connect_refused(b);
    CHECK(strstr(b->reason, "cannot connect to the database: ") != NULL && strstr(b->reason, "connection slots") != NULL);
    /* Those that were open are closed again. */
    WAIT_UNTIL((box_turn(b), postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'sidecar'")) == 0, 10);
    box_free(b);
}

/* Freed at any time. */
BOX_TEST_WITHIN(outbox_is_freed_at_any_time, 60)
{
    struct postgres p = box_postgres(NULL);

    insert(&p, 2000);
    for (unsigned i = 0; i < 40; i++) {
        struct box *b = box_new(p.conninfo);
        outbox_connect(b->outbox);
        for (unsigned turns = 0; turns < i && b->connected_n == 0; turns++)
            (void)uv_run(&b->loop, UV_RUN_ONCE);
        if (b->connected_n > 0) {
            outbox_fetch(b->outbox, &(struct outbox_fetch){.from = 0, .rows = 2000, .bytes = 1 << 20});
            outbox_take(b->outbox, 0);
            for (unsigned turns = 0; turns < i / 10; turns++)
                (void)uv_run(&b->loop, UV_RUN_ONCE);
        }
        box_free(b);
    }
}
