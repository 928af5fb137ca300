/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole relays end to end: a temporary PostgreSQL, the suite's real Kafka, the release binary, the demo's load, judged by the oracle.
 * Each test has a database and topics of its own. Topics keep the time of the append, so that a duplicate can be put down to a fault. */
#ifndef TESTS_CRASH_E2E_H
#define TESTS_CRASH_E2E_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/oracle.h"
#include "tests/lib/services.h"

#define E2E_PARTITIONS 6

struct e2e {
    struct postgres db;
    const char *kafka;  /* bootstrap servers */
    char topic[64];     /* of its own, there */
    char database[400]; /* what relays are told; the superuser's unless a test wants another */
    char brokers[400];  /* what relays are told; those of `kafka` unless a test wants a proxy between */
    struct process load;
};

struct e2e_options {
    const char *settings; /* more lines of postgresql.conf, or NULL */
    const char *kafka;    /* bootstrap servers of a broker of the test's own, borrowed; NULL: the suite's */
    int partitions;       /* of `topic`; 0: E2E_PARTITIONS */
};

const struct kafka *e2e_broker(void); /* the suite's */

/* A database with both schemas, and a topic named `topic`. */
struct e2e e2e_begin(const char *topic);
struct e2e e2e_begin_with(const char *topic, const struct e2e_options *options);
void e2e_topic_create(const struct e2e *e, const char *topic); /* one more, with E2E_PARTITIONS and the time of the append */
/* Start a relay with more arguments after the ordinary ones; `more` ends with NULL. */
struct process e2e_relay(const struct e2e *e, const char *const *more);
/* The same, its stderr going to the file `errors`. */
struct process e2e_relay_into(const struct e2e *e, const char *const *more, const char *errors);
/* The same with everything that can be chosen; each of them may be NULL. `before`: words of a program that runs the relay; `env`: as for
 * process_start; `binary`: not TEST_RELAY_BINARY. */
struct e2e_run {
    const char *const *more, *const *before, *const *env;
    const char *binary;
};
struct process e2e_relay_run(const struct e2e *e, const struct e2e_run *run);
#define RELAY(e, ...) e2e_relay((e), (const char *const[]){__VA_ARGS__, NULL})

/* Start the demo's load on the topic; ends with NULL. */
void e2e_load_start(struct e2e *e, const char *const *options);
#define LOAD(e, ...) e2e_load_start((e), (const char *const[]){__VA_ARGS__, NULL})
void e2e_load_end(struct e2e *e, unsigned seconds); /* waits, exit status 0 */
bool e2e_load_runs(struct e2e *e);

/* One event in a transaction of its own, with its line in the history. `payload` NULL: a tombstone; `headers`: SQL, or "NULL". */
void e2e_commit(const struct e2e *e, const char *topic, const char *key, int version, const char *payload, const char *headers);

int64_t e2e_number(const struct e2e *e, const char *sql);
int64_t e2e_unmarked(const struct e2e *e);
int64_t e2e_marked(const struct e2e *e);
bool e2e_said(struct process *relay, const char *words); /* in its log so far */

/* The number after `name` on the page of metrics of the relay that listens at 127.0.0.1:`port`. */
long e2e_metric(int port, const char *name);

/* SIGTERM; exit status 0 within its shutdown time. */
void e2e_stop(struct process *relay);
/* Everything is marked within `seconds`; stop the relay in an orderly way; then the oracle finds nothing. Tells the findings if it does.
 * `topics`: NULL for the one of the test. The verdict is for oracle_forget. */
struct oracle_verdict e2e_end(struct e2e *e, struct process *relay, unsigned seconds, const char *topics);

/* Milliseconds since 1970, the clock of the broker and the database as well. */
int64_t e2e_real_ms(void);

#endif
