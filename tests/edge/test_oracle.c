/* SPDX-License-Identifier: BSD-2-Clause */
/* The oracle against planted violations, each in a real PostgreSQL and a topic that can be read: it names what was planted, and only that. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/oracle.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define TOPIC "orders"

struct world {
    struct postgres db;
    struct mock broker;
    rd_kafka_t *producer;
};

/* An event of the world: number 7 has the id 00000000-0000-4000-8000-000000000007 and the payload "payload 7". */
struct planted {
    int number;
    const char *key; /* NULL: none */
    int version;
};

static void event_id(int number, char ret_text[37])
{
    (void)snprintf(ret_text, 37, "00000000-0000-4000-8000-%012d", number);
}

static struct world world_begin(void)
{
    struct world w = {.db = postgres_start(NULL), .broker = mock_start(1)};
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char error[256];

    process_run(
        (const char *[]){"psql", "-qX", "-v", "ON_ERROR_STOP=1", w.db.conninfo, "-f", TEST_SOURCE_FOLDER "/producer-demo/schema.sql", NULL},
        NULL, (struct process_options){0}, 20);
    (void)postgres_query(w.db.conninfo,
                         "CREATE TABLE demo.event (id bigint GENERATED ALWAYS AS IDENTITY, event_id uuid, sent_at timestamptz)");
    mock_command(&w.broker, "topic %s 4", TOPIC);
    CHECK(rd_kafka_conf_set(conf, "bootstrap.servers", w.broker.bootstrap, error, sizeof error) == RD_KAFKA_CONF_OK);
    w.producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    CHECK(w.producer != NULL);
    return w;
}

/* The transaction of an event committed: history and row. */
static void commit(struct world *w, struct planted p, bool marked)
{
    char id[37], payload[32], key[64] = "NULL";

    event_id(p.number, id);
    if (p.key != NULL)
        (void)snprintf(key, sizeof key, "'%s'", p.key);
    (void)snprintf(payload, sizeof payload, "payload %d", p.number);
    (void)postgres_query(w->db.conninfo,
                         "INSERT INTO demo.history VALUES ('%s', '%s', %s, %d, %lld);"
                         "INSERT INTO demo.event (event_id, sent_at) VALUES ('%s', %s)",
                         id, TOPIC, key, p.version, (long long)oracle_payload_hash(payload, strlen(payload)), id,
                         marked ? "now()" : "NULL");
}

static void produce(struct world *w, const char *id, const char *key, int partition, const char *payload)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(1);
    size_t key_n = key == NULL ? 0 : strlen(key);

    if (id != NULL)
        (void)rd_kafka_header_add(headers, "id", -1, id, -1);
    CHECK(rd_kafka_producev(w->producer, RD_KAFKA_V_TOPIC(TOPIC), RD_KAFKA_V_PARTITION(partition),
                            RD_KAFKA_V_KEY((void *)(uintptr_t)key, key_n), RD_KAFKA_V_VALUE((void *)(uintptr_t)payload, strlen(payload)),
                            RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                            RD_KAFKA_V_END) == RD_KAFKA_RESP_ERR_NO_ERROR);
    CHECK(rd_kafka_flush(w->producer, 10000) == RD_KAFKA_RESP_ERR_NO_ERROR);
}

static void publish(struct world *w, struct planted p, int partition)
{
    char id[37], payload[32];

    event_id(p.number, id);
    (void)snprintf(payload, sizeof payload, "payload %d", p.number);
    produce(w, id, p.key, partition, payload);
}

/* Judge, and compare with the one kind of violation that was planted: every count that is not the planted one is zero. */
static struct oracle_verdict judge(struct world *w)
{
    struct oracle_question question = {
        .database = w->db.conninfo, .bootstrap = w->broker.bootstrap, .topics = TOPIC, .table = "demo.event"};
    struct oracle_verdict verdict;
    char error[256] = "";

    bool judged = oracle_judge(&question, &verdict, error, sizeof error);
    CHECK_STR(error, "");
    CHECK(judged);
    return verdict;
}

static int64_t violations(const struct oracle_verdict *v)
{
    return v->lost + v->phantoms + v->misordered + v->unlike + v->false_marks + v->unmarked + v->broken_history;
}

static bool told(const struct oracle_verdict *v, const char *words)
{
    for (unsigned i = 0; i < v->findings_n; i++)
        if (strstr(v->finding[i], words) != NULL)
            return true;
    return false;
}

static const struct planted a1 = {1, "a", 1}, a2 = {2, "a", 2}, a3 = {3, "a", 3}, b1 = {4, "b", 1};

/* a1 a2 a3 b1, all committed and marked; what of it is published is up to the test. */
static struct world world_of_four(void)
{
    struct world w = world_begin();

    commit(&w, a1, true);
    commit(&w, a2, true);
    commit(&w, a3, true);
    commit(&w, b1, true);
    return w;
}

TEST(oracle_finds_nothing_where_nothing_is_wrong)
{
    struct world w = world_of_four();
    const struct planted keyless[] = {{5, NULL, 1}, {6, NULL, 1}};

    commit(&w, keyless[0], true);
    commit(&w, keyless[1], true);
    publish(&w, a1, 1);
    publish(&w, keyless[1], 3);
    publish(&w, keyless[0], 2);
    publish(&w, a2, 1);
    publish(&w, b1, 1);
    publish(&w, a3, 1);
    /* A row that was deleted was marked. */
    (void)postgres_query(w.db.conninfo, "DELETE FROM demo.event WHERE event_id = '00000000-0000-4000-8000-000000000004'");
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(violations(&v), 0);
    CHECK(oracle_clean(&v));
    CHECK_EQ(v.committed, 6);
    CHECK_EQ(v.published, 6);
    CHECK_EQ(v.marked, 6);
    CHECK_EQ(v.records, 6);
    CHECK_EQ(v.duplicates, 0);
    oracle_forget(&v);
}

TEST(oracle_names_a_lost_event_and_its_false_mark)
{
    struct world w = world_of_four();

    publish(&w, a1, 1);
    publish(&w, a2, 1);
    publish(&w, b1, 2);
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(v.lost, 1);
    CHECK_EQ(v.false_marks, 1);
    CHECK_EQ(violations(&v), 2);
    CHECK(!oracle_clean(&v));
    CHECK(told(&v, "lost: orders/a version 3"));
    CHECK(told(&v, "false mark: orders/a version 3"));
    oracle_forget(&v);
}

TEST(oracle_names_a_row_that_nobody_marked)
{
    struct world w = world_begin();

    commit(&w, a1, false);
    commit(&w, b1, false);
    publish(&w, a1, 1);
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(v.unmarked, 1);
    CHECK_EQ(v.lost, 1);
    CHECK_EQ(v.marked, 0);
    CHECK_EQ(violations(&v), 2);
    CHECK(told(&v, "unmarked: orders/a version 1"));
    oracle_forget(&v);
}

TEST(oracle_names_a_phantom)
{
    struct world w = world_of_four();

    publish(&w, a1, 1);
    publish(&w, a2, 1);
    publish(&w, a3, 1);
    publish(&w, b1, 2);
    publish(&w, (struct planted){99, "a", 4}, 1);
    produce(&w, NULL, "a", 1, "no id");
    produce(&w, "00000000-0000-4000-8000-00000000000g", "a", 1, "no UUID");
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(v.phantoms, 3);
    CHECK_EQ(violations(&v), 3);
    CHECK(told(&v, "phantom: orders[1] offset 3 holds event 00000000-0000-4000-8000-000000000099"));
    CHECK(told(&v, "phantom: orders[1] offset 4 has not exactly one header"));
    CHECK(told(&v, "phantom: orders[1] offset 5 has not exactly one header"));
    oracle_forget(&v);
}

TEST(oracle_names_swapped_rows_of_a_key)
{
    struct world w = world_of_four();

    publish(&w, a1, 1);
    publish(&w, a3, 1);
    publish(&w, a2, 1);
    publish(&w, b1, 2);
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(v.misordered, 1);
    CHECK_EQ(violations(&v), 1);
    CHECK(told(&v, "order: orders/a version 2 first occurs at offset 2, after version 3 at 1 of partition 1"));
    oracle_forget(&v);
}

/* 1 2 1 2 3 is a repetition; the first occurrences are in order. */
TEST(oracle_counts_duplicates_and_forgives_their_order)
{
    struct world w = world_of_four();

    publish(&w, a1, 1);
    publish(&w, a2, 1);
    publish(&w, a1, 1);
    publish(&w, a2, 1);
    publish(&w, a3, 1);
    publish(&w, b1, 1);
    publish(&w, a1, 1);
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(violations(&v), 0);
    CHECK_EQ(v.duplicates, 3);
    CHECK_EQ(v.duplicate[0].offset, 2);
    CHECK_EQ(v.duplicate[1].offset, 6);
    CHECK_EQ(v.duplicate[2].offset, 3);
    CHECK(v.duplicate[0].earlier_ms <= v.duplicate[0].later_ms && v.duplicate[0].earlier_ms > 0);
    CHECK(v.duplicate[0].marked_ms > 0);
    oracle_forget(&v);
}

TEST(oracle_names_records_that_are_not_what_was_committed)
{
    struct world w = world_of_four();
    char id[37];

    event_id(1, id);
    produce(&w, id, "a", 1, "another payload");
    event_id(2, id);
    produce(&w, id, "c", 1, "payload 2");
    publish(&w, a3, 1);
    publish(&w, b1, 2);
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(v.unlike, 2);
    CHECK_EQ(violations(&v), 2);
    CHECK(told(&v, "unlike: orders/a version 1 was published with another payload"));
    CHECK(told(&v, "unlike: orders/a version 2 was published with another key"));
    oracle_forget(&v);
}

TEST(oracle_names_copies_that_differ_and_keys_that_wander)
{
    struct world w = world_of_four();
    char id[37];

    publish(&w, a1, 1);
    publish(&w, a2, 1);
    publish(&w, a3, 2);
    event_id(2, id);
    produce(&w, id, "a", 1, "payload two");
    publish(&w, b1, 0);
    publish(&w, b1, 1);
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(v.unlike, 3);
    CHECK_EQ(violations(&v), 3);
    CHECK_EQ(v.duplicates, 2);
    CHECK(told(&v, "unlike: orders/a version 2, the copies at offsets 1 and 2 of orders[1] differ"));
    CHECK(told(&v, "unlike: orders/b version 1 has a copy in orders[0] and one in orders[1]"));
    CHECK(told(&v, "unlike: orders/a is in partition 1 with version 1 and in 2 with version 3"));
    oracle_forget(&v);
}

TEST(oracle_does_not_judge_by_a_broken_history)
{
    struct world w = world_begin();

    commit(&w, a1, true);
    commit(&w, a3, true);
    publish(&w, a1, 1);
    publish(&w, a3, 1);
    struct oracle_verdict v = judge(&w);
    CHECK_EQ(v.broken_history, 1);
    CHECK_EQ(violations(&v), 1);
    CHECK(told(&v, "history: orders/a has version 3 where 2 should be"));
    oracle_forget(&v);
}

TEST(oracle_refuses_what_it_cannot_read)
{
    struct world w = world_begin();
    struct oracle_question question = {
        .database = w.db.conninfo, .bootstrap = w.broker.bootstrap, .topics = TOPIC, .table = "demo.nothing"};
    struct oracle_verdict v;
    char error[256] = "";

    CHECK(!oracle_judge(&question, &v, error, sizeof error));
    CHECK(strstr(error, "demo.nothing") != NULL);
    oracle_forget(&v);
    question.database = "host=/nowhere";
    CHECK(!oracle_judge(&question, &v, error, sizeof error));
    CHECK(strstr(error, "the oracle cannot connect to the database") != NULL);
}
