/* SPDX-License-Identifier: BSD-2-Clause */
/* One connection, through everything that a network and a server may do to it. */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "relay/edge/database.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

/* libuv's threads call this one: a name server that does not answer for names that end in ".blackhole", until the test is over (a
 * program cannot exit before its lookups do). */
static atomic_bool name_server_answers;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

    if (node != NULL && strlen(node) > 10 && strcmp(node + strlen(node) - 10, ".blackhole") == 0)
        WAIT_UNTIL(name_server_answers, 60);
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(node, service, hints, list);
}

struct client {
    uv_loop_t loop;
    struct database *database;
    unsigned connected_n, lost_n, freed_n, answers_n;
    char reason[700];
    struct database_result *result;
    char sqlstate[6], message[700], warning[6];
    char order[20];
    bool close_in_answer;
    uint64_t blocked_ms; /* the longest turn of the loop in which it slept */
};

static void on_connected(void *data)
{
    struct client *c = data;
    c->connected_n++;
}

static void on_lost(void *data, const char *reason)
{
    struct client *c = data;
    c->lost_n++;
    snprintf(c->reason, sizeof c->reason, "%s", reason);
}

static void on_freed(void *data)
{
    struct client *c = data;
    c->freed_n++;
}

static void on_answer(void *data, struct database_result *result, const struct database_error *error)
{
    struct client *c = data;
    c->answers_n++;
    database_result_free(c->result);
    c->result = result;
    snprintf(c->warning, sizeof c->warning, "%s", database_warning(c->database));
    CHECK((result == NULL) == (error != NULL));
    if (error != NULL) {
        snprintf(c->sqlstate, sizeof c->sqlstate, "%s", error->sqlstate);
        snprintf(c->message, sizeof c->message, "%s", error->message);
    }
    if (c->close_in_answer)
        database_close(c->database);
}

static long switches(void)
{
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

/* A turn in which the thread only waited for the processor is not its own fault. */
static void turn(struct client *c)
{
    uint64_t before_ns = uv_hrtime();
    long before = switches();
    uint64_t ms;

    (void)uv_run(&c->loop, UV_RUN_NOWAIT);
    ms = (uv_hrtime() - before_ns) / 1000000;
    if (ms > c->blocked_ms && switches() > before)
        c->blocked_ms = ms;
}
#define CLIENT_UNTIL(c, condition, seconds) WAIT_UNTIL((turn(c), (condition)), seconds)

/* What starts an attempt must not block either. */
static void client_connect(struct client *c)
{
    uint64_t before_ns = uv_hrtime();
    long before = switches();
    uint64_t ms;

    database_connect(c->database);
    ms = (uv_hrtime() - before_ns) / 1000000;
    if (ms > c->blocked_ms && switches() > before)
        c->blocked_ms = ms;
}

static struct client *client_new(const char *conninfo, uint32_t connect_ms, uint32_t deadline_ms)
{
    static const struct database_callbacks callbacks = {.on_connected = on_connected, .on_lost = on_lost};
    struct client *c = calloc(1, sizeof *c);

    CHECK_EQ(uv_loop_init(&c->loop), 0);
    c->database = database_new(
        &c->loop,
        &(struct database_settings){.conninfo = conninfo, .application = "test", .connect_ms = connect_ms, .deadline_ms = deadline_ms},
        &callbacks, c);
    CHECK(c->database != NULL);
    return c;
}

static void client_free(struct client *c)
{
    database_free(c->database, on_freed, c);
    CHECK_EQ(c->freed_n, 0);
    CLIENT_UNTIL(c, c->freed_n == 1, 10);
    database_result_free(c->result);
    if (c->blocked_ms > 50)
        test_fail(__FILE__, __LINE__, "the loop stood still for %u ms", (unsigned)c->blocked_ms);
    if (uv_loop_close(&c->loop) == 0)
        free(c); /* else a lookup is still on it */
}

static struct client *client_connected(const char *conninfo)
{
    struct client *c = client_new(conninfo, 5000, 5000);
    client_connect(c);
    CHECK_EQ(c->connected_n + c->lost_n, 0);
    CLIENT_UNTIL(c, c->connected_n + c->lost_n > 0, 20);
    if (c->lost_n > 0)
        test_fail(__FILE__, __LINE__, "%s", c->reason);
    CHECK(database_ready(c->database));
    return c;
}

/* Connect, and wait for the refusal. */
static const char *client_refused(struct client *c)
{
    unsigned before = c->lost_n;
    client_connect(c);
    CHECK_EQ(c->lost_n, before);
    CLIENT_UNTIL(c, c->connected_n > 0 || c->lost_n > before, 20);
    CHECK_EQ(c->connected_n, 0);
    CHECK(!database_ready(c->database));
    CHECK(strchr(c->reason, '\n') == NULL);
    return c->reason;
}

static void ask(struct client *c, const char *name, const char *sql)
{
    struct database_statement *statement = calloc(1, sizeof *statement);
    struct database_request *request = calloc(1, sizeof *request);
    unsigned before = c->answers_n, lost_before = c->lost_n;

    *statement = (struct database_statement){.name = name, .sql = sql};
    *request = (struct database_request){.statement = statement, .done = on_answer, .data = c};
    database_send(c->database, request);
    CHECK_EQ(c->answers_n, before);
    CLIENT_UNTIL(c, c->answers_n > before || c->lost_n > lost_before, 20);
    free(request);
    free(statement);
}

static void check_says(const char *sentence, const char *what)
{
    if (strstr(sentence, what) == NULL)
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", sentence, what);
}

/* --- statements --------------------------------------------------------------------------------------------------- */

TEST_WITHIN(database_answers_in_binary, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);
    static const struct database_statement statement = {.name = "s",
                                                        .sql = "SELECT $1::int8 + 1, $2::text, $3::bytea, $1::int4, true, -2::int2"};
    struct database_request r = {.statement = &statement, .values_n = 3, .done = on_answer, .data = c};
    uint32_t n;

    CHECK_EQ(database_backend(c->database) > 0, 1);
    for (unsigned i = 1; i <= 3; i++) {
        r.values[0] = (struct database_value){"\0\0\0\0\0\0\1\0", 8};
        r.values[1] = (struct database_value){NULL, 0};
        r.values[2] = (struct database_value){"", 0};
        database_send(c->database, &r);
        CLIENT_UNTIL(c, c->answers_n == i, 10);
        CHECK(c->result != NULL);
        CHECK_EQ(database_result_rows(c->result), 1);
        CHECK_EQ(database_result_integer(c->result, 0, 0), 257);
        CHECK(database_result_value(c->result, 0, 1, &n) == NULL);
        CHECK(database_result_value(c->result, 0, 2, &n) != NULL && n == 0);
        CHECK_EQ(database_result_integer(c->result, 0, 3), 256);
        CHECK_EQ(database_result_integer(c->result, 0, 4), 1);
        CHECK_EQ(database_result_integer(c->result, 0, 5), -2);
        CHECK(database_result_bytes(c->result) > 0);
    }
    ask(c, NULL, "CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 7)");
    CHECK_EQ(database_result_touched(c->result), 7);
    client_free(c);
}

/* An error is the statement's own matter; of several statements the first one counts. */
TEST_WITHIN(database_error_keeps_the_connection, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);

    ask(c, "a", "SELECT 1/0");
    CHECK_STR(c->sqlstate, "22012");
    check_says(c->message, "division by zero");
    ask(c, "b", "SELEKT");
    CHECK_STR(c->sqlstate, "42601");
    CHECK(strchr(c->message, '\n') == NULL);
    ask(c, NULL, "SELECT 1; SELECT 1/0; SELECT 2");
    CHECK(c->result == NULL);
    CHECK_STR(c->sqlstate, "22012");
    ask(c, "d", "SELECT 1");
    CHECK_EQ(database_result_integer(c->result, 0, 0), 1);
    CHECK_EQ(c->lost_n, 0);
    client_free(c);
}

static void on_ordered(void *data, struct database_result *result, const struct database_error *error)
{
    struct client *c = data;
    char one[2] = {error != NULL ? 'e' : (char)database_result_integer(result, 0, 0), 0};
    strcat(c->order, one);
    database_result_free(result);
}

TEST_WITHIN(database_answers_in_order, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);
    static const struct database_statement slow = {"slow", "SELECT 65 FROM pg_sleep(0.2)"}, fast = {"fast", "SELECT 66"},
                                           bad = {"bad", "SELECT 1/0"};
    const struct database_statement *const statements[] = {&slow, &fast, &bad, &fast, &slow, &bad, &bad, &fast};
    struct database_request r[8];

    for (unsigned i = 0; i < 8; i++) {
        r[i] = (struct database_request){.statement = statements[i], .done = on_ordered, .data = c};
        database_send(c->database, &r[i]);
        CHECK(r[i].busy);
    }
    CLIENT_UNTIL(c, strlen(c->order) == 8, 10);
    CHECK_STR(c->order, "ABeBAeeB");
    CHECK(!r[7].busy);
    client_free(c);
}

/* More than a socket takes at once, there and back. */
TEST_WITHIN(database_sends_and_receives_megabytes, 60)
{
    enum {
        N = 20 << 20
    };
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);
    static const struct database_statement statement = {.name = "s", .sql = "SELECT $1::bytea"};
    char *bytes = malloc(N);
    struct database_request r = {.statement = &statement, .values = {{bytes, N}}, .values_n = 1, .done = on_answer, .data = c};
    uint32_t n;

    for (unsigned i = 0; i < N; i++)
        bytes[i] = (char)(i * 2654435761u >> 24);
    database_send(c->database, &r);
    CLIENT_UNTIL(c, c->answers_n == 1 || c->lost_n == 1, 20);
    CHECK(c->result != NULL && memcmp(database_result_value(c->result, 0, 0, &n), bytes, N) == 0 && n == N);
    free(bytes);
    client_free(c);
}

/* Warning 01000 is how a wait for a standby that was cancelled is told. */
TEST_WITHIN(database_tells_warnings, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);

    ask(c, "w", "DO $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; END $$");
    CHECK_STR(c->warning, "01000");
    ask(c, "n", "DO $$ BEGIN RAISE NOTICE 'nothing'; END $$");
    CHECK_STR(c->warning, "");
    client_free(c);
}

/* --- the end of a connection -------------------------------------------------------------------------------------- */

TEST_WITHIN(database_deadline_closes_the_connection, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_new(p.conninfo, 5000, 300);

    client_connect(c);
    CLIENT_UNTIL(c, c->connected_n == 1, 10);
    ask(c, "s", "SELECT pg_sleep(60)");
    CHECK_EQ(c->lost_n, 1);
    CHECK_EQ(c->answers_n, 0);
    check_says(c->reason, "did not answer within 300 ms");
    /* Without a request, silence is no fault. */
    client_connect(c);
    CLIENT_UNTIL(c, c->connected_n == 2, 10);
    uint64_t until = test_now_ms() + 600;
    CLIENT_UNTIL(c, test_now_ms() > until, 10);
    CHECK_EQ(c->lost_n, 1);
    client_free(c);
}

TEST_WITHIN(database_tells_why_the_server_hangs_up, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);

    postgres_query(p.conninfo, "SELECT pg_terminate_backend(%d)", database_backend(c->database));
    CLIENT_UNTIL(c, c->lost_n == 1, 10);
    check_says(c->reason, "terminating connection due to administrator command");
    client_connect(c);
    CLIENT_UNTIL(c, c->connected_n == 2, 10);
    postgres_kill(&p);
    CLIENT_UNTIL(c, c->lost_n == 2, 10);
    client_connect(c);
    CLIENT_UNTIL(c, c->lost_n == 3, 10);
    check_says(c->reason, "cannot connect to the database: ");
    client_free(c);
}

/* Closed by an answer, or while it connects, nothing more is told; and no descriptor is left behind. */
static unsigned descriptors(void)
{
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n;
}

TEST_WITHIN(database_close_is_final, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);
    static const struct database_statement statement = {"s", "SELECT 1"};
    struct database_request r[3];
    unsigned before = descriptors();

    c->close_in_answer = true;
    for (unsigned i = 0; i < 3; i++) {
        r[i] = (struct database_request){.statement = &statement, .done = on_answer, .data = c};
        database_send(c->database, &r[i]);
    }
    CLIENT_UNTIL(c, c->answers_n == 1, 10);
    CHECK(!r[1].busy && !r[2].busy && !database_ready(c->database));
    for (unsigned i = 0; i < 200; i++) {
        client_connect(c);
        for (unsigned turns = 0; turns < i % 20; turns++)
            turn(c);
        database_close(c->database);
    }
    turn(c);
    CHECK_EQ(c->answers_n, 1);
    CHECK_EQ(c->lost_n, 0);
    CHECK(descriptors() < before);
    client_connect(c);
    unsigned connected_before = c->connected_n;
    CLIENT_UNTIL(c, c->connected_n == connected_before + 1, 10);
    client_free(c);
}

/* --- ways not to connect ------------------------------------------------------------------------------------------ */

static int listen_anywhere(int backlog, int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(bind(fd, (struct sockaddr *)&address, n) == 0 && listen(fd, backlog) == 0 &&
          getsockname(fd, (struct sockaddr *)&address, &n) == 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

TEST_WITHIN(database_survives_a_silent_name_server, 60)
{
    struct client *c = client_new("host=db.blackhole dbname=x", 200, 0);

    /* Each of many attempts waits for the same lookup: the threads of the loop are few. */
    for (unsigned i = 0; i < 10; i++)
        check_says(client_refused(c), "cannot resolve the host \"db.blackhole\"");
    check_says(c->reason, "no answer from the name server");
    /* And others can still resolve. */
    struct client *other = client_new("host=name.invalid dbname=x", 15000, 0);
    check_says(client_refused(other), "cannot resolve the host \"name.invalid\"");
    client_free(other);
    client_free(c);
    name_server_answers = true;
}

TEST_WITHIN(database_survives_a_server_that_swallows_packets, 60)
{
    char conninfo[100];
    int port, fd = listen_anywhere(0, &port), fillers[8];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};

    /* Its queue is full: it answers no SYN any more. */
    for (unsigned i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d dbname=x", port);
    struct client *c = client_new(conninfo, 300, 0);
    check_says(client_refused(c), "did not answer within 300 ms");
    client_free(c);
    close(fd);
}

TEST_WITHIN(database_survives_a_server_that_says_nothing, 60)
{
    char conninfo[100];
    int port, fd = listen_anywhere(10, &port);

    snprintf(conninfo, sizeof conninfo, "host=localhost port=%d dbname=x", port);
    struct client *c = client_new(conninfo, 300, 0);
    check_says(client_refused(c), "cannot connect to the database: ");
    client_free(c);
    close(fd);
}

/* A black hole in front of the list does not use up the time of the rest. */
TEST_WITHIN(database_tries_every_host, 60)
{
    struct postgres p = postgres_start("listen_addresses = 'localhost'");
    int port, fd = listen_anywhere(10, &port);
    char conninfo[600];

    snprintf(conninfo, sizeof conninfo, "host=db.blackhole,127.0.0.1,/nowhere,localhost port=1,%d,2,%d user=postgres dbname=postgres", port,
             p.port);
    struct client *c = client_new(conninfo, 400, 0);
    client_connect(c);
    CLIENT_UNTIL(c, c->connected_n + c->lost_n > 0, 20);
    if (c->lost_n > 0)
        test_fail(__FILE__, __LINE__, "%s", c->reason);
    client_free(c);

    name_server_answers = true;
    /* As a URI. */
    snprintf(conninfo, sizeof conninfo, "postgresql://postgres@127.0.0.1:1,localhost:%d/postgres", p.port);
    client_free(client_connected(conninfo));
    /* The environment counts, too. */
    char text[20];
    snprintf(text, sizeof text, "%d", p.port);
    (void)setenv("PGPORT", text, 1);
    (void)setenv("PGHOST", p.socket_folder, 1);
    client_free(client_connected("user=postgres dbname=postgres"));
    close(fd);
}

/* The first server that takes writes. */
TEST_WITHIN(database_prefers_a_server_that_takes_writes, 60)
{
    struct postgres standby = postgres_start("default_transaction_read_only = on"), primary = postgres_start(NULL);
    char conninfo[600];

    snprintf(conninfo, sizeof conninfo, "host=%s,%s port=%d,%d user=postgres dbname=postgres", standby.socket_folder, primary.socket_folder,
             standby.port, primary.port);
    struct client *c = client_connected(conninfo);
    ask(c, "s", "CREATE TABLE t (a int)");
    CHECK(c->result != NULL);
    client_free(c);
    c = client_new(standby.conninfo, 2000, 0);
    check_says(client_refused(c), "session is read-only");
    client_free(c);
}

TEST_WITHIN(database_never_shows_a_password, 60)
{
    struct postgres p = postgres_start(NULL);
    char path[300], conninfo[600];
    const char *const malformed[] = {"password=TopSecret host", "postgresql://u:TopSecret@h:x y/d?z=TopSecret",
                                     "host=h password='TopSecret", "TopSecret"};

    snprintf(path, sizeof path, "%s/pg_hba.conf", p.folder);
    FILE *f = fopen(path, "w");
    fputs("local all postgres trust\nlocal all all scram-sha-256\n", f);
    fclose(f);
    postgres_query(p.conninfo, "CREATE ROLE somebody LOGIN PASSWORD 'right'");
    postgres_reload(&p);
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=somebody dbname=postgres password=TopSecret", p.socket_folder, p.port);
    struct client *c = client_new(conninfo, 5000, 0);
    WAIT_UNTIL(strstr(client_refused(c), "password authentication failed for user \"somebody\"") != NULL, 10);
    CHECK(strstr(c->reason, "TopSecret") == NULL);
    client_free(c);
    for (unsigned i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        c = client_new(malformed[i], 5000, 0);
        check_says(client_refused(c), "the setting `database` is not a valid connection string");
        CHECK(strstr(c->reason, "TopSecret") == NULL);
        client_free(c);
    }
}

TEST_WITHIN(database_speaks_tls, 60)
{
    struct postgres p = postgres_start(NULL);
    char conninfo[600], settings[700], key[300], certificate[300];

    snprintf(conninfo, sizeof conninfo, "host=localhost port=%d user=postgres dbname=postgres sslmode=require", p.port);
    struct client *c;
    snprintf(key, sizeof key, "%s/key.pem", p.socket_folder);
    snprintf(certificate, sizeof certificate, "%s/certificate.pem", p.socket_folder);
    process_run((const char *[]){"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2",
                                 "-keyout", key, "-out", certificate, NULL},
                NULL, (struct process_options){.user = "postgres"}, 60);
    postgres_stop(&p);
    postgres_settings(&p, "listen_addresses = 'localhost'");
    postgres_restart(&p);
    c = client_new(conninfo, 5000, 0);
    check_says(client_refused(c), "server does not support SSL");
    client_free(c);
    postgres_stop(&p);
    snprintf(settings, sizeof settings, "ssl = on\nssl_key_file = '%s'\nssl_cert_file = '%s'", key, certificate);
    postgres_settings(&p, settings);
    postgres_restart(&p);
    /* The name is verified although we connect to an address. */
    snprintf(conninfo, sizeof conninfo, "host=localhost port=%d user=postgres dbname=postgres sslmode=verify-full sslrootcert=%s", p.port,
             certificate);
    c = client_connected(conninfo);
    ask(c, "s", "SELECT ssl, repeat('x', 1000000) FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
    CHECK_EQ(database_result_integer(c->result, 0, 0), 1);
    client_free(c);
    snprintf(conninfo, sizeof conninfo, "host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=verify-full sslrootcert=%s", p.port,
             certificate);
    c = client_new(conninfo, 5000, 0);
    check_says(client_refused(c), "127.0.0.1");
    client_free(c);
}
