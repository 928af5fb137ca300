/* SPDX-License-Identifier: BSD-2-Clause */
/* Every statement that the running relay sends, written from a column map. Each is complete in itself (its own fence, its own commit
 * level). What else it relies on is set once for a session; or, in the pooled form, by a SELECT before it in a transaction of its own. */
#ifndef RELAY_EDGE_OUTBOX_SQL_H
#define RELAY_EDGE_OUTBOX_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/edge/database.h"
#include "relay/edge/outbox.h"

/* What is added to the bytes of a row's columns for all that it takes besides. */
#define OUTBOX_ROW_EXTRA 200

/* Expressions over a row of the table. */
struct outbox_columns {
    const char *id, *event_id, *topic, *key, *payload, *headers, *partition, *created_at, *sent_at;
};
extern const struct outbox_columns outbox_columns_native;

enum sql_name {
    SQL_BACKEND,       /* the process of the server; not prepared, changes nothing */
    SQL_SETUP,         /* a session's settings, not prepared; in the pooled form database_settings.pooled */
    SQL_SETUP_MARK,    /* the same for marks: in the pooled form it shows whose the transaction is */
    SQL_SETUP_LEASE,   /* the same, with a shorter time for statements */
    SQL_PROBE_SERVER,  /* table; may be asked whatever the schema is */
    SQL_PROBE_VERSION, /* */
    SQL_PROBE_TABLE,   /* table, column of the id */
    SQL_TAKE,          /* token, process, holder, ttl_ms, sequence */
    SQL_BEAT,          /* token, ttl_ms, sequence */
    SQL_RELEASE,       /* token */
    SQL_FETCH,         /* firsts, lasts, from, rows, bytes, row bytes */
    SQL_FETCH_SMALL,   /* firsts, lasts, from, rows, small bytes */
    SQL_FETCH_SETTLED, /* as SQL_FETCH, settled_upto */
    SQL_CATCH_UP,      /* from, upto, topic, rows, bytes, row bytes */
    SQL_PATROL,        /* from, upto, rows */
    SQL_SEQUENCE,      /* sequence */
    SQL_WRITERS,       /* table, our own backends (pooled: process_key) */
    SQL_MARK,          /* ids ascending, event_ids; where marking is deleting, it answers with the ids */
    SQL_MISSED,        /* the same: which of them are not in the table? */
    SQL_SAVE,          /* token, floor, names, partitions, key_hashes, first_ids, attempts, helds */
    SQL_FLUSH,         /* -> token, position, (replicated) is there a synchronous standby in the settings? */
    SQL_FLUSH_FORCE,   /* -> position */
    SQL_PINNED,        /* topic */
    SQL_PIN,           /* topic, partitions */
    SQL_N
};

/* Columns of SQL_FETCH, SQL_FETCH_SMALL, SQL_FETCH_SETTLED, SQL_CATCH_UP and SQL_PATROL. The first row is the head: its id is the insert LSN,
 * its event_id the token, its size the flush LSN. SQL_FETCH_SMALL has no sizes: there the flush LSN is the head's partition, and the partition
 * of a large row is ROW_LARGE. */
enum sql_row {
    ROW_ID,
    ROW_EVENT_ID,
    ROW_TOPIC,
    ROW_KEY,
    ROW_PAYLOAD,
    ROW_HEADERS,
    ROW_PARTITION,
    ROW_CREATED_AT,
    ROW_SIZE,
    ROW_SETTLED
};
#define ROW_LARGE      INT64_MAX
#define ROW_LARGE_TEXT "9223372036854775807"

struct outbox_sql {
    struct database_statement list[SQL_N];
};

/* "schema.name" as identifiers in quotes; without a schema, of "public". NULL: out of memory. malloc'ed. */
char *sql_table(const char *table);

struct sql_settings {
    const struct outbox_columns *columns;
    const char *table; /* of sql_table */
    enum outbox_mark_mode mark;
    bool pooled, replicated;
    int64_t process_key; /* pooled: random; the transactions of marks hold this advisory lock */
    uint32_t statement_ms, lease_statement_ms;
};

/* Returns false if out of memory. Undone by sql_reset either way. */
bool sql_build(struct outbox_sql *sql, const struct sql_settings *settings);
void sql_reset(struct outbox_sql *sql);

#endif
