/* SPDX-License-Identifier: BSD-2-Clause */
/* The client of the order service: one logical operation is one intent, which has one key for its whole life. The key is made when somebody
 * wants something, and written to the journal before the first send; from then on it does not matter how often the request is sent, by which
 * run of the program, or which of the answers got lost.
 *
 *     struct client *client = client_open(&settings, 1);
 *     client_order(client, &(struct client_order){"Ada", "1 Main Street", 500}, &result);
 */
#ifndef PRODUCER_DEMO_CLIENT_H
#define PRODUCER_DEMO_CLIENT_H

#include "producer-demo/order_client/backoff.h"
#include "producer-demo/order_client/journal.h"
#include "producer-demo/order_client/patience.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of all threads of a program. Every send is one of: answered, or unanswered; every retry is a send. */
struct client_counts {
    atomic_llong intents;    /* that were made, or found open in the journal */
    atomic_llong sends;      /* requests that carry out an intent */
    atomic_llong retries;    /* those of them that were not the first of their intent in this run */
    atomic_llong unanswered; /* sends without an answer, those that were lost on purpose included */
    atomic_llong replays;    /* answers that the server had stored: an earlier send had been carried out */
    atomic_llong conflicts;  /* intents that ended because of the state or the version of the order */
    atomic_llong refused;    /* intents that ended because the server says they are wrong */
    atomic_llong given_up;   /* intents that have no final answer: what happened is unknown */
};

/* All lent, by every client, until it is closed. */
struct client_settings {
    const char *url;       /* http://127.0.0.1:8080 */
    const char *client_id; /* the scope of our keys; NULL: anonymous */
    struct journal *journal;
    struct patience *patience;
    struct client_counts *counts;
    struct backoff backoff;
    int64_t give_up_ms;    /* so long after its first send an intent is given up; the journal keeps it open for the next start */
    int64_t timeout_ms;    /* of one send */
    int64_t flaky_percent; /* of the answers are lost on purpose when the server has given them */
    bool bad_client;       /* a new key on every retry: the classic mistake */
    uint64_t seed;         /* of the jitter and the lost replies */
};

enum client_outcome {
    CLIENT_DONE,
    CLIENT_CONFLICT, /* read the order again, and make a new intent if it is still wanted */
    CLIENT_REFUSED,
    CLIENT_GIVEN_UP, /* no final answer in time, or the key is so old that the server may have forgotten it; reported on stderr */
    CLIENT_STOPPED,  /* patience was ended; the journal keeps the intent */
    CLIENT_NOT_BEGUN /* the journal could not be written, so nothing was sent */
};

struct client_result {
    enum client_outcome outcome;
    int status;       /* of the last answer; 0: there was none */
    int sends;        /* in this run */
    char key[37];     /* of the intent */
    const char *body; /* of the last answer; lent until the client's next operation */
    char etag[64];    /* of the last answer; "" if there was none */
};

struct client; /* for one thread at a time: each has a connection */

/* `number`: each client of a program has its own, so that their jitter differs. Ends the program if there is no memory. */
struct client *client_open(const struct client_settings *settings, int number);
void client_close(struct client *client);

/* The names of its fault points, for points_name, in the order in which an operation passes them: "after-intent" (the key is made, nothing is
 * written), "after-journal" (on the disk, nothing is sent), "after-reply" (answered, the end is not written), "after-end". */
extern const char *const client_points[];

/* --- operations: each is one intent; they wait for its end -------------------------------------------------------- */

struct client_order {
    const char *customer, *address; /* lent during the call */
    int64_t amount_cents;
};

/* Place an order. Its `reference` is the intent's key, so that the orders that a bad client made twice can be told. */
void client_order(struct client *client, const struct client_order *order, struct client_result *ret_result);
void client_refund(struct client *client, const char *order_id, int64_t amount_cents, struct client_result *ret_result);
/* Cancel it; naturally idempotent, so it needs no key to be repeated. */
void client_cancel(struct client *client, const char *order_id, struct client_result *ret_result);
/* Change the address of the version that `etag` names. A lost reply makes the retry fail with 412, since our own change has made a new version:
 * then the order is read, and if it says what we wanted, it is done. */
void client_move(struct client *client, const char *order_id, const char *etag, const char *address, struct client_result *ret_result);
/* Carry out an intent that the journal left open, under its old key. */
void client_finish(struct client *client, const struct journal_intent *intent, struct client_result *ret_result);

#endif
