/* SPDX-License-Identifier: BSD-2-Clause */
/* Statements on one connection, and its end. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/edge/database_client.h"

/* --- statements --------------------------------------------------------------------------------------------------- */

TEST_WITHIN(database_answers_in_binary, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);
    static const struct database_statement statement = {.name = "s",
                                                        .sql = "SELECT $1::int8 + 1, $2::text, $3::bytea, $1::int4, true, -2::int2"};
    struct database_request r = {.statement = &statement, .values_n = 3, .done = client_on_answer, .data = c};
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
    client_ask(c, NULL, "CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 7)");
    CHECK_EQ(database_result_touched(c->result), 7);
    client_free(c);
}

/* An error is the statement's own matter; of several statements the first one counts. */
TEST_WITHIN(database_error_keeps_the_connection, 60)
{
    struct postgres p = postgres_start(NULL);
    struct client *c = client_connected(p.conninfo);

    client_ask(c, "a", "SELECT 1/0");
    CHECK_STR(c->sqlstate, "22012");
    client_says(c->message, "division by zero");
    client_ask(c, "b", "SELEKT");
    CHECK_STR(c->sqlstate, "42601");
    CHECK(strchr(c->message, '\n') == NULL);
    client_ask(c, NULL, "SELECT 1; SELECT 1/0; SELECT 2");
    CHECK(c->result == NULL);
    CHECK_STR(c->sqlstate, "22012");
    client_ask(c, "d", "SELECT 1");
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
    struct database_request r = {.statement = &statement, .values = {{bytes, N}}, .values_n = 1, .done = client_on_answer, .data = c};
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

    client_ask(c, "w", "DO $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; END $$");
    CHECK_STR(c->warning, "01000");
    client_ask(c, "n", "DO $$ BEGIN RAISE NOTICE 'nothing'; END $$");
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
    client_ask(c, "s", "SELECT pg_sleep(60)");
    CHECK_EQ(c->lost_n, 1);
    CHECK_EQ(c->answers_n, 0);
    client_says(c->reason, "did not answer within 300 ms");
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
    client_says(c->reason, "terminating connection due to administrator command");
    client_connect(c);
    CLIENT_UNTIL(c, c->connected_n == 2, 10);
    postgres_kill(&p);
    CLIENT_UNTIL(c, c->lost_n == 2, 10);
    client_connect(c);
    CLIENT_UNTIL(c, c->lost_n == 3, 10);
    client_says(c->reason, "cannot connect to the database: ");
    client_free(c);
}

/* A server that takes anybody, and hangs up with a reason when the first request comes, which it does not read: the socket of the client is
 * in error then, and the reason still lies in it. */
static struct process hanging_up(const char *path)
{
    static const unsigned char welcome[] = {'R', 0, 0, 0, 8, 0, 0, 0, 0, 'Z', 0, 0, 0, 5, 'I'};
    static const unsigned char farewell[] = "E\0\0\0\x28SFATAL\0VFATAL\0C57P01\0Mgone fishing\0";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct process server = {.pid = -1};

    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 5) == 0);
    server.pid = fork();
    CHECK(server.pid >= 0);
    for (int client; server.pid == 0 && (client = accept(listener, NULL, NULL)) >= 0; close(client)) {
        unsigned char bytes[1000];
        struct pollfd request = {.fd = client, .events = POLLIN};
        if (read(client, bytes, sizeof bytes) <= 0 || write(client, welcome, sizeof welcome) < 0 || poll(&request, 1, 10000) != 1 ||
            write(client, farewell, sizeof farewell) < 0)
            _exit(1);
    }
    close(listener);
    return server;
}

TEST_WITHIN(database_sees_the_end_behind_an_error_of_the_socket, 60)
{
    char path[300], conninfo[400];

    snprintf(path, sizeof path, "%s/.s.PGSQL.7", temp_folder());
    struct process server = hanging_up(path);
    snprintf(conninfo, sizeof conninfo, "host=%s port=7 user=x dbname=x target_session_attrs=any sslmode=disable", temp_folder());
    for (unsigned i = 0; i < 20; i++) {
        struct client *c = client_new(conninfo, 5000, 0);
        client_connect(c);
        CLIENT_UNTIL(c, c->connected_n == 1, 10);
        client_ask(c, "s", "SELECT 1");
        CLIENT_UNTIL(c, c->lost_n == 1, 10);
        client_free(c);
    }
    process_signal(&server, 9);
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
        r[i] = (struct database_request){.statement = &statement, .done = client_on_answer, .data = c};
        database_send(c->database, &r[i]);
    }
    CLIENT_UNTIL(c, c->answers_n == 1, 10);
    CHECK(!r[1].busy && !r[2].busy && !database_ready(c->database));
    for (unsigned i = 0; i < 200; i++) {
        client_connect(c);
        for (unsigned turns = 0; turns < i % 20; turns++)
            client_turn(c);
        database_close(c->database);
    }
    client_turn(c);
    CHECK_EQ(c->answers_n, 1);
    CHECK_EQ(c->lost_n, 0);
    CHECK(descriptors() < before);
    client_connect(c);
    unsigned connected_before = c->connected_n;
    CLIENT_UNTIL(c, c->connected_n == connected_before + 1, 10);
    client_free(c);
}
