/* SPDX-License-Identifier: BSD-2-Clause */
/* One connection on a loop of its own, whose turns are timed: it must never stand still. */
#ifndef TESTS_EDGE_DATABASE_CLIENT_H
#define TESTS_EDGE_DATABASE_CLIENT_H

#include <uv.h>

#include "relay/edge/database.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

struct client {
    uv_loop_t loop;
    struct database *database;
    unsigned connected_n, lost_n, freed_n, answers_n;
    char reason[700];
    struct database_result *result;
    char sqlstate[6], message[700], warning[6];
    char order[20];
    bool close_in_answer;
    uint64_t blocked_ms; /* the longest turn of the loop in which it slept */
};

/* One turn of the loop, then `condition`. */
#define CLIENT_UNTIL(c, condition, seconds) WAIT_UNTIL((client_turn(c), (condition)), seconds)
void client_turn(struct client *c);

struct client *client_new(const char *conninfo, uint32_t connect_ms, uint32_t deadline_ms);
void client_free(struct client *c); /* fails the test if the loop ever stood still */
void client_connect(struct client *c);
struct client *client_connected(const char *conninfo);
/* Connect, and wait for the refusal; returns its reason. */
const char *client_refused(struct client *c);
/* Send one statement and wait for its answer, or for the end of the connection. */
void client_ask(struct client *c, const char *name, const char *sql);
void client_on_answer(void *data, struct database_result *result, const struct database_error *error);
/* Fails the test unless `sentence` says `what`. */
void client_says(const char *sentence, const char *what);

#endif
