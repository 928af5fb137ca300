/* SPDX-License-Identifier: BSD-2-Clause */
/* An order service on a PostgreSQL of its own, with the relay's schema, and requests to it. */
#ifndef TESTS_DEMO_SERVICE_RIG_H
#define TESTS_DEMO_SERVICE_RIG_H

#include "tests/demo/wire.h"
#include "tests/lib/services.h"

struct service_rig {
    struct postgres db;
    struct process server;
    const char *binary;
    const char *arguments[24]; /* NULL-terminated, after those that every rig has */
    int port;
};

/* `arguments`: more settings, NULL-terminated, or NULL. Waits until it listens. The port is the same after a restart. */
struct service_rig service_start(const char *const *arguments);
/* The same with another binary (a mutant). */
struct service_rig service_start_of(const char *binary, const char *const *arguments);
#define SERVICE_START(...) service_start((const char *const[]){__VA_ARGS__, NULL})
/* After it died. Waits until it listens. */
void service_restart(struct service_rig *rig);
/* Arm a fault point: "NAME:N:ACTION". */
void service_fault(const struct service_rig *rig, const char *point);

#define SERVICE_ORDER "{\"customer\":\"Ada\",\"address\":\"1 Main St\",\"amount_cents\":1000}"
#define SERVICE_JSON  "Content-Type: application/json\r\n"

/* POST with a key; `key` is the header's value. */
struct wire_answer service_post(const struct service_rig *rig, const char *path, const char *key, const char *body);
/* Send it until it is answered with something else than nothing, 503, or 409 with Retry-After; starts the service again when it has died.
 * Fails after a minute. */
struct wire_answer service_insist(struct service_rig *rig, const char *path, const char *key, const char *body);
/* Place an order with that key; returns its id, lent until the 16th next call. */
const char *service_place(const struct service_rig *rig, const char *key);
int64_t service_number(const struct service_rig *rig, const char *sql); /* of one value */
/* Of all keys that are COMPLETED, those that have not exactly one event, under the identity that follows from the key's row; and events of
 * keys that are not. 0 is right. */
int64_t service_wrong(const struct service_rig *rig);
void service_check_keys(const struct service_rig *rig); /* that it is */

#endif
