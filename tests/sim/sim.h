/* SPDX-License-Identifier: BSD-2-Clause */
/* The real core in a simulated world: one virtual clock, one queue of events, one random generator; a seed replays a run exactly.
 *
 *   sim_writers     services: transactions that lock keys, draw ids, commit out of order or roll back
 *   sim_database    what PostgreSQL keeps: rows, sequence, WAL, lease, saved state; crash, failover, truncate
 *   sim_statements  the relay's statements: sent, executed on a snapshot, answered, lost
 *   sim_client      librdkafka: sessions, batches, retries, reports
 *   sim_broker      Kafka: partitions, sequence numbers of producers
 *   sim_relay       relay processes: performs the core's actions
 *   sim_faults      what goes wrong, and when
 *   sim_oracle      judges everything; each check has a name
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/core/hash.h"
#include "relay/core/relay.h"

enum {
    ROWS_MAX = 800,
    IDS_MAX = 8192,
    KEYS_MAX = 40,
    KEY_NONE = KEYS_MAX, /* a row without a key */
    KEY_ROWS_MAX = 400,
    WRITERS_MAX = 8,
    TX_ROWS_MAX = 16,
    TOPICS = 3,
    PARTITIONS_MAX = 5,               /* a topic starts with fewer */
    RECORDS_MAX = PARTITIONS_MAX + 2, /* of a topic: its partitions, all of it, rows without a place */
    SAVED_KEYS_MAX = 128,
    CHANGES_MAX = 256,
    PROCESSES = 2,
    WINDOW_MAX = 128,
    READ_MAX = 128,
    GAPS_MAX = 512,
    POISONS_MAX = 6, /* in a seed: each ends the probe session, so that many delay each other */
    LENT_MAX = 32,
    STATEMENTS_MAX = 64,
    REQUESTS_MAX = 1024,
    BATCH_MAX = 8,
    IN_FLIGHT_MAX = 5,
    QUEUE_MAX = 256, /* a power of two above WINDOW_MAX */
    PRODUCERS_MAX = 1024,
    WAL_MAX = 2048,
    EVENTS_MAX = 16384,
    SLOW_SEEDS = 16, /* one of so many has a slow Kafka */
    NOBODY = -1
};

#define OUTAGE_MS (10ull * 3600 * 1000) /* of the broker, with --outage */

struct sim;
struct event;
typedef void event_run(struct sim *sim, const struct event *event);

struct event {
    uint64_t at, order; /* ties go to the earlier order */
    event_run *run;
    int process; /* NOBODY, or whose: it waits while that one is paused */
    uint32_t life, a, b;
    uint64_t c;
};

enum fault {
    FAULT_KILL,
    FAULT_STOP,
    FAULT_PAUSE,
    FAULT_CRASH,
    FAULT_CRASH_POOLED,
    FAULT_FAILOVER,
    FAULT_FAILOVER_POOLED,
    FAULT_TRUNCATE,
    FAULT_CONNECTION,
    FAULT_OUTCOME,
    FAULT_STATEMENT,
    FAULT_SLOW,
    FAULT_LONG_WRITER,
    FAULT_STUCK,
    FAULT_TOPIC,
    FAULT_FEWER,
    FAULT_RESTARTED,
    FAULT_ROW,
    FAULT_FATAL,
    FAULT_LEADER,
    FAULT_REPLY,
    FAULT_UNPUBLISHED,
    FAULT_SESSION_OPEN,
    FAULT_POISON,
    FAULT_FORBIDDEN,
    FAULT_AWAY,
    FAULT_FORGOTTEN,
    FAULT_EARLY_ID,
    FAULT_UNMARKED,
    FAULTS
};

enum row_state {
    ROW_OPEN,
    ROW_COMMITTED,
    ROW_ROLLED_BACK,
    ROW_LOST,
    ROW_LOST_IN_FAILOVER,
    ROW_TRUNCATED
};

/* An event that a service wrote. Its number stands for its identity; the first part is what the service wrote, the second the oracle's. */
struct sim_row {
    int64_t id;
    uint32_t key, topic, spread, bytes, tx;
    uint64_t xid, commit_lsn, key_hash;
    int32_t wish, place;
    uint64_t refused_until; /* UINT64_MAX: poison, until it is healed */
    bool refused_by_client; /* it cannot even be handed over; else the broker refuses its batch */
    enum relay_fault refused_why;

    uint32_t copies, handed_life; /* in the log; 0: never handed */
    bool excused;                 /* something happened to it that may cost a second copy */
    bool misplaced;               /* by somebody's mistake: only the patrol finds it */
    uint32_t refusals;            /* told to relays, of itself and not of its batch */
    uint32_t acked_life;          /* whose mark of it is not answered yet; 0: nobody's */
    uint32_t phantom_life;        /* who has to tell that it is one */
};

struct sim_key {
    uint32_t topic, spread, rows[KEY_ROWS_MAX], rows_n;
    uint64_t hash;
    int32_t wish;
    int owner; /* the writer that locks it, or NOBODY */
};

struct writer {
    enum {
        WRITER_IDLE,
        WRITER_LOCKS_KEY,
        WRITER_LOCKS_TABLE,
        WRITER_DRAWS,
        WRITER_ENDS
    } step;
    uint32_t tx, rows_n, rows_wanted, epoch;
    uint32_t acts; /* so often it did something; in between its transaction is idle... */
    bool active;   /* ...unless it waits for a lock */
    uint32_t rows[TX_ROWS_MAX], key, last_key;
    uint64_t xid, waits_since; /* xid 0: none yet */
    bool holds_table, commits, synchronous;
    bool early; /* it draws its ids before it locks the table */
};

enum wal_type {
    WAL_SEQUENCE,
    WAL_COMMIT,
    WAL_MARK
};
struct wal_record {
    uint64_t lsn;
    enum wal_type type;
    int64_t was; /* the sequence's logged value before, the transaction, or the row */
};

struct saved_key {
    uint32_t topic, attempts;
    uint64_t hash; /* 0: no record */
    int64_t first_id;
};

/* What the server keeps. A copy of it is the standby. */
struct database {
    int64_t sequence, logged; /* last id drawn, and up to where the WAL covers draws */
    uint8_t state[ROWS_MAX];
    bool sent[ROWS_MAX];
    int16_t by_id[IDS_MAX];
    struct relay_token lease, incarnation;
    uint32_t lease_life;
    uint64_t lease_until;
    int64_t floor, records[TOPICS][RECORDS_MAX]; /* first unsettled id, 0: none */
    struct saved_key keys[SAVED_KEYS_MAX];
    uint64_t insert_lsn, flush_lsn, replicated_lsn; /* replicated: a commit waited for the standby */
    struct wal_record wal[WAL_MAX];                 /* not flushed yet */
    uint32_t wal_n;
};

struct saved_change {
    uint32_t topic, attempts;
    uint64_t key_hash;
    int32_t partition;
    int64_t first_id;
};

struct statement {
    bool used, reaches, failed, lost; /* reaches: it is executed even if its connection is gone by then */
    enum relay_action_type type;
    int process;
    uint32_t life, connection;
    struct relay_token token;
    uint64_t asked_at;
    int64_t from, upto, settled_upto;
    uint32_t topic, topic_number, rows, n;
    uint64_t bytes;
    bool force;
    int64_t firsts[GAPS_MAX], lasts[GAPS_MAX]; /* gaps, or ids to mark */
    uint32_t marked[GAPS_MAX];
    struct saved_change changes[CHANGES_MAX];

    struct relay_token seen; /* the answer */
    uint32_t read[READ_MAX], read_n, missed, writers_n;
    struct relay_writer writers[WRITERS_MAX];
    bool settled[READ_MAX], complete, held, granted, floor_reset;
    uint32_t missed_rows[GAPS_MAX];
    int64_t missed_ids[GAPS_MAX], whole_upto, last_id, floor, records[TOPICS][RECORDS_MAX];
    struct saved_key keys[SAVED_KEYS_MAX];
    uint64_t insert_lsn, flush_lsn;
    int32_t pinned_n, actual_n;
};

/* One partition at the client. Messages have numbers from 0 in each session: the sequence numbers. */
struct client_lane {
    uint32_t row[QUEUE_MAX];
    row_slot slot[QUEUE_MAX];
    bool resolved[QUEUE_MAX];
    uint32_t queued, sent, first;
    struct {
        uint32_t base, n, attempt;
        bool retry;
    } requests[IN_FLIGHT_MAX];
    uint32_t requests_n, pid, origin;
    uint64_t arrives_after;
    bool pump_due, resend_due;
    uint32_t handed, acks; /* as the relay was told: not reported yet, and good reports of this session */
};

struct session {
    int process;
    enum relay_session which;
    bool open, fatal, closing;
    uint32_t number, pid;
    uint64_t report_after;
    struct client_lane lanes[TOPICS][PARTITIONS_MAX];
};

/* A slot of the relay's window, as the edge knows it. */
struct sim_slot {
    uint32_t row;
    bool bytes, handed, delivered, used;
    enum relay_session session; /* that it was handed to last */
};

struct process {
    struct relay *relay;
    bool alive, paused, stopping, connected, connecting, granted, wake_due;
    uint32_t life, connection;
    struct relay_token token;
    uint64_t deadline, wake_at, stop_at, busy_until[3], answer_after[3], pump_at;
    uint32_t outstanding; /* bits of enum relay_action_type */
    struct sim_slot slots[WINDOW_MAX];
    uint64_t slot_bytes;
    uint32_t topic_of[LENT_MAX], topic_number[TOPICS]; /* the relay's numbers, UINT32_MAX: none */
    uint32_t topic_asked;                              /* the number that RELAY_TOPIC is about */
    uint32_t topic_question;
    bool lose_outcome;
    enum relay_action_type lose_type;
    struct session sessions[RELAY_SESSIONS];
    uint32_t sessions_outstanding[RELAY_SESSIONS]; /* bits likewise, of each session's own */
    uint64_t woken_at;
    struct event deferred[1024];
    uint32_t deferred_n;
};

struct topic {
    uint32_t partitions; /* that keys are spread over: as many as it has when it is pinned */
    bool grown;          /* it has one more */
    int32_t pinned;
    uint64_t missing_until, fewer_until;
    uint64_t forbidden_until; /* it may be described, but not written to */
};

struct producer_state {
    bool known, forgotten; /* forgotten: it was known before */
    uint64_t last_ms;
    uint32_t next, base[IN_FLIGHT_MAX], batches;
};

struct partition {
    uint64_t stuck_until, refuses_until, reply_after;
    struct producer_state producers[PRODUCERS_MAX];
};

enum reply {
    REPLY_OK,
    REPLY_RETRY,
    REPLY_SEQUENCE,
    REPLY_LOST,
    REPLY_REFUSED
};

struct request {
    bool used;
    int process;
    uint32_t life, session, pid, topic, partition, base, seq, n, attempt;
    uint64_t sent_at;
    uint32_t row[BATCH_MAX];
    enum reply reply;
    enum relay_fault why;
};

/* How often things happen in this seed, of 1000. */
struct mix {
    uint32_t asynchronous, rolled_back, held_long, early_xid, many_rows, keyless, same_key, apart, pauses;
    uint32_t statement_fails, statement_slow, reply_lost, first_refused, refused, unpublished, open_fails;
    uint32_t think_ms, batch_max, latency_ms, wal_flush_ms, sequence_ahead, pump_late;
    bool any_first_sequence; /* KAFKA-15591 */
    uint32_t expiration_ms;  /* after which a silent producer is forgotten; 0: not in this seed */
    uint32_t slow_ms;        /* by which each reply of the broker is late, in every seed of a few, to the end; 0: not in this seed */
    bool states_seen;        /* may the relay see who is idle in a transaction? */
};

struct sim {
    uint64_t seed, now, random;
    bool tracing, over, faults_over, healed;
    bool outage; /* these seeds have a broker that is away for ten hours */
    uint64_t away_until;
    const char *violation; /* the check that failed */
    struct event events[EVENTS_MAX];
    uint32_t events_n;
    uint64_t order;

    struct relay_limits limits;
    struct mix mix;
    struct database db, standby;
    bool standby_cut, writers_wait; /* wait: until a relay saw the restarted sequence */
    uint32_t db_epoch;              /* counts crashes */
    uint64_t db_down_until;
    struct sim_row rows[ROWS_MAX];
    uint32_t poisons_n, rows_n, rows_target, txs_n, keys_n, writers_n;
    uint64_t xids_n;
    struct sim_key keys[KEYS_MAX];
    struct writer writers[WRITERS_MAX];
    struct topic topics[TOPICS];
    struct partition partitions[TOPICS][PARTITIONS_MAX];
    struct process processes[PROCESSES];
    struct request requests[REQUESTS_MAX];
    struct statement statements[STATEMENTS_MAX];
    uint32_t requests_next, lives_n, sessions_n, pids_n;
    uint32_t fired[FAULTS];
    bool next_writer_long, next_unpublished, next_row_refused, next_row_poison, next_ids_early, crash_at_flush;
    const char *without; /* checks that are left out, with commas between */
    uint64_t faults_end, finish_by, stopped_by, writers_wait_since;
    uint64_t checks, steps;
};

/* sim.c: the clock */
bool sim_run(struct sim *sim, uint64_t seed);    /* from the first event to the last; false: a check failed, and was told */
uint32_t sim_below(struct sim *sim, uint32_t n); /* 0 to n - 1; n is not 0 */
uint32_t sim_between(struct sim *sim, uint32_t least, uint32_t most); /* both included */
bool sim_chance(struct sim *sim, uint32_t permille);
uint64_t sim_latency(struct sim *sim);                              /* of one way through the network, ms */
struct event *sim_at(struct sim *sim, uint64_t at, event_run *run); /* lent until the next call; fill in what it needs */
void sim_fired(struct sim *sim, enum fault fault);
const char *sim_fault_name(enum fault fault);
/* A check failed: the seed ends. `check` is static. */
void sim_violation(struct sim *sim, const char *check, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sim_print(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define TRACE(sim, ...)                  \
    do {                                 \
        if ((sim)->tracing)              \
            sim_print(sim, __VA_ARGS__); \
    } while (0)

/* sim_database.c */
void database_start(struct sim *sim);
int64_t database_draw(struct sim *sim, uint32_t row); /* the next id, for `row`, which is open then */
void database_commit(struct sim *sim, const struct writer *writer);
void database_roll_back(struct sim *sim, const struct writer *writer);
void database_mark(struct sim *sim, uint32_t row);
void database_flush(struct sim *sim);
void database_crash(struct sim *sim);                  /* with what was not flushed */
void database_cut(struct sim *sim);                    /* the standby gets nothing any more */
void database_fail_over(struct sim *sim);              /* to it */
bool database_truncate(struct sim *sim, bool trigger); /* RESTART IDENTITY; false: somebody holds the table */
struct relay_token token_none(void);
bool token_equal(struct relay_token a, struct relay_token b);
struct row_event_id row_event_id(const struct sim *sim, uint32_t row);
uint32_t row_of_event_id(struct row_event_id event_id);
uint64_t row_waits_with(const struct sim *sim, uint32_t row);   /* the key of the record that it waits under */
struct saved_key *database_key(struct sim *sim, uint64_t hash); /* its record, or an empty one */

/* sim_statements.c */
struct statement *statement_new(struct sim *sim, struct process *p, enum relay_action_type type); /* fill in, then send */
void statement_send(struct sim *sim, struct statement *s);
void connection_open(struct sim *sim, struct process *p);
void connection_lose(struct sim *sim, struct process *p);

/* sim_execute.c: what a statement does, at its moment at the server */
void statement_execute(struct sim *sim, struct statement *s);
void statement_read_sequence(struct sim *sim, struct statement *s);
void statement_read_holders(struct sim *sim, struct statement *s);

/* sim_writers.c */
void writers_start(struct sim *sim);
void writers_abort(struct sim *sim); /* the server is gone with their transactions */
bool writers_done(const struct sim *sim);
void writers_heal(struct sim *sim); /* poison is none any more */

/* sim_broker.c */
void broker_start(struct sim *sim);
struct request *request_new(struct sim *sim);
void broker_send(struct sim *sim, struct request *request, uint64_t at); /* takes `request` */

/* sim_client.c */
bool session_open(struct sim *sim, struct process *p, enum relay_session which);
void session_close(struct sim *sim, struct session *session);
void session_break(struct sim *sim, struct session *session); /* a fatal error */
void session_enqueue(struct sim *sim, struct session *session, row_slot slot, uint32_t topic, uint32_t partition);
void session_reply(struct sim *sim, const struct event *event); /* event.a: the request */

/* sim_relay.c */
struct process *process_start(struct sim *sim); /* NULL: both run already */
void process_kill(struct sim *sim, struct process *p);
void process_stop(struct sim *sim, struct process *p);
void process_pause(struct sim *sim, struct process *p);
void process_wake(struct sim *sim, struct process *p);
void process_pump(struct sim *sim, struct process *p);                                /* perform what the core wants, now or soon */
struct process *process_of(struct sim *sim, const struct event *event);               /* NULL: that life is over */
struct process *process_any(struct sim *sim);                                         /* one that is alive, or NULL */
void process_answer(struct sim *sim, struct process *p, enum relay_action_type type); /* it is not outstanding any more */
void process_answer_session(struct process *p, enum relay_action_type type, enum relay_session session);
/* sim_answers.c: tell the core the outcome of a statement */
void process_tell(struct sim *sim, struct process *p, struct statement *s);
uint32_t process_topic(struct sim *sim, struct process *p, uint32_t topic); /* its number */
void process_ask_topic(struct sim *sim, struct process *p, uint32_t number);
void process_topic_lost(struct process *p); /* the database is: the question will not be answered */

/* sim_faults.c */
void faults_start(struct sim *sim);

/* sim_oracle.c */
void oracle_appended(struct sim *sim, uint32_t row, uint32_t topic, uint32_t partition);
void oracle_marked(struct sim *sim, uint32_t row);
void oracle_saved(struct sim *sim, const char *when);
void oracle_published(struct sim *sim, struct process *p, const struct relay_action *action);
void oracle_delivered(struct sim *sim, const struct process *p, uint32_t row);
void oracle_refused(struct sim *sim, uint32_t row, enum relay_fault why);
void oracle_mark_answered(struct sim *sim, const struct process *p, const struct statement *s);
void oracle_lost(struct sim *sim, uint32_t row); /* the database does not have it any more */
void oracle_charged(struct sim *sim, const struct saved_change *change);
void oracle_noted(struct sim *sim, struct process *p, const struct relay_action *note);
void oracle_exits(struct sim *sim, const struct process *p);
void oracle_action(struct sim *sim, struct process *p, const struct relay_action *action);
void oracle_admitted(struct sim *sim, struct process *p, row_slot slot, uint32_t row);
void oracle_bytes_end(struct sim *sim, struct process *p, row_slot slot);
void oracle_excuse_life(struct sim *sim, uint32_t life);   /* rows it handed and did not mark may be published again */
void oracle_excuse_others(struct sim *sim, uint32_t life); /* rows that other lives handed, likewise */
bool oracle_finished(struct sim *sim);
bool oracle_isolated(struct sim *sim); /* only keys with poison wait */
void oracle_late(struct sim *sim);
void oracle_judge_simulator(struct sim *sim);

#endif
