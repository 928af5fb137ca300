/* SPDX-License-Identifier: BSD-2-Clause */
/* The connections: opened together, and lost together, since what one of them saw must not be mixed with what another sees on
 * a server that was replaced meanwhile. The session of each is set up first; then the reading one asks whether this database, this
 * schema and this table are ones that the relay can work with. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_state.h"

static const char *const link_names[LINKS] = {"read", "mark", "lease", "barrier"};
static const enum sql_name link_setups[LINKS] = {SQL_SETUP, SQL_SETUP_MARK, SQL_SETUP_LEASE, SQL_SETUP};

static void links_close(struct outbox *o)
{
    for (unsigned i = 0; i < o->links_n; i++) {
        database_close(o->links[i].database);
        o->links[i].ready = false;
    }
    while (o->pins) {
        struct outbox_pin *pin = o->pins;
        o->pins = pin->next;
        free(pin);
    }
    o->connecting = o->connected = false;
}

void links_lose(struct outbox *o, const char *reason)
{
    char copy[700]; /* the reason may live in a connection that is closed now */

    if (!o->connecting && !o->connected)
        return;
    (void)snprintf(copy, sizeof(copy), "%s", reason);
    links_close(o);
    o->callbacks.on_lost(o->data, copy);
}

#ifdef FAULTS
void outbox_lose(struct outbox *o, const char *reason)
{
    links_lose(o, reason);
}
#endif

/* --- the probes --------------------------------------------------------------------------------------------------- */

static void probe_send(struct outbox *o, enum sql_name which, void (*done)(void *, struct database_result *, const struct database_error *))
{
    o->probe.done = done;
    o->probe.data = o;
    operation_send(o, LINK_READ, &o->probe, which);
}

static void connected_when_all_are(struct outbox *o)
{
    for (unsigned i = 0; i < o->links_n; i++)
        if (!o->links[i].ready)
            return;
    if (!o->sequence)
        return;
    o->connecting = false;
    o->connected = true;
    o->callbacks.on_connected(o->data);
}

static void warn(struct outbox *o, const char *sentence)
{
    if (!o->warned && o->callbacks.on_warning)
        o->callbacks.on_warning(o->data, sentence);
    o->warned = true;
}

/* Takes `result`. Returns true if the start may go on. */
static bool probe_judged(struct outbox *o, struct database_result *result, const struct database_error *error, enum probe_result judged,
                         const char *sentence)
{
    database_result_free(result);
    if (error) {
        char text[700];
        if (database_denied(error))
            probe_denied(error->message, text, sizeof(text));
        else
            (void)snprintf(text, sizeof(text), "the outbox cannot be used: %s", error->message);
        links_lose(o, text);
        return false;
    }
    if (judged == PROBE_REFUSED) {
        links_lose(o, sentence);
        return false;
    }
    if (judged == PROBE_WARNING)
        warn(o, sentence);
    return true;
}

static void on_table(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    char sentence[500];
    enum probe_result judged = PROBE_FINE;

    if (result)
        judged = probe_table(result, &o->settings, &o->sequence, sentence, sizeof(sentence));
    if (probe_judged(o, result, error, judged, sentence))
        connected_when_all_are(o);
}

static void on_version(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    char sentence[500];
    enum probe_result judged = PROBE_FINE;

    if (result)
        judged = probe_version(result, sentence, sizeof(sentence));
    if (!probe_judged(o, result, error, judged, sentence))
        return;
    o->probe.values[0] = value_text(o->table);
    o->probe.values[1] = value_text(outbox_columns_native.id);
    o->probe.values_n = 2;
    probe_send(o, SQL_PROBE_TABLE, on_table);
}

static void on_server(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    char sentence[500];
    enum probe_result judged = PROBE_FINE;

    if (result)
        judged = probe_server(result, &o->settings, sentence, sizeof(sentence));
    if (!probe_judged(o, result, error, judged, sentence))
        return;
    o->probe.values_n = 0;
    probe_send(o, SQL_PROBE_VERSION, on_version);
}

/* --- the connections ---------------------------------------------------------------------------------------------- */

static void link_ready(struct outbox_connection *c)
{
    struct outbox *o = c->outbox;

    c->ready = true;
    if (c != &o->links[LINK_READ]) {
        connected_when_all_are(o);
        return;
    }
    o->probe.values[0] = value_text(o->table);
    o->probe.values_n = 1;
    probe_send(o, SQL_PROBE_SERVER, on_server);
}

static void on_setup(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox_connection *c = data;
    struct outbox *o = c->outbox;

    database_result_free(result);
    if (error)
        links_lose(o, error->message);
    else
        link_ready(c);
}

static void setup_send(struct outbox_connection *c, enum sql_name which,
                       void (*done)(void *, struct database_result *, const struct database_error *))
{
    c->setup.statement = &c->outbox->sql.list[which];
    c->setup.done = done;
    c->setup.data = c;
    database_send(c->database, &c->setup);
}

/* Before anything is set: strangers would get it. */
static void on_backend(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox_connection *c = data;
    struct outbox *o = c->outbox;
    bool pooler = result && probe_sees_pooler(result, database_backend(c->database));

    database_result_free(result);
    if (error)
        links_lose(o, error->message);
    else if (pooler)
        links_lose(o, PROBE_POOLER_UNEXPECTED);
    else
        setup_send(c, link_setups[c - o->links], on_setup);
}

static void on_link_connected(void *data)
{
    struct outbox_connection *c = data;

    if (c->outbox->settings.pooled)
        link_ready(c);
    else
        setup_send(c, SQL_BACKEND, on_backend);
}

static void on_link_lost(void *data, const char *reason)
{
    struct outbox_connection *c = data;

    links_lose(c->outbox, reason);
}

void outbox_connect(struct outbox *o)
{
    links_close(o);
    free(o->sequence);
    o->sequence = NULL;
    o->server_started = 0;
    o->connecting = true;
    for (unsigned i = 0; i < o->links_n; i++)
        database_connect(o->links[i].database);
}

bool links_new(struct outbox *o)
{
    const struct database_callbacks callbacks = {.on_connected = on_link_connected, .on_lost = on_link_lost};

    for (unsigned i = 0; i < o->links_n; i++) {
        struct outbox_connection *c = &o->links[i];
        uint32_t statement_ms = i == LINK_LEASE ? lease_statement_ms(&o->settings) : o->settings.statement_ms;
        char application[64];
        (void)snprintf(application, sizeof(application), "outbox-relay %s %.40s", link_names[i], o->settings.name);
        c->outbox = o;
        c->database = database_new(o->loop,
                                   &(struct database_settings){.conninfo = o->settings.database,
                                                               .application = application,
                                                               .connect_ms = o->settings.connect_ms,
                                                               .deadline_ms = statement_ms * 2,
                                                               .pooled = o->settings.pooled ? o->sql.list[link_setups[i]].sql : NULL},
                                   &callbacks, c);
        if (!c->database)
            return false;
    }
    return true;
}

void links_free(struct outbox *o, void (*on_freed)(void *data))
{
    o->connecting = o->connected = false;
    for (unsigned i = 0; i < o->links_n; i++)
        o->freeing += o->links[i].database != NULL;
    for (unsigned i = 0; i < o->links_n; i++)
        if (o->links[i].database)
            database_free(o->links[i].database, on_freed, o);
}

/* --- statements --------------------------------------------------------------------------------------------------- */

void operation_send(struct outbox *o, enum outbox_link link, struct database_request *request, enum sql_name which)
{
    request->statement = &o->sql.list[which];
    database_send(o->links[link].database, request);
}

/* Errors after which another try on the same connection is of no use: the server goes away or turned read-only, or tables changed
 * under a prepared statement; the next start finds out and says what to do. */
static bool error_ends_connection(const char *sqlstate)
{
    static const char *const ends[] = {"25006", "26000", "0A000", "42P01", "42883", "42703", "3F000"};

    if (sqlstate[0] == 0 || strncmp(sqlstate, "57P", 3) == 0)
        return true;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strcmp(sqlstate, ends[i]) == 0)
            return true;
    return false;
}

void operation_failed(struct outbox *o, enum relay_action_type what, const struct database_error *error)
{
    if (error_ends_connection(error->sqlstate))
        links_lose(o, error->message);
    else
        o->callbacks.on_failed(o->data, what, error->message);
}
