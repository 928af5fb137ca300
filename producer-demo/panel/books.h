/* SPDX-License-Identifier: BSD-2-Clause */
/* What PostgreSQL says: what every order should have moved, what the ledger of each way says it moved, and what waits in the outbox. All numbers
 * are counted in the tables; no program is believed. */
#ifndef PRODUCER_DEMO_PANEL_BOOKS_H
#define PRODUCER_DEMO_PANEL_BOOKS_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#define BOOKS_WAYS_N 11

/* The ways in the order in which they are shown. */
extern const char *const books_ways[BOOKS_WAYS_N];

/* One ledger beside the orders, of those orders only that this way has been through (their last event is below its offsets): the others are on
 * their way, and neither too little nor too much. */
struct book {
    bool known; /* false: there is no such ledger */
    int64_t intended_cents, actual_cents, orders, open_orders;
};

/* Compare; `settled_ms` (since 1970): events marked sent up to then have been delivered to the way. false: the query failed (*ret_book is not
 * known); PQerrorMessage says why. */
bool books_compare(PGconn *db, const char *way, const char *topic, int64_t settled_ms, struct book *ret_book);

struct books_pipeline {
    int64_t orders, orders_minute;          /* all; of the last 60 seconds */
    int64_t backlog, backlog_age_ms;        /* rows not marked sent, and how long the oldest has waited */
    int64_t events;                         /* rows in the outbox */
    int64_t intents_doubled, doubled_cents; /* one reference of a client, several orders: beyond the first */
    int64_t intended_cents;
    char leader[128]; /* the lease's holder, or "" */
};

bool books_pipeline_read(PGconn *db, struct books_pipeline *ret_pipeline);

/* The schema of a way's ledger: ledger_check_then_act. */
void books_schema(const char *way, char ret_name[64]);

#endif
