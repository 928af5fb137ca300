/* SPDX-License-Identifier: BSD-2-Clause */
/* What the demo shows, counted in PostgreSQL and in the topics.
 *
 *     oracle counts CONNINFO HOST:PORT TOPICS    one line: committed, records in the topics, marked, applied
 *     oracle judge  CONNINFO HOST:PORT TOPICS    the closing table; exit status 0 only if every promise was kept
 *     oracle relay  CONNINFO HOST:PORT TOPIC     the same for the services of the demo, whose history is the outbox itself
 *     oracle lag    HOST:PORT TOPIC GROUP...     a line for each consumer group: its name, and the records that it has not committed
 *     oracle topic  HOST:PORT NAME PARTITIONS    create a topic of a real Kafka; 0 partitions: delete it
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/oracle.h"
#include "tests/lib/services.h"

static _Noreturn void give_up(const char *sentence)
{
    (void)fprintf(stderr, "oracle: %s\n", sentence);
    exit(2);
}

static int64_t query(PGconn *db, const char *sql)
{
    PGresult *result = PQexec(db, sql);
    int64_t number = 0;

    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        give_up(PQerrorMessage(db));
    number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return number;
}

static PGconn *connect_database(const char *conninfo)
{
    PGconn *db = PQconnectdb(conninfo);

    if (PQstatus(db) != CONNECTION_OK)
        give_up(PQerrorMessage(db));
    return db;
}

/* --- counts ---------------------------------------------------------------------------------------------------------- */

static int64_t topic_records(rd_kafka_t *client, const char *name)
{
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    const struct rd_kafka_metadata *metadata;
    int64_t records = 0, low, high;

    if (rd_kafka_metadata(client, 0, topic, &metadata, 5000) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (int p = 0; metadata->topic_cnt == 1 && p < metadata->topics[0].partition_cnt; p++)
            if (rd_kafka_query_watermark_offsets(client, name, p, &low, &high, 5000) == RD_KAFKA_RESP_ERR_NO_ERROR)
                records += high;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(topic);
    return records;
}

static int64_t all_records(const char *bootstrap, char *topics)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char error[256], *rest = NULL;
    rd_kafka_t *client;
    int64_t records = 0;

    if (rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof error) != RD_KAFKA_CONF_OK ||
        rd_kafka_conf_set(conf, "log_level", "0", error, sizeof error) != RD_KAFKA_CONF_OK)
        give_up(error);
    client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
    if (client == NULL)
        give_up(error);
    for (char *name = strtok_r(topics, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest))
        records += topic_records(client, name);
    rd_kafka_destroy(client);
    return records;
}

static int print_counts(char **argv)
{
    PGconn *db = connect_database(argv[2]);

    (void)printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", query(db, "SELECT count(*) FROM demo.history"),
                 all_records(argv[3], argv[4]), query(db, "SELECT count(*) FROM outbox.event WHERE sent_at IS NOT NULL"),
                 query(db, "SELECT count(*) FROM demo.applied"));
    PQfinish(db);
    return 0;
}

/* --- judge ----------------------------------------------------------------------------------------------------------- */

struct totals {
    int64_t rolled_back, applied, wrong_totals;
};

/* An id that was drawn and is in no row belonged to a transaction that was rolled back. */
static struct totals read_totals(const char *conninfo)
{
    PGconn *db = connect_database(conninfo);
    struct totals t = {
        .rolled_back = query(db, "SELECT coalesce((SELECT last_value FROM pg_sequences WHERE format('%I.%I', schemaname, sequencename) = "
                                 "pg_get_serial_sequence('outbox.event', 'id')), 0) - (SELECT count(*) FROM outbox.event)"),
        .applied = query(db, "SELECT count(*) FROM demo.applied"),
        .wrong_totals =
            query(db, "SELECT count(*) FROM (SELECT 'order-' || id AS order_key, version AS events, total_cents FROM demo.orders "
                      "WHERE version > 0) o FULL JOIN demo.order_totals t USING (order_key) "
                      "WHERE (o.events, o.total_cents) IS DISTINCT FROM (t.events, t.total_cents)")};
    PQfinish(db);
    return t;
}

/* 52012 as "52 012" */
static const char *grouped(int64_t number)
{
    static char text[8][32];
    static unsigned next;
    char digits[24], *to = text[next % 8];
    int n = snprintf(digits, sizeof digits, "%" PRId64, number);

    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-')
            *to++ = ' ';
        *to++ = digits[i];
    }
    *to = '\0';
    return text[next++ % 8];
}

static void print_line(const char *what, int64_t number, const char *where)
{
    (void)printf("  %-26s %12s   %s\n", what, grouped(number), where);
}

static void print_table(const struct oracle_verdict *v, const struct totals *t)
{
    char share[64];
    int64_t drawn = v->committed + t->rolled_back;

    (void)snprintf(share, sizeof share, "ids drawn that no row has: %.1f %%",
                   drawn > 0 ? 100.0 * (double)t->rolled_back / (double)drawn : 0.0);
    (void)printf("\n  %-26s %12s   %s\n  %.26s %.12s   %.40s\n", "", "events", "counted in", "----------------------------------------",
                 "----------------------------------------", "----------------------------------------");
    print_line("committed", v->committed, "the service's history");
    print_line("rolled back", t->rolled_back, share);
    print_line("published", v->published, "the topic, each event once");
    print_line("marked", v->marked, "the outbox");
    print_line("applied", t->applied, "the consumer's table");
    print_line("orders with a wrong total", t->wrong_totals, "the service's orders, beside the consumer's");
    print_line("duplicates in the topic", v->duplicates, "the topic: records beyond the first of their event");
    print_line("lost", v->lost, "committed, but not in the topic");
    print_line("phantoms", v->phantoms, "in the topic, but not committed");
    (void)printf("  %-26s %12s   %s\n", "per-key order", v->misordered == 0 ? "kept" : "BROKEN",
                 "versions 1, 2, 3, ... of each order, first occurrences");
    for (unsigned i = 0; i < v->findings_n; i++)
        (void)printf("  ! %s\n", v->finding[i]);
}

static int judge(char **argv)
{
    struct oracle_question question = {.database = argv[2], .bootstrap = argv[3], .topics = argv[4]};
    struct oracle_verdict verdict;
    struct totals totals;
    char error[512];
    bool kept;

    if (!oracle_judge(&question, &verdict, error, sizeof error))
        give_up(error);
    totals = read_totals(argv[2]);
    print_table(&verdict, &totals);
    kept = oracle_clean(&verdict) && verdict.committed > 0 && totals.applied == verdict.committed && totals.wrong_totals == 0;
    (void)printf("\n  %s\n", kept ? "committed = applied, nothing lost, order kept" : "A PROMISE WAS BROKEN");
    oracle_forget(&verdict);
    return kept ? 0 : 1;
}

/* --- the services ---------------------------------------------------------------------------------------------------- */

/* Versions of an order count its events, so that the sum of them is what the service committed, whoever asks the outbox. */
static const char services_history[] =
    "(SELECT event_id, topic, key, (convert_from(payload, 'UTF8')::jsonb ->> 'version')::int8 AS version,"
    " demo.payload_hash(event_id) AS payload_hash FROM outbox.event)";

/* The oracle hashes payloads in C, and PostgreSQL has no such function: so the hashes go into a table that one looks up. */
static void hashes_store(PGconn *db)
{
    PGresult *rows = PQexecParams(db, "SELECT event_id, payload FROM outbox.event", 0, NULL, NULL, NULL, NULL, 1);
    char line[80];

    query(db, "SET client_min_messages = warning; CREATE SCHEMA IF NOT EXISTS demo; DROP TABLE IF EXISTS demo.hash CASCADE;"
              "CREATE TABLE demo.hash (event_id uuid PRIMARY KEY, hash int8);"
              "CREATE OR REPLACE FUNCTION demo.payload_hash(uuid) RETURNS int8 LANGUAGE sql STABLE AS"
              " 'SELECT hash FROM demo.hash WHERE event_id = $1'; SELECT 0");
    PQclear(PQexec(db, "COPY demo.hash FROM STDIN"));
    for (int i = 0; i < PQntuples(rows); i++) {
        const unsigned char *id = (const unsigned char *)PQgetvalue(rows, i, 0);
        int n = 0;

        for (int b = 0; b < 16; b++)
            n += snprintf(line + n, sizeof line - (size_t)n, "%02x", id[b]);
        n += snprintf(line + n, sizeof line - (size_t)n, "\t%" PRId64 "\n",
                      oracle_payload_hash(PQgetvalue(rows, i, 1), (size_t)PQgetlength(rows, i, 1)));
        if (PQputCopyData(db, line, n) != 1)
            give_up(PQerrorMessage(db));
    }
    if (PQputCopyEnd(db, NULL) != 1)
        give_up(PQerrorMessage(db));
    for (PGresult *end; (end = PQgetResult(db)) != NULL; PQclear(end))
        if (PQresultStatus(end) != PGRES_COMMAND_OK)
            give_up(PQerrorMessage(db));
    PQclear(rows);
}

static void print_relay(const struct oracle_verdict *v, int64_t versions)
{
    print_line("committed", versions, "the service's orders: the sum of their versions");
    print_line("published", v->published, "the topic, each event once");
    print_line("marked", v->marked, "the outbox");
    print_line("duplicates in the topic", v->duplicates, "the topic: records beyond the first of their event");
    print_line("lost", v->lost, "in the outbox, but not in the topic");
    print_line("phantoms", v->phantoms, "in the topic, but not committed");
    (void)printf("  %-26s %12s   %s\n", "per-key order", v->misordered + v->broken_history == 0 ? "kept" : "BROKEN",
                 "versions 1, 2, 3, ... of each order, first occurrences");
    for (unsigned i = 0; i < v->findings_n; i++)
        (void)printf("  ! %s\n", v->finding[i]);
}

static int judge_relay(char **argv)
{
    struct oracle_question question = {.database = argv[2], .bootstrap = argv[3], .topics = argv[4], .history = services_history};
    PGconn *db = connect_database(argv[2]);
    struct oracle_verdict verdict;
    int64_t versions;
    char error[512];
    bool kept;

    hashes_store(db);
    versions = query(db, "SELECT coalesce(sum(version), 0)::int8 FROM shop.orders");
    PQfinish(db);
    if (!oracle_judge(&question, &verdict, error, sizeof error))
        give_up(error);
    print_relay(&verdict, versions);
    kept = oracle_clean(&verdict) && verdict.published > 0 && verdict.committed == versions && verdict.published == versions;
    oracle_forget(&verdict);
    return kept ? 0 : 1;
}

/* --- groups ---------------------------------------------------------------------------------------------------------- */

static int64_t partition_lag(rd_kafka_t *client, const rd_kafka_topic_partition_t *committed)
{
    int64_t low = 0, high = 0;

    if (rd_kafka_query_watermark_offsets(client, committed->topic, committed->partition, &low, &high, 5000) != RD_KAFKA_RESP_ERR_NO_ERROR)
        give_up("the end of the topic cannot be asked for");
    return high - (committed->offset > low ? committed->offset : low);
}

static int64_t group_lag(const char *bootstrap, const char *topic, const char *group)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    int partitions = kafka_topic_partitions(bootstrap, topic);
    int64_t lag = 0;
    char error[256];
    rd_kafka_t *client;

    rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, error, sizeof error);
    rd_kafka_conf_set(conf, "group.id", group, error, sizeof error);
    rd_kafka_conf_set(conf, "log_level", "0", error, sizeof error);
    client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
    if (client == NULL || partitions <= 0)
        give_up(client == NULL ? error : "the topic cannot be asked for");
    rd_kafka_topic_partition_list_add_range(list, topic, 0, partitions - 1);
    if (rd_kafka_committed(client, list, 10000) != RD_KAFKA_RESP_ERR_NO_ERROR)
        give_up("what the group has committed cannot be asked for");
    for (int i = 0; i < list->cnt; i++)
        lag += partition_lag(client, &list->elems[i]);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(client);
    return lag;
}

static int print_lags(int argc, char **argv)
{
    for (int i = 4; i < argc; i++)
        (void)printf("%s %" PRId64 "\n", argv[i], group_lag(argv[2], argv[3], argv[i]));
    return 0;
}

static int change_topic(char **argv)
{
    int partitions = atoi(argv[4]);

    if (partitions > 0)
        kafka_topic_create(argv[2], argv[3], partitions, NULL);
    else
        kafka_topic_delete(argv[2], argv[3]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "counts") == 0)
        return print_counts(argv);
    if (argc == 5 && strcmp(argv[1], "judge") == 0)
        return judge(argv);
    if (argc == 5 && strcmp(argv[1], "topic") == 0)
        return change_topic(argv);
    if (argc == 5 && strcmp(argv[1], "relay") == 0)
        return judge_relay(argv);
    if (argc >= 5 && strcmp(argv[1], "lag") == 0)
        return print_lags(argc, argv);
    give_up("usage: oracle counts|judge CONNINFO HOST:PORT TOPICS, oracle relay CONNINFO HOST:PORT TOPIC, oracle lag HOST:PORT TOPIC "
            "GROUP..., or "
            "oracle topic HOST:PORT NAME PARTITIONS");
}
