/* SPDX-License-Identifier: BSD-2-Clause */
/* The outbox in PostgreSQL: the only module that knows its tables, its columns or any SQL.
 *
 * It lives on three connections, which are opened together and lost together:
 *
 *   read    fetch, catch-up, patrol, writers   may be slow
 *   mark    marks, saves, flushes, pins        may wait for a lock
 *   lease   take, beat, release                must do neither, or the lease is lost
 *
 * It also keeps the bytes of rows from their fetch until they are dropped: results are lent, not copied. Topics have numbers here,
 * from the first row that names one until outbox_forget().
 *
 * Every operation is answered exactly once, by its callback or by on_failed, and never before the call that started it returns; after
 * on_lost nothing of that connection is answered any more. Of each operation one may be outstanding; of fetch, catch-up, patrol and
 * writers one together. Everything runs on the loop's thread.
 */
#ifndef RELAY_EDGE_OUTBOX_H
#define RELAY_EDGE_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/relay.h"

struct outbox;
struct uv_loop_s;

enum outbox_mark_mode {
    OUTBOX_MARK_SENT_AT, /* UPDATE ... SET sent_at */
    OUTBOX_MARK_DELETE
};

struct outbox_settings {
    const char *database; /* conninfo or URI; "": libpq's own defaults */
    bool pooled;          /* behind a transaction pooler: no statement relies on a session */
    const char *table;    /* "schema.name" of the rows; the relay's own tables lie in the schema "outbox" */
    const char *name;     /* of the relay, written into the lease for people */
    const char *instance; /* of this process, likewise */
    enum outbox_mark_mode mark;
    bool replicated;        /* a flush means that the synchronous standbys have the log, too */
    uint32_t window_rows;   /* slots are below it */
    uint32_t topics_max;    /* topic numbers are below it */
    uint32_t row_bytes_max; /* a larger row comes without its payload */
    uint32_t lease_ttl_ms;
    uint32_t connect_ms;   /* until a connection attempt counts as failed */
    uint32_t statement_ms; /* until a statement counts as failed at the server; the socket is closed after twice that */
};

struct outbox_callbacks {
    void (*on_connected)(void *data); /* all three, the schema is one we know, start-up refusals passed */
    /* All three are closed. `reason` is one sentence: what, where, what to do; lent for the call. Once for each outbox_connect. */
    void (*on_lost)(void *data, const char *reason);
    /* The statement was rolled back, the connections live. `what` is the action it was for; `reason` is lent for the call. */
    void (*on_failed)(void *data, enum relay_action_type what, const char *reason);

    /* Granted, or NULL: `holder` (never NULL) has it. Both lent for the call. */
    void (*on_lease)(void *data, const struct relay_saved *saved, const char *holder);
    /* May be NULL. Right before that, if it is another's: its last beat, and for how long that one promised to be alive. 0: not known. */
    void (*on_holder)(void *data, int64_t beat, uint64_t beat_ttl_ms);
    void (*on_beaten)(void *data, bool held, struct relay_token token, int64_t last_id);
    void (*on_released)(void *data);

    /* Fill ret_slots (one for each row of `read`); the outbox keeps the bytes of rows that got a slot until outbox_drop. That is done
     * when the callback returns: in it, nothing may be read, looked at or dropped (asserted). */
    void (*on_fetched)(void *data, const struct relay_read *read, row_slot *ret_slots);
    void (*on_caught_up)(void *data, const struct relay_read *read, row_slot *ret_slots);
    void (*on_patrolled)(void *data, const struct relay_read *read); /* rows without bytes; lent for the call, none is kept */
    void (*on_writers)(void *data, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n, bool complete);
    void (*on_flushed)(void *data, struct relay_token token, uint64_t flush_lsn);
    /* `missed`: ids, ascending, whose pair is not in the table; lent for the call. */
    void (*on_marked)(void *data, const int64_t *missed, uint32_t missed_n);
    void (*on_saved)(void *data, bool fenced);
    void (*on_pinned)(void *data, uint32_t topic, int32_t pinned_n);
    /* May be NULL. Something about the table that is no reason to refuse it; told once. `sentence` is lent for the call. */
    void (*on_warning)(void *data, const char *sentence);
};

/* Copies `settings` and its strings, copies `callbacks`; keeps `loop` and `data`. Connects to nothing. NULL: out of memory. */
struct outbox *outbox_new(struct uv_loop_s *loop, const struct outbox_settings *settings, const struct outbox_callbacks *callbacks,
                          void *data);
/* Closes everything. The handles on the loop are gone when `on_freed` is called (never before this returns); `o` is gone then. */
void outbox_free(struct outbox *o, void (*on_freed)(void *data), void *data);

/* Open the three connections anew, closing what is open. Answered by on_connected or on_lost. */
void outbox_connect(struct outbox *o);
#ifdef FAULTS
/* Lose them, for a fault point: answered at once by on_lost, unless they are lost already. Not from within a callback. */
void outbox_lose(struct outbox *o, const char *reason);
#endif

/* --- lease -------------------------------------------------------------------------------------------------------- */

/* With a new random token, which is used in every later statement once it is granted. `silent_beat`: see RELAY_LEASE_TAKE; 0: none. */
void outbox_take(struct outbox *o, int64_t silent_beat);
void outbox_beat(struct outbox *o);
void outbox_release(struct outbox *o);

/* --- read --------------------------------------------------------------------------------------------------------- */

struct outbox_fetch {
    int64_t from;                  /* ids above it; INT64_MAX: the gaps only */
    int64_t settled_upto;          /* settled rows too, up to this id */
    const int64_t *firsts, *lasts; /* the open gaps, ascending, both ends included; borrowed */
    uint32_t gaps_n;
    uint32_t rows;
    uint64_t bytes;
};

void outbox_fetch(struct outbox *o, const struct outbox_fetch *fetch);
/* Unsettled rows of `topic` in [from, upto]. */
void outbox_catch_up(struct outbox *o, uint32_t topic, int64_t from, int64_t upto, uint32_t rows, uint64_t bytes);
/* Unsettled rows of all topics in [from, upto], without their bytes. */
void outbox_patrol(struct outbox *o, int64_t from, int64_t upto, uint32_t rows);
void outbox_writers(struct outbox *o);

/* --- mark --------------------------------------------------------------------------------------------------------- */

/* Mark by pair, without waiting for the disk: a lost mark costs a duplicate, not a row. Borrows the arrays; ids ascending. `repeated`: some
 * may have been marked by an earlier try; where marking is deleting, nobody can tell then which are missed, and none is told. */
void outbox_mark(struct outbox *o, const int64_t *ids, const struct row_event_id *event_ids, uint32_t n, bool repeated);
/* Floor and changed records in one statement, fenced by our token in the lease row (locked) and in incarnation. Borrows `changes`. */
void outbox_save(struct outbox *o, int64_t floor, const struct relay_behind *changes, uint32_t changes_n);
/* Up to where the log is flushed; `force`: flush it first. Where settings say replicated it is always forced, waits for the standbys as long
 * as it takes, on a connection of its own, and tells how far they have it. */
void outbox_flush(struct outbox *o, bool force);
/* The pinned count of `topic`; `actual_n` becomes it if there is none. 0: only look; on_pinned tells 0 if there is none. Several may be
 * outstanding, and the topic must not be forgotten meanwhile. Failure is told as RELAY_TOPIC. */
void outbox_pin(struct outbox *o, uint32_t topic, int32_t actual_n);

/* --- rows and topics ---------------------------------------------------------------------------------------------- */

/* Everything lent until outbox_drop(slot); NULL where the column is. */
struct outbox_row {
    const void *key, *payload;
    const char *headers; /* a JSON object, or NULL */
    uint32_t key_n, payload_n, headers_n;
    uint32_t topic;
    int64_t created_ms; /* since 1970 */
    bool too_large;     /* above row_bytes_max: payload was not read */
};

/* From now on the bytes of the slot stay where they are until outbox_drop (others may be moved to give memory back). */
void outbox_row(const struct outbox *o, row_slot slot, struct outbox_row *ret_row);
void outbox_expect(const struct outbox *o, row_slot slot);     /* outbox_row will be asked for it soon: the processor may fetch it */
void outbox_expect_key(const struct outbox *o, row_slot slot); /* sooner still, and outbox_expect was called: its key too */
void outbox_drop(struct outbox *o, row_slot slot);             /* its bytes are not needed any more */

const char *outbox_topic(const struct outbox *o, uint32_t topic); /* its name; lent until outbox_forget */
void outbox_forget(struct outbox *o, uint32_t topic);

/* Bytes that results hold now, live and dead. */
size_t outbox_bytes(const struct outbox *o);

/* --- schema, for the verbs; blocking, with a connection of their own ----------------------------------------------- */

struct outbox_report {
    void (*finding)(void *data, bool bad, const char *sentence); /* lent for the call */
    void *data;
};

/* Whether the setting `database` can be read; what it leads to is not asked. */
bool outbox_accepts(const char *database);
/* Whether it has nothing that a transaction pooler refuses: the parameter `options`, also from PGOPTIONS or the service file. */
bool outbox_pools(const char *database);
/* Create or upgrade the schema; idempotent, two at once wait for each other. `dry_run`: only print the SQL to `report`. Returns false
 * with a sentence in `error`. */
bool outbox_migrate(const struct outbox_settings *settings, bool dry_run, const struct outbox_report *report, char *error,
                    size_t error_size);
/* Everything about the database that `outbox-relay check` tells. Returns false if anything is bad. */
bool outbox_check(const struct outbox_settings *settings, const struct outbox_report *report);
/* Count the rows that are not settled, for `run --drain`: reads the whole table. Returns false with a sentence in `error`. */
bool outbox_count(const struct outbox_settings *settings, int64_t *ret_rows, char *error, size_t error_size);

#endif
