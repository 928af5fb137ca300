/* SPDX-License-Identifier: BSD-2-Clause */
/* A service under load: each transaction changes a few orders and writes an outbox row for every change.
 *
 *     BEGIN
 *       UPDATE demo.orders SET version = version + 1, ... RETURNING version    takes the order's lock and keeps it to the end
 *       INSERT INTO outbox.event ...                                            draws the event's id, under that lock
 *       INSERT INTO demo.history ...                                            for the oracle
 *       ... once more for other orders, or for the same one
 *     COMMIT, or for some ROLLBACK
 *
 * The order of these two statements is the writer contract: with it, ids ascend in the order in which the transactions of an order
 * commit. Orders are locked in ascending order, so that writers cannot deadlock. A writer that loses its connection in the middle of a
 * COMMIT looks into the history to learn how it ended; it never guesses.
 */
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define EVENTS_MAX  64 /* of one transaction */
#define TOPICS_MAX  16
#define WRITERS_MAX 256

struct options {
    const char *database, *table;
    char *topic[TOPICS_MAX];
    int topics_n;
    int64_t writers, orders, events_max, rollback_percent, payload_bytes, rate, seconds, hold_seconds;
    int64_t total; /* stop when so many rows are committed; 0: do not */
};

struct writer {
    pthread_t thread;
    const struct options *options;
    PGconn *db;
    uint64_t random; /* state of xorshift64* */
    bool holds;      /* keeps its transactions open, on an order that nobody else changes */
};

struct event {
    int64_t order;
    int topic;
    char id[37], payload[4096];
    size_t payload_n;
};

static volatile sig_atomic_t stop_asked; /* by a signal */
static atomic_bool stop;
static atomic_llong committed, rolled_back, unknown, reconnects, transactions;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

static bool stopping(void)
{
    return stop_asked || atomic_load(&stop);
}

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Sleep until `instant` or until the end, whichever is first. */
static void sleep_until(double instant)
{
    for (double left; !stopping() && (left = instant - now()) > 0;) {
        double nap = left < 0.05 ? left : 0.05;
        struct timespec t = {.tv_nsec = (long)(nap * 1e9)};

        (void)nanosleep(&t, NULL);
    }
}

static int64_t draw(struct writer *w, int64_t below)
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return (int64_t)((w->random * 2685821657736338717u >> 16) % (uint64_t)below);
}

/* A random UUID, version 4. It is the event's identity for ever; the table's serial id is not. */
static void draw_uuid(char ret_text[37])
{
    unsigned char b[16];
    char *to = ret_text;

    while (getrandom(b, sizeof b, 0) != sizeof b)
        ;
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    for (int i = 0; i < 16; i++)
        to += sprintf(to, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

static int64_t payload_hash(const char *payload, size_t n)
{
    uint64_t hash = 14695981039346656037u;
    int64_t same_bits;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)payload[i]) * 1099511628211u;
    memcpy(&same_bits, &hash, sizeof same_bits);
    return same_bits;
}

/* --- statements ----------------------------------------------------------------------------------------------------- */

static const char update_order[] = "UPDATE demo.orders SET version = version + 1, total_cents = total_cents + $2 WHERE id = $1 "
                                   "RETURNING version";
static const char insert_event[] =
    "WITH e AS (INSERT INTO %s (event_id, topic, key, payload, headers) "
    "VALUES ($1, $2, $3, $4, '{\"type\": \"order.changed\"}') RETURNING event_id) "
    "INSERT INTO demo.history (event_id, topic, key, version, payload_hash) SELECT event_id, $2, $3, $5, $6 FROM e";

static bool done(PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static bool prepare(struct writer *w)
{
    char insert[sizeof insert_event + 128];

    (void)snprintf(insert, sizeof insert, insert_event, w->options->table);
    return done(PQprepare(w->db, "update_order", update_order, 0, NULL)) && done(PQprepare(w->db, "insert_event", insert, 0, NULL));
}

/* Connect, however long it takes. Returns false if the end came first. */
static bool connect_again(struct writer *w)
{
    while (!stopping()) {
        PQfinish(w->db);
        w->db = PQconnectdb(w->options->database);
        if (PQstatus(w->db) == CONNECTION_OK && prepare(w))
            return true;
        sleep_until(now() + 0.1);
    }
    return false;
}

static bool lock_order(struct writer *w, const struct event *e, int64_t cents, int64_t *ret_version)
{
    char order[24], amount[24];
    const char *values[] = {order, amount};
    PGresult *result;
    bool found;

    (void)snprintf(order, sizeof order, "%" PRId64, e->order);
    (void)snprintf(amount, sizeof amount, "%" PRId64, cents);
    result = PQexecPrepared(w->db, "update_order", 2, values, NULL, NULL, 0);
    found = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
    if (found)
        *ret_version = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return found;
}

static bool write_event(struct writer *w, const struct event *e, int64_t version)
{
    char key[32], version_text[24], hash[24];
    const char *values[] = {e->id, w->options->topic[e->topic], key, e->payload, version_text, hash};
    const int lengths[] = {0, 0, 0, (int)e->payload_n, 0, 0}, formats[] = {0, 0, 0, 1, 0, 0};

    (void)snprintf(key, sizeof key, "order-%" PRId64, e->order);
    (void)snprintf(version_text, sizeof version_text, "%" PRId64, version);
    (void)snprintf(hash, sizeof hash, "%" PRId64, payload_hash(e->payload, e->payload_n));
    return done(PQexecPrepared(w->db, "insert_event", 6, values, lengths, formats, 0));
}

static void write_payload(const struct writer *w, struct event *e, int64_t version, int64_t cents)
{
    size_t wanted = (size_t)w->options->payload_bytes;
    int n = snprintf(e->payload, sizeof e->payload, "{\"order\":%" PRId64 ",\"version\":%" PRId64 ",\"cents\":%" PRId64 ",\"note\":\"",
                     e->order, version, cents);

    e->payload_n = (size_t)n;
    while (e->payload_n + 2 < wanted)
        e->payload[e->payload_n++] = '.';
    e->payload[e->payload_n++] = '"';
    e->payload[e->payload_n++] = '}';
}

/* --- transactions --------------------------------------------------------------------------------------------------- */

static int by_order(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    return (x->order > y->order) - (x->order < y->order);
}

/* Which orders a transaction changes: ascending, some of them more than once. An order's events all go to one topic. */
static int choose(struct writer *w, struct event *events)
{
    const struct options *o = w->options;
    int n = 1 + (int)draw(w, o->events_max);

    for (int i = 0; i < n; i++) {
        bool again = i > 0 && draw(w, 4) == 0;

        events[i].order = w->holds ? o->orders + 1 : again ? events[i - 1].order : 1 + draw(w, o->orders);
        events[i].topic = (int)(events[i].order % o->topics_n);
        draw_uuid(events[i].id);
    }
    qsort(events, (size_t)n, sizeof *events, by_order);
    return n;
}

/* A writer that holds draws its first id long before the others. */
static bool change_orders(struct writer *w, struct event *events, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t cents = draw(w, 20000) - 5000, version;

        if (!lock_order(w, &events[i], cents, &version))
            return false;
        write_payload(w, &events[i], version, cents);
        if (!write_event(w, &events[i], version))
            return false;
        if (w->holds && i == 0)
            sleep_until(now() + (double)w->options->hold_seconds);
    }
    return true;
}

/* The COMMIT was sent and its answer was lost. An old backend may still be at it: whoever holds the order's lock sees the end of that. */
static bool was_committed(struct writer *w, const struct event *e, bool *ret_committed)
{
    char order[24];
    const char *lock[] = {order}, *id[] = {e->id};
    PGresult *result;
    bool good;

    (void)snprintf(order, sizeof order, "%" PRId64, e->order);
    good = done(PQexec(w->db, "BEGIN")) &&
           done(PQexecParams(w->db, "SELECT 1 FROM demo.orders WHERE id = $1 FOR UPDATE", 1, NULL, lock, NULL, NULL, 0));
    result = PQexecParams(w->db, "SELECT 1 FROM demo.history WHERE event_id = $1", 1, NULL, id, NULL, NULL, 0);
    good = good && PQresultStatus(result) == PGRES_TUPLES_OK;
    *ret_committed = good && PQntuples(result) == 1;
    PQclear(result);
    return done(PQexec(w->db, "ROLLBACK")) && good;
}

static void count_end(int n, bool kept)
{
    (void)atomic_fetch_add(kept ? &committed : &rolled_back, n);
    (void)atomic_fetch_add(&transactions, 1);
}

/* After a connection was lost at the COMMIT: ask until somebody answers. */
static void look_up(struct writer *w, const struct event *events, int n)
{
    bool kept;

    for (bool asked = false; !asked;) {
        if (!connect_again(w)) {
            (void)atomic_fetch_add(&unknown, n);
            return;
        }
        asked = was_committed(w, &events[0], &kept);
    }
    count_end(n, kept);
}

/* COMMIT answers ROLLBACK, without an error, if a statement before it failed. */
static void finish(struct writer *w, const struct event *events, int n, bool keep)
{
    PGresult *result = PQexec(w->db, keep ? "COMMIT" : "ROLLBACK");
    bool answered = PQresultStatus(result) == PGRES_COMMAND_OK, kept = answered && strcmp(PQcmdStatus(result), "COMMIT") == 0;

    PQclear(result);
    if (answered || !keep)
        count_end(n, kept);
    else if (PQstatus(w->db) == CONNECTION_OK)
        count_end(n, false);
    else
        look_up(w, events, n);
}

static void transaction(struct writer *w, struct event *events, int n)
{
    bool keep = w->holds || draw(w, 100) >= w->options->rollback_percent, written;

    if (!done(PQexec(w->db, "BEGIN"))) {
        (void)atomic_fetch_add(&reconnects, 1);
        (void)connect_again(w);
        return;
    }
    written = change_orders(w, events, n);
    finish(w, events, n, keep && written);
}

static void *write_on(void *data)
{
    struct writer *w = data;
    const struct options *o = w->options;
    struct event *events = calloc(EVENTS_MAX, sizeof *events);
    double next = now();

    if (events == NULL)
        abort();
    while (connect_again(w) && !stopping()) {
        while (!stopping() && PQstatus(w->db) == CONNECTION_OK) {
            int n = choose(w, events);

            transaction(w, events, n);
            if (o->total > 0 && atomic_load(&committed) >= o->total)
                atomic_store(&stop, true);
            /* Open loop: a late transaction does not make the later ones late. */
            if (o->rate > 0)
                sleep_until(next += (double)(n * o->writers) / (double)o->rate);
        }
    }
    PQfinish(w->db);
    free(events);
    return NULL;
}

/* --- the program ---------------------------------------------------------------------------------------------------- */

static _Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void refuse(const char *format, ...)
{
    va_list arguments;

    (void)fputs("order-load: ", stderr);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    exit(2);
}

static const char usage[] =
    "usage: order-load [--database CONNINFO] [--table outbox.event] [--topics A,B] [--writers 8] [--orders 1000]\n"
    "                  [--events 8] [--rollback 6] [--payload 200] [--rate ROWS/S] [--total ROWS] [--seconds S]\n"
    "                  [--hold S]\n"
    "Changes orders until --total rows are committed, --seconds are over, or SIGTERM comes. --events: at most so many\n"
    "a transaction. --rollback: percent of the transactions. --rate 0: as fast as it goes. --hold: one more writer,\n"
    "which keeps each of its transactions open for so long.\n";

static void split_topics(struct options *o, char *list)
{
    char *rest = NULL;

    o->topics_n = 0;
    for (char *name = strtok_r(list, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        if (o->topics_n == TOPICS_MAX)
            refuse("--topics has more than %d names", TOPICS_MAX);
        o->topic[o->topics_n++] = name;
    }
    if (o->topics_n == 0)
        refuse("--topics needs a name");
}

static const struct number_option {
    const char *name;
    size_t offset; /* of an int64_t in struct options */
    int64_t least, most;
} number_options[] = {
    {"writers", offsetof(struct options, writers), 1, WRITERS_MAX - 1}, {"orders", offsetof(struct options, orders), 1, 1000000},
    {"events", offsetof(struct options, events_max), 1, EVENTS_MAX},    {"rollback", offsetof(struct options, rollback_percent), 0, 100},
    {"payload", offsetof(struct options, payload_bytes), 0, 4000},      {"rate", offsetof(struct options, rate), 0, 10000000},
    {"total", offsetof(struct options, total), 0, INT64_MAX},           {"seconds", offsetof(struct options, seconds), 0, 1000000000},
    {"hold", offsetof(struct options, hold_seconds), 0, 1000000},
};

static void take_number(struct options *o, const char *name, const char *text)
{
    for (size_t i = 0; i < sizeof number_options / sizeof number_options[0]; i++) {
        const struct number_option *n = &number_options[i];
        char *end;
        long long value = strtoll(text, &end, 10);

        if (strcmp(n->name, name) != 0)
            continue;
        if (end == text || *end != '\0' || value < n->least || value > n->most)
            refuse("--%s must be a number from %" PRId64 " to %" PRId64 ", but is \"%s\"", name, n->least, n->most, text);
        *(int64_t *)(void *)((char *)o + n->offset) = value;
        return;
    }
    refuse("--%s is not an option; --help lists them", name);
}

static void take_option(struct options *o, const char *name, char *value)
{
    if (strcmp(name, "help") == 0) {
        (void)fputs(usage, stdout);
        exit(0);
    }
    if (value == NULL)
        refuse("--%s needs a value", name);
    if (strcmp(name, "database") == 0)
        o->database = value;
    else if (strcmp(name, "table") == 0)
        o->table = value;
    else if (strcmp(name, "topics") == 0)
        split_topics(o, value);
    else
        take_number(o, name, value);
}

static void read_options(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (strncmp(argv[i], "--", 2) != 0)
            refuse("\"%s\" is not an option; --help lists them", argv[i]);
        take_option(o, argv[i] + 2, i + 1 < argc ? argv[i + 1] : NULL);
    }
}

static void create_orders(const struct options *o)
{
    PGconn *db = PQconnectdb(o->database);
    char count[24];
    const char *values[] = {count};

    (void)snprintf(count, sizeof count, "%" PRId64, o->orders + 1);
    if (PQstatus(db) != CONNECTION_OK)
        refuse("cannot connect: %s", PQerrorMessage(db));
    if (!done(PQexecParams(db, "INSERT INTO demo.orders (id) SELECT generate_series(1, $1::bigint) ON CONFLICT DO NOTHING", 1, NULL, values,
                           NULL, NULL, 0)))
        refuse("cannot create the orders (was producer-demo/schema.sql run?): %s", PQerrorMessage(db));
    PQfinish(db);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

static void run_writers(const struct options *o)
{
    static struct writer writers[WRITERS_MAX];
    int n = (int)o->writers + (o->hold_seconds > 0);
    double end = o->seconds > 0 ? now() + (double)o->seconds : 1e18;

    for (int i = 0; i < n; i++) {
        writers[i] = (struct writer){.options = o, .holds = i == o->writers, .random = 88172645463325252u + (uint64_t)i};
        if (pthread_create(&writers[i].thread, NULL, write_on, &writers[i]) != 0)
            refuse("cannot start writer %d: %s", i, strerror(errno));
    }
    sleep_until(end);
    atomic_store(&stop, true);
    for (int i = 0; i < n; i++)
        (void)pthread_join(writers[i].thread, NULL);
}

int main(int argc, char **argv)
{
    static char default_topics[] = "orders";
    struct options o = {.database = "",
                        .table = "outbox.event",
                        .writers = 8,
                        .orders = 1000,
                        .events_max = 8,
                        .rollback_percent = 6,
                        .payload_bytes = 200};
    double begin = now();

    split_topics(&o, default_topics);
    read_options(&o, argc, argv);
    catch_signals();
    create_orders(&o);
    run_writers(&o);
    (void)printf("committed=%lld rolled_back=%lld unknown=%lld transactions=%lld reconnects=%lld seconds=%.1f\n", atomic_load(&committed),
                 atomic_load(&rolled_back), atomic_load(&unknown), atomic_load(&transactions), atomic_load(&reconnects), now() - begin);
    return 0;
}
