/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the relay, for relay*.c only. What is outstanding has a field each; the modules lie behind this struct in the same block, found
 * by their place in it.
 *
 *   relay.c          what to do next
 *   relay_read.c     the lease, reads and what they bring; starting over
 *   relay_behind.c   lanes and topics that go behind, and the pages that catch up
 *   relay_mark.c     marks, and what they find missing
 *   relay_save.c     the barrier, saves
 *   relay_session.c  the two sessions: when they open and end
 *   relay_publish.c  publishing and reports
 *   relay_topic.c    the topics that rows go to
 *   relay_keys.c     keys that wait, and probe lanes
 *   relay_patrol.c   looks for what was passed by by mistake
 *   relay_view.c     looking at it
 */
#ifndef RELAY_CORE_RELAY_STATE_H
#define RELAY_CORE_RELAY_STATE_H

#include "relay/core/behind.h"
#include "relay/core/gaps.h"
#include "relay/core/keys.h"
#include "relay/core/lease.h"
#include "relay/core/marks.h"
#include "relay/core/pace.h"
#include "relay/core/relay.h"
#include "relay/core/topics.h"
#include "relay/core/window.h"

enum relay_database {
    RELAY_DATABASE_LOST,
    RELAY_DATABASE_CONNECTING,
    RELAY_DATABASE_CONNECTED
};
enum relay_reading {
    RELAY_READING_NOTHING,
    RELAY_READING_FETCH,
    RELAY_READING_PAGE,
    RELAY_READING_PATROL,
    RELAY_READING_WRITERS
};
enum relay_session_state {
    SESSION_CLOSED,
    SESSION_OPENING,
    SESSION_READY,
    SESSION_BROKEN, /* nothing is handed; to be closed */
    SESSION_CLOSING
};
struct relay_session_life {
    enum relay_session_state state;
    uint32_t attempts;
    uint64_t open_ms;       /* when to open the next one */
    enum relay_fault fault; /* that broke it */
    uint64_t opened_bytes;  /* of a batch, in the last one */
    uint64_t busy_ms;       /* when it was last handed a row, or told of one */
};

struct relay_told {
    enum relay_note note;
    enum relay_fault fault;
    enum relay_session session;
    uint32_t topic, rows;
    int32_t partition;
    int64_t from, id;
    struct row_event_id event_id;
};
/* A row that was marked lately. */
struct relay_pair {
    int64_t id;
    struct row_event_id event_id;
};
/* A row that was published, and that the database does not have. */
struct relay_phantom {
    int64_t id;
    struct row_event_id event_id;
    uint32_t topic; /* TOPICS_NO_TOPIC: not known any more */
};
#define RELAY_NOTES_MAX   64
#define RELAY_PUBLISH_RUN 31 /* rows handed one after the other: their hand-over is then nearly all that they cost here */
#define RELAY_LAST_SAVES  3  /* at the end, a save is tried so often */

struct relay {
    void *block; /* as it was allocated */
    size_t size;
    struct relay_limits limits;
    size_t window_at, gaps_at, topics_at, behind_at, keys_at, marks_at, pairs_at, phantoms_at, firsts_at, changes_at, change_records_at;
    struct lease lease;
    struct pace pace;

    /* database */
    enum relay_database database;
    uint32_t connect_attempts;
    uint64_t connect_ms; /* when to connect again */
    bool releasing;

    /* reading */
    enum relay_reading reading;
    bool read_void;   /* started over since it was sent: its answer says nothing */
    bool read_full;   /* asks for everything above the highest id */
    bool page_next;   /* a page's turn, if there is one to read */
    bool page_dirty;  /* something happened since no page was found */
    bool idle;        /* the last fetch was whole and brought nothing */
    bool marks_first; /* rows were acknowledged before the lease was granted: they are marked before the first fetch */
    uint32_t read_attempts, read_rows;
    int64_t settled_upto;  /* last id of the sequence when the lease was granted */
    bool read_settled;     /* the fetch on its way asks for settled rows too */
    bool settled_seen;     /* the last that did brought some */
    uint32_t settled_none; /* so many in a row brought none */
    uint32_t read_gaps_n;  /* gaps that were open when the fetch was sent */
    int64_t beat_highest;  /* the highest id seen when the outstanding beat was asked for */
    uint32_t page_topic, page_last_topic;
    int64_t page_upto;
    uint64_t page_due_ms; /* no page before, unless something happens */
    uint64_t writers_ms, writers_asked_ms;
    uint32_t idle_lane; /* where the search for a lane number to free goes on */
#ifdef MUTANT_TAIL_ALONE
    bool gaps_alone;
#endif

    /* patrol */
    bool patrol_waits;                     /* for a topic to be known */
    int64_t patrol_at, patrol_upto;        /* the next id to look at, 0: a pass begins; the last of the page on its way */
    int64_t patrol_back, patrol_next_back; /* where a pass begins: the floor one to two periods ago */
    uint64_t patrol_ms, patrol_turn_ms;    /* when the next page is due; when patrol_next_back takes over */

    /* barrier */
    bool flushing, flush_void, flush_forced;
    uint32_t flush_attempts;
    uint64_t flush_ms, force_until_ms; /* reading alone did not do lately */

    /* marks */
    bool marking;
    uint32_t mark_attempts;
    uint64_t pairs_n;   /* kept so far, in a ring */
    uint32_t again_n;   /* of the last of them, to be marked again */
    bool marking_again; /* the outstanding mark is of these: its slots are their numbers in the ring */
    uint32_t phantoms_n, phantoms_told;
    uint32_t repeat_rows;       /* acknowledged rows whose first mark may have been applied: their misses are not told */
    uint64_t acked_ms, mark_ms; /* since when a row waits for its mark; no mark before */

    /* saves */
    bool saving, save_void, dirty; /* dirty: something was settled since the last save */
    uint32_t changes_n, settled_rows, save_attempts;
    int64_t floor, saving_floor;
    uint64_t save_ms; /* no save before, but for save_ids */

    /* Kafka */
    struct relay_session_life sessions[RELAY_SESSIONS];
    uint64_t session_bytes; /* of a batch, in the next session */
    uint32_t asked_topic;
    uint64_t unknown_ms; /* when topics that stay unknown are looked for */

    uint32_t publish_run; /* so many rows may be handed before all other questions are asked again */

    /* the end */
    bool stopping, exited;
    uint64_t stop_ms;

    struct relay_told notes[RELAY_NOTES_MAX];
    uint32_t notes_first, notes_n, notes_lost;
};

static inline void *relay_part(const struct relay *r, size_t at)
{
    return (char *)(uintptr_t)r + at;
}

static inline struct window *relay_window(const struct relay *r)
{
    return relay_part(r, r->window_at);
}

static inline struct gaps *relay_gaps_of(const struct relay *r)
{
    return relay_part(r, r->gaps_at);
}

static inline struct topics *relay_topics(const struct relay *r)
{
    return relay_part(r, r->topics_at);
}

static inline struct behind *relay_behind_of(const struct relay *r)
{
    return relay_part(r, r->behind_at);
}

static inline struct keys *relay_keys(const struct relay *r)
{
    return relay_part(r, r->keys_at);
}

static inline struct marks *relay_marks_of(const struct relay *r)
{
    return relay_part(r, r->marks_at);
}

/* The number of a topic's record in `behind`; that of a lane's record is the lane's. */
static inline uint32_t relay_topic_record(const struct relay *r, uint32_t topic)
{
    return r->limits.lanes_max + topic;
}

static inline uint32_t relay_key_record(const struct relay *r, uint32_t key)
{
    return r->limits.lanes_max + r->limits.topics_max + key;
}

static inline bool relay_is_key_record(const struct relay *r, uint32_t record)
{
    return record >= r->limits.lanes_max + r->limits.topics_max;
}

static inline int64_t relay_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- relay.c ------------------------------------------------------------------------------------------------------ */

/* For the log and the metrics; told by RELAY_NOTE. */
void relay_note(struct relay *r, struct relay_told told);

/* --- relay_read.c ------------------------------------------------------------------------------------------------- */

/* Ids may have been given to other events, or the lease is not ours: forget what was read and not handed; ask for the lease again. */
void relay_start_over(struct relay *r, uint64_t now_ms, bool lease_was_lost);
/* The next read, if one is due and there is room for what it may bring. */
bool relay_next_read(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
uint64_t relay_read_due_ms(const struct relay *r);
/* The lane of a row, with a number found or made; TOPICS_NO_LANE: no number is left. Takes its topic into use. */
uint32_t relay_lane_of(struct relay *r, uint64_t now_ms, const struct row *row);
/* A read was answered: is its answer worth anything? Not when another holds the lease since, or when it was read under another token. */
bool relay_read_counts(struct relay *r, uint64_t now_ms, struct relay_token token);
/* The row is admitted to `lane`, or its probe lane; `key`: its number, or KEYS_NONE. There is room (asserted). */
row_slot relay_row_admit(struct relay *r, const struct row *row, uint32_t lane, uint32_t key, const struct relay_read *read);
/* What an answer tells of the WAL. */
void relay_read_flushed(struct relay *r, const struct relay_read *read);
/* A number for the lane, or for its probe lane, found or made; TOPICS_NO_LANE: none is left. */
uint32_t relay_lane_numbered(struct relay *r, uint32_t topic, int32_t partition, bool probe);
/* Is there room in the window for another read? */
bool relay_has_room(const struct relay *r);
/* The bytes that a read may bring: those of a fetch, or of what is left. */
uint64_t relay_read_bytes(const struct relay *r);

/* --- relay_behind.c ----------------------------------------------------------------------------------------------- */

/* Whatever of the lane, no probe lane, is not with the producer leaves the window; `delayed`: it is tried again after a backoff only. */
void relay_lane_goes_behind(struct relay *r, uint64_t now_ms, uint32_t lane, enum relay_fault fault, bool delayed);
void relay_topic_goes_behind(struct relay *r, uint64_t now_ms, uint32_t topic, enum relay_fault fault);
/* Drop the queued rows of a lane, and of its keys that wait take them back; the smallest id, INT64_MAX if there were none. */
int64_t relay_lane_take(struct relay *r, uint32_t lane);
/* The rows of a lane that is behind are not told apart from others of its topic: the whole topic is behind instead. */
void relay_topic_instead(struct relay *r, uint64_t now_ms, uint32_t lane);
/* Rows of what is behind came back from a session: they leave the window. */
void relay_behind_retake(struct relay *r);
/* Does a record keep the tail from admitting row `id` of `lane`? `key`: its number, or KEYS_NONE. */
bool relay_is_passed_by(const struct relay *r, uint32_t lane, uint32_t key, int64_t id);
/* The topic of a record. */
uint32_t relay_record_topic(const struct relay *r, uint32_t record);

/* --- relay_page.c ------------------------------------------------------------------------------------------------- */

/* Choose the records that the next page serves. Returns false if there is none now. */
bool relay_next_page(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);

/* --- relay_keys.c ------------------------------------------------------------------------------------------------- */

/* The key of a row that waits, its number; KEYS_NONE: it does not. */
uint32_t relay_key_of(const struct relay *r, const struct row *row);
uint32_t relay_key_of_slot(const struct relay *r, row_slot slot);
/* The lane that a row of `lane` is admitted to: the probe lane, where it may be refused. TOPICS_NO_LANE: no number is left. */
uint32_t relay_lane_to(struct relay *r, uint32_t lane, uint32_t key);
/* The lane of a probe lane, or itself; TOPICS_NO_LANE: it has no number any more. */
uint32_t relay_lane_main(const struct relay *r, uint32_t lane);
uint32_t relay_lane_probe(const struct relay *r, uint32_t lane); /* the other way; TOPICS_NO_LANE: it has none */
/* A row came back from its session: to its place in its lane; or it is dropped, if the start over since has forgotten what lies before it. */
void relay_row_return(struct relay *r, row_slot slot);
/* A row that was handed, and came back, failed alone: its key waits from it on. The slot is dropped. */
void relay_key_fails(struct relay *r, uint64_t now_ms, row_slot slot, enum relay_fault fault);
/* The key of `row`, which was passed by, waits from it on. Returns false if no number is left. */
bool relay_key_waits(struct relay *r, uint64_t now_ms, uint32_t lane, const struct row *row);
void relay_key_load(struct relay *r, uint64_t now_ms, const struct relay_behind *saved);
void relay_keys_sweep(struct relay *r); /* give back the numbers of keys that do not wait and of which nothing is saved */
/* What was suspected of a lane and its topic was acknowledged, or waits: it goes on through the main session. */
void relay_suspicion_ends(struct relay *r, uint32_t lane, bool acked);

/* --- relay_patrol.c ----------------------------------------------------------------------------------------------- */

bool relay_next_patrol(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
void relay_patrol_restart(struct relay *r, uint64_t now_ms); /* the floor is another one */

/* --- relay_save.c ------------------------------------------------------------------------------------------------- */

bool relay_next_flush(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
bool relay_next_save(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
uint64_t relay_save_due_ms(const struct relay *r); /* the earliest of mark, flush and save that only waits for time */

/* --- relay_mark.c ------------------------------------------------------------------------------------------------- */

bool relay_next_mark(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
uint64_t relay_mark_due_ms(const struct relay *r);
bool relay_next_phantom(struct relay *r, struct relay_action *ret_action);
/* The database may have lost the last marks, and rows: mark them again. */
void relay_marks_again(struct relay *r);
/* The outcome of the outstanding mark is not known: its rows are acknowledged again. */
void relay_unmark(struct relay *r, uint64_t now_ms);

/* --- relay_session.c ---------------------------------------------------------------------------------------------- */

bool relay_next_session(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
void relay_break_session(struct relay *r, enum relay_session session, enum relay_fault fault);
uint64_t relay_session_due_ms(const struct relay *r, uint64_t now_ms);

/* --- relay_topic.c ------------------------------------------------------------------------------------------------ */

bool relay_next_topic(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
void relay_topic_close(struct relay *r, uint64_t now_ms, uint32_t topic, enum relay_fault fault);

/* --- relay_publish.c ---------------------------------------------------------------------------------------------- */

bool relay_next_publish(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
uint64_t relay_publish_due_ms(const struct relay *r, uint64_t now_ms);
/* Lanes that wait too long for their acknowledgement, topics that wait too long to be known. */
void relay_find_stuck(struct relay *r, uint64_t now_ms);
/* The question about a topic that is on its way will not be answered. */
void relay_topic_void(struct relay *r, uint64_t now_ms);

#endif
