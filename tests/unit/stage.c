/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/stage_text.h"

struct relay_limits stage_limits(void)
{
    struct relay_limits limits = relay_limits_default();

    limits.fetch_rows = 10;
    limits.fetch_bytes = 1000;
    limits.window_rows = 40;
    limits.window_bytes = 4000;
    limits.lane_rows = 5;
    limits.lanes_max = 16;
    limits.topics_max = 8;
    limits.ranges_max = 32;
    limits.writers_max = 8;
    limits.settled_rows = 20;
    limits.page_ids = 100;
    limits.mark_rows = 20;
    limits.mark_rows_min = 1;
    limits.stuck_ms = 5000;
    limits.keys_max = 4;
    limits.patrol_ids = 0; /* not in most stories */
    return limits;
}

struct stage *stage_bare(const struct relay_limits *limits, unsigned answered, uint64_t now_ms)
{
    struct stage *s = test_allocate(sizeof *s);

    CHECK(limits->window_rows <= STAGE_ROWS);
    s->limits = *limits;
    s->now_ms = now_ms;
    s->token = 1;
    s->answered = answered;
    s->relay = relay_new(limits, s->now_ms);
    CHECK(s->relay != NULL);
    stage_run(s);
    return s;
}

struct stage *stage_set(const struct relay_limits *limits)
{
    return stage_bare(limits,
                      STAGE_ANSWERS(RELAY_CONNECT) | STAGE_ANSWERS(RELAY_LEASE_TAKE) | STAGE_ANSWERS(RELAY_LEASE_BEAT) |
                          STAGE_ANSWERS(RELAY_SESSION_OPEN) | STAGE_ANSWERS(RELAY_TOPIC),
                      STAGE_START_MS);
}

struct stage *stage_twin(const struct stage *s)
{
    struct stage *twin = test_allocate(sizeof *twin);

    *twin = *s;
    twin->relay = relay_new(&s->limits, 0);
    CHECK(twin->relay != NULL && relay_size(twin->relay) == relay_size(s->relay));
    relay_copy(twin->relay, s->relay);
    return twin;
}

/* --- pulling ------------------------------------------------------------------------------------------------------ */

static void action_keep(struct stage *s, const struct relay_action *a)
{
    if (a->type == RELAY_PUBLISH) {
        CHECK(a->slot < s->limits.window_rows && !s->handed[a->slot]);
        s->handed[a->slot] = true;
        s->session[a->slot] = a->session;
        s->action[RELAY_PUBLISH] = *a;
        stage_append_row(s->published, &s->row[a->slot]);
        if (a->session == RELAY_PROBE)
            stage_append_row(s->probed, &s->row[a->slot]);
    } else if (a->type == RELAY_NOTE) {
        CHECK(s->noted_n < STAGE_ROWS);
        s->noted[s->noted_n++] = *a;
    } else if (a->type == RELAY_DROP) {
        CHECK(a->slot < s->limits.window_rows && !s->handed[a->slot]);
        stage_append_row(s->dropped, &s->row[a->slot]);
    } else {
        CHECK(!s->asked[a->type]);
        s->asked[a->type] = a->type != RELAY_FORGET;
        s->action[a->type] = *a;
        s->asked_ms[a->type] = s->now_ms;
        CHECK(s->asked[RELAY_FETCH] + s->asked[RELAY_CATCH_UP] + s->asked[RELAY_PATROL] + s->asked[RELAY_WRITERS] <= 1);
    }
}

static void take_off(struct stage *s, enum relay_action_type type)
{
    if (!s->asked[type])
        test_fail(__FILE__, __LINE__, "action %d is not outstanding", type);
    s->asked[type] = false;
}

static void answer(struct stage *s, enum relay_action_type type)
{
    struct relay_saved saved = {.token = stage_token(s->token), .last_id = s->last_id};

    take_off(s, type);
    if (type == RELAY_CONNECT)
        relay_on_connected(s->relay, s->now_ms);
    else if (type == RELAY_LEASE_TAKE)
        relay_on_lease(s->relay, s->now_ms, s->asked_ms[type], &saved);
    else if (type == RELAY_LEASE_BEAT)
        relay_on_beaten(s->relay, s->now_ms, s->asked_ms[type], true, stage_token(s->token), INT64_MAX);
    else if (type == RELAY_SESSION_OPEN)
        relay_on_session_open(s->relay, s->now_ms, s->action[type].session);
    else if (type == RELAY_TOPIC)
        relay_on_topic(s->relay, s->now_ms, s->action[type].topic, 4, 4, 0);
    else if (type == RELAY_MARK)
        relay_on_marked(s->relay, s->now_ms, NULL, 0);
    else if (type == RELAY_SAVE)
        relay_on_saved(s->relay, s->now_ms, false);
    else
        test_fail(__FILE__, __LINE__, "action %d is not answered by itself", type);
}

void stage_run(struct stage *s)
{
    for (unsigned i = 0; i < 10000; i++) {
        struct relay_action a = relay_next(s->relay, s->now_ms);

        if (a.type == RELAY_WAIT) {
            CHECK(a.until_ms > s->now_ms);
            s->wait_ms = a.until_ms;
            s->waits++;
            return;
        }
        action_keep(s, &a);
        if (s->answered & STAGE_ANSWERS(a.type))
            answer(s, a.type);
    }
    test_fail(__FILE__, __LINE__, "the relay never waits");
}

void stage_pass(struct stage *s, uint64_t ms)
{
    uint64_t end_ms = s->now_ms + ms;

    while (s->now_ms < end_ms) {
        s->now_ms = s->wait_ms < end_ms ? s->wait_ms : end_ms;
        stage_run(s);
    }
}

_Noreturn static void not_asked(const struct stage *s, enum relay_action_type type, uint64_t ms)
{
    char outstanding[STAGE_TEXT] = "";

    for (unsigned i = 0; i <= RELAY_EXIT; i++) {
        if (s->asked[i])
            stage_append(outstanding, "%u", i);
    }
    test_fail(__FILE__, __LINE__, "action %d was not asked for within %" PRIu64 " ms; outstanding: %s", type, ms, outstanding);
}

void stage_await(struct stage *s, enum relay_action_type type, uint64_t ms)
{
    uint64_t end_ms = s->now_ms + ms;

    while (!s->asked[type]) {
        if (s->wait_ms > end_ms)
            not_asked(s, type, ms);
        s->now_ms = s->wait_ms;
        stage_run(s);
    }
}

/* --- the database ------------------------------------------------------------------------------------------------- */

struct relay_token stage_token(unsigned number)
{
    struct relay_token token = {{0}};

    memcpy(token.bytes, &number, sizeof number);
    return token;
}

void stage_connect(struct stage *s)
{
    answer(s, RELAY_CONNECT);
    stage_run(s);
}

void stage_lose(struct stage *s)
{
    const enum relay_action_type lost[] = {RELAY_CONNECT, RELAY_LEASE_TAKE, RELAY_LEASE_BEAT, RELAY_LEASE_RELEASE,
                                           RELAY_FETCH,   RELAY_CATCH_UP,   RELAY_PATROL,     RELAY_WRITERS,
                                           RELAY_FLUSH,   RELAY_MARK,       RELAY_SAVE,       RELAY_TOPIC};

    for (unsigned i = 0; i < sizeof lost / sizeof *lost; i++)
        s->asked[lost[i]] = false;
    relay_on_database_lost(s->relay, s->now_ms);
    stage_run(s);
}

void stage_grant(struct stage *s, int64_t floor, const char *records)
{
    struct relay_behind behind[STAGE_RECORDS];
    struct relay_saved saved = {.token = stage_token(s->token),
                                .floor = floor,
                                .last_id = s->last_id,
                                .behind = behind,
                                .behind_n = stage_records_read(records, behind)};

    take_off(s, RELAY_LEASE_TAKE);
    relay_on_lease(s->relay, s->now_ms, s->asked_ms[RELAY_LEASE_TAKE], &saved);
    stage_run(s);
}

void stage_beat(struct stage *s)
{
    take_off(s, RELAY_LEASE_BEAT);
    relay_on_beaten(s->relay, s->now_ms, s->asked_ms[RELAY_LEASE_BEAT], true, stage_token(s->token), s->last_id);
    stage_run(s);
}

static void read_answer(struct stage *s, enum relay_action_type type, const char *text, int64_t upto)
{
    struct row rows[STAGE_ROWS];
    row_slot slots[STAGE_ROWS];
    struct relay_read read = {.token = stage_token(s->token),
                              .rows = rows,
                              .rows_n = stage_rows_read(text, rows),
                              .upto = upto,
                              .insert_lsn = s->insert_lsn,
                              .flush_lsn = s->flush_lsn};

    take_off(s, type);
    CHECK(read.rows_n <= s->action[type].rows);
    if (type == RELAY_FETCH)
        relay_on_fetched(s->relay, s->now_ms, &read, slots);
    else if (type == RELAY_CATCH_UP)
        relay_on_caught_up(s->relay, s->now_ms, &read, slots);
    else
        relay_on_patrolled(s->relay, s->now_ms, &read);
    for (uint32_t i = 0; i < read.rows_n && type != RELAY_PATROL; i++) {
        CHECK(slots[i] == ROW_NO_SLOT || (slots[i] < s->limits.window_rows && !s->handed[slots[i]]));
        if (slots[i] != ROW_NO_SLOT)
            s->row[slots[i]] = rows[i];
    }
    stage_run(s);
}

void stage_fetch(struct stage *s, const char *rows)
{
    stage_fetch_upto(s, rows, INT64_MAX);
}

void stage_fetch_upto(struct stage *s, const char *rows, int64_t upto)
{
    stage_await(s, RELAY_FETCH, 1000);
    read_answer(s, RELAY_FETCH, rows, upto);
}

static void idle_until(struct stage *s, enum relay_action_type type, uint64_t end_ms)
{
    while (!s->asked[type] && s->now_ms < end_ms) {
        if (s->asked[RELAY_FETCH])
            read_answer(s, RELAY_FETCH, "", INT64_MAX);
        else
            stage_pass(s, (s->wait_ms < end_ms ? s->wait_ms : end_ms) - s->now_ms);
    }
}

void stage_idle(struct stage *s, enum relay_action_type type, uint64_t ms)
{
    idle_until(s, type, s->now_ms + ms);
    if (!s->asked[type])
        not_asked(s, type, ms);
}

void stage_idle_for(struct stage *s, uint64_t ms)
{
    idle_until(s, RELAY_WAIT, s->now_ms + ms); /* nobody asks to wait */
}

void stage_page(struct stage *s, const char *rows)
{
    stage_page_upto(s, rows, INT64_MAX);
}

void stage_page_upto(struct stage *s, const char *rows, int64_t upto)
{
    read_answer(s, RELAY_CATCH_UP, rows, upto);
}

void stage_patrol(struct stage *s, const char *rows)
{
    read_answer(s, RELAY_PATROL, rows, INT64_MAX);
}

void stage_writers(struct stage *s, int64_t last_id, const char *vxids)
{
    struct relay_writer writers[STAGE_RECORDS] = {{0}};
    uint32_t n = 0;

    for (char *end; *vxids != '\0'; vxids = end + strspn(end, " "))
        writers[n++].vxid = strtoull(vxids, &end, 10);
    take_off(s, RELAY_WRITERS);
    relay_on_writers(s->relay, s->now_ms, last_id, writers, n, true);
    stage_run(s);
}

void stage_flush(struct stage *s, uint64_t lsn)
{
    take_off(s, RELAY_FLUSH);
    relay_on_flushed(s->relay, s->now_ms, stage_token(s->token), lsn);
    stage_run(s);
}

void stage_mark(struct stage *s, uint32_t missed_n)
{
    const int64_t *ids;
    const struct row_event_id *event_ids;

    take_off(s, RELAY_MARK);
    CHECK(missed_n <= relay_marks(s->relay, &ids, &event_ids));
    relay_on_marked(s->relay, s->now_ms, ids, missed_n); /* the first of them */
    stage_run(s);
}

void stage_save(struct stage *s)
{
    answer(s, RELAY_SAVE);
    stage_run(s);
}

void stage_fail(struct stage *s, enum relay_action_type type)
{
    take_off(s, type);
    relay_on_failed(s->relay, s->now_ms, type);
    stage_run(s);
}

/* --- Kafka -------------------------------------------------------------------------------------------------------- */

/* The slot of a row that is handed; it is not any more. */
static row_slot unhand(struct stage *s, const struct row *row)
{
    for (row_slot slot = 0; slot < s->limits.window_rows; slot++) {
        if (s->handed[slot] && s->row[slot].id == row->id && memcmp(&s->row[slot].event_id, &row->event_id, sizeof row->event_id) == 0) {
            s->handed[slot] = false;
            return slot;
        }
    }
    test_fail(__FILE__, __LINE__, "row %" PRId64 " is not handed", row->id);
}

void stage_deliver(struct stage *s, const char *rows)
{
    struct row row;

    while (stage_row_read(&rows, &row))
        relay_on_delivered(s->relay, s->now_ms, unhand(s, &row));
    stage_run(s);
}

void stage_refuse(struct stage *s, const char *rows, enum relay_fault why)
{
    struct row row;

    while (stage_row_read(&rows, &row))
        relay_on_refused(s->relay, s->now_ms, unhand(s, &row), why);
    stage_run(s);
}

void stage_unpublish(struct stage *s, const char *rows, enum relay_fault why)
{
    struct row row;

    while (stage_row_read(&rows, &row))
        relay_on_unpublished(s->relay, s->now_ms, unhand(s, &row), why);
    stage_run(s);
}

void stage_drain(struct stage *s)
{
    for (bool some = true; some;) {
        some = false;
        for (row_slot slot = 0; slot < s->limits.window_rows; slot++) {
            if (!s->handed[slot])
                continue;
            some = true;
            s->handed[slot] = false;
            relay_on_delivered(s->relay, s->now_ms, slot);
        }
        stage_run(s);
        if (some && !(s->answered & STAGE_ANSWERS(RELAY_MARK)))
            stage_await(s, RELAY_MARK, 100);
        if (s->asked[RELAY_MARK])
            stage_mark(s, 0);
    }
}

void stage_close(struct stage *s)
{
    enum relay_session session = s->action[RELAY_SESSION_CLOSE].session;

    take_off(s, RELAY_SESSION_CLOSE);
    for (row_slot slot = 0; slot < s->limits.window_rows; slot++) {
        if (!s->handed[slot] || s->session[slot] != session)
            continue;
        relay_on_refused(s->relay, s->now_ms, slot, RELAY_FAULT_SESSION);
        s->handed[slot] = false;
    }
    relay_on_session_closed(s->relay, s->now_ms, session);
    stage_run(s);
}

void stage_topic(struct stage *s, int32_t pinned_n, int32_t actual_n, uint32_t message_bytes_max)
{
    take_off(s, RELAY_TOPIC);
    relay_on_topic(s->relay, s->now_ms, s->action[RELAY_TOPIC].topic, pinned_n, actual_n, message_bytes_max);
    stage_run(s);
}
