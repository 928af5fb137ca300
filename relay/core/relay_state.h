/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the relay, for relay*.c only. What is outstanding has a field each; the modules lie behind this struct in the same block, found
 * by their place in it.
 *
 *   relay.c          what to do next
 *   relay_read.c     the lease, reads and what they bring; starting over
 *   relay_behind.c   lanes and topics that go behind, and the pages that catch up
 *   relay_save.c     marks, the barrier, saves
 *   relay_publish.c  sessions, reports, topics
 *   relay_view.c     looking at it
 */
#ifndef RELAY_CORE_RELAY_STATE_H
#define RELAY_CORE_RELAY_STATE_H

#include "relay/core/behind.h"
#include "relay/core/gaps.h"
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
    uint64_t open_ms;      /* when to open the next one */
    uint64_t opened_bytes; /* of a batch, in the last one */
    uint64_t busy_ms;      /* when it was last handed a row, or told of one */
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
#define RELAY_NOTES_MAX   64
#define RELAY_PUBLISH_RUN 31 /* rows handed one after the other: their hand-over is then nearly all that they cost here */
#define RELAY_LAST_SAVES  3  /* at the end, a save is tried so often */

struct relay {
    void *block; /* as it was allocated */
    size_t size;
    struct relay_limits limits;
    size_t window_at, gaps_at, topics_at, behind_at, marks_at, firsts_at, changes_at, change_records_at;
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

    /* barrier */
    bool flushing, flush_void, flush_forced;
    uint32_t flush_attempts;
    uint64_t flush_ms, force_until_ms; /* reading alone did not do lately */

    /* marks */
    bool marking;
    uint32_t mark_attempts;
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

static inline struct marks *relay_marks_of(const struct relay *r)
{
    return relay_part(r, r->marks_at);
}

/* The number of a topic's record in `behind`; that of a lane's record is the lane's. */
static inline uint32_t relay_topic_record(const struct relay *r, uint32_t topic)
{
    return r->limits.lanes_max + topic;
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
/* Is there room in the window for another read? */
bool relay_has_room(const struct relay *r);
/* The bytes that a read may bring: those of a fetch, or of what is left. */
uint64_t relay_read_bytes(const struct relay *r);

/* --- relay_behind.c ----------------------------------------------------------------------------------------------- */

/* Whatever of the lane is not with the producer leaves the window; `refused`: it is tried again after a backoff only. */
void relay_lane_goes_behind(struct relay *r, uint64_t now_ms, uint32_t lane, enum relay_fault fault, bool refused);
void relay_topic_goes_behind(struct relay *r, uint64_t now_ms, uint32_t topic, enum relay_fault fault);
/* The rows of a lane that is behind are not told apart from others of its topic: the whole topic is behind instead. */
void relay_topic_instead(struct relay *r, uint64_t now_ms, uint32_t lane);
/* Rows of what is behind came back from a session: they leave the window. */
void relay_behind_retake(struct relay *r);
/* The record that keeps the tail from admitting row `id` of `lane`; BEHIND_NONE: none does. */
uint32_t relay_record_over(const struct relay *r, uint32_t lane, int64_t id);
/* Choose the records that the next page serves. Returns false if there is none now. */
bool relay_next_page(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);

/* --- relay_save.c ------------------------------------------------------------------------------------------------- */

bool relay_next_mark(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
bool relay_next_flush(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
bool relay_next_save(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
uint64_t relay_save_due_ms(const struct relay *r); /* the earliest of the three that only waits for time */
/* The outcome of the outstanding mark is not known: its rows are acknowledged again. */
void relay_unmark(struct relay *r, uint64_t now_ms);

/* --- relay_publish.c ---------------------------------------------------------------------------------------------- */

bool relay_next_session(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
bool relay_next_topic(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
bool relay_next_publish(struct relay *r, uint64_t now_ms, struct relay_action *ret_action);
uint64_t relay_publish_due_ms(const struct relay *r, uint64_t now_ms);
/* Lanes that wait too long for their acknowledgement, topics that wait too long to be known. */
void relay_find_stuck(struct relay *r, uint64_t now_ms);
void relay_break_session(struct relay *r, enum relay_session session, enum relay_fault fault);
/* The question about a topic that is on its way will not be answered. */
void relay_topic_void(struct relay *r, uint64_t now_ms);

#endif
