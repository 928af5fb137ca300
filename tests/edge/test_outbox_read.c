/* SPDX-License-Identifier: BSD-2-Clause */
/* What a fetch and a catch-up bring, and what they cost. */
#include <string.h>

#include "relay/core/hash.h"
#include "tests/edge/outbox_box.h"

static void insert(const struct postgres *p, unsigned n)
{
    postgres_query(p->conninfo,
                   "INSERT INTO outbox.event (event_id, topic, key, payload, headers) SELECT gen_random_uuid(), 't' || i %% 2, 'k' || i,"
                   " decode(md5(i::text), 'hex'), CASE WHEN i %% 2 = 0 THEN '{\"a\":\"b\"}'::jsonb END FROM generate_series(1, %u) i",
                   n);
}

static struct box *box_ready(const struct postgres *p)
{
    struct box *b = box_new(p->conninfo);
    box_connect(b);
    CHECK(box_take(b));
    return b;
}

/* Every column arrives as it was written. */
BOX_TEST_WITHIN(outbox_fetch_brings_rows_whole, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    struct outbox_row row;

    postgres_query(p.conninfo, "INSERT INTO outbox.event (event_id, topic, key, payload, headers, partition, created_at) VALUES"
                               " ('00112233-4455-6677-8899-aabbccddeeff', 'orders', 'k1', '\\x000102', '{\"a\": \"b\"}', 7,"
                               "  '2026-01-02 03:04:05.678Z'),"
                               " (gen_random_uuid(), 'orders', NULL, NULL, NULL, NULL, DEFAULT),"
                               " (gen_random_uuid(), 'other', '', '', '{}', NULL, DEFAULT)");
    b->keep = true;
    CHECK_EQ(box_fetch(b, 0), 3);
    CHECK(box_token_is(b, b->read.token));
    CHECK_EQ(b->read.upto, INT64_MAX);
    CHECK(b->read.insert_lsn > 0 && b->read.flush_lsn > 0);
    CHECK_EQ(b->rows[0].id, 1);
    CHECK(memcmp(b->rows[0].event_id.bytes, "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16) == 0);
    CHECK_EQ(b->rows[0].spread, hash_murmur2("k1", 2));
    CHECK(b->rows[0].key_hash == hash_key("orders", 6, "k1", 2));
    CHECK_EQ(b->rows[0].partition, 7);
    CHECK(!b->rows[0].settled);
    CHECK_STR(outbox_topic(b->outbox, b->rows[0].topic), "orders");

    outbox_row(b->outbox, b->slots[0], &row);
    CHECK(row.key_n == 2 && memcmp(row.key, "k1", 2) == 0);
    CHECK(row.payload_n == 3 && memcmp(row.payload, "\0\1\2", 3) == 0);
    CHECK(row.headers_n == 10 && memcmp(row.headers, "{\"a\": \"b\"}", 10) == 0);
    CHECK_EQ(row.created_ms, 1767323045678);
    CHECK(!row.too_large);

    CHECK_EQ(b->rows[1].topic, b->rows[0].topic);
    CHECK(b->rows[1].key_hash == 0);
    CHECK_EQ(b->rows[1].spread, hash_murmur2(b->rows[1].event_id.bytes, 16));
    CHECK_EQ(b->rows[1].partition, -1);
    outbox_row(b->outbox, b->slots[1], &row);
    CHECK(row.key == NULL && row.payload == NULL && row.headers == NULL);

    /* Empty is not NULL. */
    outbox_row(b->outbox, b->slots[2], &row);
    CHECK(row.key != NULL && row.key_n == 0 && row.payload != NULL && row.payload_n == 0);
    CHECK(b->rows[2].key_hash != 0);
    CHECK_STR(outbox_topic(b->outbox, row.topic), "other");

    CHECK(outbox_bytes(b->outbox) > 0);
    for (unsigned i = 0; i < 3; i++)
        outbox_drop(b->outbox, b->slots[i]);
    CHECK_EQ(outbox_bytes(b->outbox), 0);
    box_free(b);
}

/* Nothing to read is an answer too: the token and the log positions come with it. */
BOX_TEST_WITHIN(outbox_fetch_of_nothing_brings_the_token, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);

    CHECK_EQ(box_fetch(b, 0), 0);
    CHECK(box_token_is(b, b->read.token));
    CHECK_EQ(b->read.upto, INT64_MAX);
    CHECK(b->read.insert_lsn > 0);
    postgres_query(p.conninfo, "DELETE FROM outbox.incarnation");
    CHECK_EQ(box_fetch(b, 0), 0);
    CHECK(!box_token_is(b, b->read.token));
    box_free(b);
}

/* Design review 3: gaps first, whole up to the last row that came. */
BOX_TEST_WITHIN(outbox_fetch_reads_gaps_before_the_tail, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    const int64_t firsts[] = {2, 5}, lasts[] = {3, 5};
    struct outbox_fetch fetch = {.from = 7, .firsts = firsts, .lasts = lasts, .gaps_n = 2, .rows = 100, .bytes = 1 << 20};

    insert(&p, 10);
    CHECK_EQ(box_fetch_with(b, &fetch), 6);
    const int64_t wanted[] = {2, 3, 5, 8, 9, 10};
    for (unsigned i = 0; i < 6; i++)
        CHECK_EQ(b->rows[i].id, wanted[i]);
    CHECK_EQ(b->read.upto, INT64_MAX);

    fetch.rows = 2;
    CHECK_EQ(box_fetch_with(b, &fetch), 2);
    CHECK_EQ(b->read.upto, 3);
    fetch.rows = 4;
    CHECK_EQ(box_fetch_with(b, &fetch), 4);
    CHECK_EQ(b->read.upto, 8);
    /* Exactly as many as there are: may have been cut. */
    fetch.rows = 6;
    CHECK_EQ(box_fetch_with(b, &fetch), 6);
    CHECK_EQ(b->read.upto, 10);
    fetch.rows = 100;
    fetch.from = INT64_MAX;
    CHECK_EQ(box_fetch_with(b, &fetch), 3);
    CHECK_EQ(b->read.upto, INT64_MAX);
    box_free(b);
}

/* The row that reaches the limit still comes, nothing after it, and the answer says so. */
BOX_TEST_WITHIN(outbox_fetch_is_cut_by_bytes, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    struct outbox_fetch fetch = {.from = 0, .rows = 100, .bytes = 25000};

    postgres_query(p.conninfo, "INSERT INTO outbox.event (event_id, topic, payload)"
                               " SELECT gen_random_uuid(), 't', decode(repeat('ab', 10000), 'hex') FROM generate_series(1, 10)");
    CHECK_EQ(box_fetch_with(b, &fetch), 3);
    CHECK_EQ(b->read.upto, 3);
    fetch.bytes = 1;
    CHECK_EQ(box_fetch_with(b, &fetch), 1);
    CHECK_EQ(b->read.upto, 1);
    fetch.bytes = 10 << 20;
    CHECK_EQ(box_fetch_with(b, &fetch), 10);
    CHECK_EQ(b->read.upto, INT64_MAX);
    box_free(b);
}

/* Small rows are read without a running sum; a row above its share of the bytes ends that read, and comes with the next, whole. */
BOX_TEST_WITHIN(outbox_fetch_ends_before_a_large_row_and_brings_it_next, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    struct outbox_fetch fetch = {.from = 0, .rows = 10, .bytes = 20000};
    struct outbox_row row;

    insert(&p, 3);
    postgres_query(
        p.conninfo,
        "INSERT INTO outbox.event (event_id, topic, payload) VALUES (gen_random_uuid(), 't', decode(repeat('ab', 1801), 'hex'))");
    insert(&p, 3);
    b->keep = true;
    CHECK_EQ(box_fetch_with(b, &fetch), 3);
    CHECK_EQ(b->read.upto, 3);
    fetch.from = 3;
    CHECK_EQ(box_fetch_with(b, &fetch), 4);
    CHECK_EQ(b->read.upto, INT64_MAX);
    outbox_row(b->outbox, b->slots[0], &row);
    CHECK(row.payload_n == 1801 && ((const unsigned char *)row.payload)[1800] == 0xab);
    box_free(b);
}

static void check_bounded(const char *column, const char *value)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    struct outbox_fetch fetch = {.from = 0, .rows = 10, .bytes = 20000};

    insert(&p, 3);
    postgres_query(p.conninfo, "INSERT INTO outbox.event (event_id, topic, %s) VALUES (gen_random_uuid(), 't', %s)", column, value);
    insert(&p, 3);
    CHECK_EQ(box_fetch_with(b, &fetch), 3);
    fetch.from = 3;
    CHECK_EQ(box_fetch_with(b, &fetch), 4);
    box_free(b);
}

/* A row may be large by its key or its headers. */
BOX_TEST_WITHIN(outbox_fetch_bounds_keys_too, 60)
{
    check_bounded("key", "repeat('k', 1801)");
    check_bounded("headers", "(SELECT jsonb_object_agg(gen_random_uuid(), gen_random_uuid()::text) FROM generate_series(1, 30))");
}

/* In a small read the column of partitions says which row is large, too: whatever a row asks for is told apart from it. */
BOX_TEST_WITHIN(outbox_fetch_tells_partitions_from_large_rows, 60)
{
    static const int32_t wanted[] = {-1, 0, -1, INT32_MAX, INT32_MAX, INT32_MAX, 7, 3};
    struct postgres p = box_postgres(NULL);
    struct outbox_fetch fetch = {.from = 0, .rows = 10, .bytes = 20000};
    struct box *b;

    postgres_query(p.conninfo, "DROP TRIGGER event_moved ON outbox.event;"
                               " ALTER TABLE outbox.event DROP CONSTRAINT event_partition_not_negative, ALTER partition TYPE bigint");
    b = box_ready(&p);
    postgres_query(p.conninfo, "INSERT INTO outbox.event (event_id, topic, partition, payload)"
                               " SELECT gen_random_uuid(), 't', n, decode(repeat('ab', CASE n WHEN 3 THEN 1801 ELSE 1 END), 'hex')"
                               " FROM unnest('{NULL,0,-1,-2,2147483648,9223372036854775807,7,3}'::int8[]) n");
    CHECK_EQ(box_fetch_with(b, &fetch), 5); /* the sixth looks like a large row, and is asked for in the other form */
    for (unsigned i = 0; i < 5; i++)
        CHECK_EQ(b->rows[i].partition, wanted[i]);
    CHECK_EQ(b->read.upto, 5);
    CHECK_EQ(box_fetch_with(b, &fetch), 8);
    for (unsigned i = 0; i < 8; i++)
        CHECK_EQ(b->rows[i].partition, wanted[i]);
    CHECK_EQ(b->read.upto, INT64_MAX);
    box_free(b);
}

/* A row that is larger than any record may be comes without its payload, and does not use up the bytes of a fetch. */
BOX_TEST_WITHIN(outbox_fetch_leaves_out_huge_payloads, 60)
{
    struct postgres p = box_postgres(NULL);
    struct outbox_settings settings = box_settings(p.conninfo);
    struct outbox_row row;
    struct box *b;

    settings.row_bytes_max = 20000;
    b = box_new_with(&settings);
    box_connect(b);
    CHECK(box_take(b));
    postgres_query(p.conninfo, "INSERT INTO outbox.event (event_id, topic, key, payload) VALUES"
                               " (gen_random_uuid(), 't', 'k', decode(repeat('ab', 50000000), 'hex')),"
                               " (gen_random_uuid(), 't', 'k', decode(repeat('ab', 19999), 'hex')),"
                               " (gen_random_uuid(), 't', 'k', decode(repeat('ab', 20000), 'hex'))");
    b->keep = true;
    /* It is above a row's share of the bytes: the first read ends before it. */
    CHECK_EQ(box_fetch_with(b, &(struct outbox_fetch){.rows = 10, .bytes = 50000}), 0);
    CHECK_EQ(b->read.upto, 0);
    CHECK_EQ(box_fetch_with(b, &(struct outbox_fetch){.rows = 10, .bytes = 50000}), 3);
    outbox_row(b->outbox, b->slots[0], &row);
    CHECK(row.too_large && row.payload == NULL && row.key_n == 1);
    outbox_row(b->outbox, b->slots[1], &row);
    CHECK(!row.too_large && row.payload_n == 19999);
    outbox_row(b->outbox, b->slots[2], &row);
    CHECK(row.too_large && row.payload == NULL);
    CHECK(outbox_bytes(b->outbox) < 100000);
    box_free(b);
}

/* After a start, settled rows come too, but only their ids. */
BOX_TEST_WITHIN(outbox_fetch_brings_settled_ids_after_a_start, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    struct outbox_fetch fetch = {.from = 2, .settled_upto = 8, .rows = 100, .bytes = 1 << 20};
    const int64_t firsts[] = {1}, lasts[] = {1};

    insert(&p, 10);
    postgres_query(p.conninfo, "UPDATE outbox.event SET sent_at = now() WHERE id IN (1, 3, 4, 9)");
    postgres_query(p.conninfo, "DELETE FROM outbox.event WHERE id = 6");
    b->keep = true;
    CHECK_EQ(box_fetch_with(b, &fetch), 6);
    const int64_t wanted[] = {3, 4, 5, 7, 8, 10};
    for (unsigned i = 0; i < 6; i++) {
        CHECK_EQ(b->rows[i].id, wanted[i]);
        CHECK_EQ(b->rows[i].settled, wanted[i] <= 4);
        CHECK((b->slots[i] == ROW_NO_SLOT) == (wanted[i] <= 4));
    }
    /* Up to there in the gaps, too. */
    fetch = (struct outbox_fetch){.from = 9, .settled_upto = 8, .firsts = firsts, .lasts = lasts, .gaps_n = 1, .rows = 9, .bytes = 1 << 20};
    CHECK_EQ(box_fetch_with(b, &fetch), 2);
    CHECK(b->rows[0].id == 1 && b->rows[0].settled && b->rows[1].id == 10);
    fetch.settled_upto = 0;
    CHECK_EQ(box_fetch_with(b, &fetch), 1);
    box_free(b);
}

/* A catch-up is the same for one topic and no gaps. */
BOX_TEST_WITHIN(outbox_catch_up_reads_one_topic, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    uint32_t topic;

    insert(&p, 20);
    CHECK_EQ(box_fetch(b, 0), 20);
    topic = b->rows[1].topic;
    CHECK_STR(outbox_topic(b->outbox, topic), "t0");
    postgres_query(p.conninfo, "UPDATE outbox.event SET sent_at = now() WHERE id = 6");
    CHECK_EQ(box_catch_up(b, topic, 4, 12, 100), 4);
    const int64_t wanted[] = {4, 8, 10, 12};
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(b->rows[i].id, wanted[i]);
    CHECK_EQ(b->read.upto, INT64_MAX);
    CHECK(box_token_is(b, b->read.token));
    CHECK_EQ(box_catch_up(b, topic, 4, 12, 2), 2);
    CHECK_EQ(b->read.upto, 8);
    CHECK_EQ(box_catch_up(b, topic, 13, 13, 2), 0);
    box_free(b);
}

/* When topic numbers run short the read ends before the row that would need one. */
/* Rows of all topics, enough to recognise and to place them, and nothing is held. */
BOX_TEST_WITHIN(outbox_patrol_reads_all_topics_without_their_bytes, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    struct row rows[2];

    insert(&p, 100);
    CHECK_EQ(box_fetch(b, 0), 100);
    rows[0] = b->rows[39];
    rows[1] = b->rows[50];
    postgres_query(p.conninfo, "UPDATE outbox.event SET sent_at = now() WHERE id NOT IN (1, 40, 51, 60, 100)");
    CHECK_EQ(box_patrol(b, 40, 99, 1000), 3);
    CHECK(box_token_is(b, b->read.token));
    CHECK_EQ(b->read.upto, INT64_MAX);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(b->rows[i].id == rows[i].id && b->rows[i].topic == rows[i].topic && b->rows[i].partition == rows[i].partition);
        CHECK(b->rows[i].key_hash == rows[i].key_hash && b->rows[i].spread == rows[i].spread && !b->rows[i].settled);
        CHECK(memcmp(b->rows[i].event_id.bytes, rows[i].event_id.bytes, 16) == 0);
    }
    CHECK(b->rows[0].topic != b->rows[1].topic);
    CHECK_EQ(b->rows[2].id, 60);
    CHECK_EQ(outbox_bytes(b->outbox), 0);
    CHECK_EQ(box_patrol(b, 1, 100, 2), 2); /* cut */
    CHECK_EQ(b->read.upto, 40);
    CHECK_EQ(box_patrol(b, 41, 50, 2), 0);
    box_free(b);
}

BOX_TEST_WITHIN(outbox_fetch_is_cut_where_topics_run_short, 60)
{
    struct postgres p = box_postgres(NULL);
    struct outbox_settings settings = box_settings(p.conninfo);
    struct box *b;

    settings.topics_max = 2;
    b = box_new_with(&settings);
    box_connect(b);
    CHECK(box_take(b));
    postgres_query(p.conninfo,
                   "INSERT INTO outbox.event (event_id, topic) SELECT gen_random_uuid(), t FROM unnest(ARRAY['a','b','a','c','a']) t");
    postgres_query(p.conninfo, "UPDATE outbox.event SET id = DEFAULT WHERE topic = 'c'"); /* 6 */
    CHECK_EQ(box_fetch(b, 0), 4);
    CHECK_EQ(b->read.upto, 5);
    outbox_forget(b->outbox, b->rows[1].topic);
    CHECK_EQ(box_fetch(b, 5), 1);
    CHECK_EQ(b->read.upto, INT64_MAX);
    CHECK_STR(outbox_topic(b->outbox, b->rows[0].topic), "c");
    box_free(b);
}

/* Rows that a table without our checks may hold. */
BOX_TEST_WITHIN(outbox_fetch_survives_garbage, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b;
    struct outbox_row row;

    postgres_query(p.conninfo, "ALTER TABLE outbox.event DROP CONSTRAINT event_headers_are_strings, DROP CONSTRAINT event_topic_length,"
                               " DROP CONSTRAINT event_partition_not_negative, DROP CONSTRAINT event_created_at_finite;"
                               "INSERT INTO outbox.event (event_id, topic, headers, partition, created_at) VALUES"
                               " (gen_random_uuid(), 't', '[1, 2]', -7, 'infinity'), (gen_random_uuid(), '', '\"x\"', -1, '-infinity'),"
                               " (gen_random_uuid(), repeat('x', 100000), NULL, 2147483647, '294000-01-01')");
    b = box_ready(&p);
    b->keep = true;
    CHECK_EQ(box_fetch(b, 0), 3);
    CHECK_EQ(b->rows[0].partition, INT32_MAX);
    CHECK_EQ(b->rows[1].partition, -1);
    outbox_row(b->outbox, b->slots[0], &row);
    CHECK(row.headers_n == 6 && memcmp(row.headers, "[1, 2]", 6) == 0);
    CHECK_EQ(row.created_ms, 253402300799999);
    outbox_row(b->outbox, b->slots[1], &row);
    CHECK_EQ(row.created_ms, 0);
    outbox_row(b->outbox, b->slots[2], &row);
    CHECK_EQ(row.created_ms, 253402300799999);
    CHECK_EQ(strlen(outbox_topic(b->outbox, row.topic)), 100000);
    box_mark(b, 0, 3);
    CHECK_EQ(b->missed_n, 0);
    box_free(b);
}

/* One row that stays does not keep its whole result: rows that nobody looked at move out together. */
BOX_TEST_WITHIN(outbox_gives_back_the_bytes_of_dropped_rows, 60)
{
    struct postgres p = box_postgres(NULL);
    struct box *b = box_ready(&p);
    struct outbox_row row;
    size_t whole;

    insert(&p, 2000);
    b->keep = true;
    CHECK_EQ(box_fetch(b, 0), 2000);
    whole = outbox_bytes(b->outbox);
    for (unsigned i = 0; i < 1990; i++)
        outbox_drop(b->outbox, b->slots[i]);
    CHECK(outbox_bytes(b->outbox) < whole / 4);
    outbox_row(b->outbox, b->slots[1999], &row);
    CHECK(row.key_n == 5 && memcmp(row.key, "k2000", 5) == 0);
    CHECK_EQ(row.payload_n, 16);
    for (unsigned i = 1990; i < 2000; i++)
        outbox_drop(b->outbox, b->slots[i]);
    CHECK_EQ(outbox_bytes(b->outbox), 0);

    /* A row that was looked at stays where it is, and what it was lent stays good. */
    CHECK_EQ(box_fetch(b, 0), 2000);
    outbox_row(b->outbox, b->slots[1999], &row);
    for (unsigned i = 0; i < 1999; i++)
        outbox_drop(b->outbox, b->slots[i]);
    CHECK(outbox_bytes(b->outbox) == whole);
    CHECK(memcmp(row.key, "k2000", 5) == 0);
    outbox_drop(b->outbox, b->slots[1999]);
    CHECK_EQ(outbox_bytes(b->outbox), 0);
    box_free(b);
}

/* Design review, speed: O(limit), whatever the backlog is and whatever the planner believes of the table. */
BOX_TEST_WITHIN(outbox_fetch_costs_what_it_brings, 120)
{
    struct postgres p = box_postgres("autovacuum = off");
    struct box *b = box_ready(&p);
    uint64_t best = UINT64_MAX;

    postgres_query(p.conninfo, "INSERT INTO outbox.event (event_id, topic, key, payload) SELECT gen_random_uuid(), 't', 'k' || i,"
                               " decode(repeat('ab', 300), 'hex') FROM generate_series(1, 300000) i");
    for (unsigned i = 0; i < 10; i++) {
        uint64_t before = uv_hrtime();
        CHECK_EQ(box_fetch(b, 1000 * i), 2000);
        best = uv_hrtime() - before < best ? uv_hrtime() - before : best;
    }
    if (best > 20000000)
        test_fail(__FILE__, __LINE__, "a fetch of 2 000 of 300 000 rows took %llu us", (unsigned long long)best / 1000);
    box_free(b);
}
