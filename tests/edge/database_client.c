/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/edge/database_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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

void client_on_answer(void *data, struct database_result *result, const struct database_error *error)
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
void client_turn(struct client *c)
{
    uint64_t before_ns = uv_hrtime();
    long before = switches();
    uint64_t ms;

    (void)uv_run(&c->loop, UV_RUN_NOWAIT);
    ms = (uv_hrtime() - before_ns) / 1000000;
    if (ms > c->blocked_ms && switches() > before)
        c->blocked_ms = ms;
}

/* What starts an attempt must not block either. */
void client_connect(struct client *c)
{
    uint64_t before_ns = uv_hrtime();
    long before = switches();
    uint64_t ms;

    database_connect(c->database);
    ms = (uv_hrtime() - before_ns) / 1000000;
    if (ms > c->blocked_ms && switches() > before)
        c->blocked_ms = ms;
}

struct client *client_new(const char *conninfo, uint32_t connect_ms, uint32_t deadline_ms)
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

void client_free(struct client *c)
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

struct client *client_connected(const char *conninfo)
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

const char *client_refused(struct client *c)
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

void client_ask(struct client *c, const char *name, const char *sql)
{
    struct database_statement *statement = calloc(1, sizeof *statement);
    struct database_request *request = calloc(1, sizeof *request);
    unsigned before = c->answers_n, lost_before = c->lost_n;

    *statement = (struct database_statement){.name = name, .sql = sql};
    *request = (struct database_request){.statement = statement, .done = client_on_answer, .data = c};
    database_send(c->database, request);
    CHECK_EQ(c->answers_n, before);
    CLIENT_UNTIL(c, c->answers_n > before || c->lost_n > lost_before, 20);
    free(request);
    free(statement);
}

void client_says(const char *sentence, const char *what)
{
    if (strstr(sentence, what) == NULL)
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", sentence, what);
}
