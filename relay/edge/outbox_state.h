/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the outbox share; nobody else includes it. */
#ifndef RELAY_EDGE_OUTBOX_STATE_H
#define RELAY_EDGE_OUTBOX_STATE_H

#include <string.h>

#include "relay/edge/database.h"
#include "relay/edge/outbox.h"
#include "relay/edge/outbox_array.h"
#include "relay/edge/outbox_bytes.h"
#include "relay/edge/outbox_decode.h"
#include "relay/edge/outbox_names.h"
#include "relay/edge/outbox_sql.h"

/* The schema that this program works with. */
#define OUTBOX_MAJOR 1
#define OUTBOX_MINOR 1

enum outbox_link {
    LINK_READ,
    LINK_MARK,
    LINK_LEASE,
    LINK_BARRIER, /* only where a flush waits for standbys */
    LINKS
};

struct outbox_connection {
    struct outbox *outbox;
    struct database *database;
    struct database_request setup;
    bool ready; /* its session is set up */
};

/* Of what the core calls an action; the numbers that its statement's parameters point to. */
struct outbox_operation {
    struct outbox *outbox;
    struct database_request request;
    unsigned char numbers[4][8];
};

struct outbox_pin {
    struct outbox *outbox;
    struct outbox_pin *next; /* of all that are outstanding */
    struct database_request request;
    uint32_t topic;
    unsigned char actual_n[4];
};

struct outbox {
    struct uv_loop_s *loop;
    struct outbox_callbacks callbacks;
    void *data;
    struct outbox_settings settings; /* whose strings are ours */
    char *table;                     /* in quotes */
    char *holder;                    /* name and instance, for people */
    char *sequence;                  /* of the id; learned at each connect */
    struct outbox_sql sql;
    struct outbox_connection links[LINKS];
    unsigned links_n;
    bool connecting, connected, warned;
    struct database_request probe;

    struct relay_token process, asked, token; /* of this process, of the take that is outstanding, of the grant */
    struct outbox_operation take, beat, release, fetch, writers, mark, save, flush;
    struct outbox_pin *pins;
    struct decode_limits read_limits;
    uint32_t summed_reads;         /* so many reads are still limited by the sum of their bytes */
    unsigned char settled_upto[8]; /* a fifth number of a fetch */
    bool flush_forced;
    uint64_t replicated_lsn;        /* of the outstanding flush: the standbys have the log up to here */
    enum relay_action_type reading; /* fetch, catch-up or patrol: what `fetch` is for */
    bool telling_rows;              /* the core is asked for their slots: they are not held yet */
    int64_t last_id;                /* of the sequence, before the writers are asked for */
    int64_t server_started;         /* as the writers' statement told it first; 0: it did not yet */
    int64_t *marking, *missed;      /* ids of the outstanding mark, and which of them are missed... */
    uint32_t marking_n, marking_max;
    bool mark_repeated;

    struct array firsts, lasts, backends, mark_ids, mark_event_ids;
    struct array save_topics, save_partitions, save_keys, save_ids, save_attempts, save_helds;

    struct row *rows; /* of the last answer, and their slots */
    row_slot *slots;
    struct outbox_row *found; /* their bytes, in the answer */
    uint32_t rows_max;
    struct bytes *bytes;
    struct names *names;

    unsigned freeing; /* connections that are not gone yet */
    void (*on_freed)(void *data);
    void *on_freed_data;
};

/* --- outbox_connect.c --- */

bool links_new(struct outbox *o);
void links_free(struct outbox *o, void (*on_freed)(void *data));
/* Close all and tell it. Not from within a call of the outbox's user. */
void links_lose(struct outbox *o, const char *reason);

/* A lease that waits for a lock is lost: its statements get a third of its time at most. */
static inline uint32_t lease_statement_ms(const struct outbox_settings *s)
{
    return s->lease_ttl_ms / 3 < s->statement_ms ? s->lease_ttl_ms / 3 : s->statement_ms;
}

/* Of the advisory lock that the transactions of our marks hold behind a pooler. */
static inline int64_t process_key(const struct outbox *o)
{
    int64_t key;
    memcpy(&key, o->process.bytes, sizeof(key));
    return key;
}

/* Send `which` with the values that are already in `request`. */
void operation_send(struct outbox *o, enum outbox_link link, struct database_request *request, enum sql_name which);
/* After an error: either the connections have to go, or the action failed. */
void operation_failed(struct outbox *o, enum relay_action_type what, const struct database_error *error);

static inline struct database_value value_text(const char *text)
{
    size_t n = 0;
    while (text[n])
        n++;
    return (struct database_value){.bytes = text, .bytes_n = n};
}

static inline struct database_value value_array(const struct array *a)
{
    return (struct database_value){.bytes = a->bytes, .bytes_n = a->bytes_n};
}

static inline struct database_value value_int8(unsigned char *number, int64_t value)
{
    array_put_int8(number, value);
    return (struct database_value){.bytes = number, .bytes_n = 8};
}

static inline struct database_value value_int4(unsigned char *number, int32_t value)
{
    array_put_int4(number, value);
    return (struct database_value){.bytes = number, .bytes_n = 4};
}

static inline struct database_value value_token(const struct relay_token *token)
{
    return (struct database_value){.bytes = token->bytes, .bytes_n = sizeof(token->bytes)};
}

/* --- outbox_probe.c: what a start refuses --- */

/* A role that may not even ask: what to do is said here. `message` is PostgreSQL's. */
void probe_denied(const char *message, char *sentence, size_t sentence_size);

enum probe_result {
    PROBE_FINE,
    PROBE_WARNING,
    PROBE_REFUSED
};

/* Whether somebody else than the server answered our connection: `backend` is what the connection was told when it began, `result` the
 * answer of SQL_BACKEND. A pooler cannot tell the first one, since it does not know it then. */
bool probe_sees_pooler(const struct database_result *result, int32_t backend);
/* Sessions behind a pooler: what to do. */
#define PROBE_POOLER_UNEXPECTED                                                                                                          \
    "a connection pooler answers in the server's place, and sessions behind it may be shared with strangers: set pooled = on, or point " \
    "the setting `database` to the server itself"

enum probe_result probe_not_replicated(char *sentence, size_t sentence_size);
/* Judge the answers of SQL_PROBE_SERVER, SQL_PROBE_VERSION and SQL_PROBE_TABLE; `sentence` says what is wrong and what to do. The last
 * one fills ret_sequence (malloc'ed) unless refused. */
enum probe_result probe_server(const struct database_result *result, const struct outbox_settings *settings, char *sentence,
                               size_t sentence_size);
enum probe_result probe_version(const struct database_result *result, char *sentence, size_t sentence_size);
enum probe_result probe_table(const struct database_result *result, const struct outbox_settings *settings, char **ret_sequence,
                              char *sentence, size_t sentence_size);

#endif
