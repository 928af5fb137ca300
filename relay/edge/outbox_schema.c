/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs migrate and check. A migration is one transaction that waits for any other at its beginning, by a lock that ends with it:
 * it needs nothing of a session, so it works through a transaction pooler. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_state.h"
#include "relay/edge/outbox_visit.h"
#include "relay/edge/schema.h"

/* Any number that other users of advisory locks will not take: "outbox-r". */
#define MIGRATION_LOCK "8031453476610911602"

struct schema_version {
    int major, minor; /* 0.0: there is none */
};

/* The first line of each migration names the version that it leads to. */
static struct schema_version file_version(const struct schema_file *file)
{
    struct schema_version v = {0, 0};

    if (sscanf(file->sql, "-- outbox-relay schema %d.%d", &v.major, &v.minor) != 2)
        abort();
    return v;
}

static bool version_below(struct schema_version a, struct schema_version b)
{
    return a.major < b.major || (a.major == b.major && a.minor < b.minor);
}

/* `pooled` as in database_settings. */
static struct visit *open_visit(const struct outbox_settings *settings, const char *verb, const char *pooled, char *error,
                                size_t error_size)
{
    char application[64];

    (void)snprintf(application, sizeof(application), "outbox-relay %s", verb);
    return visit_open(&(struct database_settings){.conninfo = settings->database,
                                                  .application = application,
                                                  .connect_ms = settings->connect_ms,
                                                  .deadline_ms = settings->statement_ms,
                                                  .pooled = pooled},
                      error, error_size);
}

static bool visit_do(struct visit *v, const char *sql, char *error, size_t error_size)
{
    struct database_result *result = visit_ask(v, sql, error, error_size);

    database_result_free(result);
    return result != NULL;
}

bool outbox_pools(const char *database)
{
    return database_pools(database);
}

bool outbox_accepts(const char *database)
{
    return database_accepts(database);
}

/* --- migrate ------------------------------------------------------------------------------------------------------ */

static int text_integer(const struct database_result *result, unsigned column)
{
    uint32_t n;
    const char *text = database_result_value(result, 0, column, &n);

    return text ? atoi(text) : 0;
}

static bool schema_version_read(struct visit *v, struct schema_version *ret_version, char *error, size_t error_size)
{
    struct database_result *result = visit_ask(v, "SELECT (to_regclass('outbox.meta') IS NOT NULL)::int", error, error_size);
    bool exists = result && text_integer(result, 0) != 0;
    bool known = result != NULL;

    *ret_version = (struct schema_version){0, 0};
    database_result_free(result);
    if (!exists)
        return known;
    result = visit_ask(v, "SELECT major, minor FROM outbox.meta WHERE one", error, error_size);
    if (!result)
        return false;
    if (database_result_rows(result) > 0)
        *ret_version = (struct schema_version){text_integer(result, 0), text_integer(result, 1)};
    known = database_result_rows(result) > 0;
    if (!known)
        (void)snprintf(error, error_size, "outbox.meta is empty: the schema was not created by `outbox-relay migrate`");
    database_result_free(result);
    return known;
}

static bool files_run(struct visit *v, struct schema_version from, bool dry_run, const struct outbox_report *report, char *error,
                      size_t error_size)
{
    char why[700], done[200];

    for (size_t i = 0; i < schema_files_n; i++) {
        if (!version_below(from, file_version(&schema_files[i])))
            continue;
        if (dry_run) {
            report->finding(report->data, false, schema_files[i].sql);
            continue;
        }
        if (!visit_do(v, schema_files[i].sql, why, sizeof(why))) {
            (void)snprintf(error, error_size, "the migration %s failed, nothing was changed: %s", schema_files[i].name, why);
            return false;
        }
        (void)snprintf(done, sizeof(done), "applied %s", schema_files[i].name);
        report->finding(report->data, false, done);
    }
    return true;
}

static bool version_write(struct visit *v, bool dry_run, const struct outbox_report *report, char *error, size_t error_size)
{
    char sql[300];

    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO outbox.meta AS m (one, major, minor) VALUES (true, %d, %d)"
                   " ON CONFLICT (one) DO UPDATE SET major = excluded.major, minor = excluded.minor, migrated_at = clock_timestamp();",
                   OUTBOX_MAJOR, OUTBOX_MINOR);
    if (!dry_run)
        return visit_do(v, sql, error, error_size);
    report->finding(report->data, false, sql);
    return true;
}

static bool migrate_locked(struct visit *v, bool dry_run, const struct outbox_report *report, char *error, size_t error_size)
{
    const struct schema_version ours = {OUTBOX_MAJOR, OUTBOX_MINOR};
    struct schema_version now;
    char done[200];

    if (!schema_version_read(v, &now, error, error_size))
        return false;
    if (now.major != 0 && now.major != ours.major) {
        (void)snprintf(error, error_size, "the outbox schema has version %d.%d, this program knows %d.x only: use a relay of version %d",
                       now.major, now.minor, ours.major, now.major);
        return false;
    }
    (void)snprintf(done, sizeof(done), "%sthe outbox schema has version %d.%d%s", dry_run ? "-- " : "", now.major, now.minor,
                   version_below(now, ours) ? "" : ": nothing to do");
    if (!version_below(now, ours)) {
        report->finding(report->data, false, done);
        return true;
    }
    if (!files_run(v, now, dry_run, report, error, error_size) || !version_write(v, dry_run, report, error, error_size))
        return false;
    (void)snprintf(done, sizeof(done), "%sthe outbox schema %s version %d.%d", dry_run ? "-- " : "", dry_run ? "would have" : "has",
                   ours.major, ours.minor);
    if (!dry_run && !visit_do(v, "COMMIT", error, error_size))
        return false;
    report->finding(report->data, false, done);
    return true;
}

bool outbox_migrate(const struct outbox_settings *settings, bool dry_run, const struct outbox_report *report, char *error,
                    size_t error_size)
{
    struct visit *v = open_visit(settings, "migrate", NULL, error, error_size);
    bool good;

    if (!v)
        return false;
    good = visit_do(v,
                    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;"
                    " SET LOCAL client_min_messages = warning; SELECT pg_advisory_xact_lock(" MIGRATION_LOCK ")",
                    error, error_size) &&
           migrate_locked(v, dry_run, report, error, error_size);
    if (!good && visit_denied(v)) {
        size_t said = strlen(error);
        (void)snprintf(error + said, error_size - said,
                       "; migrate as the owner of the schema, or the first time as a role with CREATE on the database");
    }
    visit_close(v); /* what was not committed is rolled back */
    return good;
}

/* --- check -------------------------------------------------------------------------------------------------------- */

struct check {
    struct visit *visit;
    const struct outbox_settings *settings;
    const struct outbox_report *report;
    struct outbox_sql sql;
    char *table;
    bool good;
    char sentence[700];
};

static void find(struct check *c, bool bad, const char *sentence)
{
    c->good = c->good && !bad;
    c->report->finding(c->report->data, bad, sentence);
}

/* NULL: it is a finding already. */
static struct database_result *ask(struct check *c, enum sql_name which, const struct database_value *values, unsigned values_n)
{
    struct database_result *result = visit_ask_prepared(c->visit, &c->sql.list[which], values, values_n, c->sentence, sizeof(c->sentence));
    char why[sizeof(c->sentence)];

    if (result)
        return result;
    (void)snprintf(why, sizeof(why), "%s", c->sentence);
    if (visit_denied(c->visit))
        probe_denied(why, c->sentence, sizeof(c->sentence));
    find(c, true, c->sentence);
    return NULL;
}

/* Takes nothing; returns whether the next question makes sense. */
static bool judged(struct check *c, enum probe_result judged, const char *fine)
{
    find(c, judged == PROBE_REFUSED, judged == PROBE_FINE ? fine : c->sentence);
    return judged != PROBE_REFUSED;
}

static bool check_pooler(struct check *c)
{
    struct database_result *result = visit_ask(c->visit, c->sql.list[SQL_BACKEND].sql, c->sentence, sizeof(c->sentence));
    bool pooler = result && probe_sees_pooler(result, visit_backend(c->visit)), pooled = c->settings->pooled;

    if (!result)
        find(c, true, c->sentence);
    else if (pooler && !pooled)
        find(c, true, PROBE_POOLER_UNEXPECTED);
    else if (pooled)
        find(c, false,
             pooler ? "a connection pooler is in between, and pooled is on"
                    : "pooled is on, but no pooler is seen: without one, pooled = off is faster");
    database_result_free(result);
    return result && (!pooler || pooled);
}

static bool check_server(struct check *c)
{
    const struct database_value table = value_text(c->table);
    struct database_result *result = ask(c, SQL_PROBE_SERVER, &table, 1);
    bool on = result && judged(c, probe_server(result, c->settings, c->sentence, sizeof(c->sentence)),
                               "the database takes writes and has an outbox schema");

    database_result_free(result);
    return on;
}

static bool check_version(struct check *c)
{
    struct database_result *result = ask(c, SQL_PROBE_VERSION, NULL, 0);
    bool on =
        result && judged(c, probe_version(result, c->sentence, sizeof(c->sentence)), "the schema has a version that this program knows");

    database_result_free(result);
    return on;
}

static bool check_table(struct check *c)
{
    const struct database_value values[] = {value_text(c->table), value_text(outbox_columns_native.id)};
    struct database_result *result = ask(c, SQL_PROBE_TABLE, values, 2);
    char *sequence = NULL;
    bool on = result && judged(c, probe_table(result, c->settings, &sequence, c->sentence, sizeof(c->sentence)),
                               "the table, its sequence and the privileges are in order");

    free(sequence);
    database_result_free(result);
    return on;
}

static void check_lease(struct check *c)
{
    struct database_result *result = visit_ask(c->visit,
                                               "SELECT l.holder FROM outbox.lease l, outbox.beat b WHERE b.token = l.token"
                                               " AND b.expires_at > clock_timestamp()",
                                               c->sentence, sizeof(c->sentence));
    uint32_t n;

    if (result && database_result_rows(result) > 0)
        (void)snprintf(c->sentence, sizeof(c->sentence), "the lease is held by %s", (const char *)database_result_value(result, 0, 0, &n));
    else if (result)
        (void)snprintf(c->sentence, sizeof(c->sentence), "the lease is free");
    find(c, !result, c->sentence);
    database_result_free(result);
}

/* No reason to refuse: without it, whoever is idle in a transaction counts as one that acts. */
static void check_statistics(struct check *c)
{
    struct database_result *result =
        visit_ask(c->visit, "SELECT pg_has_role('pg_read_all_stats', 'USAGE')::int", c->sentence, sizeof(c->sentence));

    if (result)
        (void)snprintf(c->sentence, sizeof(c->sentence), "%s",
                       text_integer(result, 0) != 0
                           ? "the relay may see which transactions are idle"
                           : "the relay may not see which transactions are idle, so a forgotten one holds up the floor and, after many "
                             "rollbacks, the reading: GRANT pg_read_all_stats TO outbox_relay");
    find(c, !result, c->sentence);
    database_result_free(result);
}

static void check_all(struct check *c)
{
    char error[600];

    if (!check_pooler(c))
        return;
    if (!c->settings->pooled && !visit_do(c->visit, c->sql.list[SQL_SETUP].sql, error, sizeof(error))) {
        find(c, true, error);
        return;
    }
    if (check_server(c) && check_version(c) && check_table(c)) {
        check_statistics(c);
        check_lease(c);
    }
}

bool outbox_check(const struct outbox_settings *settings, const struct outbox_report *report)
{
    struct check c = {.settings = settings, .report = report, .good = true};

    c.table = sql_table(settings->table);
    if (!c.table || !sql_build(&c.sql, &(struct sql_settings){.columns = &outbox_columns_native,
                                                              .table = c.table,
                                                              .mark = settings->mark,
                                                              .pooled = settings->pooled,
                                                              .replicated = settings->replicated,
                                                              .statement_ms = settings->statement_ms,
                                                              .lease_statement_ms = settings->statement_ms}))
        abort();
    c.visit = open_visit(settings, "check", settings->pooled ? c.sql.list[SQL_SETUP].sql : NULL, c.sentence, sizeof(c.sentence));
    if (c.visit)
        check_all(&c);
    else
        find(&c, true, c.sentence);
    visit_close(c.visit);
    sql_reset(&c.sql);
    free(c.table);
    return c.good;
}

/* --- count -------------------------------------------------------------------------------------------------------- */

bool outbox_count(const struct outbox_settings *settings, int64_t *ret_rows, char *error, size_t error_size)
{
    char *table = sql_table(settings->table), *sql = NULL;
    struct visit *v = NULL;
    struct database_result *result = NULL;
    uint32_t n;

    if (!table || asprintf(&sql, "SELECT count(*) FROM %s WHERE %s IS NULL", table, outbox_columns_native.sent_at) < 0) {
        sql = NULL;
        (void)snprintf(error, error_size, "out of memory");
        goto out;
    }
    v = open_visit(settings, "run", NULL, error, error_size);
    result = v ? visit_ask(v, sql, error, error_size) : NULL;
    if (result)
        *ret_rows = strtoll(database_result_value(result, 0, 0, &n), NULL, 10);
out:
    visit_close(v);
    free(sql);
    free(table);
    if (!result)
        return false;
    database_result_free(result);
    return true;
}
