/* SPDX-License-Identifier: BSD-2-Clause */
/* The plans of the statements, which must not depend on what the planner knows of the table. */
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_sql.h"
#include "tests/edge/outbox_box.h"

#define GAPS_MANY "public.ids(1, 10000, 2)"

static struct outbox_sql sql;

static void build_for(const char *name, enum outbox_mark_mode mark)
{
    char *table = sql_table(name);

    sql_reset(&sql);
    CHECK(sql_build(&sql, &(struct sql_settings){.columns = &outbox_columns_native,
                                                 .table = table,
                                                 .mark = mark,
                                                 .pooled = box_is_pooled(),
                                                 .statement_ms = 60000,
                                                 .lease_statement_ms = 60000}));
    free(table);
}

static void build(enum outbox_mark_mode mark)
{
    build_for("outbox.event", mark);
}

/* Run statement `which` in a session, or a transaction, like the relay's and return how. */
static const char *plan(const struct postgres *p, enum sql_name which, const char *types, const char *values)
{
    return postgres_query(p->conninfo, "%s%s; PREPARE s (%s) AS %s; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE s (%s)",
                          box_is_pooled() ? "BEGIN; " : "", sql.list[SQL_SETUP].sql, types, sql.list[which].sql, values);
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        n++;
    return n;
}

static void check_absent(const char *text, const char *what)
{
    if (strstr(text, what) != NULL)
        test_fail(__FILE__, __LINE__, "the plan has a %s:\n%s", what, text);
}

static void check_keyed(const char *text, unsigned scans)
{
    check_absent(text, "Seq Scan on event");
    check_absent(text, "Bitmap");
    check_absent(text, "Sort");
    check_absent(text, "Gather");
    check_absent(text, "JIT");
    if (count(text, "Index Scan using event_pkey") != scans)
        test_fail(__FILE__, __LINE__, "not %u scans of the primary key:\n%s", scans, text);
}

/* EXECUTE takes no subqueries. */
static void functions_make(const struct postgres *p)
{
    postgres_query(p->conninfo, "CREATE FUNCTION public.ids(int, int, int) RETURNS int8[] LANGUAGE sql VOLATILE AS"
                                " 'SELECT array_agg(i::int8) FROM generate_series($1, $2, $3) i';"
                                "CREATE FUNCTION public.uuids(int8) RETURNS uuid[] LANGUAGE sql VOLATILE AS"
                                " 'SELECT array_agg(event_id ORDER BY id) FROM outbox.event WHERE id <= $1'");
}

static void fill(const struct postgres *p)
{
    postgres_query(p->conninfo, "INSERT INTO outbox.event (event_id, topic, key, payload) SELECT gen_random_uuid(), 't', 'k' || i, 'x' FROM"
                                " generate_series(1, 50000) i");
}

static void check_fetches(const struct postgres *p)
{
    const char *types = "int8[], int8[], int8, int4, int8, int4";
    const char *text = plan(p, SQL_FETCH, types, "'{}', '{}', 10000, 2000, 8000000, 1000000");

    check_keyed(text, 2);
    CHECK(strstr(text, "(actual rows=2000 loops=1)") != NULL);
    /* Gaps that fill the answer: the tail is not begun. */
    text = plan(p, SQL_FETCH, types, GAPS_MANY ", " GAPS_MANY ", 10000, 2000, 8000000, 1000000");
    check_keyed(text, 2);
    CHECK_EQ(count(text, "never executed"), 2);
    /* Neither is more of the gaps read than wanted. */
    CHECK(strstr(text, "loops=2000)") != NULL);
    text = plan(p, SQL_FETCH_SMALL, "int8[], int8[], int8, int4, int4", "'{}', '{}', 10000, 2000, 4000");
    check_keyed(text, 2);
    check_absent(text, "WindowAgg");
    CHECK(strstr(text, "(actual rows=2000 loops=1)") != NULL);
    text = plan(p, SQL_FETCH_SMALL, "int8[], int8[], int8, int4, int4", GAPS_MANY ", " GAPS_MANY ", 10000, 2000, 4000");
    check_keyed(text, 2);
    CHECK_EQ(count(text, "never executed"), 2);
    text =
        plan(p, SQL_FETCH_SETTLED, "int8[], int8[], int8, int4, int8, int4, int8", "'{3}', '{4}', 10000, 20000, 8000000, 1000000, 30000");
    check_keyed(text, 2);
    text = plan(p, SQL_CATCH_UP, "int8, int8, text, int4, int8, int4", "10000, 40000, 't', 2000, 8000000, 1000000");
    check_keyed(text, 1);
    CHECK(strstr(text, "(actual rows=2000 loops=1)") != NULL);
    text = plan(p, SQL_PATROL, "int8, int8, int4", "10000, 40000, 2000");
    check_keyed(text, 1);
    CHECK(strstr(text, "(actual rows=2000 loops=1)") != NULL);
}

/* Never analysed, analysed when it was empty, analysed when it was full: one plan. */
BOX_TEST_WITHIN(outbox_fetch_reads_by_the_primary_key, 60)
{
    struct postgres p = box_postgres("autovacuum = off");

    build(OUTBOX_MARK_SENT_AT);
    functions_make(&p);
    fill(&p);
    check_fetches(&p);
    postgres_query(p.conninfo, "TRUNCATE outbox.event RESTART IDENTITY; ANALYZE outbox.event");
    fill(&p);
    check_fetches(&p);
    postgres_query(p.conninfo, "ANALYZE outbox.event");
    check_fetches(&p);
    postgres_query(p.conninfo, "UPDATE outbox.event SET sent_at = now() WHERE id > 40000");
    postgres_query(p.conninfo, "VACUUM ANALYZE outbox.event");
    check_fetches(&p);
    sql_reset(&sql);
}

static void check_marks(const struct postgres *p)
{
    const char *text = plan(p, SQL_MARK, "int8[], uuid[]", "public.ids(1, 3000, 1), public.uuids(3000)");
    check_absent(text, "Hash");
    check_absent(text, "Merge");
    check_absent(text, "Memoize");
    check_absent(text, "Nested Loop");
    if (count(text, "Index Scan using event_pkey on event e") != 1)
        test_fail(__FILE__, __LINE__, "the marks are not made by the primary key:\n%s", text);
    /* Each row is known where its id is; nobody looks through the pairs. */
    if (strstr(text, "Function Scan on m (never executed)") == NULL)
        test_fail(__FILE__, __LINE__, "the pairs are looked through:\n%s", text);
    text = plan(p, SQL_MISSED, "int8[], uuid[]", "public.ids(1, 3000, 1), public.uuids(2999)");
    check_keyed(text, 1);
    check_absent(text, "Hash");
    check_absent(text, "Merge");
    CHECK(strstr(text, "loops=3000)") != NULL);
}

BOX_TEST_WITHIN(outbox_marks_go_by_the_primary_key, 60)
{
    struct postgres p = box_postgres("autovacuum = off");

    functions_make(&p);
    fill(&p);
    build(OUTBOX_MARK_SENT_AT);
    check_marks(&p);
    postgres_query(p.conninfo, "ANALYZE outbox.event");
    check_marks(&p);
    build(OUTBOX_MARK_DELETE);
    check_marks(&p);
    sql_reset(&sql);
}

/* A table of years is cut into partitions by id; a mark looks into those that its ids lie between. */
BOX_TEST_WITHIN(outbox_marks_leave_out_partitions, 60)
{
    struct postgres p = box_postgres(NULL);

    postgres_query(p.conninfo,
                   "CREATE TABLE public.parted (id int8 PRIMARY KEY, event_id uuid, sent_at timestamptz) PARTITION BY RANGE (id)");
    for (int i = 0; i < 4; i++)
        postgres_query(p.conninfo, "CREATE TABLE public.parted_%d PARTITION OF public.parted FOR VALUES FROM (%d) TO (%d)", i, i * 1000,
                       i * 1000 + 1000);
    for (enum outbox_mark_mode mark = OUTBOX_MARK_SENT_AT; mark <= OUTBOX_MARK_DELETE; mark++) {
        const char *text;

        build_for("public.parted", mark);
        text = plan(&p, SQL_MARK, "int8[], uuid[]", "'{1900, 2001}', ARRAY[gen_random_uuid(), gen_random_uuid()]");
        if (strstr(text, "Subplans Removed: 2") == NULL)
            test_fail(__FILE__, __LINE__, "not two of four partitions are looked into:\n%s", text);
    }
    sql_reset(&sql);
}

/* fillfactor and no second index: every mark of a full table finds room on its page. */
BOX_TEST_WITHIN(outbox_marks_are_hot, 60)
{
    struct postgres p = box_postgres("autovacuum = off");
    struct box *b = box_new(p.conninfo);

    fill(&p);
    box_connect(b);
    CHECK(box_take(b));
    for (int64_t from = 0; box_fetch(b, from) > 0; from = b->rows[b->read.rows_n - 1].id)
        box_mark(b, 0, b->read.rows_n);
    CHECK_EQ(postgres_number(p.conninfo, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL"), 0);
    box_free(b);
    WAIT_UNTIL(postgres_number(p.conninfo, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relid = 'outbox.event'::regclass") == 50000,
               10);
    CHECK_EQ(postgres_number(p.conninfo, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'outbox.event'::regclass"), 50000);
}
