/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the outbox that need no database. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_array.h"
#include "relay/edge/outbox_decode.h"
#include "relay/edge/outbox_names.h"
#include "relay/edge/outbox_sql.h"
#include "relay/edge/schema.h"
#include "tests/lib/test.h"

TEST(array_is_what_postgresql_reads)
{
    struct array a = {0};

    array_start(&a, ARRAY_INT8, 0, 8);
    CHECK_EQ(a.bytes_n, 12);
    CHECK(memcmp(a.bytes, "\0\0\0\0\0\0\0\0\0\0\0\x14", 12) == 0);
    array_start(&a, ARRAY_INT8, 2, 8);
    array_add_int8(&a, 1);
    array_add_int8(&a, -2);
    CHECK_EQ(a.bytes_n, 20 + 2 * 12);
    CHECK(memcmp(a.bytes,
                 "\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\0\2\0\0\0\1"
                 "\0\0\0\x8\0\0\0\0\0\0\0\1\0\0\0\x8\xff\xff\xff\xff\xff\xff\xff\xfe",
                 44) == 0);
    array_reset(&a);
}

TEST(array_takes_many_at_once)
{
    static const int64_t ids[] = {1, -2, INT64_MAX};
    struct array one = {0}, all = {0};

    array_start(&one, ARRAY_INT8, 0, 8);
    array_start(&all, ARRAY_INT8, 0, 8);
    array_add_int8s(&all, NULL, 0);
    CHECK_EQ(all.bytes_n, 12);
    for (unsigned i = 0; i < 3; i++)
        array_add_int8(&one, ids[i]);
    array_add_int8s(&all, ids, 1);
    array_add_int8s(&all, ids + 1, 2);
    CHECK(all.bytes_n == one.bytes_n && memcmp(all.bytes, one.bytes, one.bytes_n) == 0);
    array_start(&one, ARRAY_UUID, 0, 4);
    array_start(&all, ARRAY_UUID, 2, 4);
    array_add(&one, "abcd", 4);
    array_add(&one, "efgh", 4);
    array_add_all(&all, "abcdefgh", 2, 4);
    CHECK(all.bytes_n == one.bytes_n && memcmp(all.bytes, one.bytes, one.bytes_n) == 0);
    array_reset(&one);
    array_reset(&all);
}

/* Room is only a guess, and is used again. */
TEST(array_grows)
{
    struct array a = {0};
    char text[1000];

    memset(text, 'x', sizeof text);
    for (unsigned round = 0; round < 3; round++) {
        array_start(&a, ARRAY_TEXT, 1, 1);
        for (unsigned i = 0; i < 100; i++)
            array_add(&a, text, sizeof text);
        CHECK_EQ(a.bytes_n, 20 + 100 * 1004);
        CHECK_EQ(a.elements_n, 100);
        CHECK(a.bytes[15] == 100);
    }
    array_reset(&a);
    CHECK(a.bytes == NULL);
}

TEST(names_have_numbers_until_forgotten)
{
    struct names *n = names_new(3);
    uint32_t a = names_number(n, "a", 1), ab = names_number(n, "ab", 2), empty = names_number(n, "", 0);

    CHECK(a < 3 && ab < 3 && empty < 3 && a != ab && ab != empty && a != empty);
    CHECK_EQ(names_number(n, "ab", 2), ab);
    CHECK_EQ(names_number(n, "a", 1), a);
    CHECK_EQ(names_number(n, "c", 1), NAMES_NONE);
    CHECK_STR(names_name(n, ab), "ab");
    names_forget(n, ab);
    CHECK_EQ(names_number(n, "c", 1), ab);
    CHECK_EQ(names_number(n, "ab", 2), NAMES_NONE);
    CHECK_EQ(names_number(n, "a", 1), a);
    CHECK_STR(names_name(n, ab), "c");
    names_free(n);
}

/* Whatever is forgotten in whatever order. */
TEST(names_survive_any_order)
{
    enum {
        MAX = 50,
        KNOWN = 200
    };
    struct names *n = names_new(MAX);
    uint32_t number[KNOWN], used = 0, state = 1;
    char name[20];

    for (unsigned i = 0; i < KNOWN; i++)
        number[i] = NAMES_NONE;
    for (unsigned round = 0; round < 100000; round++) {
        state = state * 1664525u + 1013904223u;
        unsigned i = (state >> 8) % KNOWN;
        int length = snprintf(name, sizeof name, "topic.%u", i);
        if (number[i] != NAMES_NONE && (state >> 28) < 8) {
            CHECK_STR(names_name(n, number[i]), name);
            names_forget(n, number[i]);
            number[i] = NAMES_NONE;
            used--;
            continue;
        }
        uint32_t got = names_number(n, name, (size_t)length);
        if (number[i] == NAMES_NONE && used < MAX) {
            used++;
            number[i] = got;
            for (unsigned j = 0; j < KNOWN; j++)
                CHECK(j == i || number[j] == NAMES_NONE || number[j] != got);
        }
        CHECK_EQ(got, number[i]);
    }
    names_free(n);
}

TEST(sql_quotes_the_table)
{
    static const char *const cases[][2] = {{"outbox.event", "\"outbox\".\"event\""},
                                           {"event", "\"public\".\"event\""},
                                           {"a\"b.c\"\"d", "\"a\"\"b\".\"c\"\"\"\"d\""},
                                           {"a.b.c", "\"a\".\"b.c\""},
                                           {"\"\"\"\".\"\"\"\"", "\"\"\"\"\"\"\"\"\"\".\"\"\"\"\"\"\"\"\"\""},
                                           {"", "\"public\".\"\""}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *table = sql_table(cases[i][0]);
        CHECK_STR(table, cases[i][1]);
        free(table);
    }
}

/* Statements of the table name no other table, and the commit level is never left out. */
TEST(sql_is_built_from_the_columns)
{
    const struct outbox_columns columns = {.id = "c_id",
                                           .event_id = "c_event",
                                           .topic = "c_topic",
                                           .key = "c_key",
                                           .payload = "c_payload",
                                           .headers = "c_headers",
                                           .partition = "c_partition",
                                           .created_at = "c_created",
                                           .sent_at = "c_sent"};
    struct outbox_sql sql;

    CHECK(sql_build(&sql,
                    &(struct sql_settings){.columns = &columns, .table = "\"s\".\"t\"", .statement_ms = 1234, .lease_statement_ms = 567}));
    for (unsigned i = 0; i < SQL_N; i++) {
        CHECK(sql.list[i].sql != NULL);
        CHECK(strstr(sql.list[i].sql, "outbox.event") == NULL);
    }
    CHECK(strstr(sql.list[SQL_FETCH].sql, "c_id > $3::int8 AND c_sent IS NULL ORDER BY c_id LIMIT $4") != NULL);
    CHECK(strstr(sql.list[SQL_FETCH_SETTLED].sql, "(c_sent IS NULL OR c_id <= $7::int8)") != NULL);
    CHECK(strstr(sql.list[SQL_CATCH_UP].sql, "c_topic = $3::text") != NULL);
    CHECK(strstr(sql.list[SQL_MARK].sql, "e.c_event = ($2::uuid[])[width_bucket(e.c_id::int8, $1::int8[])]") != NULL);
    CHECK(strstr(sql.list[SQL_SETUP].sql, "set_config('statement_timeout', '1234', false)") != NULL);
    CHECK(strstr(sql.list[SQL_SETUP_LEASE].sql, "set_config('statement_timeout', '567', false)") != NULL);
    sql_reset(&sql);
}

/* Behind a pooler whatever outlived its transaction would reach a stranger. */
TEST(sql_behind_a_pooler_leaves_nothing_behind)
{
    struct outbox_sql sql;

    CHECK(sql_build(&sql, &(struct sql_settings){.columns = &outbox_columns_native,
                                                 .table = "\"s\".\"t\"",
                                                 .pooled = true,
                                                 .process_key = -1234,
                                                 .statement_ms = 1234,
                                                 .lease_statement_ms = 567}));
    for (unsigned i = 0; i < SQL_N; i++) {
        CHECK(strstr(sql.list[i].sql, ", false)") == NULL);
        CHECK(strstr(sql.list[i].sql, "SET SESSION") == NULL);
        CHECK(strstr(sql.list[i].sql, "advisory_lock") == NULL);
    }
    CHECK(strstr(sql.list[SQL_SETUP].sql, "set_config('statement_timeout', '1234', true)") != NULL);
    CHECK(strstr(sql.list[SQL_SETUP_LEASE].sql, "set_config('statement_timeout', '567', true)") != NULL);
    CHECK(strstr(sql.list[SQL_SETUP].sql, "-1234") == NULL);
    CHECK(strstr(sql.list[SQL_SETUP_MARK].sql, "pg_try_advisory_xact_lock_shared('-1234'::int8)") != NULL);
    sql_reset(&sql);
}

TEST(decode_timestamp_stays_within_kafka)
{
    CHECK_EQ(decode_timestamp_ms(0), 946684800000);
    CHECK_EQ(decode_timestamp_ms(1999), 946684800001);
    CHECK_EQ(decode_timestamp_ms(-946684800000000), 0);
    CHECK_EQ(decode_timestamp_ms(-946684800000000 + 5000), 5);
    CHECK_EQ(decode_timestamp_ms(INT64_MIN), 0);
    CHECK_EQ(decode_timestamp_ms(INT64_MAX), 253402300799999);
}

/* Each migration says which version it makes, in the order of their names. */
TEST(schema_files_name_their_versions)
{
    int last = 0;

    CHECK(schema_files_n >= 3);
    for (size_t i = 0; i < schema_files_n; i++) {
        int major, minor, number;
        CHECK_EQ(sscanf(schema_files[i].sql, "-- outbox-relay schema %d.%d", &major, &minor), 2);
        CHECK_EQ(sscanf(schema_files[i].name, "%d_", &number), 1);
        CHECK_EQ(number, (int)i + 1);
        CHECK(major * 1000 + minor >= last);
        last = major * 1000 + minor;
        CHECK_EQ(strlen(schema_files[i].sql), schema_files[i].sql_n);
    }
}
