/* SPDX-License-Identifier: BSD-2-Clause */
/* The card processor's book: movements of money, each made once for its key, whoever asks how often and how many at once. */
#ifndef PRODUCER_DEMO_MOVEMENTS_H
#define PRODUCER_DEMO_MOVEMENTS_H

#include "producer-demo/lib/key.h"
#include "producer-demo/lib/store.h"

#include <stdbool.h>
#include <stdint.h>

struct movement {
    char id[37];
    char key[KEY_MAX + 1];
    char kind[8]; /* "charge", "refund" */
    char order_id[37];
    int64_t amount_cents; /* positive */
    char at[32];          /* UTC, RFC 3339 */
};

enum movement_outcome {
    MOVEMENT_MADE,
    MOVEMENT_REPEATED,   /* it was made before under this key: this is it */
    MOVEMENT_MISMATCH,   /* the key stands for another movement */
    MOVEMENT_NONE,       /* nothing was ever made under this key */
    MOVEMENT_UNAVAILABLE /* the database did not answer; whether it was made is unknown, so ask again under the same key */
};

/* What is asked for; all lent during the call. */
struct movement_request {
    const char *scope, *key;
    const char *kind, *order_id; /* the order in lower case */
    int64_t amount_cents;        /* positive */
};

/* Make the movement unless its key was used. `ignore_keys`: make it anyway, as if keys had never been thought of. With UNAVAILABLE ret_reason
 * says why in one line. Waits for the database. */
enum movement_outcome movement_make(PGconn *db, const struct movement_request *request, bool ignore_keys, struct movement *ret_movement,
                                    char *ret_reason, size_t reason_size);
/* The movement under a key (made more than once, the first): REPEATED, NONE or UNAVAILABLE. This is how a caller learns how a request ended that was not answered. */
enum movement_outcome movement_find(PGconn *db, const char *scope, const char *key, struct movement *ret_movement, char *ret_reason,
                                    size_t reason_size);

#endif
