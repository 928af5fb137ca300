/* SPDX-License-Identifier: BSD-2-Clause */
/* What to do next: the relay's whole policy, without I/O and without a clock.
 *
 *            .--------- fetch ---------.   .------ publish ------.   .------- mark -------.
 *   outbox   |  one outstanding        |-->|  as many rows as    |-->|  one outstanding,  |  outbox
 *            |  gaps, then the tail    |   |  the window allows  |   |  all acked so far  |
 *            '-------------------------'   '---------------------'   '--------------------'
 *
 * The three overlap. Tell the relay what happened (relay_on_...), then pull what it wants (relay_next) until it answers RELAY_WAIT.
 * Of each action but RELAY_PUBLISH, RELAY_DROP, RELAY_FORGET and RELAY_NOTE at most one is outstanding, and every answer asserts it;
 * of RELAY_FETCH, RELAY_CATCH_UP, RELAY_PATROL and RELAY_WRITERS, which share a connection, at most one together. Each session has its own.
 *
 * A row's way through it:
 *
 *   fetched -> waiting -> ready -> handed -> acked -> marking -> gone
 *              (barrier)  ^          |  the session ended before a good report
 *                         '----------'
 *
 * The bytes of a slot end at its delivery or at RELAY_DROP, whichever comes first; the slot lives until it is marked. All state lies
 * in one allocation and is linked by indices, so that relay_copy and relay_digest let tests/sim explore every interleaving of this
 * code. Every function wants `now_ms` from one clock that never goes back (CLOCK_BOOTTIME: it counts while the machine sleeps).
 */
#ifndef RELAY_CORE_RELAY_H
#define RELAY_CORE_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/row.h"

struct relay;

/* What a row waits for between its fetch and its hand-over. */
enum relay_durability {
    RELAY_DURABILITY_OFF,       /* nothing: the writers are trusted */
    RELAY_DURABILITY_LOCAL,     /* its WAL is flushed here */
    RELAY_DURABILITY_REPLICATED /* and on the synchronous standbys: a flush with `force` says so */
};

/* Two sessions. What is suspected of being refused goes to a small one of its own, whose end costs nobody else anything. */
enum relay_session {
    RELAY_MAIN,
    RELAY_PROBE
};
#define RELAY_SESSIONS 2

struct relay_limits {
    uint32_t fetch_rows;                   /* rows a fetch may bring */
    uint64_t fetch_bytes;                  /* and their bytes; one row may go over */
    uint32_t window_rows;                  /* rows between fetch and mark, and... */
    uint64_t window_bytes;                 /* ...their bytes, until they are delivered */
    uint32_t lane_rows;                    /* of one topic-partition, handed and not yet acknowledged */
    uint32_t lanes_max, topics_max;        /* topic-partitions and topics known at once */
    uint32_t ranges_max;                   /* open gaps, as ranges of ids */
    uint32_t writers_max;                  /* transactions that may hold up gaps */
    uint32_t settled_rows;                 /* rows a fetch may bring after a start, while settled ones come too */
    uint32_t page_ids;                     /* ids a page of a catch-up spans at most */
    uint32_t mark_rows;                    /* pairs in one mark */
    uint32_t mark_rows_min, mark_delay_ms; /* a mark waits for so many, but not for longer */
    uint32_t poll_min_ms;                  /* between fetches while rows come */
    uint32_t poll_max_ms;                  /* between fetches while none come */
    uint32_t gap_age_ms, writers_min_ms;   /* a gap so old is asked about; between two such questions */
    uint32_t save_ms, save_ids;            /* how far the saved floor may lag */
    uint32_t stuck_ms;                     /* a lane handed and not acknowledged for so long goes behind */
    uint32_t lease_ttl_ms, lease_margin_ms;
    uint32_t backoff_min_ms, backoff_max_ms;
    uint32_t shutdown_ms;
    uint64_t batch_bytes;             /* of a producer's batch, as configured; topics with a lower limit lower it */
    enum relay_durability durability; /* what rows wait for before they are published */
    uint32_t keys_max;                /* keys that may wait each for itself; beyond it their lane does */
    uint32_t probe_rest_ms;           /* the probe session is closed when it had nothing to do for so long */
    uint32_t idle_cold_ms;            /* a lane that was silent for so long is cold again; relay_on_idle_limit lowers it */
    uint32_t patrol_ids, patrol_ms;   /* ids a page of the patrol spans (0: no patrol), and how often there is one */
    uint32_t patrol_back_ms;          /* how far back it looks: to where the floor stood so long ago... */
    uint32_t patrol_back_ids;         /* ...or after a start so many ids */
    uint32_t recent_rows;             /* marks remembered: after a crash they are made again, and phantoms are found among them */
    uint64_t seed;                    /* of the jitter */
};

/* What a deployment starts from: the limits of DESIGN.md 4. */
struct relay_limits relay_limits_default(void);

/* Drawn at random for each grant of the lease, by whoever asks for it. All zero: none. */
struct relay_token {
    unsigned char bytes[16];
};

/* --- actions ------------------------------------------------------------------------------------------------------ */

enum relay_action_type {
    RELAY_WAIT,          /* nothing before `until_ms`, unless something happens first */
    RELAY_CONNECT,       /* close what is left of the database connections, open all of them; or one failure: relay_on_database_lost */
    RELAY_LEASE_TAKE,    /* ask for the lease with a new random token; the answer brings the saved state. `from`: a holder's beat that is
                            over, however the database's clock stands; 0: none */
    RELAY_LEASE_BEAT,    /* keep it */
    RELAY_LEASE_RELEASE, /* let go, so that another relay need not wait */
    RELAY_FETCH,         /* one snapshot: relay_gaps(), then ids above `from`; unsettled ones, but up to `settled_upto` all; at most
                            `rows` and `bytes`; rows of more than INT32_MAX bytes cannot exist */
    RELAY_CATCH_UP,      /* unsettled ids in [from, upto] of `topic`; at most `rows`, `bytes` */
    RELAY_PATROL,        /* unsettled ids in [from, upto] of all topics, without their bytes; at most `rows` */
    RELAY_WRITERS,       /* read the sequence; then, in another statement, who may still use an id up to it */
    RELAY_FLUSH,         /* read up to where the WAL is flushed; with `force`, flush it first (the barrier) */
    RELAY_PUBLISH,       /* hand `slot` to `session`, for `partition` of `topic` */
    RELAY_DROP,          /* forget the bytes of `slot` */
    RELAY_MARK,          /* mark the pairs of relay_marks(); `force`: some may have been marked by an earlier try */
    RELAY_SAVE,          /* the floor `from` and relay_saving(), fenced by our token in the lease row and in incarnation */
    RELAY_TOPIC,         /* learn the partitions and limits of `topic`, and its pinned count; pin it if it is not */
    RELAY_FORGET,        /* the number `topic` is free again: nothing of it is left */
    RELAY_SESSION_OPEN,  /* `session`, with batches of at most `bytes` */
    RELAY_SESSION_CLOSE, /* of `session`: purge, take every report that is left, destroy */
    RELAY_NOTE,          /* for the log and the metrics: `note` happened */
    RELAY_EXIT           /* everything is at rest, or `rows` are not and the time is over */
};

enum relay_note {
    RELAY_NOTE_LEASE_HELD,   /* granted */
    RELAY_NOTE_LEASE_LOST,   /* the local deadline passed without a beat, or another token was seen */
    RELAY_NOTE_START_OVER,   /* ids may have been given to other events: the saved state is read again */
    RELAY_NOTE_FLOOR_RESET,  /* the sequence stood below the saved floor: everything is read from the beginning */
    RELAY_NOTE_LANE_BEHIND,  /* (topic, partition) goes behind at `from` */
    RELAY_NOTE_LANE_LIVE,    /* it has caught up */
    RELAY_NOTE_TOPIC_BEHIND, /* `topic` goes behind at `from` */
    RELAY_NOTE_TOPIC_LIVE,   /* it has caught up */
    RELAY_NOTE_TOPIC_OPEN,   /* it may be written to */
    RELAY_NOTE_TOPIC_CLOSED, /* missing, forbidden, or fewer partitions than pinned */
    RELAY_NOTE_KEY_BEHIND,   /* a key waits from row `id` of (topic, partition) on, which failed alone `rows` times (0: it did not) */
    RELAY_NOTE_KEY_LIVE,     /* it has caught up */
    RELAY_NOTE_KEYS_FULL,    /* too many keys wait: the lane of this one waits instead */
    RELAY_NOTE_PHANTOM, /* row `id` with `event_id` of `topic` (UINT32_MAX: not known any more) was published, and the database does not
                                  have it: lost in a crash or failover, or deleted by somebody */
    RELAY_NOTE_PATROL_FOUND,   /* row `id` with `event_id` of `topic` was passed by, by somebody's mistake; it is published now */
    RELAY_NOTE_SESSION_BROKEN, /* `session` ends, because of `fault`; `rows` are in doubt */
    RELAY_NOTE_WINDOW_STUCK,   /* rows handed to dead partitions hold more than half of the window: the session ends */
    RELAY_NOTE_GAPS_FULL,      /* too many open gaps: the tail stops until some close */
    RELAY_NOTE_DROPPED         /* `rows` notes did not fit and are not told */
};

/* Why something did not work. It decides the wait, the breaker or the isolation; never safety. */
enum relay_fault {
    RELAY_FAULT_NONE,
    RELAY_FAULT_PASSING, /* try again */
    RELAY_FAULT_ROW,     /* this row or its batch was refused */
    RELAY_FAULT_SIZE,    /* refused for its size */
    RELAY_FAULT_TOPIC,   /* missing, or not ours to write */
    RELAY_FAULT_SESSION  /* no row to blame: a fatal error, or purged with the session */
};

struct relay_action {
    enum relay_action_type type;
    enum relay_note note;
    enum relay_fault fault;
    uint32_t rows, topic;
    row_slot slot, next_slot, later_slot; /* next, later: those of the next two RELAY_PUBLISH, probably; ROW_NO_SLOT: not known */
    int32_t partition;
    enum relay_session session;
    bool force;
    uint64_t until_ms, bytes;
    int64_t from, upto, settled_upto;
    int64_t id; /* of the row to publish, or that the note is about... */
    struct row_event_id event_id;
};

/* Copies `limits`, which must be sane (asserted). Returns NULL if out of memory; nothing is allocated afterwards. It first asks for
 * RELAY_CONNECT. */
struct relay *relay_new(const struct relay_limits *limits, uint64_t now_ms);
void relay_free(struct relay *r); /* NULL is allowed. */

/* What to do next. Performing an action and telling its outcome may happen at any later time, or at once. */
struct relay_action relay_next(struct relay *r, uint64_t now_ms);

/* Ranges of ids to ask for with the outstanding fetch, ascending, both ends included; lent until the next relay_on_... call. */
uint32_t relay_gaps(const struct relay *r, const int64_t **ret_firsts, const int64_t **ret_lasts);
/* The outstanding mark, ids ascending; lent until it is answered. */
uint32_t relay_marks(const struct relay *r, const int64_t **ret_ids, const struct row_event_id **ret_event_ids);

/* What the tail passed by, saved as its first unsettled id. */
struct relay_behind {
    uint32_t topic;
    int32_t partition; /* RELAY_WHOLE_TOPIC: all of it; RELAY_UNPLACED: rows whose own partition does not exist */
    uint64_t key_hash; /* of one key, whose partition is RELAY_WHOLE_TOPIC; 0: all of them */
    int64_t first_id;  /* in a save, 0: delete the record */
    uint32_t attempts; /* times that its first row failed alone */
    bool held;         /* until an operator acts (step 6) */
};
#define RELAY_WHOLE_TOPIC (-1)
#define RELAY_UNPLACED    (-2)

/* What the outstanding save changes: records to write, or to delete (first_id 0); lent until it is answered. */
uint32_t relay_saving(const struct relay *r, const struct relay_behind **ret_changes);

/* --- the database ------------------------------------------------------------------------------------------------- */

void relay_on_connected(struct relay *r, uint64_t now_ms);
/* A connection was lost, or could not be made. All of them are closed now, and what was outstanding on them is void: no answer may be
 * told later. A mark may or may not have been applied; it is repeated. Answered by RELAY_CONNECT after a backoff. */
void relay_on_database_lost(struct relay *r, uint64_t now_ms);

struct relay_saved {
    struct relay_token token;          /* ours from now on */
    int64_t floor;                     /* everything up to it is settled or behind */
    int64_t last_id;                   /* of the sequence, read with the grant */
    const struct relay_behind *behind; /* borrowed */
    uint32_t behind_n;
    bool floor_reset;      /* the sequence stood below the saved floor: floor is 0 and behind is empty */
    bool incarnation_lost; /* the database had no incarnation: it crashed or failed over since the last grant, if there was one */
};

/* Answer to RELAY_LEASE_TAKE: `saved` was read in the call that granted the lease; NULL: another relay holds it. `asked_at_ms` is when
 * the question was sent: the lease runs from there. */
void relay_on_lease(struct relay *r, uint64_t now_ms, uint64_t asked_at_ms, const struct relay_saved *saved);
/* Right before relay_on_lease tells that another relay holds it: that one's last beat, a number that changes with each, and for how long it
 * promised to be alive. 0: not known. */
void relay_on_holder(struct relay *r, uint64_t now_ms, int64_t beat, uint64_t beat_ttl_ms);
/* Answer to RELAY_LEASE_BEAT. `held`: the lease row has our token still; `token`: of incarnation; `last_id`: of the sequence. */
void relay_on_beaten(struct relay *r, uint64_t now_ms, uint64_t asked_at_ms, bool held, struct relay_token token, int64_t last_id);
void relay_on_released(struct relay *r, uint64_t now_ms);

struct relay_read {
    struct relay_token token; /* of incarnation, in the same statement */
    const struct row *rows;   /* ids ascending; borrowed */
    uint32_t rows_n;
    int64_t upto;        /* whole up to this id; INT64_MAX: nothing was cut */
    uint64_t insert_lsn; /* the rows wait until the flush has passed it */
    uint64_t flush_lsn;
};

/* Answers to RELAY_FETCH and RELAY_CATCH_UP. Fills ret_slots[i] with the slot of rows[i], or with ROW_NO_SLOT where its bytes are not
 * wanted: settled, known, or behind. */
void relay_on_fetched(struct relay *r, uint64_t now_ms, const struct relay_read *read, row_slot *ret_slots);
void relay_on_caught_up(struct relay *r, uint64_t now_ms, const struct relay_read *read, row_slot *ret_slots);

/* Answer to RELAY_PATROL: `rows` without bytes. None of them is kept. */
void relay_on_patrolled(struct relay *r, uint64_t now_ms, const struct relay_read *read);

struct relay_writer {
    uint64_t vxid;        /* not 0 */
    uint64_t quiet_since; /* prepared, or idle in a transaction, since (any number that changes when it acts); 0: active. It draws no ids */
};

/* `last_id` of the sequence was read first; `writers`, borrowed, after it. `complete` false: there were more than could be told. */
void relay_on_writers(struct relay *r, uint64_t now_ms, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n,
                      bool complete);
/* Answer to RELAY_FLUSH: both were read in one statement. */
void relay_on_flushed(struct relay *r, uint64_t now_ms, struct relay_token token, uint64_t flush_lsn);
/* Answer to RELAY_MARK: committed. `missed`, borrowed: ids, ascending, whose pair is not in the table: they were published, and the database
 * has lost them, or somebody has deleted them. */
void relay_on_marked(struct relay *r, uint64_t now_ms, const int64_t *missed, uint32_t missed_n);
/* Answer to RELAY_SAVE. `fenced`: not saved, the token is another's. */
void relay_on_saved(struct relay *r, uint64_t now_ms, bool fenced);
/* The statement of `what` failed, was rolled back, and the connection lives (timeout, deadlock): it is tried again after a backoff. */
void relay_on_failed(struct relay *r, uint64_t now_ms, enum relay_action_type what);

/* --- Kafka -------------------------------------------------------------------------------------------------------- */

void relay_on_session_open(struct relay *r, uint64_t now_ms, enum relay_session session);
/* It could not be opened; tried again after a backoff. */
void relay_on_session_failed(struct relay *r, uint64_t now_ms, enum relay_session session);
/* relay_on_delivered will be told of `slot` soon: the processor may fetch it. */
void relay_expect(const struct relay *r, row_slot slot);
/* A good report: `slot` is in the log with all acks. */
void relay_on_delivered(struct relay *r, uint64_t now_ms, row_slot slot);
/* A bad report, or a report of the purge (RELAY_FAULT_SESSION). Ends the session that it was handed to. The slot's bytes stay. */
void relay_on_refused(struct relay *r, uint64_t now_ms, row_slot slot, enum relay_fault why);
/* The row could not even be handed over: it is in no sequence, and the session goes on. Its key waits, if the row is at fault. The slot's
 * bytes stay. To be told before relay_next is called again: no later row of the key may be handed. */
void relay_on_unpublished(struct relay *r, uint64_t now_ms, row_slot slot, enum relay_fault why);
/* Broken without a row to blame: a fatal error comes before the reports. */
void relay_on_session_broken(struct relay *r, uint64_t now_ms, enum relay_session session, enum relay_fault why);
/* Answer to RELAY_SESSION_CLOSE: all its reports have been told. */
void relay_on_session_closed(struct relay *r, uint64_t now_ms, enum relay_session session);
/* The broker forgets a producer that was silent for `expiration_ms` (producer.id.expiration.ms): lanes are cold again well before. */
void relay_on_idle_limit(struct relay *r, uint64_t now_ms, uint64_t expiration_ms);
/* Answer to RELAY_TOPIC. actual_n 0: missing, or not ours to write, or could not be learned; asked again with backoff, its rows are
 * behind meanwhile. `message_bytes_max`: the broker's limit for a batch of this topic, 0: not known. */
void relay_on_topic(struct relay *r, uint64_t now_ms, uint32_t topic, int32_t pinned_n, int32_t actual_n, uint32_t message_bytes_max);

/* --- the rest ----------------------------------------------------------------------------------------------------- */

void relay_on_stop(struct relay *r, uint64_t now_ms); /* stop reading, take the reports, mark, save, release, RELAY_EXIT */

/* What is there to see: for metrics, for `run --drain` and for tests. */
struct relay_view {
    bool lease_held, session_open, connected, stopping;
    bool drained; /* the last fetch brought nothing new, no gap is open, the window is empty */
    uint32_t window_rows, open_gaps, behind_lanes, behind_topics, behind_keys;
    uint64_t oldest_key_ms; /* since when the key that waits longest waits; 0: none does */
    uint64_t window_bytes;
    uint32_t handed_rows;   /* of window_rows, with the producer */
    uint32_t acked_rows;    /* of window_rows, acknowledged, and not known to be marked */
    int64_t floor, highest; /* everything up to the floor is settled or behind, and saved so; the highest id seen */
    uint64_t oldest_gap_ms; /* since when the oldest gap is open; 0: none */
};
struct relay_view relay_view(const struct relay *r);

/* --- for tests/sim ------------------------------------------------------------------------------------------------ */

size_t relay_size(const struct relay *r);
void relay_copy(struct relay *to, const struct relay *from);   /* both of one size */
uint64_t relay_digest(const struct relay *r, uint64_t now_ms); /* times count relative to now: equal states, equal digests */

#endif
