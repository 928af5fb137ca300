/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks, saves, flushes, pins. */
#include <string.h>

#include "tests/edge/outbox_box.h"

static struct box *box_ready(const struct postgres *p, enum outbox_mark_mode mark)
{
    struct outbox_settings settings = box_settings(p->conninfo);
    struct box *b;

    settings.mark = mark;
    b = box_new_with(&settings);
    box_connect(b);
    CHECK(box_take(b));
    return b;
}

static void insert(const struct postgres *p, unsigned n)
{
    postgres_query(p->conninfo,
                   "INSERT INTO outbox.event (event_id, topic, key) SELECT gen_random_uuid(), 't', 'k' FROM generate_series(1, %u) i", n);
}

static int64_t unsent(const struct postgres *p)
{
    return postgres_number(p->conninfo, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL");
}

/* Design review 5: an id alone names nothing. */
BOX_TEST_WITHIN(outbox_marks_by_pair, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT);

    insert(&p, 10);
    CHECK_EQ(box_fetch(b, 0), 10);
    postgres_query(p.conninfo, "UPDATE outbox.event SET event_id = gen_random_uuid() WHERE id = 3; DELETE FROM outbox.event WHERE id = 5");
    box_mark(b, 0, 8);
    CHECK(b->missed_n == 2 && b->missed[0] == 3 && b->missed[1] == 5);
    CHECK_STR(postgres_query(p.conninfo, "SELECT string_agg(id::text, ',' ORDER BY id) FROM outbox.event WHERE sent_at IS NULL"), "3,9,10");
    /* A mark whose answer was lost is sent again; what is not there is told again. */
    box_mark_again(b, 0, 8);
    CHECK(b->missed_n == 2 && b->missed[0] == 3 && b->missed[1] == 5);
    box_free(b);
}

static void check_id_twice(enum outbox_mark_mode mode, uint32_t there)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, mode);
    struct row row;

    insert(&p, 5);
    CHECK_EQ(box_fetch(b, 0), 5);
    row = b->rows[1];
    for (uint32_t i = 0; i < 3; i++) {
        b->rows[1 + i] = row;
        if (i != there)
            b->rows[1 + i].event_id.bytes[0] ^= (unsigned char)(i + 1);
    }
    box_mark(b, 0, 5);
    CHECK(b->missed_n == 2 && b->missed[0] == 2 && b->missed[1] == 2);
    CHECK_STR(postgres_query(p.conninfo, "SELECT string_agg(id::text, ',' ORDER BY id) FROM outbox.event WHERE sent_at IS NULL"), "3,4");
    box_free(b);
}

/* An id that a failover gave away again: several events of one id may be acknowledged, and one of them is there. */
BOX_TEST_WITHIN(outbox_marks_the_event_that_is_there_where_several_had_its_id, 60)
{
    for (uint32_t there = 0; there < 3; there++) {
        check_id_twice(OUTBOX_MARK_SENT_AT, there);
        check_id_twice(OUTBOX_MARK_DELETE, there);
    }
}

/* An id is found where the ids before it end, whatever lies between them. */
BOX_TEST_WITHIN(outbox_marks_ids_with_holes, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT);

    insert(&p, 3000);
    postgres_query(p.conninfo, "DELETE FROM outbox.event WHERE id %% 7 = 0 OR id BETWEEN 500 AND 1500");
    CHECK_EQ(box_fetch_with(b, &(struct outbox_fetch){.rows = 3000, .bytes = 64 << 20}),
             postgres_number(p.conninfo, "SELECT count(*) FROM outbox.event"));
    box_mark(b, 1, b->read.rows_n - 2);
    CHECK_EQ(b->missed_n, 0);
    CHECK_STR(postgres_query(p.conninfo, "SELECT string_agg(id::text, ',' ORDER BY id) FROM outbox.event WHERE sent_at IS NULL"), "1,3000");
    box_free(b);
}

BOX_TEST_WITHIN(outbox_marks_by_deleting, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_DELETE);

    insert(&p, 10);
    CHECK_EQ(box_fetch(b, 0), 10);
    postgres_query(p.conninfo, "UPDATE outbox.event SET event_id = gen_random_uuid() WHERE id = 3");
    box_mark(b, 0, 8);
    CHECK(b->missed_n == 1 && b->missed[0] == 3);
    CHECK_STR(postgres_query(p.conninfo, "SELECT string_agg(id::text, ',' ORDER BY id) FROM outbox.event"), "3,9,10");
    box_mark_again(b, 0, 9); /* design review 31: who deleted the first eight, nobody can tell */
    CHECK_EQ(b->missed_n, 0);
    CHECK_STR(postgres_query(p.conninfo, "SELECT string_agg(id::text, ',' ORDER BY id) FROM outbox.event"), "3,10");
    box_free(b);
}

/* A mark of the largest size is 640 KB: more than a socket takes at once. */
BOX_TEST_WITHIN(outbox_marks_many_at_once, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT);

    insert(&p, 25000);
    CHECK_EQ(box_fetch_with(b, &(struct outbox_fetch){.rows = 25000, .bytes = 64 << 20}), 25000);
    box_mark(b, 0, 25000);
    CHECK_EQ(b->missed_n, 0);
    CHECK_EQ(unsent(&p), 0);
    box_free(b);
}

/* Marks do not wait for the disk nor for a standby; saves wait for the disk only (design review 26): nothing here hangs. Design review
 * 12: neither leaves its level behind. */
BOX_TEST_WITHIN(outbox_never_waits_for_a_missing_standby, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;
    uint32_t topic;

    insert(&p, 10);
    postgres_settings(&p, "synchronous_standby_names = 'nobody'");
    postgres_reload(&p);
    WAIT_UNTIL(strcmp(postgres_query(p.conninfo, "SHOW synchronous_standby_names"), "nobody") == 0, 10);
    b = box_ready(&p, OUTBOX_MARK_SENT_AT);
    CHECK_EQ(box_fetch(b, 0), 10);
    topic = b->rows[0].topic;
    box_mark(b, 0, 10);
    CHECK_EQ(b->missed_n, 0);
    CHECK(box_save(b, 10, &(struct relay_behind){.topic = topic, .partition = 1, .first_id = 11}, 1));
    box_flush(b, true);
    box_beat(b);
    CHECK(b->held);
    CHECK_EQ(box_pin(b, topic, 12), 12);
    box_release(b);
    box_free(b);
}

/* Floor and records together, changed ones only. */
BOX_TEST_WITHIN(outbox_saves_floor_and_behind, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT);
    struct relay_behind changes[3];
    uint32_t topic;

    insert(&p, 10);
    (void)box_fetch(b, 0);
    topic = b->rows[0].topic;
    CHECK(box_save(b, 3, NULL, 0));
    changes[0] = (struct relay_behind){.topic = topic, .partition = 2, .first_id = 4};
    changes[1] = (struct relay_behind){.topic = topic, .partition = RELAY_WHOLE_TOPIC, .first_id = 5};
    changes[2] = (struct relay_behind){
        .topic = topic, .partition = RELAY_UNPLACED, .key_hash = 0xfedcba9876543210u, .first_id = 6, .attempts = 7, .held = true};
    CHECK(box_save(b, 4, changes, 3));
    CHECK_STR(postgres_query(p.conninfo, "SELECT floor, (SELECT count(*) FROM outbox.behind) FROM outbox.position"), "4\t3");
    changes[0].first_id = 0;
    changes[1].first_id = 9;
    CHECK(box_save(b, 8, changes, 2));
    CHECK_STR(postgres_query(p.conninfo, "SELECT partition, key_hash, first_id, attempts, held FROM outbox.behind ORDER BY partition"),
              "-2\t-81985529216486896\t6\t7\tt\n-1\t0\t9\t0\tf");

    /* And that is what the next grant brings. */
    CHECK(box_take(b));
    CHECK_EQ(b->saved.floor, 8);
    CHECK_EQ(b->saved.last_id, 10);
    CHECK(!b->saved.floor_reset);
    CHECK_EQ(b->saved.behind_n, 2);
    for (unsigned i = 0; i < 2; i++)
        if (b->behind[i].partition == RELAY_UNPLACED) {
            CHECK(b->behind[i].key_hash == 0xfedcba9876543210u);
            CHECK(b->behind[i].topic == topic && b->behind[i].first_id == 6 && b->behind[i].attempts == 7 && b->behind[i].held);
        }
    box_free(b);
}

/* Design review 33: the lease row survives a crash; the row of incarnation does not. */
BOX_TEST_WITHIN(outbox_save_is_fenced_by_incarnation, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT);

    insert(&p, 10);
    CHECK(box_save(b, 5, NULL, 0));
    postgres_query(p.conninfo, "UPDATE outbox.incarnation SET token = gen_random_uuid()");
    CHECK(!box_save(b, 6, NULL, 0));
    postgres_query(p.conninfo, "DELETE FROM outbox.incarnation");
    CHECK(!box_save(b, 6, NULL, 0));
    CHECK_EQ(postgres_number(p.conninfo, "SELECT floor FROM outbox.position"), 5);
    box_free(b);
}

/* Design review 34: a save that waits for a grant is refused; one that came first is read by it. */
BOX_TEST_WITHIN(outbox_save_is_fenced_by_the_lease_row, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT), *other;

    insert(&p, 10);
    CHECK(box_save(b, 5, NULL, 0));
    postgres_query(p.conninfo, "UPDATE outbox.beat SET expires_at = '-infinity'");
    other = box_new(p.conninfo);
    box_connect(other);
    CHECK(box_take(other));
    CHECK_EQ(other->saved.floor, 5);
    CHECK(!box_save(b, 9, NULL, 0));
    CHECK(box_save(other, 6, NULL, 0));
    CHECK_EQ(postgres_number(p.conninfo, "SELECT floor FROM outbox.position"), 6);
    box_beat(b);
    CHECK(!b->held);
    box_beat(other);
    CHECK(other->held);
    box_free(other);
    box_free(b);
}

/* Each fence is one by itself; and a save that meets a grant which is not committed yet waits for it, and is refused. */
BOX_TEST_WITHIN(outbox_save_waits_for_a_grant, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT);

    insert(&p, 10);
    CHECK(box_save(b, 5, NULL, 0));
    postgres_query(p.conninfo, "UPDATE outbox.beat SET expires_at = '-infinity'");
    struct process grant = process_start(
        (const char *[]){"psql", "-Xq", p.conninfo, "-c",
                         "BEGIN; SELECT outbox.take(gen_random_uuid(), gen_random_uuid(), 'x', 10000, 'outbox.event_id_seq', 0);"
                         " SELECT pg_sleep(1); COMMIT",
                         NULL},
        NULL, NULL);
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1, 10);
    CHECK(!box_save(b, 9, NULL, 0));
    CHECK_EQ(process_wait(&grant, 10), 0);
    CHECK_EQ(postgres_number(p.conninfo, "SELECT floor FROM outbox.position"), 5);
    CHECK(!box_take(b));
    postgres_query(p.conninfo, "UPDATE outbox.beat SET expires_at = '-infinity'");
    CHECK(box_take(b));
    postgres_query(p.conninfo, "UPDATE outbox.lease SET token = gen_random_uuid()");
    CHECK(!box_save(b, 9, NULL, 0));
    CHECK_EQ(postgres_number(p.conninfo, "SELECT floor FROM outbox.position"), 5);
    box_free(b);
}

/* Design review 12 and 23: what a plain flush read may not cover, a forced one does. */
BOX_TEST_WITHIN(outbox_forced_flush_covers_asynchronous_commits, 60)
{
    struct postgres p = box_postgres("wal_writer_delay = 10s\nwal_writer_flush_after = 0\nfull_page_writes = off");
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT);
    unsigned waited = 0;

    for (unsigned i = 0; i < 5; i++) {
        postgres_query(p.conninfo,
                       "SET synchronous_commit = off; INSERT INTO outbox.event (event_id, topic) VALUES (gen_random_uuid(), 't')");
        CHECK_EQ(box_fetch(b, 0), i + 1);
        waited += b->read.flush_lsn < b->read.insert_lsn;
        box_flush(b, true);
        CHECK(b->flush_lsn >= b->read.insert_lsn);
        CHECK(box_token_is(b, b->read.token));
        box_flush(b, false);
        CHECK(b->flush_lsn >= b->read.insert_lsn);
    }
    CHECK(waited > 0);
    box_free(b);
}

/* Design review 30: a mark does not wait for the disk, in either mode, and what comes after it on the same connection does. */
static void check_asynchronous(enum outbox_mark_mode mode)
{
    struct postgres p = box_postgres("wal_writer_delay = 10s\nwal_writer_flush_after = 0\nfull_page_writes = off");
    struct box *b = box_ready(&p, mode);
    static const char not_flushed[] = "SELECT (pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn())::int";

    insert(&p, 10);
    CHECK_EQ(box_fetch(b, 0), 10);
    CHECK_EQ(postgres_number(p.conninfo, not_flushed), 0);
    box_mark(b, 0, 8);
    CHECK_EQ(postgres_number(p.conninfo, not_flushed), 1);
    CHECK(box_save(b, 8, NULL, 0));
    CHECK_EQ(postgres_number(p.conninfo, not_flushed), 0);
    box_free(b);
}

BOX_TEST_WITHIN(outbox_marks_do_not_wait_for_the_disk, 60)
{
    check_asynchronous(OUTBOX_MARK_SENT_AT);
    check_asynchronous(OUTBOX_MARK_DELETE);
}

/* The first count stays. */
BOX_TEST_WITHIN(outbox_pins_once, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p, OUTBOX_MARK_SENT_AT);
    uint32_t topic;
    unsigned before;

    insert(&p, 1);
    (void)box_fetch(b, 0);
    topic = b->rows[0].topic;
    CHECK_EQ(box_pin(b, topic, 0), 0);
    CHECK_EQ(box_pin(b, topic, 6), 6);
    CHECK_EQ(box_pin(b, topic, 12), 6);
    CHECK_EQ(box_pin(b, topic, 0), 6);
    /* Several at once. */
    before = b->pinned_n;
    for (unsigned i = 0; i < 5; i++)
        outbox_pin(b->outbox, topic, 3);
    BOX_UNTIL(b, b->pinned_n == before + 5, 10);
    CHECK_EQ(b->pinned_count, 6);
    box_free(b);
}

/* A mark that waits for a lock fails at its time; the connection lives, and the lease is kept meanwhile (design review 20). */
BOX_TEST_WITHIN(outbox_mark_behind_a_lock_fails_alone, 60)
{
    struct postgres p = box_postgres(NULL);
    struct outbox_settings settings = box_settings(p.conninfo);
    struct box *b;

    settings.statement_ms = 500;
    b = box_new_with(&settings);
    box_connect(b);
    CHECK(box_take(b));
    insert(&p, 10);
    CHECK_EQ(box_fetch(b, 0), 10);
    struct process holder = process_start((const char *[]){"psql", "-Xq", p.conninfo, "-c",
                                                           "BEGIN; LOCK TABLE outbox.event IN EXCLUSIVE MODE;"
                                                           " SELECT pg_sleep(60)",
                                                           NULL},
                                          NULL, NULL);
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT count(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND granted"
                                           " AND relation = 'outbox.event'::regclass") == 1,
               10);
    outbox_mark(b->outbox, &b->rows[0].id, &b->rows[0].event_id, 1, false);
    box_beat(b);
    CHECK(b->held);
    BOX_UNTIL(b, b->failed_n == 1, 10);
    CHECK_EQ(b->failed, RELAY_MARK);
    CHECK(strstr(b->reason, "statement timeout") != NULL);
    CHECK_EQ(b->lost_n, 0);
    process_signal(&holder, 9);
    postgres_query(p.conninfo,
                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'BEGIN; LOCK%%' AND pid <> pg_backend_pid()");
    box_mark(b, 0, 10);
    CHECK_EQ(b->missed_n, 0);
    box_free(b);
}
