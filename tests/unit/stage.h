/* SPDX-License-Identifier: BSD-2-Clause */
/* A relay on a stage: the test plays database, Kafka and clock around it. Whatever the relay wants to be done is outstanding until the test
 * answers; what no test but a few cares about is answered by itself. Rows are written as text, a row a word:
 *
 *     7       id 7, to partition 0 of topic 0
 *     7/2     its own wish is partition 2            7/-  it has none: from the spread
 *     7@3     of topic 3
 *     7'      another event with the same id
 *     7s      settled already
 *     7#3     of key 3                           otherwise all rows of a partition have one key
 *
 * Every pull checks what relay.h promises of any: one action of a kind outstanding, one reader, no wait into the past, no end in sight
 * after a bounded number of actions.
 */
#ifndef TESTS_UNIT_STAGE_H
#define TESTS_UNIT_STAGE_H

#include "relay/core/relay.h"

#define STAGE_ROWS 256

struct stage {
    struct relay *relay;
    struct relay_limits limits;
    uint64_t now_ms, wait_ms; /* wait_ms: until when the relay said that it waits */
    unsigned waits;           /* how often it said so */
    unsigned answered;        /* bit by action type: answered by itself */
    unsigned token;           /* that the database shows */
    uint64_t insert_lsn, flush_lsn;
    int64_t last_id; /* of the sequence */
    bool asked[RELAY_EXIT + 1];
    struct relay_action action[RELAY_EXIT + 1];
    uint64_t asked_ms[RELAY_EXIT + 1];
    struct row row[STAGE_ROWS]; /* by slot */
    bool handed[STAGE_ROWS];
    enum relay_session session[STAGE_ROWS]; /* that it was handed to */
    struct relay_action noted[STAGE_ROWS];
    unsigned noted_n;
    char published[1000], probed[1000], dropped[1000];
};

/* Small limits: 40 rows in the window, 10 a fetch, 5 handed of a lane. */
struct relay_limits stage_limits(void);
/* Connected, the lease granted from floor 0, a session open, the first fetch outstanding. Lives until the test ends. */
struct stage *stage_set(const struct relay_limits *limits);
/* Nothing has happened yet, and nothing is answered by itself but with `answered`. It is `now_ms`. */
struct stage *stage_bare(const struct relay_limits *limits, unsigned answered, uint64_t now_ms);
#define STAGE_START_MS 1000000
struct stage *stage_twin(const struct stage *s); /* a copy, by relay_copy */
#define STAGE_ANSWERS(type) (1u << (type))

/* --- time --------------------------------------------------------------------------------------------------------- */

void stage_run(struct stage *s);               /* pull until the relay waits */
void stage_pass(struct stage *s, uint64_t ms); /* let time pass, from one moment that the relay waits for to the next */
/* The same, until `type` is outstanding; fails if it is not within `ms`. */
void stage_await(struct stage *s, enum relay_action_type type, uint64_t ms);
/* The same, and fetches are answered with nothing meanwhile. */
void stage_idle(struct stage *s, enum relay_action_type type, uint64_t ms);
void stage_idle_for(struct stage *s, uint64_t ms); /* the same, until so much time has passed */

/* --- the database ------------------------------------------------------------------------------------------------- */

struct relay_token stage_token(unsigned number);
void stage_connect(struct stage *s);
void stage_lose(struct stage *s); /* the connections */
/* Grant the lease with this floor and these records: "0/2:7 1/all:3 0/k5:8+2" is lane 2 of topic 0 from 7, topic 1 from 3, key 5 of topic 0
 * from 8, which failed alone twice. */
void stage_grant(struct stage *s, int64_t floor, const char *records);
void stage_beat(struct stage *s);
void stage_fetch(struct stage *s, const char *rows); /* whole */
void stage_fetch_upto(struct stage *s, const char *rows, int64_t upto);
void stage_page(struct stage *s, const char *rows); /* whole */
void stage_page_upto(struct stage *s, const char *rows, int64_t upto);
void stage_patrol(struct stage *s, const char *rows); /* whole */
void stage_writers(struct stage *s, int64_t last_id, const char *vxids);
void stage_flush(struct stage *s, uint64_t lsn);
void stage_mark(struct stage *s, uint32_t missed_n);
void stage_save(struct stage *s);
void stage_fail(struct stage *s, enum relay_action_type type);

/* --- Kafka -------------------------------------------------------------------------------------------------------- */

void stage_deliver(struct stage *s, const char *rows); /* all of these, which were published */
void stage_refuse(struct stage *s, const char *rows, enum relay_fault why);
void stage_unpublish(struct stage *s, const char *rows, enum relay_fault why);
void stage_drain(struct stage *s); /* deliver and mark until nothing is handed */
void stage_close(struct stage *s); /* the session: what is still handed comes back first */
void stage_topic(struct stage *s, int32_t pinned_n, int32_t actual_n, uint32_t message_bytes_max);

/* --- what the relay wants, as text; lent until the next call ------------------------------------------------------- */

const char *stage_published(struct stage *s);                 /* since the last call: "3 4@1" */
const char *stage_probed(struct stage *s);                    /* of these, to the probe session */
const char *stage_dropped(struct stage *s);                   /* since the last call: "5 6" */
const char *stage_gaps(struct stage *s);                      /* of the outstanding fetch: "2 5-7" */
const char *stage_marks(struct stage *s);                     /* of the outstanding mark: "3 4" */
const char *stage_saving(struct stage *s);                    /* the outstanding save: "floor 5 0/2:7 1/all:0" */
bool stage_told(const struct stage *s, enum relay_note note); /* since stage_forget_notes */
unsigned stage_told_n(const struct stage *s, enum relay_note note);
void stage_forget_notes(struct stage *s);

#endif
