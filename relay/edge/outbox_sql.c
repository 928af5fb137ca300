/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_sql.h"

#define STRING(x)      #x
#define NUMBER(x)      STRING(x)
#define ROW_EXTRA      NUMBER(OUTBOX_ROW_EXTRA)
#define TOKEN          "(SELECT token FROM outbox.incarnation WHERE one)"
#define STANDBYS_NAMED "current_setting('synchronous_standby_names') <> ''"
#define COMMIT(to)     "WITH c AS MATERIALIZED (SELECT set_config('synchronous_commit', '" to "', true)) "

const struct outbox_columns outbox_columns_native = {
    .id = "id",
    .event_id = "event_id",
    .topic = "topic",
    .key = "key",
    .payload = "payload",
    .headers = "headers",
    .partition = "partition",
    .created_at = "created_at",
    .sent_at = "sent_at",
};

static size_t quote(char *out, const char *name, size_t n)
{
    char *at = out;

    *at++ = '"';
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '"')
            *at++ = '"';
        *at++ = name[i];
    }
    *at++ = '"';
    return (size_t)(at - out);
}

char *sql_table(const char *table)
{
    const char *dot = strchr(table, '.');
    const char *schema = dot ? table : "public";
    const char *name = dot ? dot + 1 : table;
    char *quoted = malloc(2 * strlen(table) + sizeof("\"public\".\"\""));
    size_t n;

    if (!quoted)
        return NULL;
    n = quote(quoted, schema, dot ? (size_t)(dot - table) : strlen(schema));
    quoted[n++] = '.';
    n += quote(quoted + n, name, strlen(name));
    quoted[n] = 0;
    return quoted;
}

static bool set(struct outbox_sql *sql, enum sql_name which, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool set(struct outbox_sql *sql, enum sql_name which, const char *name, const char *format, ...)
{
    va_list args;
    char *text;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return false;
    sql->list[which] = (struct database_statement){.name = name, .sql = text};
    return true;
}

void sql_reset(struct outbox_sql *sql)
{
    for (unsigned i = 0; i < SQL_N; i++) {
        union {
            const char *in;
            void *out;
        } text = {sql->list[i].sql};
        free(text.out);
    }
    memset(sql, 0, sizeof(*sql));
}

/* What every statement relies on, besides READ COMMITTED (in a stricter level all statements of a function share a snapshot):
 *  - the planner: whatever it believes to know of a queue's table, the plan that costs only what it returns is the one over the
 *    primary key, and it must not change in the middle of the night.
 *  - row_security off: rows that a policy hides would look like ids that nobody used; rather an error.
 * A default of the role must not matter, nor what another client of a pooler left behind. */
static const char *const relied_on[][2] = {
    {"search_path", "pg_catalog"},
    {"row_security", "off"},
    {"client_min_messages", "warning"},
    {"lock_timeout", "0"},
    {"idle_in_transaction_session_timeout", "0"},
    {"enable_seqscan", "off"},
    {"enable_bitmapscan", "off"},
    {"enable_sort", "off"},
    {"enable_hashjoin", "off"},
    {"enable_mergejoin", "off"},
    {"enable_memoize", "off"},
    {"enable_material", "off"},
    {"max_parallel_workers_per_gather", "0"},
    {"jit", "off"},
    {"plan_cache_mode", "force_generic_plan"},
};
#define RELIED_ON (sizeof(relied_on) / sizeof(relied_on[0]))
#define SETTING   "pg_catalog.set_config('%s', '%s', %s), "

/* "SELECT set_config(...), ..., set_config(statement_timeout)", for the session or for one transaction. malloc'ed. */
static char *settings_text(uint32_t statement_ms, bool for_transaction)
{
    static const size_t longest = sizeof(SETTING) + 60;
    const char *local = for_transaction ? "true" : "false";
    const size_t settings_n = RELIED_ON + 1;
    char *text = malloc(settings_n * longest), *at = text;

    if (!text)
        return NULL;
    at = stpcpy(at, "SELECT ");
    for (size_t i = 0; i < RELIED_ON; i++)
        at += snprintf(at, longest, SETTING, relied_on[i][0], relied_on[i][1], local);
    (void)snprintf(at, longest, "pg_catalog.set_config('statement_timeout', '%u', %s)", statement_ms, local);
    return text;
}

/* Once for a session, in several statements. */
static bool build_session(struct outbox_sql *sql, enum sql_name which, uint32_t statement_ms)
{
    char *text = settings_text(statement_ms, false);
    bool built =
        text && set(sql, which, NULL,
                    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE; %s;"
                    /* Whichever this server knows: an idle relay is no session that somebody forgot. */
                    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout')",
                    text);

    free(text);
    return built;
}

/* For one transaction. Behind a pooler nobody knows the process of the server that marks; so the transaction of a mark holds a lock, which
 * ends with it and which nobody else asks for. */
static bool build_transaction(struct outbox_sql *sql, enum sql_name which, uint32_t statement_ms, const char *also)
{
    char *text = settings_text(statement_ms, true);
    bool built = text && set(sql, which, NULL,
                             "%s, CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL"
                             " THEN pg_catalog.set_config('transaction_timeout', '0', true) END%s",
                             text, also);

    free(text);
    return built;
}

static bool build_setups(struct outbox_sql *sql, const struct sql_settings *s)
{
    char lock[100];

    (void)snprintf(lock, sizeof(lock), ", pg_catalog.pg_try_advisory_xact_lock_shared('%lld'::int8)", (long long)s->process_key);
    if (s->pooled)
        return build_transaction(sql, SQL_SETUP, s->statement_ms, "") && build_transaction(sql, SQL_SETUP_MARK, s->statement_ms, lock) &&
               build_transaction(sql, SQL_SETUP_LEASE, s->lease_statement_ms, "");
    return build_session(sql, SQL_SETUP, s->statement_ms) && build_session(sql, SQL_SETUP_MARK, s->statement_ms) &&
           build_session(sql, SQL_SETUP_LEASE, s->lease_statement_ms);
}

static bool build_probes(struct outbox_sql *sql)
{
    return set(sql, SQL_BACKEND, NULL, "SELECT pg_catalog.pg_backend_pid()") &&
           set(sql, SQL_PROBE_SERVER, "probe_server",
               "SELECT current_database()::text, current_user::text, pg_is_in_recovery(), to_regclass('outbox.meta') IS NOT NULL,"
               " to_regclass($1::text) IS NOT NULL, " STANDBYS_NAMED) &&
           set(sql, SQL_PROBE_VERSION, "probe_version", "SELECT major, minor FROM outbox.meta WHERE one") &&
           set(sql, SQL_PROBE_TABLE, "probe_table",
               "SELECT s.name, q.seqincrement, q.seqcache, q.seqcycle, a.attidentity::text,"
               " (SELECT string_agg(DISTINCT quote_ident(u.subname), ', ') FROM pg_subscription_rel r JOIN pg_subscription u ON u.oid = "
               "r.srsubid"
               "   WHERE r.srrelid = t.oid OR r.srrelid IN (SELECT relid FROM pg_partition_tree(t.oid))),"
               " EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL"
               "   AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),"
               " has_table_privilege(t.oid, 'SELECT') AND has_function_privilege("
               "   'outbox.take(uuid, uuid, text, integer, regclass, bigint)', 'EXECUTE') AND (s.name IS NULL OR "
               "has_sequence_privilege(s.name, "
               "'SELECT, USAGE')),"
               " t.relpersistence = 'p'"
               " FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = $2::text AND a.attnum > 0 AND NOT a.attisdropped"
               " CROSS JOIN LATERAL (SELECT pg_get_serial_sequence($1::text, $2::text) AS name) s"
               " LEFT JOIN pg_sequence q ON q.seqrelid = s.name::regclass WHERE t.oid = $1::text::regclass");
}

/* Two broken leases for tests/crash/test_mutant.c. An argument of outbox.take waits for the lease to be cleared: by whoever has a lock of its
 * session, or by whose own clock it is over. */
#if defined(MUTANT_SESSION_ADVISORY_LOCK)
#define TAKE_CLEAR                                                                                          \
    "WITH l AS MATERIALIZED (SELECT pg_try_advisory_lock(20250101) AS mine),"                               \
    " c AS (UPDATE outbox.beat SET token = CASE WHEN mine THEN NULL ELSE token END, expires_at = CASE WHEN" \
    " mine THEN expires_at ELSE clock_timestamp() + '9 years' END FROM l RETURNING 1) "
#define TAKE_TTL "$4::int4 + 0 * (SELECT count(*) FROM c)::int4"
#elif defined(MUTANT_LEASE_LOCAL_CLOCK)
#define TAKE_CLEAR "WITH c AS (UPDATE outbox.beat SET token = NULL WHERE expires_at < to_timestamp($7::int8) RETURNING 1) "
#define TAKE_TTL   "$4::int4 + 0 * (SELECT count(*) FROM c)::int4"
#else
#define TAKE_CLEAR ""
#define TAKE_TTL   "$4::int4"
#endif

static bool build_lease(struct outbox_sql *sql)
{
    return set(sql, SQL_TAKE, "take",
               TAKE_CLEAR "SELECT granted, holder, floor, last_id, floor_reset, topic, partition, key_hash, first_id, attempts, held, "
                          "incarnation_lost,"
                          " beat, beat_ttl_ms"
                          " FROM outbox.take($1::uuid, $2::uuid, $3::text, " TAKE_TTL ", $5::text::regclass, $6::int8)") &&
           set(sql, SQL_BEAT, "beat", "SELECT held, token, last_id FROM outbox.beat($1::uuid, $2::int4, $3::text::regclass)") &&
           set(sql, SQL_RELEASE, "release", "SELECT outbox.release($1::uuid)");
}

/* What a row counts against the limits: its payload's length without reading it, and its headers as they are stored. In 8 bytes: a sum
 * that overflows would be an error for ever. */
#define ROW_SIZE "coalesce(octet_length(%s), 0)::int8 + coalesce(octet_length(%s), 0) + coalesce(pg_column_size(%s), 0) + " ROW_EXTRA

enum inner {
    INNER_LIVE,
    INNER_SETTLED,
    INNER_SMALL
};

static char *inner_size(const struct outbox_columns *c, enum inner inner)
{
    char *text = NULL;
    int n = -1;

    switch (inner) {
    case INNER_LIVE:
        n = asprintf(&text, ROW_SIZE " AS size", c->payload, c->key, c->headers);
        break;
    case INNER_SETTLED:
        n = asprintf(&text, "CASE WHEN %s IS NULL THEN " ROW_SIZE " ELSE 40 END AS size, %s IS NOT NULL AS settled", c->sent_at, c->payload,
                     c->key, c->headers, c->sent_at);
        break;
    case INNER_SMALL:
        n = asprintf(&text, ROW_SIZE " > $5::int4 AS large", c->payload, c->key, c->headers);
        break;
    }
    return n < 0 ? NULL : text;
}

/* The columns of a row inside of the statement. */
static char *inner_columns(const struct outbox_columns *c, enum inner inner)
{
    char *text = NULL, *size = inner_size(c, inner);

    if (size && asprintf(&text,
                         "%s AS id, %s AS event_id, %s AS topic, %s AS key, %s AS payload, %s AS headers, %s AS partition,"
                         " %s AS created_at, %s",
                         c->id, c->event_id, c->topic, c->key, c->payload, c->headers, c->partition, c->created_at, size) < 0)
        text = NULL;
    free(size);
    return text;
}

/* What every read begins with: a row whose id is the insert LSN, whose event_id is the token, and whose last number is the flush LSN. */
#define HEAD_BEGIN                                                                                                                     \
    "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8 AS id, " TOKEN " AS event_id, NULL::text AS topic, NULL::text AS key," \
    " NULL::bytea AS payload, NULL::text AS headers, "
#define HEAD_FLUSHED "(pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::int8"
#define HEAD         HEAD_BEGIN "NULL::int4 AS partition, NULL::timestamptz AS created_at, " HEAD_FLUSHED " AS size"
#define HEAD_SMALL   HEAD_BEGIN HEAD_FLUSHED " AS partition, NULL::timestamptz AS created_at"

/* The answer has a head even where there is nothing to read: the token and the LSNs belong to the same snapshot. It is a row of its own, so
 * that they are not sent again with every row. `source` gives at most $4 rows; they are cut after the one that reaches $5 bytes. $6: a larger
 * row comes without its payload and headers. */
static bool build_read(struct outbox_sql *sql, enum sql_name which, const char *name, bool with_settled, const char *source)
{
    static const char live_columns[] = "id, event_id, topic, key, CASE WHEN size <= $6::int4 THEN payload END,"
                                       " CASE WHEN size <= $6::int4 THEN headers::text END, partition, created_at, size";
    static const char settled_columns[] =
        "id, CASE WHEN NOT settled THEN event_id END, CASE WHEN NOT settled THEN topic END,"
        " CASE WHEN NOT settled THEN key END, CASE WHEN NOT settled AND size <= $6::int4 THEN payload END,"
        " CASE WHEN NOT settled AND size <= $6::int4 THEN headers::text END, partition, created_at, size,"
        " settled";

    return set(sql, which, name,
               "(" HEAD "%s) UNION ALL (SELECT %s FROM ("
               "SELECT u.*, sum(least(size, $6::int4)::int4) OVER (ROWS UNBOUNDED PRECEDING) AS upto FROM (%s) u"
               ") v WHERE upto - least(size, $6::int4) < $5::int8)",
               with_settled ? ", NULL::bool AS settled" : "", with_settled ? settled_columns : live_columns, source);
}

/* Without the running sum, which costs as much as all the rest of a read. Instead no row brings more than $5 bytes: a larger one comes
 * without them, and whoever meets it takes the rows before it and asks again in the other form. Such a row says so in place of its
 * partition: a column of its own, nearly always NULL, would cost a twentieth of what reading a row does. */
static bool build_small(struct outbox_sql *sql, const char *source)
{
    return set(sql, SQL_FETCH_SMALL, "fetch_small",
               "(" HEAD_SMALL ") UNION ALL (SELECT id, event_id, topic, CASE WHEN NOT large THEN key END,"
               " CASE WHEN NOT large THEN payload END, CASE WHEN NOT large THEN headers::text END,"
               " CASE WHEN large THEN " ROW_LARGE_TEXT " ELSE partition END, created_at FROM (%s) u)",
               source);
}

/* Gaps first, then the tail, and the first $4 of them; parenthesised like this the tail is not even begun when the gaps are enough. */
static bool build_fetch(struct outbox_sql *sql, const struct sql_settings *s, enum inner inner)
{
    const struct outbox_columns *c = s->columns;
    bool with_settled = inner == INNER_SETTLED, built = false;
    char *columns = inner_columns(c, inner), *unsettled = NULL, *source = NULL;

    if (!columns || asprintf(&unsettled, with_settled ? "(%s IS NULL OR %s <= $7::int8)" : "%s IS NULL", c->sent_at, c->id) < 0)
        goto out;
    if (asprintf(&source,
                 "(SELECT e.* FROM unnest($1::int8[], $2::int8[]) g(lo, hi), LATERAL (SELECT %s FROM %s"
                 " WHERE %s BETWEEN g.lo AND g.hi AND %s ORDER BY %s) e LIMIT $4::int4)"
                 " UNION ALL (SELECT %s FROM %s WHERE %s > $3::int8 AND %s ORDER BY %s LIMIT $4::int4) LIMIT $4::int4",
                 columns, s->table, c->id, unsettled, c->id, columns, s->table, c->id, unsettled, c->id) < 0)
        goto out;
    switch (inner) {
    case INNER_LIVE:
        built = build_read(sql, SQL_FETCH, "fetch", false, source);
        break;
    case INNER_SETTLED:
        built = build_read(sql, SQL_FETCH_SETTLED, "fetch_settled", true, source);
        break;
    case INNER_SMALL:
        built = build_small(sql, source);
        break;
    }
    free(source);
out:
    free(unsettled);
    free(columns);
    return built;
}

static bool build_catch_up(struct outbox_sql *sql, const struct sql_settings *s)
{
    const struct outbox_columns *c = s->columns;
    char *columns = inner_columns(c, INNER_LIVE), *source = NULL;
    bool built = columns && asprintf(&source,
                                     "SELECT %s FROM %s WHERE %s BETWEEN $1::int8 AND $2::int8 AND %s IS NULL AND %s = $3::text"
                                     " ORDER BY %s LIMIT $4::int4",
                                     columns, s->table, c->id, c->sent_at, c->topic, c->id) >= 0;

    built = built && build_read(sql, SQL_CATCH_UP, "catch_up", false, source);
    free(source);
    free(columns);
    return built;
}

/* What a row needs to be recognised and to be told of; payloads are not touched. */
static bool build_patrol(struct outbox_sql *sql, const struct sql_settings *s)
{
    const struct outbox_columns *c = s->columns;

    return set(sql, SQL_PATROL, "patrol",
               "(" HEAD ") UNION ALL (SELECT %s, %s, %s, %s, NULL::bytea, NULL::text, %s, %s, " ROW_EXTRA "::int8 FROM %s"
               " WHERE %s BETWEEN $1::int8 AND $2::int8 AND %s IS NULL ORDER BY %s LIMIT $3::int4)",
               c->id, c->event_id, c->topic, c->key, c->partition, c->created_at, s->table, c->id, c->sent_at, c->id);
}

/* Our own marks lock the table as writers do. */
#define WRITER_OF_NO_BACKEND_OF_OURS "(l.pid IS NULL OR l.pid <> ALL ($2::int4[]))"
#define WRITER_WITHOUT_OUR_LOCK                                                                                    \
    "l.virtualtransaction <> ALL (ARRAY(SELECT m.virtualtransaction FROM pg_locks m WHERE m.locktype = 'advisory'" \
    " AND m.objsubid = 1 AND m.classid::int8 << 32 | m.objid::int8 = $2::int8))"
#define SERVER_STARTED "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::int8"
#define QUIET_SINCE                                                            \
    "CASE WHEN l.pid IS NULL THEN 1 WHEN a.state LIKE 'idle in transaction%%'" \
    " THEN (extract(epoch FROM a.state_change) * 1000000)::int8 ELSE 0 END"

/* The second of two statements, the sequence being the first: in one, PostgreSQL reads the locks before the sequence. A writer holds the
 * lock from before its id is drawn until it ends. Its virtual transaction is two numbers; a prepared one has no process, and after a
 * restart -1 for the first. Beside it stands since when it is quiet; 0: it is not, or this role may not see it. The first row tells when
 * the server was started: after that, virtual transactions have other numbers. */
static bool build_writers(struct outbox_sql *sql, bool pooled)
{
    const char *not_ours = pooled ? WRITER_WITHOUT_OUR_LOCK : WRITER_OF_NO_BACKEND_OF_OURS;

    return set(sql, SQL_SEQUENCE, "sequence", "SELECT coalesce(pg_sequence_last_value($1::text::regclass), 0)") &&
           set(sql, SQL_WRITERS, "writers",
               "SELECT 0::int8, " SERVER_STARTED " UNION ALL SELECT DISTINCT split_part(l.virtualtransaction, '/', 1)::int8 << 32"
               " | split_part(l.virtualtransaction, '/', 2)::int8, " QUIET_SINCE
               " FROM pg_locks l LEFT JOIN LATERAL pg_stat_get_activity(coalesce(l.pid, 0)) a ON true"
               " WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted"
               " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
               " AND (l.relation = $1::text::regclass OR l.relation IN (SELECT relid FROM pg_partition_tree($1::text::regclass)))"
               " AND %s",
               not_ours);
}

/* The rows that a mark may touch: those of its ids, which ascend. The commit does not wait for the disk, for this statement only (a SET would
 * leak through a pooler). That is said where the ids are asked for, which happens once. The outermost ids leave out partitions. */
#define MARK_IDS                                                                                                      \
    "e.%s = ANY ((SELECT CASE set_config('synchronous_commit', 'off', true) WHEN 'off' THEN $1::int8[] END)::int8[])" \
    " AND e.%s BETWEEN ($1::int8[])[1] AND ($1::int8[])[cardinality($1::int8[])]"
/* By pair: an id alone may have been given to another event. Its own is where the id is found among the ids; that costs a seventh less than
 * a join. If it is another one, the id may be there more than once: then all pairs are looked through. */
#define MARK_PAIR                                                \
    "(e.%s = ($2::uuid[])[width_bucket(e.%s::int8, $1::int8[])]" \
    " OR (e.%s, e.%s) IN (SELECT m.i, m.v FROM unnest($1::int8[], $2::uuid[]) m(i, v)))"

static bool build_mark(struct outbox_sql *sql, const struct sql_settings *s)
{
    const struct outbox_columns *c = s->columns;

    if (!set(sql, SQL_MISSED, "missed",
             "SELECT p.i FROM (SELECT m.i, (SELECT true FROM %s e WHERE e.%s = m.i AND e.%s = m.v) AS there"
             " FROM unnest($1::int8[], $2::uuid[]) m(i, v)) p WHERE p.there IS NULL",
             s->table, c->id, c->event_id))
        return false;
#ifdef MUTANT_MARKS_BY_ID
    return set(sql, SQL_MARK, "mark", "UPDATE %s e SET %s = now() WHERE " MARK_IDS " AND cardinality($2::uuid[]) > 0", s->table, c->sent_at,
               c->id, c->id);
#endif
    if (s->mark == OUTBOX_MARK_DELETE)
        return set(sql, SQL_MARK, "mark", "DELETE FROM %s e WHERE " MARK_IDS " AND " MARK_PAIR " RETURNING e.%s", s->table, c->id, c->id,
                   c->event_id, c->id, c->id, c->event_id, c->id);
    return set(sql, SQL_MARK, "mark", "UPDATE %s e SET %s = now() WHERE " MARK_IDS " AND " MARK_PAIR, s->table, c->sent_at, c->id, c->id,
               c->event_id, c->id, c->id, c->event_id);
}

/* Only a transaction with a real record in the WAL flushes what was committed before it: a message does, without leaving a dead row. */
static bool build_flush(struct outbox_sql *sql, bool replicated)
{
    if (replicated)
        return set(sql, SQL_FLUSH, "flush", "SELECT " TOKEN ", pg_current_wal_flush_lsn(), " STANDBYS_NAMED) &&
               set(sql, SQL_FLUSH_FORCE, "flush_force", COMMIT("on") "SELECT pg_logical_emit_message(true, 'outbox-relay', '') FROM c");
    return set(sql, SQL_FLUSH, "flush", "SELECT " TOKEN ", pg_current_wal_flush_lsn()") &&
           set(sql, SQL_FLUSH_FORCE, "flush_force", COMMIT("local") "SELECT pg_logical_emit_message(true, 'outbox-relay', '') FROM c");
}

static bool build_state(struct outbox_sql *sql)
{
    return set(sql, SQL_SAVE, "save",
               "SELECT outbox.save($1::uuid, $2::int8, $3::text[], $4::int4[], $5::int8[], $6::int8[], $7::int4[], $8::bool[])") &&
           set(sql, SQL_PINNED, "pinned", "SELECT partitions FROM outbox.topic WHERE topic = $1::text") &&
           set(sql, SQL_PIN, "pin",
               COMMIT("local") "INSERT INTO outbox.topic AS t (topic, partitions) SELECT $1::text, $2::int4 FROM c"
                               " ON CONFLICT (topic) DO UPDATE SET topic = t.topic RETURNING t.partitions");
}

bool sql_build(struct outbox_sql *sql, const struct sql_settings *settings)
{
    memset(sql, 0, sizeof(*sql));
    return build_setups(sql, settings) && build_probes(sql) && build_lease(sql) && build_fetch(sql, settings, INNER_LIVE) &&
           build_fetch(sql, settings, INNER_SETTLED) && build_fetch(sql, settings, INNER_SMALL) && build_catch_up(sql, settings) &&
           build_patrol(sql, settings) && build_writers(sql, settings->pooled) && build_mark(sql, settings) &&
           build_flush(sql, settings->replicated) && build_state(sql);
}
