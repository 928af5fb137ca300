/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay that the textbooks show, as the measure of ours: lock a batch with SKIP LOCKED, produce it, wait for every report, mark it,
 * commit; one thing at a time. It is not made slow: prepared statements, binary payloads that are not copied, an idempotent producer.
 *
 *     textbook CONNINFO TABLE BOOTSTRAP BATCH [LINGER_MS [POLL_MS]]
 *
 * TABLE has id, event_id, topic, key, payload, sent_at and an index on the unsent rows. It ends when the table is empty; with POLL_MS it
 * never ends and asks again after so long. */
#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

#include "tests/bench/client.h"

enum {
    ID,
    EVENT_ID,
    TOPIC,
    KEY,
    PAYLOAD
};

static long waiting_n, failed_n; /* records without a report; reports of failures */

static void on_report(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *data)
{
    (void)kafka;
    (void)data;
    waiting_n--;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        failed_n++;
}

/* The result of the prepared statement `name`, or of the command `name` when `parameters_n` is negative. */
static PGresult *query(PGconn *database, const char *name, int parameters_n, const char *const *parameters)
{
    PGresult *result = parameters_n < 0 ? PQexec(database, name) : PQexecPrepared(database, name, parameters_n, parameters, NULL, NULL, 1);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        client_fail("%s: %s", name, PQerrorMessage(database));
    return result;
}

static void command(PGconn *database, const char *text)
{
    PQclear(query(database, text, -1, NULL));
}

static void prepare(PGconn *database, const char *name, const char *text)
{
    PGresult *result = PQprepare(database, name, text, 0, NULL);

    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        client_fail("%s: %s", text, PQerrorMessage(database));
    PQclear(result);
}

static void prepare_all(PGconn *database, const char *table, long batch)
{
    char text[500];

    snprintf(text, sizeof text,
             "SELECT id, event_id::text, topic, key, payload FROM %s WHERE sent_at IS NULL ORDER BY id LIMIT %ld FOR UPDATE SKIP LOCKED",
             table, batch);
    prepare(database, "lock", text);
    snprintf(text, sizeof text, "UPDATE %s SET sent_at = now() WHERE id = ANY ($1::bigint[])", table);
    prepare(database, "mark", text);
}

static void produce(rd_kafka_t *kafka, const PGresult *rows, int row)
{
    waiting_n++;
    client_produce(kafka, &(struct client_record){.topic = PQgetvalue(rows, row, TOPIC),
                                                  .key = PQgetvalue(rows, row, KEY),
                                                  .key_n = (size_t)PQgetlength(rows, row, KEY),
                                                  .payload = PQgetvalue(rows, row, PAYLOAD),
                                                  .payload_n = (size_t)PQgetlength(rows, row, PAYLOAD),
                                                  .id = PQgetvalue(rows, row, EVENT_ID),
                                                  .id_n = (size_t)PQgetlength(rows, row, EVENT_ID)});
}

/* The ids of the batch as the text of an array; the caller frees it. */
static char *ids_of(const PGresult *rows, int rows_n)
{
    char *text = malloc((size_t)rows_n * 21 + 3);
    size_t n = 0;

    if (text == NULL)
        client_fail("out of memory");
    for (int row = 0; row < rows_n; row++) {
        uint32_t half[2];

        memcpy(half, PQgetvalue(rows, row, ID), sizeof half);
        int64_t id = (int64_t)((uint64_t)ntohl(half[0]) << 32 | ntohl(half[1]));
        n += (size_t)sprintf(text + n, "%c%lld", row == 0 ? '{' : ',', (long long)id);
    }
    memcpy(text + n, "}", 2);
    return text;
}

/* Else the first batch waits a second for librdkafka's next look at unknown topics. */
static void learn_topics(rd_kafka_t *kafka)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t error = rd_kafka_metadata(kafka, 1, NULL, &metadata, 10000);

    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
        client_fail("no answer from Kafka: %s", rd_kafka_err2str(error));
    rd_kafka_metadata_destroy(metadata);
}

/* One transaction. Returns the number of rows that it moved. */
static int cycle(PGconn *database, rd_kafka_t *kafka)
{
    command(database, "BEGIN");
    PGresult *rows = query(database, "lock", 0, NULL);
    int rows_n = PQntuples(rows);

    for (int row = 0; row < rows_n; row++)
        produce(kafka, rows, row);
    while (waiting_n > 0) /* rd_kafka_flush would cut the linger short; who waits for futures, or for callbacks, pays it */
        rd_kafka_poll(kafka, 100);
    if (failed_n > 0)
        client_fail("%ld records were refused; the batch is rolled back", failed_n);
    if (rows_n > 0) {
        char *ids = ids_of(rows, rows_n);
        PQclear(query(database, "mark", 1, (const char *[]){ids}));
        free(ids);
    }
    command(database, "COMMIT");
    PQclear(rows);
    return rows_n;
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 7)
        client_fail("usage: textbook CONNINFO TABLE BOOTSTRAP BATCH [LINGER_MS [POLL_MS]]");
    long batch = client_number(argv[4], "BATCH"), poll_ms = argc > 6 ? client_number(argv[6], "POLL_MS") : 0, moved_n = 0;
    const char *const properties[] = {
        "bootstrap.servers", argv[3],          "enable.idempotence",   "true", "acks", "all", "linger.ms", argc > 5 ? argv[5] : "5",
        "partitioner",       "murmur2_random", "socket.nagle.disable", "true", NULL};
    rd_kafka_t *kafka = client_kafka(RD_KAFKA_PRODUCER, properties, on_report);
    PGconn *database = PQconnectdb(argv[1]);

    if (PQstatus(database) != CONNECTION_OK)
        client_fail("%s", PQerrorMessage(database));
    prepare_all(database, argv[2], batch);
    learn_topics(kafka);
    for (int rows_n; (rows_n = cycle(database, kafka)) > 0 || poll_ms > 0; moved_n += rows_n)
        if (rows_n == 0)
            usleep((useconds_t)poll_ms * 1000);
    printf("moved %ld rows\n", moved_n);
    PQfinish(database);
    rd_kafka_destroy(kafka);
    return 0;
}
