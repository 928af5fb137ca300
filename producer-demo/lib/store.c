/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/store.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct store {
    pthread_mutex_t mutex;
    pthread_cond_t given; /* signalled whenever one is given back */
    char *conninfo, *application;
    int connections_n, idle_n;
    PGconn *idle[]; /* NULL: to be made */
};

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);

    if (!memory)
        abort();
    return memory;
}

struct store *store_open(const char *conninfo, const char *application, int connections)
{
    struct store *store = allocate(sizeof *store + (size_t)connections * sizeof *store->idle);

    assert(connections > 0);
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->given, NULL);
    store->conninfo = strdup(conninfo);
    store->application = strdup(application);
    if (!store->conninfo || !store->application)
        abort();
    store->connections_n = store->idle_n = connections;
    return store;
}

void store_close(struct store *store)
{
    assert(store->idle_n == store->connections_n);
    for (int i = 0; i < store->idle_n; i++)
        PQfinish(store->idle[i]);
    pthread_cond_destroy(&store->given);
    pthread_mutex_destroy(&store->mutex);
    free(store->conninfo);
    free(store->application);
    free(store);
}

static void on_notice(void *context, const PGresult *notice)
{
    (void)context;
    (void)notice; /* "already exists, skipping" and the like */
}

/* Errors of libpq have several lines; the first says it. */
static void reason_copy(const PGconn *db, char *ret_reason, size_t reason_size)
{
    const char *message = PQerrorMessage(db);

    (void)snprintf(ret_reason, reason_size, "%.*s", (int)strcspn(message, "\n"), message);
}

static PGconn *connect_new(const struct store *store, char *ret_reason, size_t reason_size)
{
    const char *names[] = {"fallback_application_name", "connect_timeout", "client_encoding", "dbname", NULL};
    const char *values[] = {store->application, "5", "UTF8", store->conninfo, NULL};
    PGconn *db = PQconnectdbParams(names, values, 1);

    if (PQstatus(db) == CONNECTION_OK) {
        PQsetNoticeReceiver(db, on_notice, NULL);
        return db;
    }
    reason_copy(db, ret_reason, reason_size);
    PQfinish(db);
    return NULL;
}

PGconn *store_take(struct store *store, char *ret_reason, size_t reason_size)
{
    PGconn *db;

    pthread_mutex_lock(&store->mutex);
    while (store->idle_n == 0)
        pthread_cond_wait(&store->given, &store->mutex);
    db = store->idle[--store->idle_n];
    pthread_mutex_unlock(&store->mutex);
    if (!db && !(db = connect_new(store, ret_reason, reason_size)))
        store_give(store, NULL);
    return db;
}

void store_give(struct store *store, PGconn *db)
{
    if (db && (PQstatus(db) != CONNECTION_OK || PQtransactionStatus(db) != PQTRANS_IDLE)) {
        PQfinish(db);
        db = NULL;
    }
    pthread_mutex_lock(&store->mutex);
    store->idle[store->idle_n++] = db;
    pthread_cond_signal(&store->given);
    pthread_mutex_unlock(&store->mutex);
}

PGresult *store_query(PGconn *db, const char *sql, int values_n, const char *const *values)
{
    PGresult *result = PQexecParams(db, sql, values_n, NULL, values, NULL, NULL, 0);

    return result ? result : PQmakeEmptyPGresult(db, PGRES_FATAL_ERROR);
}

bool store_succeeded(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

const char *store_error(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    return state ? state : "08006";
}

bool store_run(PGconn *db, const char *sql, int values_n, const char *const *values)
{
    PGresult *result = store_query(db, sql, values_n, values);
    bool succeeded = store_succeeded(result);

    PQclear(result);
    return succeeded;
}

bool store_run_script(PGconn *db, const char *sql, char *ret_reason, size_t reason_size)
{
    PGresult *result = PQexec(db, sql);
    bool succeeded = result && store_succeeded(result);

    if (!succeeded)
        reason_copy(db, ret_reason, reason_size);
    PQclear(result);
    return succeeded;
}

/* The whole of a small file; the caller frees it. NULL: errno says why. */
static char *file_read(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "re");

    if (!file)
        return NULL;
    if (getdelim(&text, &size, 0, file) < 0) {
        free(text);
        text = NULL;
    }
    (void)fclose(file);
    return text;
}

bool store_run_file(PGconn *db, const char *path, char *ret_reason, size_t reason_size)
{
    char *sql = file_read(path);
    bool succeeded = false;

    if (sql)
        succeeded = store_run_script(db, sql, ret_reason, reason_size);
    else
        (void)snprintf(ret_reason, reason_size, "%s cannot be read: %s", path, strerror(errno));
    free(sql);
    return succeeded;
}
