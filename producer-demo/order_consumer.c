/* SPDX-License-Identifier: BSD-2-Clause */
/* A consumer that has each effect exactly once, although the topic may hold an event twice:
 *
 *     poll a batch
 *     one transaction: keep the ids that were not seen yet, and have the effect of those alone
 *     commit the offsets
 *
 * The ids are kept in the transaction of the effect: both happen or neither. The offsets come last: after a crash some records are read
 * again, and their ids are known. Ids are inserted in order, so that two consumers cannot deadlock when a partition moves between them.
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH_MAX 2000 /* records applied in one transaction */

struct options {
    const char *database, *bootstrap, *group;
    char *topics;
};

/* PostgreSQL arrays, as text: {..., ..., ...} */
struct list {
    char *text;
    size_t text_n, text_max;
};

struct batch {
    struct list event_ids, orders, cents;
    int n;
};

static volatile sig_atomic_t stop_asked;

/* Leaving the group waits for a broker, which may be gone for good. To be killed instead costs nothing: that is the point of this file. */
static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
    (void)alarm(5);
}

static _Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void refuse(const char *format, ...)
{
    va_list arguments;

    (void)fputs("order-consumer: ", stderr);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    exit(2);
}

/* --- a batch -------------------------------------------------------------------------------------------------------- */

static void list_add(struct list *l, const char *text, size_t n)
{
    if (l->text_n + n + 3 > l->text_max) {
        l->text_max = (l->text_n + n + 3) * 2;
        l->text = realloc(l->text, l->text_max);
        if (l->text == NULL)
            abort();
    }
    l->text[l->text_n] = l->text_n == 0 ? '{' : ',';
    memcpy(l->text + l->text_n + 1, text, n);
    l->text_n += n + 1;
    memcpy(l->text + l->text_n, "}", 2);
}

static void batch_clear(struct batch *b)
{
    b->event_ids.text_n = b->orders.text_n = b->cents.text_n = 0;
    b->n = 0;
}

/* Take what a record says: its id is a header, its order the key, the rest JSON. A real service would use a parser. */
static bool batch_add(struct batch *b, const rd_kafka_message_t *message)
{
    static const char field[] = "\"cents\":";
    rd_kafka_headers_t *headers;
    const void *id;
    size_t id_n;
    const char *cents;
    char payload[256], number[24];

    if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        rd_kafka_header_get_last(headers, "id", &id, &id_n) != RD_KAFKA_RESP_ERR_NO_ERROR || id_n != 36 || message->key == NULL)
        return false;
    (void)snprintf(payload, sizeof payload, "%.*s", (int)message->len, (const char *)message->payload);
    cents = strstr(payload, field);
    if (cents == NULL || strspn(message->key, "abcdefghijklmnopqrstuvwxyz0123456789-") < message->key_len)
        return false;
    (void)snprintf(number, sizeof number, "%ld", strtol(cents + sizeof field - 1, NULL, 10));
    list_add(&b->event_ids, id, id_n);
    list_add(&b->orders, message->key, message->key_len);
    list_add(&b->cents, number, strlen(number));
    b->n++;
    return true;
}

/* --- its effect, once ------------------------------------------------------------------------------------------------ */

/* One statement is one transaction. DISTINCT: an event may lie in one batch twice. */
static const char apply[] =
    "WITH record AS (SELECT DISTINCT ON (event_id) * FROM unnest($1::uuid[], $2::text[], $3::bigint[]) r(event_id, order_key, cents)"
    "                ORDER BY event_id),"
    "     fresh AS (INSERT INTO demo.applied (event_id) SELECT event_id FROM record ORDER BY event_id"
    "               ON CONFLICT DO NOTHING RETURNING event_id),"
    "     effect AS (SELECT order_key, count(*) AS events, sum(cents)::bigint AS cents FROM record JOIN fresh USING (event_id)"
    "                GROUP BY order_key ORDER BY order_key),"
    "     changed AS (INSERT INTO demo.order_totals AS t (order_key, events, total_cents) SELECT * FROM effect ORDER BY order_key"
    "                 ON CONFLICT (order_key) DO UPDATE SET events = t.events + excluded.events,"
    "                                                       total_cents = t.total_cents + excluded.total_cents)"
    "SELECT count(*) FROM fresh";

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    (void)nanosleep(&t, NULL);
}

/* Returns how many of the batch were new, or -1 if it could not be applied: then nothing of it was, or it is not known. */
static int64_t batch_apply(PGconn *db, const struct batch *b)
{
    const char *values[] = {b->event_ids.text, b->orders.text, b->cents.text};
    PGresult *result = PQexecParams(db, apply, 3, NULL, values, NULL, NULL, 0);
    int64_t fresh = PQresultStatus(result) == PGRES_TUPLES_OK ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : -1;

    if (fresh < 0)
        (void)fprintf(stderr, "order-consumer: %s", PQerrorMessage(db));
    PQclear(result);
    return fresh;
}

/* A batch whose outcome is not known is simply applied again: that is what the kept ids are for. */
static int64_t apply_at_last(PGconn *db, const struct batch *b)
{
    int64_t fresh;

    while ((fresh = batch_apply(db, b)) < 0 && !stop_asked) {
        pause_ms(100);
        if (PQstatus(db) != CONNECTION_OK)
            PQreset(db);
    }
    return fresh;
}

/* --- the loop -------------------------------------------------------------------------------------------------------- */

static void fill(rd_kafka_t *consumer, struct batch *b, int64_t *unreadable)
{
    rd_kafka_message_t *message;

    batch_clear(b);
    for (int wait_ms = 100; b->n < BATCH_MAX && (message = rd_kafka_consumer_poll(consumer, wait_ms)) != NULL; wait_ms = 5) {
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            *unreadable += !batch_add(b, message);
        rd_kafka_message_destroy(message);
    }
}

static void consume(rd_kafka_t *consumer, PGconn *db)
{
    struct batch batch = {.n = 0};
    int64_t records = 0, applied = 0, unreadable = 0;

    while (!stop_asked) {
        int64_t fresh = 0;

        fill(consumer, &batch, &unreadable);
        if (batch.n == 0)
            continue;
        if ((fresh = apply_at_last(db, &batch)) < 0)
            break;
        records += batch.n;
        applied += fresh;
        /* May fail, after a rebalance for one: then somebody reads them again, and finds them applied. */
        (void)rd_kafka_commit(consumer, NULL, 0);
    }
    (void)printf("records=%" PRId64 " applied=%" PRId64 " seen_before=%" PRId64 " unreadable=%" PRId64 "\n", records, applied,
                 records - applied, unreadable);
    free(batch.event_ids.text);
    free(batch.orders.text);
    free(batch.cents.text);
}

static rd_kafka_t *consumer_new(const struct options *o)
{
    const char *const properties[][2] = {
        {"bootstrap.servers", o->bootstrap}, {"group.id", o->group},           {"enable.auto.commit", "false"},
        {"auto.offset.reset", "earliest"},   {"fetch.wait.max.ms", "50"},      {"session.timeout.ms", "6000"},
        {"heartbeat.interval.ms", "500"},    {"socket.nagle.disable", "true"},
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char error[256];
    rd_kafka_t *consumer;

    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++)
        if (rd_kafka_conf_set(conf, properties[i][0], properties[i][1], error, sizeof error) != RD_KAFKA_CONF_OK)
            refuse("%s", error);
    consumer = rd_kafka_new(RD_KAFKA_CONSUMER, conf, error, sizeof error);
    if (consumer == NULL)
        refuse("%s", error);
    (void)rd_kafka_poll_set_consumer(consumer);
    return consumer;
}

static void subscribe(rd_kafka_t *consumer, char *topics)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    char *rest = NULL;
    rd_kafka_resp_err_t failed;

    for (char *name = strtok_r(topics, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest))
        (void)rd_kafka_topic_partition_list_add(list, name, RD_KAFKA_PARTITION_UA);
    failed = rd_kafka_subscribe(consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (failed != RD_KAFKA_RESP_ERR_NO_ERROR)
        refuse("cannot subscribe: %s", rd_kafka_err2str(failed));
}

static void read_options(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            refuse("usage: order-consumer --kafka HOST:PORT [--database CONNINFO] [--topics A,B] [--group NAME]");
        if (strcmp(argv[i], "--database") == 0)
            o->database = argv[i + 1];
        else if (strcmp(argv[i], "--kafka") == 0)
            o->bootstrap = argv[i + 1];
        else if (strcmp(argv[i], "--topics") == 0)
            o->topics = argv[i + 1];
        else if (strcmp(argv[i], "--group") == 0)
            o->group = argv[i + 1];
        else
            refuse("\"%s\" is not an option", argv[i]);
    }
    if (o->bootstrap == NULL)
        refuse("--kafka HOST:PORT is needed");
}

int main(int argc, char **argv)
{
    static char default_topics[] = "orders";
    struct options o = {.database = "", .group = "order-totals", .topics = default_topics};
    struct sigaction action = {.sa_handler = on_signal};
    rd_kafka_t *consumer;
    PGconn *db;

    read_options(&o, argc, argv);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    db = PQconnectdb(o.database);
    if (PQstatus(db) != CONNECTION_OK)
        refuse("cannot connect: %s", PQerrorMessage(db));
    consumer = consumer_new(&o);
    subscribe(consumer, o.topics);
    consume(consumer, db);
    (void)rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    PQfinish(db);
    return 0;
}
