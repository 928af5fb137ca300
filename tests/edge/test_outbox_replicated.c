/* SPDX-License-Identifier: BSD-2-Clause */
/* durability = replicated: a flush is one on the synchronous standbys. */
#include <stdio.h>
#include <string.h>

#include "tests/edge/outbox_box.h"

#define WAITING "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

static struct box *box_replicated(const struct postgres *p)
{
    struct outbox_settings settings = box_settings(p->conninfo);
    struct box *b;

    settings.replicated = true;
    settings.statement_ms = 500; /* the wait for standbys is not bounded by it */
    b = box_new_with(&settings);
    return b;
}

static void name_standbys(struct postgres *p, const char *names)
{
    char line[100];

    snprintf(line, sizeof line, "synchronous_standby_names = '%s'", names);
    postgres_settings(p, line);
    postgres_reload(p);
    WAIT_UNTIL(strcmp(postgres_query(p->conninfo, "SHOW synchronous_standby_names"), names) == 0, 10);
}

/* Written without waiting for anybody. */
static void insert(const struct postgres *p)
{
    postgres_query(p->conninfo, "SET synchronous_commit = off; INSERT INTO outbox.event (event_id, topic) VALUES (gen_random_uuid(), 't')");
}

static uint64_t lsn(const char *conninfo, const char *function)
{
    return (uint64_t)postgres_number(conninfo, "SELECT %s() - '0/0'::pg_lsn", function);
}

BOX_TEST_WITHIN(outbox_replicated_flush_is_on_the_standby, 90)
{
    struct postgres p = box_postgres(NULL), standby = postgres_standby(&p, "second", NULL);
    struct box *b;

    name_standbys(&p, "second");
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1, 20);
    b = box_replicated(&p);
    box_connect(b);
    CHECK(box_take(b));
    for (unsigned i = 0; i < 20; i++) {
        insert(&p);
        CHECK_EQ(box_fetch(b, (int64_t)i), 1);
        box_flush(b, i % 2 == 0);
        CHECK(box_token_is(b, b->read.token));
        CHECK(b->flush_lsn > b->read.insert_lsn);
        CHECK(b->flush_lsn <= lsn(standby.conninfo, "pg_last_wal_receive_lsn"));
    }
    box_free(b);
}

/* Rows wait as long as the standby is away. Everything else goes on, and nothing gives up: neither a timeout nor a deadline. */
BOX_TEST_WITHIN(outbox_replicated_flush_waits_and_nothing_else_does, 90)
{
    struct postgres p = box_postgres(NULL), standby = postgres_standby(&p, "second", NULL);
    struct box *b;
    uint64_t began_ms;

    name_standbys(&p, "second");
    postgres_kill(&standby);
    insert(&p);
    b = box_replicated(&p);
    box_connect(b);
    CHECK(box_take(b));
    CHECK_EQ(box_fetch(b, 0), 1);
    outbox_flush(b->outbox, true);
    BOX_UNTIL(b, postgres_number(p.conninfo, WAITING) == 1, 10);
    for (began_ms = test_now_ms(); test_now_ms() < began_ms + 2000;) { /* longer than statement_ms and its deadline */
        box_mark(b, 0, 1);
        CHECK(box_save(b, 1, NULL, 0));
        box_beat(b);
        CHECK(b->held);
        CHECK_EQ(box_pin(b, b->rows[0].topic, 3), 3);
        box_writers(b);
        CHECK_EQ(b->writers_count, 0);
    }
    CHECK_EQ(b->flushed_n + b->failed_n + b->lost_n, 0);
    postgres_restart(&standby);
    BOX_UNTIL(b, b->flushed_n == 1, 30);
    CHECK(b->flush_lsn > b->read.insert_lsn);
    CHECK_EQ(b->failed_n + b->lost_n, 0);
    box_free(b);
}

/* A wait that an administrator cancels ends with a warning, and the commit stands here only. */
BOX_TEST_WITHIN(outbox_replicated_flush_that_was_cancelled_is_none, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;

    name_standbys(&p, "nobody");
    b = box_replicated(&p);
    box_connect(b);
    CHECK(box_take(b));
    for (unsigned i = 1; i <= 2; i++) {
        outbox_flush(b->outbox, true);
        BOX_UNTIL(b, postgres_number(p.conninfo, WAITING) == 1, 10);
        postgres_query(p.conninfo, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        BOX_UNTIL(b, b->failed_n == i, 10);
        CHECK(b->failed == RELAY_FLUSH && strstr(b->reason, "was cancelled") != NULL);
        CHECK_EQ(b->flushed_n + b->lost_n, 0);
    }
    box_free(b);
}

/* Nobody to wait for is no durability, at the start and later: the server then lets go whoever waits. */
BOX_TEST_WITHIN(outbox_replicated_wants_a_standby_to_be_named, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_replicated(&p);

    box_connect_refused(b);
    CHECK(strstr(b->reason, "durability is replicated, and the server names no synchronous standby") != NULL);
    name_standbys(&p, "nobody");
    box_connect(b);
    CHECK(box_take(b));
    outbox_flush(b->outbox, true);
    BOX_UNTIL(b, postgres_number(p.conninfo, WAITING) == 1, 10);
    name_standbys(&p, "");
    BOX_UNTIL(b, b->lost_n == 2, 10);
    CHECK_EQ(b->flushed_n, 0);
    CHECK(strstr(b->reason, "names no synchronous standby") != NULL);
    box_connect_refused(b);
    box_free(b);
}
