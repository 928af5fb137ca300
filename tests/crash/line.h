/* SPDX-License-Identifier: BSD-2-Clause */
/* A line of the crash matrix. Writers are active from its beginning to its end, every relay of it has a log of its own, and it ends with the
 * verdict of the oracle and a window for every duplicate.
 *
 *     TEST_WITHIN(crash_relay_killed, 60)
 *     {
 *         struct line *l = line_begin("killed", NULL);
 *         struct process *relay = line_relay(l, NULL);
 *
 *         line_publishing(l);
 *         line_strike(l);                                     rows are unsettled: strike at once
 *         process_signal(relay, SIGKILL);
 *         CHECK_EQ(process_wait(relay, 5), 128 + SIGKILL);
 *         line_hit(l, "kill -9 of the relay", "exit status %d", 128 + SIGKILL);
 *         (void)line_relay(l, NULL);
 *         line_end(l, &(struct line_expected){.windows = LINE_D(1)});
 *     }
 */
#ifndef TESTS_CRASH_LINE_H
#define TESTS_CRASH_LINE_H

#include "tests/crash/e2e.h"
#include "tests/crash/evidence.h"

#define LINE_RELAYS_MAX    2000
#define LINE_UNSETTLED_MIN 100 /* rows, when a fault strikes */
#define LINE_ORDERS        300 /* keys of the load and of the bursts: "order-1" to "order-300" */

struct line_options {
    struct e2e_options e2e;
    const char *const *load; /* more options of order-load, ends with NULL; or NULL. `--topics` belongs into `topics` */
    const char *topics;      /* separated by commas; made if they are missing. NULL: one, the line's name */
    const char *rate;        /* rows a second of the load; NULL: 800 */
};

struct line {
    struct e2e e;
    char name[64], topics[256];
    struct process relay[LINE_RELAYS_MAX]; /* all that were ever started; their logs are the files relay[i].output */
    unsigned relays_n;
    int64_t unsettled, written; /* when the next fault strikes: rows, and events that the load committed in the second before */
    int64_t unsettled_min;      /* of all faults that hit */
    unsigned faults;            /* that hit */
    char told[600];             /* the first one, in words */
    char repeat[200];           /* the command that runs it again */
    struct evidence_scene scene;
};

/* Services, topics and writers; `name` is short and that of no other line. `options` NULL: as usual. Everything lives to the test's end. */
struct line *line_begin(const char *name, const struct line_options *options);

/* Start a relay: lease-ttl-ms 2000, a linger of 10 ms so that rows are unsettled for a while, and librdkafka telling of its producer's state
 * (D7); `more`, which ends with NULL, comes after that and wins. Lent: valid to the end of the test. */
struct process *line_relay(struct line *l, const char *const *more);
/* The same, run by the words of `before` ({"sh", "-c", "ulimit -n 20; exec \"$0\" \"$@\"", NULL}) and with "NAME=value" in `env`; both may
 * be NULL, as may `binary`, another build of the relay. */
struct process *line_relay_with(struct line *l, const char *const *more, const char *const *before, const char *const *env,
                                const char *binary);
#define LINE_RELAY(l, ...) line_relay((l), (const char *const[]){__VA_ARGS__, NULL})

/* Of one line of a relay's log; ms since 1970. */
int64_t line_time_ms(const char *line);

/* Wait until rows committed after this call are marked: a relay publishes, and not only old rows. */
void line_publishing(struct line *l);

/* Commit at least `n` events in one transaction, with the locks, versions and history of the load. */
void line_burst(struct line *l, unsigned n);
/* Burst until at least 100 rows are unsettled and the load has been writing, and remember both. Call it right before the fault. */
void line_strike(struct line *l);
/* Only remember what is there, when the load has been writing: for a fault that needs no burst, or that keeps rows from being settled, right
 * after it. */
void line_look(struct line *l);
/* The fault hit, and this is the proof. Fails unless what was remembered last is enough; each fault needs a strike or look of its own. */
void line_hit(struct line *l, const char *injected, const char *proof, ...) __attribute__((format(printf, 3, 4)));

/* Windows of duplicates (README), as a mask. */
#define LINE_D(window) (1u << (window))
#define LINE_D_ANY     0xfeu

struct line_expected {
    unsigned seconds;                   /* until everything is marked; 0: 30 */
    unsigned windows;                   /* in which duplicates may lie; 0: there must be none */
    int64_t duplicates_min;             /* where the fault leaves no choice */
    int64_t phantoms_min, phantoms_max; /* of events that the database lost after their commit */
};

/* Stop the writers, wait until everything is marked, stop every relay that runs in an orderly way (a stopped process must be continued
 * before), judge, put every duplicate down to a window, print the line's evidence. Fails if no fault hit. */
void line_end(struct line *l, const struct line_expected *expected);

#endif
