/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/edge/outbox_box.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_connected(void *data)
{
    struct box *b = data;
    b->connected_n++;
}

static void on_lost(void *data, const char *reason)
{
    struct box *b = data;
    b->lost_n++;
    snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static void on_failed(void *data, enum relay_action_type what, const char *reason)
{
    struct box *b = data;
    b->failed_n++;
    b->failed = what;
    snprintf(b->reason, sizeof b->reason, "%s", reason);
}

static void on_holder(void *data, int64_t beat, uint64_t beat_ttl_ms)
{
    struct box *b = data;
    b->beat = beat;
    b->beat_ttl_ms = beat_ttl_ms;
}

static void on_lease(void *data, const struct relay_saved *saved, const char *holder)
{
    struct box *b = data;
    b->lease_n++;
    b->granted = saved != NULL;
    snprintf(b->holder, sizeof b->holder, "%s", holder);
    if (saved == NULL)
        return;
    b->saved = *saved;
    b->token = saved->token;
    for (uint32_t i = 0; i < saved->behind_n && i < BOX_BEHINDS; i++)
        b->behind[i] = saved->behind[i];
    b->saved.behind = b->behind;
}

static void on_beaten(void *data, bool held, struct relay_token token, int64_t last_id)
{
    struct box *b = data;
    b->beaten_n++;
    b->held = held;
    b->token = token;
    b->last_id = last_id;
}

static void on_released(void *data)
{
    struct box *b = data;
    b->released_n++;
}

static void read_keep(struct box *b, const struct relay_read *read, row_slot *ret_slots)
{
    CHECK(read->rows_n <= BOX_ROWS);
    b->read = *read;
    memcpy(b->rows, read->rows, read->rows_n * sizeof *b->rows);
    b->read.rows = b->rows;
    for (uint32_t i = 0; i < read->rows_n; i++) {
        if (b->keep && !read->rows[i].settled)
            ret_slots[i] = b->next_slot++ % BOX_SLOTS;
        b->slots[i] = ret_slots[i];
    }
}

static void on_fetched(void *data, const struct relay_read *read, row_slot *ret_slots)
{
    struct box *b = data;
    b->fetched_n++;
    read_keep(b, read, ret_slots);
}

static void on_caught_up(void *data, const struct relay_read *read, row_slot *ret_slots)
{
    struct box *b = data;
    b->caught_up_n++;
    read_keep(b, read, ret_slots);
}

static void on_patrolled(void *data, const struct relay_read *read)
{
    struct box *b = data;
    static row_slot none[BOX_ROWS];
    b->patrolled_n++;
    memset(none, 0xff, sizeof none);
    b->keep = false;
    read_keep(b, read, none);
}

static void on_writers(void *data, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n, bool complete)
{
    struct box *b = data;
    b->writers_n++;
    b->last_id = last_id;
    b->complete = complete;
    b->writers_count = writers_n;
    for (uint32_t i = 0; i < writers_n && i < 100; i++)
        b->writers[i] = writers[i];
}

static void on_flushed(void *data, struct relay_token token, uint64_t flush_lsn)
{
    struct box *b = data;
    b->flushed_n++;
    b->token = token;
    b->flush_lsn = flush_lsn;
}

static void on_marked(void *data, const int64_t *missed, uint32_t missed_n)
{
    struct box *b = data;
    b->marked_n++;
    b->missed_n = missed_n;
    for (uint32_t i = 0; i < missed_n && i < 100; i++)
        b->missed[i] = missed[i];
}

static void on_saved(void *data, bool fenced)
{
    struct box *b = data;
    b->saved_n++;
    b->fenced = fenced;
}

static void on_pinned(void *data, uint32_t topic, int32_t pinned_n)
{
    struct box *b = data;
    b->pinned_n++;
    b->pinned_topic = topic;
    b->pinned_count = pinned_n;
}

static void on_warning(void *data, const char *sentence)
{
    struct box *b = data;
    b->warning_n++;
    snprintf(b->warning, sizeof b->warning, "%s", sentence);
}

static void on_freed(void *data)
{
    struct box *b = data;
    b->freed = true;
}

void box_turn(struct box *b)
{
    (void)uv_run(&b->loop, UV_RUN_NOWAIT);
}

struct outbox_settings box_settings(const char *conninfo)
{
    return (struct outbox_settings){.database = conninfo,
                                    .table = "outbox.event",
                                    .name = "test",
                                    .instance = "here:1",
                                    .mark = OUTBOX_MARK_SENT_AT,
                                    .window_rows = BOX_SLOTS,
                                    .topics_max = 64,
                                    .row_bytes_max = 1000000,
                                    .lease_ttl_ms = 10000,
                                    .connect_ms = 2000,
                                    .statement_ms = 5000};
}

/* --- behind a pooler ---------------------------------------------------------------------------------------------- */

#define POOLERS 8

static struct {
    bool wanted;
    const char *settings;
    struct pgbouncer bouncers[POOLERS];
    int ports[POOLERS]; /* of their servers */
    unsigned n;
} pool;

void box_pool_with(const char *settings)
{
    pool.wanted = true;
    pool.settings = settings;
}

void box_pool(void)
{
    box_pool_with(NULL);
}

bool box_is_pooled(void)
{
    return pool.wanted;
}

struct pgbouncer *box_pooler(void)
{
    return pool.n > 0 ? &pool.bouncers[pool.n - 1] : NULL;
}

static const struct pgbouncer *pooler_of(const char *host, int port)
{
    struct postgres p = {.port = port};

    for (unsigned i = 0; i < pool.n; i++)
        if (pool.ports[i] == port)
            return &pool.bouncers[i];
    CHECK(pool.n < POOLERS);
    snprintf(p.socket_folder, sizeof p.socket_folder, "%s", host);
    pool.ports[pool.n] = port;
    pool.bouncers[pool.n] = pgbouncer_start(&p, pool.settings);
    return &pool.bouncers[pool.n++];
}

static const char *option(const PQconninfoOption *options, const char *name)
{
    for (; options->keyword != NULL; options++)
        if (strcmp(options->keyword, name) == 0)
            return options->val != NULL ? options->val : "";
    return "";
}

/* The conninfo of the same database through a pooler; lent until the next call. */
static const char *pooled(const char *conninfo)
{
    static char text[400];
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    CHECK(options != NULL);
    const struct pgbouncer *b = pooler_of(option(options, "host"), atoi(option(options, "port")));
    snprintf(text, sizeof text, "host=%s port=%d user=%s dbname=%s", b->folder, b->port, option(options, "user"),
             option(options, "dbname"));
    PQconninfoFree(options);
    return text;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static struct outbox *outbox_made(struct box *b, const struct outbox_settings *settings, const struct outbox_callbacks *callbacks)
{
    struct outbox_settings changed = *settings;

    if (pool.wanted) {
        changed.pooled = true;
        changed.database = pooled(settings->database);
    }
    return outbox_new(&b->loop, &changed, callbacks, b);
}

struct box *box_new_with(const struct outbox_settings *settings)
{
    static const struct outbox_callbacks callbacks = {.on_connected = on_connected,
                                                      .on_lost = on_lost,
                                                      .on_failed = on_failed,
                                                      .on_holder = on_holder,
                                                      .on_lease = on_lease,
                                                      .on_beaten = on_beaten,
                                                      .on_released = on_released,
                                                      .on_fetched = on_fetched,
                                                      .on_caught_up = on_caught_up,
                                                      .on_patrolled = on_patrolled,
                                                      .on_writers = on_writers,
                                                      .on_flushed = on_flushed,
                                                      .on_marked = on_marked,
                                                      .on_saved = on_saved,
                                                      .on_pinned = on_pinned,
                                                      .on_warning = on_warning};
    struct box *b = calloc(1, sizeof *b);

    CHECK(b != NULL);
    CHECK_EQ(uv_loop_init(&b->loop), 0);
    b->outbox = outbox_made(b, settings, &callbacks);
    CHECK(b->outbox != NULL);
    return b;
}

struct box *box_new(const char *conninfo)
{
    struct outbox_settings settings = box_settings(conninfo);
    return box_new_with(&settings);
}

void box_free(struct box *b)
{
    outbox_free(b->outbox, on_freed, b);
    BOX_UNTIL(b, b->freed, 5);
    CHECK_EQ(uv_loop_close(&b->loop), 0);
    free(b);
}

/* It waits without pauses: answers come within microseconds. */
static void wait_for(struct box *b, const unsigned *counter, unsigned before)
{
    unsigned failed_before = b->failed_n, lost_before = b->lost_n;
    uint64_t deadline = test_now_ms() + 15000;
    while (*counter == before) {
        (void)uv_run(&b->loop, UV_RUN_ONCE);
        if (b->failed_n != failed_before || (b->lost_n != lost_before && counter != &b->lost_n))
            test_fail(__FILE__, __LINE__, "failed: %s", b->reason);
        if (test_now_ms() > deadline)
            test_fail(__FILE__, __LINE__, "no answer within 15 s");
    }
    CHECK_EQ(*counter, before + 1);
}

void box_connect(struct box *b)
{
    unsigned before = b->connected_n;
    outbox_connect(b->outbox);
    wait_for(b, &b->connected_n, before);
}

void box_connect_refused(struct box *b)
{
    unsigned before = b->lost_n, connected_before = b->connected_n;
    outbox_connect(b->outbox);
    wait_for(b, &b->lost_n, before);
    CHECK_EQ(b->connected_n, connected_before);
}

bool box_take(struct box *b)
{
    unsigned before = b->lease_n;
    outbox_take(b->outbox, 0);
    wait_for(b, &b->lease_n, before);
    return b->granted;
}

void box_beat(struct box *b)
{
    unsigned before = b->beaten_n;
    outbox_beat(b->outbox);
    wait_for(b, &b->beaten_n, before);
}

void box_release(struct box *b)
{
    unsigned before = b->released_n;
    outbox_release(b->outbox);
    wait_for(b, &b->released_n, before);
}

uint32_t box_fetch_with(struct box *b, const struct outbox_fetch *fetch)
{
    unsigned before = b->fetched_n;
    outbox_fetch(b->outbox, fetch);
    wait_for(b, &b->fetched_n, before);
    return b->read.rows_n;
}

uint32_t box_fetch(struct box *b, int64_t from)
{
    return box_fetch_with(b, &(struct outbox_fetch){.from = from, .rows = 2000, .bytes = 8 << 20});
}

uint32_t box_catch_up(struct box *b, uint32_t topic, int64_t from, int64_t upto, uint32_t rows)
{
    unsigned before = b->caught_up_n;
    outbox_catch_up(b->outbox, topic, from, upto, rows, 8 << 20);
    wait_for(b, &b->caught_up_n, before);
    return b->read.rows_n;
}

uint32_t box_patrol(struct box *b, int64_t from, int64_t upto, uint32_t rows)
{
    unsigned before = b->patrolled_n;
    outbox_patrol(b->outbox, from, upto, rows);
    wait_for(b, &b->patrolled_n, before);
    return b->read.rows_n;
}

void box_writers(struct box *b)
{
    unsigned before = b->writers_n;
    outbox_writers(b->outbox);
    wait_for(b, &b->writers_n, before);
}

static void mark(struct box *b, uint32_t from, uint32_t n, bool repeated)
{
    unsigned before = b->marked_n;
    int64_t *ids = calloc(n, sizeof *ids);
    struct row_event_id *event_ids = calloc(n, sizeof *event_ids);
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = b->rows[from + i].id;
        event_ids[i] = b->rows[from + i].event_id;
    }
    outbox_mark(b->outbox, ids, event_ids, n, repeated);
    free(ids);
    free(event_ids);
    wait_for(b, &b->marked_n, before);
}

void box_mark(struct box *b, uint32_t from, uint32_t n)
{
    mark(b, from, n, false);
}

void box_mark_again(struct box *b, uint32_t from, uint32_t n)
{
    mark(b, from, n, true);
}

bool box_save(struct box *b, int64_t floor, const struct relay_behind *changes, uint32_t changes_n)
{
    unsigned before = b->saved_n;
    outbox_save(b->outbox, floor, changes, changes_n);
    wait_for(b, &b->saved_n, before);
    return !b->fenced;
}

void box_flush(struct box *b, bool force)
{
    unsigned before = b->flushed_n;
    outbox_flush(b->outbox, force);
    wait_for(b, &b->flushed_n, before);
}

int32_t box_pin(struct box *b, uint32_t topic, int32_t actual_n)
{
    unsigned before = b->pinned_n;
    outbox_pin(b->outbox, topic, actual_n);
    wait_for(b, &b->pinned_n, before);
    CHECK_EQ(b->pinned_topic, topic);
    return b->pinned_count;
}

bool box_token_is(const struct box *b, struct relay_token token)
{
    return memcmp(b->token.bytes, token.bytes, sizeof token.bytes) == 0;
}

struct postgres box_postgres(const char *settings)
{
    struct postgres p = postgres_start(settings);
    postgres_migrate(&p);
    return p;
}
