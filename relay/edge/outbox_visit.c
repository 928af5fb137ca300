/* SPDX-License-Identifier: BSD-2-Clause */
#include <uv.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_visit.h"

struct visit {
    uv_loop_t loop;
    struct database *database;
    struct database_request request;
    struct database_result *result;
    bool connected, lost, answered, denied, freed;
    char reason[700];
};

static void on_connected(void *data)
{
    struct visit *v = data;

    v->connected = true;
}

static void on_lost(void *data, const char *reason)
{
    struct visit *v = data;

    v->lost = true;
    (void)snprintf(v->reason, sizeof(v->reason), "%s", reason);
}

static void on_answer(void *data, struct database_result *result, const struct database_error *error)
{
    struct visit *v = data;

    v->answered = true;
    v->result = result;
    v->denied = error && database_denied(error);
    if (error)
        (void)snprintf(v->reason, sizeof(v->reason), "%s", error->message);
}

static void on_freed(void *data)
{
    struct visit *v = data;

    v->freed = true;
}

void visit_close(struct visit *v)
{
    if (!v)
        return;
    if (v->database)
        database_free(v->database, on_freed, v);
    while (v->database && !v->freed)
        (void)uv_run(&v->loop, UV_RUN_ONCE);
    /* A name server that never answers keeps its lookup on the loop: then both stay until the program ends. */
    if (uv_loop_close(&v->loop) == 0)
        free(v);
}

struct visit *visit_open(const struct database_settings *settings, char *error, size_t error_size)
{
    const struct database_callbacks callbacks = {.on_connected = on_connected, .on_lost = on_lost};
    struct visit *v = calloc(1, sizeof(*v));

    if (!v || uv_loop_init(&v->loop) != 0) {
        free(v);
        (void)snprintf(error, error_size, "out of memory");
        return NULL;
    }
    v->database = database_new(&v->loop, settings, &callbacks, v);
    if (v->database)
        database_connect(v->database);
    else
        on_lost(v, "out of memory");
    while (!v->connected && !v->lost)
        (void)uv_run(&v->loop, UV_RUN_ONCE);
    if (v->connected)
        return v;
    (void)snprintf(error, error_size, "%s", v->reason);
    visit_close(v);
    return NULL;
}

struct database_result *visit_ask_prepared(struct visit *v, const struct database_statement *statement, const struct database_value *values,
                                           unsigned values_n, char *error, size_t error_size)
{
    assert(values_n <= DATABASE_VALUES_MAX);
    v->request = (struct database_request){.statement = statement, .values_n = values_n, .done = on_answer, .data = v};
    for (unsigned i = 0; i < values_n; i++)
        v->request.values[i] = values[i];
    v->answered = v->denied = false;
    v->result = NULL;
    if (!v->lost)
        database_send(v->database, &v->request);
    while (!v->answered && !v->lost)
        (void)uv_run(&v->loop, UV_RUN_ONCE);
    if (!v->result)
        (void)snprintf(error, error_size, "%s", v->reason);
    return v->result;
}

bool visit_denied(const struct visit *v)
{
    return v->denied;
}

int32_t visit_backend(const struct visit *v)
{
    return database_backend(v->database);
}

struct database_result *visit_ask(struct visit *v, const char *sql, char *error, size_t error_size)
{
    const struct database_statement statement = {.name = NULL, .sql = sql};

    return visit_ask_prepared(v, &statement, NULL, 0, error, error_size);
}
