/* SPDX-License-Identifier: BSD-2-Clause */
/* An outbox on a loop of its own, whose operations return when they are answered. */
#ifndef TESTS_EDGE_OUTBOX_BOX_H
#define TESTS_EDGE_OUTBOX_BOX_H

#include <uv.h>

#include "relay/edge/outbox.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define BOX_ROWS    30000 /* kept of an answer */
#define BOX_SLOTS   60000
#define BOX_BEHINDS 64

struct box {
    uv_loop_t loop;
    struct outbox *outbox;
    bool freed;
    /* How often each was called. */
    unsigned connected_n, lost_n, failed_n, lease_n, beaten_n, released_n, fetched_n, caught_up_n, patrolled_n, writers_n, flushed_n,
        marked_n, saved_n, pinned_n, warning_n;
    char reason[800]; /* of the last on_lost or on_failed */
    char warning[800], holder[200];
    enum relay_action_type failed;
    int64_t beat; /* of another holder */
    uint64_t beat_ttl_ms;
    bool granted, held, fenced, complete, keep; /* keep: give slots to the rows of an answer */
    struct relay_saved saved;
    struct relay_behind behind[BOX_BEHINDS];
    struct relay_token token;
    int64_t last_id;
    uint64_t flush_lsn;
    uint32_t missed_n, pinned_topic;
    int64_t missed[100];
    int32_t pinned_count;
    struct relay_read read;
    struct row rows[BOX_ROWS];
    row_slot slots[BOX_ROWS], next_slot;
    struct relay_writer writers[100];
    uint32_t writers_count;
};

/* A test of both forms of the statements: NAME with sessions, and NAME_pooled, whose boxes reach every server through a PgBouncer in
 * transaction mode, which box_new starts. What a test itself asks goes to the server. */
#define BOX_TEST_WITHIN(test_name, seconds)  \
    static void box_test_##test_name(void);  \
    TEST_WITHIN(test_name, seconds)          \
    {                                        \
        box_test_##test_name();              \
    }                                        \
    TEST_WITHIN(test_name##_pooled, seconds) \
    {                                        \
        box_pool();                          \
        box_test_##test_name();              \
    }                                        \
    static void box_test_##test_name(void)

/* From now on boxes are pooled. */
void box_pool(void);
void box_pool_with(const char *settings); /* `settings` as for pgbouncer_start, borrowed for good */
bool box_is_pooled(void);
/* The pooler that was started last; NULL: none. */
struct pgbouncer *box_pooler(void);

/* One turn of the loop, then `condition`. */
#define BOX_UNTIL(box, condition, seconds) WAIT_UNTIL((box_turn(box), (condition)), seconds)
void box_turn(struct box *b);

/* Another one in the same test must not share it. Settings default to those of a small relay. */
struct box *box_new(const char *conninfo);
struct box *box_new_with(const struct outbox_settings *settings);
struct outbox_settings box_settings(const char *conninfo);
void box_free(struct box *b);

/* Each waits for its answer, and fails the test if there is none or if it failed. */
void box_connect(struct box *b);
void box_connect_refused(struct box *b); /* waits for on_lost instead */
bool box_take(struct box *b);
void box_beat(struct box *b);
void box_release(struct box *b);
uint32_t box_fetch(struct box *b, int64_t from); /* generous limits, no gaps; returns the rows that came */
uint32_t box_fetch_with(struct box *b, const struct outbox_fetch *fetch);
uint32_t box_catch_up(struct box *b, uint32_t topic, int64_t from, int64_t upto, uint32_t rows);
uint32_t box_patrol(struct box *b, int64_t from, int64_t upto, uint32_t rows);
void box_writers(struct box *b);
void box_mark(struct box *b, uint32_t from, uint32_t n);       /* rows[from..] of the last answer */
void box_mark_again(struct box *b, uint32_t from, uint32_t n); /* as one whose first try had an unknown outcome */
bool box_save(struct box *b, int64_t floor, const struct relay_behind *changes, uint32_t changes_n);
void box_flush(struct box *b, bool force);
int32_t box_pin(struct box *b, uint32_t topic, int32_t actual_n);

bool box_token_is(const struct box *b, struct relay_token token);
/* A server with the schema, for one test. */
struct postgres box_postgres(const char *settings);

#endif
