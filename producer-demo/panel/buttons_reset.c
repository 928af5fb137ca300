/* SPDX-License-Identifier: BSD-2-Clause */
/* The button that begins anew: everything on its way arrives first, then all books are emptied while nobody writes. */
#include "producer-demo/panel/books.h"
#include "producer-demo/panel/buttons.h"
#include "producer-demo/panel/panel.h"
#include "producer-demo/panel/patience.h"
#include "producer-demo/panel/place.h"
#include "producer-demo/panel/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows that are sent may be deleted at any time; the ids go on, so the relay sees nothing of it. */
static const char empty_sql[] = "DO $$ DECLARE t record; BEGIN"
                                " DELETE FROM outbox.event WHERE sent_at IS NOT NULL;"
                                " FOR t IN SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                                " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition"
                                " AND (n.nspname IN ('shop', 'card') OR n.nspname LIKE 'ledger\\_%') LOOP"
                                " EXECUTE format('TRUNCATE %I.%I CASCADE', t.nspname, t.relname); END LOOP; END $$";

static bool database_run(struct panel *panel, const char *sql)
{
    char why[256];
    PGconn *db = store_take(panel->store, why, sizeof why);
    bool succeeded = db && store_run(db, sql, 0, NULL);

    if (db)
        store_give(panel->store, db);
    return succeeded;
}

static bool consumers_keep_down(struct panel *panel, bool down)
{
    bool succeeded = true;

    for (int i = 0; i < BOOKS_WAYS_N; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "consumer-%s", books_ways[i]);
        if (place_look(panel->folder, name).state != PLACE_ABSENT)
            succeeded = place_keep_down(panel->folder, name, down) && succeeded;
    }
    return succeeded;
}

static bool client_is_gone(void *context)
{
    return place_look(((struct panel *)context)->folder, "client").pid == 0;
}

static bool consumers_are_gone(void *context)
{
    struct panel *panel = context;

    for (int i = 0; i < BOOKS_WAYS_N; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "consumer-%s", books_ways[i]);
        if (place_look(panel->folder, name).pid > 0)
            return false;
    }
    return true;
}

static bool backlog_is_empty(struct panel *panel)
{
    char why[256];
    PGconn *db = store_take(panel->store, why, sizeof why);
    PGresult *rows;
    bool is_empty;

    if (!db)
        return false;
    rows = store_query(db, "SELECT 1 FROM outbox.event WHERE sent_at IS NULL LIMIT 1", 0, NULL);
    is_empty = store_succeeded(rows) && PQntuples(rows) == 0;
    PQclear(rows);
    store_give(panel->store, db);
    return is_empty;
}

/* Was all that is in the topic since `since_ms` committed by every group that runs? */
struct arrival {
    struct panel *panel;
    int64_t since_ms;
};

static bool all_has_arrived(void *context)
{
    struct arrival *arrival = context;

    if (!backlog_is_empty(arrival->panel)) {
        arrival->since_ms = sampler_now_ms();
        return false;
    }
    for (int i = 0; i < BOOKS_WAYS_N; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "consumer-%s", books_ways[i]);
        if (place_look(arrival->panel->folder, name).state == PLACE_RUNNING &&
            progress_look(arrival->panel->progress, i).settled_ms < arrival->since_ms)
            return false;
    }
    return true;
}

static const char *reset(struct panel *panel)
{
    struct arrival arrival = {panel, sampler_now_ms()};

    if (!database_run(panel, "DELETE FROM outbox.event WHERE sent_at IS NULL AND headers->>'type' = 'poison'"))
        return "the database does not answer";
    if (!place_keep_down(panel->folder, "client", true) || !patience_until(client_is_gone, panel, 20000))
        return "the client does not stop";
    if (!patience_until(all_has_arrived, &arrival, 45000))
        return "for 45 s not everything on its way arrived; start what is stopped";
    if (!consumers_keep_down(panel, true) || !patience_until(consumers_are_gone, panel, 20000))
        return "the consumers do not stop";
    if (!database_run(panel, empty_sql))
        return "the tables cannot be emptied";
    sampler_forget(panel->sampler);
    journey_forget(panel->journey);
    return NULL;
}

bool button_reset(void *context, const json_t *arguments, char *ret_text, size_t text_size)
{
    struct panel *panel = context;
    const char *wrong = reset(panel);
    bool restarted = consumers_keep_down(panel, false) && place_keep_down(panel->folder, "client", false);

    (void)arguments;
    if (wrong)
        (void)snprintf(ret_text, text_size, "Not reset: %s.", wrong);
    else
        (void)snprintf(ret_text, text_size, "All books are empty; the client orders again%s.",
                       restarted ? "" : ", but not everything can be started");
    return !wrong && restarted;
}
