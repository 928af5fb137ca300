/* SPDX-License-Identifier: BSD-2-Clause */
/* Latency of a running relay at a fixed rate, beside that of the broker alone.
 *
 *     latency CONNINFO BOOTSTRAP PARTITIONS RATE SECONDS WRITERS INSERT
 *
 * Open loop: each writer has an instant for each of its rows, drawn beforehand, and a late row is not moved. In turns, ten seconds of
 * rows (INSERT takes topic, key and payload; one transaction a row; topic `orders`) and five seconds of the same records produced to the
 * broker directly (topic `direct`, the relay's producer settings), so that both meet the same machine. One consumer in this process reads
 * both topics; all instants are of one clock. Rows are counted from the return of their commit and from the scheduled instant, records from
 * the call of produce and from the scheduled instant. The first turn of each is the warm-up. SECONDS is the sum of the turns with rows.
 *
 * Lines of name=value pairs, milliseconds. Exit status 1: the run is void, as less than 0.99 of the rate was reached. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "tests/bench/client.h"

enum {
    WRITERS_MAX = 64,
    KEYS = 10000,
    NUMBER_DIGITS = 12,
    PAYLOAD_BYTES = 300,
    WARM_UP_S = 5,
    ROWS_TURN_S = 10,
    DIRECT_TURN_S = 5,
    PATIENCE_S = 30
};

struct sample {
    char payload[PAYLOAD_BYTES];
    int64_t scheduled_ns, done_ns, acked_ns; /* done: the commit returned, or produce was called */
    _Atomic int64_t seen_ns;                 /* 0: not yet */
};

/* All rows, or all records: one series of samples. */
struct series {
    const char *topic;
    struct sample *samples;
    long max, used_n, measured_from; /* samples before `measured_from` are the warm-up */
    atomic_long seen_n;
    double asked_s, taken_s; /* of the measured turns */
};

struct bench {
    const char *insert;
    rd_kafka_t *producer, *consumer;
    long rate;
    int writers_n;
    atomic_bool stopping;
    struct series rows, direct;
    PGconn *connections[WRITERS_MAX];
};

/* One writer's share of a turn. */
struct share {
    struct bench *bench;
    struct series *series;
    PGconn *connection; /* NULL: produce */
    long first, end;
    pthread_t thread;
};

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void sleep_until(int64_t instant_ns)
{
    struct timespec instant = {.tv_sec = instant_ns / 1000000000, .tv_nsec = instant_ns % 1000000000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &instant, NULL) != 0)
        continue;
}

static void write_row(const struct share *share, struct sample *sample, const char *key)
{
    const char *values[] = {share->series->topic, key, sample->payload};
    const int lengths[] = {0, 0, PAYLOAD_BYTES}, formats[] = {0, 0, 1};
    PGresult *result = PQexecPrepared(share->connection, "insert", 3, values, lengths, formats, 0);

    sample->done_ns = client_now_ns();
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        client_fail("insert: %s", PQerrorMessage(share->connection));
    PQclear(result);
}

static void write_record(const struct share *share, struct sample *sample, const char *key)
{
    static const char id[] = "6f1b8a52-0000-4000-8000-000000000000"; /* as long as the relay's header */

    sample->done_ns = client_now_ns();
    client_produce(share->bench->producer, &(struct client_record){.topic = share->series->topic,
                                                                   .key = key,
                                                                   .key_n = strlen(key),
                                                                   .payload = sample->payload,
                                                                   .payload_n = PAYLOAD_BYTES,
                                                                   .id = id,
                                                                   .id_n = sizeof id - 1,
                                                                   .data = sample});
}

static void *write_share(void *data)
{
    struct share *share = data;

    for (long n = share->first; n < share->end; n++) {
        struct sample *sample = &share->series->samples[n];
        char key[32], digits[32];

        snprintf(key, sizeof key, "key-%ld", n * 7919 % KEYS);
        snprintf(digits, sizeof digits, "%012ld", n);
        memset(sample->payload, 'x', PAYLOAD_BYTES);
        memcpy(sample->payload, digits, NUMBER_DIGITS);
        sleep_until(sample->scheduled_ns);
        if (share->connection != NULL)
            write_row(share, sample, key);
        else
            write_record(share, sample, key);
    }
    return NULL;
}

/* Instants of one writer: one in each of its intervals, anywhere in it. Exact in rate, without a beat against the relay's polling. */
static void schedule(const struct share *share, int64_t start_ns, double interval_ns)
{
    for (long n = share->first; n < share->end; n++)
        share->series->samples[n].scheduled_ns = start_ns + (int64_t)(((double)(n - share->first) + drand48()) * interval_ns);
}

static void await_series(struct series *series)
{
    int64_t deadline_ns = client_now_ns() + (int64_t)PATIENCE_S * 1000000000;

    while (atomic_load(&series->seen_n) < series->used_n) {
        if (client_now_ns() > deadline_ns)
            client_fail("%ld of %ld %s did not arrive within %d s", series->used_n - atomic_load(&series->seen_n), series->used_n,
                        series->topic, PATIENCE_S);
        sleep_until(client_now_ns() + 5000000);
    }
}

/* `seconds` of load; returns when all of it was seen by the consumer. */
static void turn(struct bench *bench, struct series *series, long seconds)
{
    struct share shares[WRITERS_MAX];
    long each = bench->rate * seconds / bench->writers_n, first = series->used_n;
    int64_t start_ns = client_now_ns() + 10000000, last_ns = 0;

    series->used_n += each * bench->writers_n;
    if (series->used_n > series->max)
        client_fail("more samples than room");
    for (int w = 0; w < bench->writers_n; w++) {
        shares[w] = (struct share){.bench = bench, .series = series, .connection = series == &bench->rows ? bench->connections[w] : NULL};
        shares[w].first = first + w * each;
        shares[w].end = shares[w].first + each;
        schedule(&shares[w], start_ns, (double)seconds * 1e9 / (double)each);
        if (pthread_create(&shares[w].thread, NULL, write_share, &shares[w]) != 0)
            client_fail("no thread for a writer");
    }
    for (int w = 0; w < bench->writers_n; w++) {
        pthread_join(shares[w].thread, NULL);
        if (series->samples[shares[w].end - 1].done_ns > last_ns)
            last_ns = series->samples[shares[w].end - 1].done_ns;
    }
    series->asked_s += (double)seconds;
    series->taken_s += (double)(last_ns - start_ns) / 1e9 > (double)seconds ? (double)(last_ns - start_ns) / 1e9 : (double)seconds;
    rd_kafka_flush(bench->producer, PATIENCE_S * 1000);
    await_series(series);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void *read_topics(void *data)
{
    struct bench *bench = data;

    while (!atomic_load(&bench->stopping)) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(bench->consumer, 100);
        int64_t now_ns = client_now_ns(), unseen = 0;

        if (message == NULL)
            continue;
        if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            client_fail("consume: %s", rd_kafka_message_errstr(message));
        struct series *series = strcmp(rd_kafka_topic_name(message->rkt), bench->rows.topic) == 0 ? &bench->rows : &bench->direct;
        char digits[NUMBER_DIGITS + 1] = {0};
        memcpy(digits, message->payload, message->len < NUMBER_DIGITS ? message->len : NUMBER_DIGITS);
        long n = strtol(digits, NULL, 10);
        if (n < 0 || n >= series->max)
            client_fail("a record in %s that nobody wrote", series->topic);
        if (atomic_compare_exchange_strong(&series->samples[n].seen_ns, &unseen, now_ns))
            atomic_fetch_add(&series->seen_n, 1);
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static void on_report(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *data)
{
    struct sample *sample = message->_private;

    (void)kafka;
    (void)data;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        client_fail("produce: %s", rd_kafka_err2str(message->err));
    sample->acked_ns = client_now_ns();
}

static void *serve_reports(void *data)
{
    struct bench *bench = data;

    while (!atomic_load(&bench->stopping))
        rd_kafka_poll(bench->producer, 100);
    return NULL;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

enum span {
    SCHEDULED_DONE,
    DONE_ACKED,
    DONE_SEEN,
    SCHEDULED_ACKED,
    SCHEDULED_SEEN
};

static double span_ms(struct sample *sample, enum span span)
{
    int64_t seen_ns = atomic_load(&sample->seen_ns),
            from_ns = span == DONE_ACKED || span == DONE_SEEN ? sample->done_ns : sample->scheduled_ns;
    int64_t to_ns = span == SCHEDULED_DONE ? sample->done_ns : span == DONE_ACKED || span == SCHEDULED_ACKED ? sample->acked_ns : seen_ns;

    return (double)(to_ns - from_ns) / 1e6;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void print_span(struct series *series, enum span span, const char *name)
{
    long n = series->used_n - series->measured_from;
    double *values = malloc((size_t)n * sizeof *values);

    if (values == NULL)
        client_fail("out of memory");
    for (long i = 0; i < n; i++)
        values[i] = span_ms(&series->samples[series->measured_from + i], span);
    qsort(values, (size_t)n, sizeof *values, compare);
    printf("span=%s p50=%.3f p90=%.3f p99=%.3f p999=%.3f max=%.3f n=%ld\n", name, values[n / 2], values[n * 9 / 10], values[n * 99 / 100],
           values[n * 999 / 1000], values[n - 1], n);
    free(values);
}

/* Returns the part of the asked rate that was reached. */
static double print_reached(const struct series *series, const char *name)
{
    double reached = series->asked_s / series->taken_s;

    printf("series=%s reached=%.4f rows=%ld\n", name, reached, series->used_n - series->measured_from);
    return reached;
}

/* --- set-up ------------------------------------------------------------------------------------------------------- */

static void series_make(struct series *series, const char *topic, long rows_max)
{
    series->topic = topic;
    series->max = rows_max;
    series->samples = calloc((size_t)rows_max, sizeof *series->samples);
    if (series->samples == NULL)
        client_fail("out of memory");
    memset(series->samples, 0, (size_t)rows_max * sizeof *series->samples);
}

static void connect_writers(struct bench *bench, const char *conninfo)
{
    for (int w = 0; w < bench->writers_n; w++) {
        PGconn *connection = bench->connections[w] = PQconnectdb(conninfo);

        if (PQstatus(connection) != CONNECTION_OK)
            client_fail("%s", PQerrorMessage(connection));
        PGresult *result = PQprepare(connection, "insert", bench->insert, 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            client_fail("%s: %s", bench->insert, PQerrorMessage(connection));
        PQclear(result);
    }
}

static void connect_kafka(struct bench *bench, const char *bootstrap, int partitions_n)
{
    const char *const producing[] = {
        "bootstrap.servers",    bootstrap, "enable.idempotence", "true",           "acks", "all", "linger.ms", "0",
        "socket.nagle.disable", "true",    "partitioner",        "murmur2_random", NULL};
    const char *const consuming[] = {
        "bootstrap.servers",    bootstrap, "group.id", "bench-latency", "enable.auto.commit", "false", "fetch.wait.max.ms", "100",
        "socket.nagle.disable", "true",    NULL};
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(2 * partitions_n);

    bench->producer = client_kafka(RD_KAFKA_PRODUCER, producing, on_report);
    bench->consumer = client_kafka(RD_KAFKA_CONSUMER, consuming, NULL);
    rd_kafka_poll_set_consumer(bench->consumer);
    client_assign(list, bench->rows.topic, partitions_n);
    client_assign(list, bench->direct.topic, partitions_n);
    rd_kafka_assign(bench->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
}

static void measure(struct bench *bench, long seconds)
{
    turn(bench, &bench->direct, WARM_UP_S);
    turn(bench, &bench->rows, WARM_UP_S);
    for (struct series *series = &bench->rows; series != NULL; series = series == &bench->rows ? &bench->direct : NULL) {
        series->measured_from = series->used_n;
        series->asked_s = series->taken_s = 0;
    }
    for (long left = seconds; left > 0; left -= ROWS_TURN_S) {
        turn(bench, &bench->rows, left < ROWS_TURN_S ? left : ROWS_TURN_S);
        turn(bench, &bench->direct, DIRECT_TURN_S);
    }
}

int main(int argc, char **argv)
{
    static struct bench bench;
    pthread_t reader, reports;

    if (argc != 8)
        client_fail("usage: latency CONNINFO BOOTSTRAP PARTITIONS RATE SECONDS WRITERS INSERT");
    long seconds = client_number(argv[5], "SECONDS");
    bench.rate = client_number(argv[4], "RATE");
    bench.writers_n = (int)client_number(argv[6], "WRITERS");
    bench.insert = argv[7];
    if (seconds < 1 || bench.rate < bench.writers_n || bench.writers_n < 1 || bench.writers_n > WRITERS_MAX)
        client_fail("at least one second, 1 to %d writers, and a row a second for each of them", WRITERS_MAX);
    prctl(PR_SET_TIMERSLACK, 1000UL);
    series_make(&bench.rows, "orders", bench.rate * (seconds + WARM_UP_S + 1));
    series_make(&bench.direct, "direct", bench.rate * (seconds / ROWS_TURN_S * DIRECT_TURN_S + DIRECT_TURN_S + WARM_UP_S + 1));
    connect_writers(&bench, argv[1]);
    connect_kafka(&bench, argv[2], (int)client_number(argv[3], "PARTITIONS"));
    if (pthread_create(&reader, NULL, read_topics, &bench) != 0 || pthread_create(&reports, NULL, serve_reports, &bench) != 0)
        client_fail("no thread for the reader");
    measure(&bench, seconds);
    atomic_store(&bench.stopping, true);
    pthread_join(reader, NULL);
    pthread_join(reports, NULL);

    double rows = print_reached(&bench.rows, "rows"), direct = print_reached(&bench.direct, "direct");
    print_span(&bench.rows, SCHEDULED_DONE, "scheduled-to-commit");
    print_span(&bench.rows, DONE_SEEN, "commit-to-consumer");
    print_span(&bench.rows, SCHEDULED_SEEN, "scheduled-to-consumer");
    print_span(&bench.direct, DONE_ACKED, "produce-to-ack");
    print_span(&bench.direct, DONE_SEEN, "produce-to-consumer");
    print_span(&bench.direct, SCHEDULED_ACKED, "scheduled-to-ack");
    return rows < 0.99 || direct < 0.99 ? 1 : 0;
}
