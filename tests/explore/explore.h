/* SPDX-License-Identifier: BSD-2-Clause */
/* Every interleaving of a small world: the real core twice, beside a PostgreSQL and a Kafka of a few bytes each.
 *
 *   explore_main      the plays: what is explored
 *   explore_search    breadth first, a hash set of states, the shortest trace to a violation
 *   explore_steps     what may happen next, one by one
 *   explore_relay     a relay process: performs what its core wants
 *   explore_answers   what it is told of that later
 *   explore_cores     the cores themselves: each different one is kept once
 *   explore_parts     and so is each part of a state
 *   explore_tell      what a core wants, in words
 *   explore_database  rows, sequence, lease, saved state; what a statement does at its moment at the server
 *   explore_kafka     sessions of librdkafka, the broker's sequence numbers, the log of one partition
 *   explore_judge     what must hold in every state
 *
 * WHAT IS EXPLORED. A few rows (three by default) of one topic-partition, written by transactions that hold their key's lock, commit or roll
 * back; two relays on the table, with whatever faults the play allows, at most `faults` of them in one run, in every order and at every
 * moment. Statements have a moment at the server and a moment at which their answer is told; between the two anything may happen, so a lost
 * connection loses the statement, or its answer only, and a relay that sleeps is one to which nothing happens. A statement whose connection
 * is gone may be executed later, and so may requests of dead sessions, in their order. The broker accepts any first sequence number of a
 * producer that it does not know (KAFKA-15591) and may refuse any batch, for a while or for good.
 *
 * TIME is one step of a relay: to its next beat, or to the end of its lease if that beat is on its way. The limits are such that every
 * other delay is over by then. Delays that are shorter are none, since an answer may take any time; but two are a step of their own: a key
 * or lane is tried again, writers are asked for again. Clocks have nothing to do with each other: the database's lease may run out at any time, as if every pause of a relay were endless. Nothing that must hold depends on clocks.
 *
 * WHAT IS MERGED. States are equal if both cores have equal digests and the rest is equal byte by byte. Tokens are drawn as the lowest
 * number that nobody remembers. The two relays may change places. Of the log only the rows in it count: more copies change nothing. Jitter
 * and attempts are the same always.
 *
 * WHAT IS NOT EXPLORED. Partitions and topics (one of each), cut reads, more rows than the window holds, sizes in bytes, a second failure of a
 * kind after the budget is used up, more than LATE_MAX late statements and sessions at once (those beyond are lost). tests/sim does these,
 * by chance and not by all cases.
 */
#ifndef TESTS_EXPLORE_EXPLORE_H
#define TESTS_EXPLORE_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/relay.h"

enum {
    RELAYS = 2,
    IDS_MAX = 4,
    EVENTS_MAX = 2 * IDS_MAX, /* an id may be given to a second event, after a crash */
    RECORDS = 6,              /* the lane, the whole topic, rows without a place, three keys */
    IN_FLIGHT_MAX = 6,
    LATE_MAX = 2,
    NO_EVENT = 0xff
};

/* Sets of events; event e has the id (e % IDS_MAX) + 1. */
typedef uint8_t event_set;

enum phase {
    NOT_SENT,
    SENT, /* on its way to the server */
    READ, /* half executed: of RELAY_WRITERS, the sequence is read */
    DONE  /* the answer is on its way */
};

/* A statement of the connection for reads. */
struct read_statement {
    uint8_t phase, type; /* enum relay_action_type */
    uint8_t from, upto, settled_upto, rows, gaps /* a set of ids */;
    uint8_t token, whole_upto; /* the answer; 0: whole to the end */
    event_set seen, settled, writers;
    uint8_t insert_lsn, flush_lsn, last_id;
};

struct write_statement {
    uint8_t phase;
    uint8_t token, floor; /* a save's */
    event_set marked;     /* a mark's; and the answer's: those that are not in the table */
    uint8_t missed;
    uint8_t changed, first_ids[RECORDS], attempts[RECORDS]; /* of a save: a set of records */
    bool fenced;
};

/* A connection is gone, its statement is not. */
struct late_statement {
    uint8_t type; /* 0: none */
    struct write_statement statement;
};

enum message_state {
    MESSAGE_SENT,       /* not yet at the broker */
    MESSAGE_APPENDED,   /* the reply is on its way... */
    MESSAGE_NOT_NOW,    /* ...refused for a reason that passes */
    MESSAGE_WRONG_TURN, /* ...refused for its sequence number */
    MESSAGE_REFUSED,    /* ...refused for good */
    MESSAGE_AGAIN       /* the client knows: sent again when nothing is in flight any more */
};

/* Messages of one session that were not reported. Sequence numbers count from the one that the broker expects next. */
struct session {
    uint8_t state; /* enum session_step */
    bool known, fatal, idle;
    int8_t next; /* of the next message */
    uint8_t n, event[IN_FLIGHT_MAX], message[IN_FLIGHT_MAX];
    int8_t sequence[IN_FLIGHT_MAX];
};
enum session_step {
    SESSION_NONE,
    SESSION_IS_OPEN,
    SESSION_IS_CLOSING
};

struct process {
    uint32_t core;                          /* its number in explore_cores */
    bool fresh, asks_topic, stopped;        /* fresh: nothing but the question for the lease has been asked */
    uint8_t lease_type, lease_token, flush; /* outstanding: enum relay_action_type, 0: none; flush: 1, or 2 with force */
    struct read_statement read;
    struct write_statement mark, save;
    struct session sessions[RELAY_SESSIONS];
};

struct database {
    uint8_t last_id, last_id_flushed;
    event_set open, committed, sent, lost; /* sent is a part of committed; lost: was committed, or open, before a crash */
    event_set committed_flushed, sent_flushed;
    event_set second;              /* ids (as events below IDS_MAX) that are given to their second event */
    uint8_t insert_lsn, flush_lsn; /* counts commits */
    uint8_t lease, lease_relay;    /* a token, 0: none; the relay that may take it from itself, 0: gone */
    bool lease_over;
    uint8_t incarnation, floor;
    uint8_t first_ids[RECORDS], attempts[RECORDS];
};

struct world {
    struct process relays[RELAYS];
    struct database database;
    event_set log;
    uint8_t faults, refusals, crashes, stops, rollbacks, times; /* that may still happen */
    struct late_statement statements[LATE_MAX];
    struct session sessions[LATE_MAX];
};

/* What a run explores. */
struct play {
    const char *name, *keys; /* keys: a letter for each row, A to C */
    uint8_t faults, refusals, crashes, stops, rollbacks, times;
    bool asynchronous, topics; /* commits that are not flushed; topics are not known at once */
};

extern const struct play *explore_play; /* set once, before anything else */

/* --- explore_search.c --------------------------------------------------------------------------------------------- */

/* A rule is broken in the state that is being made. Does not return: prints the shortest trace and ends. */
_Noreturn void explore_violation(const char *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- explore_steps.c ---------------------------------------------------------------------------------------------- */

struct step {
    uint8_t kind, relay, a, b;
};
/* The first step to try, and the one after `step`; false: there is none. Most are not possible in a given world. */
struct step step_first(void);
bool step_next(struct step *step);
/* Worth trying? A cheap answer: most steps are not possible in a given world. */
bool step_is_likely(const struct world *w, struct step step);
/* Do it; false: not possible, and `w` is spoiled. */
bool step_do(struct world *w, struct step step);
/* In words. */
void step_describe(struct step step, char *ret_text, size_t size);

/* --- explore_cores.c ---------------------------------------------------------------------------------------------- */

void cores_start(void);
uint32_t cores_new(void); /* the number of a core to which nothing has happened */
/* A copy of core `number` to work with, lent until the next call; and its own clock. */
struct relay *cores_take(uint32_t number, uint64_t *ret_now_ms);
/* What became of it: its number now. */
uint32_t cores_put(struct relay *r, uint64_t now_ms);
uint32_t cores_n(void);
uint8_t cores_token(uint32_t number); /* of the lease that it holds, or 0 */
/* The slot of `event`, which is with the producer; ROW_NO_SLOT: it is not there. */
row_slot cores_slot(const struct relay *r, uint8_t event);
struct row_event_id event_id_of(uint8_t event);
uint8_t event_of(struct row_event_id event_id);
int64_t id_of(uint8_t event);
struct relay_token token_of(uint8_t number);
uint8_t token_number(struct relay_token token);

/* --- explore_tell.c ----------------------------------------------------------------------------------------------- */

extern bool explore_telling;          /* print what the cores want... */
extern unsigned explore_told[RELAYS]; /* ...by these names of the relays */
void tell_action(unsigned relay, const struct relay *r, const struct relay_action *a);

/* --- explore_relay.c ---------------------------------------------------------------------------------------------- */

void relay_start(struct world *w, unsigned relay);                                  /* a new process */
void relay_pump(struct world *w, unsigned relay, struct relay *r, uint64_t now_ms); /* perform what the core wants, and keep it */
bool relay_lease(struct world *w, unsigned relay);
bool relay_lease_unheard(struct world *w, unsigned relay); /* it is granted, and nobody is told */
bool relay_read_answer(struct world *w, unsigned relay);
bool relay_mark_answer(struct world *w, unsigned relay);
bool relay_save_answer(struct world *w, unsigned relay);
bool relay_flush(struct world *w, unsigned relay);
bool relay_topic(struct world *w, unsigned relay);
bool relay_fail(struct world *w, unsigned relay, enum relay_action_type type); /* the statement fails at the server */
bool relay_lose_database(struct world *w, unsigned relay, bool server_is_gone);
bool relay_kill(struct world *w, unsigned relay);
bool relay_stop(struct world *w, unsigned relay);
bool relay_pass_time(struct world *w, unsigned relay);
bool relay_timers(struct world *w, unsigned relay); /* what waits for a moment of its own is due */
bool relay_session_close(struct world *w, unsigned relay, enum relay_session session);
void relay_report(struct world *w, unsigned relay, enum relay_session session, uint8_t event, enum relay_fault fault); /* NONE: delivered */
void relay_session_broken(struct world *w, unsigned relay, enum relay_session session);

/* --- explore_database.c ------------------------------------------------------------------------------------------- */

bool database_draw(struct world *w);
bool database_commit(struct world *w, uint8_t event, bool flushed);
bool database_roll_back(struct world *w, uint8_t event);
bool database_flush(struct world *w);
bool database_crash(struct world *w, bool pooled); /* pooled: behind a pooler no connection is lost */
void database_read(struct world *w, struct read_statement *read);
void database_mark(struct world *w, struct write_statement *mark);
void database_save(struct world *w, struct write_statement *save);
bool database_grants(const struct world *w, unsigned relay);        /* would it? */
bool database_take(struct world *w, uint8_t token, unsigned relay); /* 0 of RELAYS: nobody is there for the answer */
bool database_beat(struct world *w, uint8_t token);
event_set database_events(const struct world *w); /* that have an id now */
uint8_t token_unused(const struct world *w);
/* The statement was sent, and its connection is gone. */
void database_late(struct world *w, enum relay_action_type type, const struct write_statement *statement);

/* --- explore_kafka.c ---------------------------------------------------------------------------------------------- */

void kafka_enqueue(struct session *s, uint8_t event);
bool kafka_append(struct world *w, unsigned relay, enum relay_session session);
bool kafka_refuse(struct world *w, unsigned relay, enum relay_session session, unsigned rows, bool for_good);
bool kafka_reply(struct world *w, unsigned relay, enum relay_session session);
bool kafka_cut(struct world *w, unsigned relay, enum relay_session session);
bool kafka_break(struct world *w, unsigned relay, enum relay_session session);
bool kafka_forget(struct world *w, unsigned relay, enum relay_session session);
/* The session is gone; what it sent is not. */
void kafka_late(struct world *w, const struct session *s);
bool kafka_late_append(struct world *w, unsigned late);
bool kafka_late_refuse(struct world *w, unsigned late);
void kafka_late_sort(struct world *w);

/* --- explore_judge.c ---------------------------------------------------------------------------------------------- */

void judge_append(struct world *w, uint8_t event); /* before it is in the log */
void judge_mark(const struct world *w, event_set marked);
void judge_saved(const struct world *w);
bool judge_is_done(const struct world *w); /* everything that is committed is published and marked */

#endif
