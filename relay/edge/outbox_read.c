/* SPDX-License-Identifier: BSD-2-Clause */
/* The reading connection: fetch, catch-up, patrol, writers; and the rows that came. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_state.h"

static void rows_reserve(struct outbox *o, uint32_t rows)
{
    if (rows <= o->rows_max)
        return;
    free(o->rows);
    free(o->slots);
    free(o->found);
    o->rows = calloc(rows, sizeof(*o->rows));
    o->slots = calloc(rows, sizeof(*o->slots));
    o->found = calloc(rows, sizeof(*o->found));
    if (!o->rows || !o->slots || !o->found)
        abort();
    o->rows_max = rows;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* So many rows before its own turn, memory is fetched into the processor. */
#define ROWS_AHEAD 8

/* Takes `result`: what the core wants of it is held. */
static void rows_hold(struct outbox *o, struct database_result *result, uint32_t rows_n, size_t whole_bytes)
{
    struct lent *lent = NULL;

    for (uint32_t i = 0; i < rows_n; i++) {
        if (i + ROWS_AHEAD < rows_n && o->slots[i + ROWS_AHEAD] != ROW_NO_SLOT)
            bytes_expect(o->bytes, o->slots[i + ROWS_AHEAD]);
        if (o->slots[i] == ROW_NO_SLOT)
            continue;
        if (!lent)
            lent = bytes_lend(o->bytes, result, whole_bytes, rows_n);
        bytes_hold(o->bytes, lent, o->slots[i], &o->found[i]);
    }
    if (lent)
        bytes_lent(o->bytes, lent);
    else
        database_result_free(result);
}

/* After a large row so many reads are limited by the sum of their bytes. */
#define SUMMED_READS 256
/* Where a row's share of the bytes is smaller, every other row would be large. */
#define SMALL_BYTES_MIN 1024

static void on_read(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    struct relay_read read;
    struct decode_found found;
    const char *why = NULL;

    if (error) {
        operation_failed(o, o->reading, error);
        return;
    }
    if (!decode_read(result, &o->read_limits, o->names, o->rows, o->found, &read, &found, &why)) {
        database_result_free(result);
        o->callbacks.on_failed(o->data, o->reading, why);
        return;
    }
    if (o->reading == RELAY_PATROL) {
        o->callbacks.on_patrolled(o->data, &read);
        database_result_free(result);
        return;
    }
    if (found.large)
        o->summed_reads = SUMMED_READS;
    else if (o->summed_reads > 0)
        o->summed_reads--;
    memset(o->slots, 0xff, read.rows_n * sizeof(*o->slots)); /* ROW_NO_SLOT */
    o->telling_rows = true;
    (o->reading == RELAY_CATCH_UP ? o->callbacks.on_caught_up : o->callbacks.on_fetched)(o->data, &read, o->slots);
    o->telling_rows = false;
    rows_hold(o, result, read.rows_n, found.bytes);
}

enum writer { /* columns of SQL_WRITERS; in its first row the second one is when the server was started */
    WRITER_VXID,
    WRITER_QUIET_SINCE
};

/* A restart behind a pooler goes unnoticed elsewhere when nothing was lost. But prepared transactions have other numbers after it: those
 * that are waited for would look as if they had ended. */
static bool server_is_the_same(struct outbox *o, const struct database_result *result)
{
    int64_t started = database_result_integer(result, 0, WRITER_QUIET_SINCE);

    if (o->server_started == 0)
        o->server_started = started;
    return o->server_started == started;
}

static void on_writers(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    uint32_t n;
    struct relay_writer *writers;

    if (error) {
        operation_failed(o, RELAY_WRITERS, error);
        return;
    }
    if (!server_is_the_same(o, result)) {
        database_result_free(result);
        links_lose(o, "the database server was restarted behind the pooler");
        return;
    }
    n = database_result_rows(result) - 1;
    writers = calloc(n ? n : 1, sizeof(*writers));
    if (!writers)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        writers[i].vxid = (uint64_t)database_result_integer(result, i + 1, WRITER_VXID);
        writers[i].quiet_since = (uint64_t)database_result_integer(result, i + 1, WRITER_QUIET_SINCE);
    }
    database_result_free(result);
    o->callbacks.on_writers(o->data, o->last_id, writers, n, true);
    free(writers);
}

/* By what SQL_WRITERS knows our own marks. */
static struct database_value ourselves(struct outbox *o)
{
    if (o->settings.pooled)
        return value_int8(o->writers.numbers[0], process_key(o));
    array_start(&o->backends, ARRAY_INT4, LINKS, 4);
    for (unsigned i = 0; i < o->links_n; i++)
        array_add_int4(&o->backends, database_backend(o->links[i].database));
    return value_array(&o->backends);
}

static void on_sequence(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;

    if (error) {
        operation_failed(o, RELAY_WRITERS, error);
        return;
    }
    o->last_id = database_result_integer(result, 0, 0);
    database_result_free(result);
    o->writers.request.values[0] = value_text(o->table);
    o->writers.request.values[1] = ourselves(o);
    o->writers.request.values_n = 2;
    o->writers.request.done = on_writers;
    operation_send(o, LINK_READ, &o->writers.request, SQL_WRITERS);
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

/* The four share the connection. */
static void read_begin(struct outbox *o, struct outbox_operation *operation)
{
    assert(o->connected && !o->telling_rows);
    assert(!o->fetch.request.busy && !o->writers.request.busy);
    operation->request.data = o;
}

static uint32_t clamp(uint64_t n)
{
    return n > INT32_MAX ? INT32_MAX : (uint32_t)n;
}

/* The parameters that fetch and catch-up share, from the fourth on. */
static void limits_set(struct outbox *o, uint32_t rows, uint64_t bytes, bool settled)
{
    struct database_request *r = &o->fetch.request;

    assert(rows > 0 && bytes > 0);
    o->read_limits = (struct decode_limits){.rows = clamp(rows),
                                            .bytes = bytes,
                                            .row_bytes_max = clamp((uint64_t)o->settings.row_bytes_max + OUTBOX_ROW_EXTRA),
                                            .settled = settled,
                                            .small_bytes = clamp(bytes / rows)};
    rows_reserve(o, rows);
    r->values[3] = value_int4(o->fetch.numbers[0], (int32_t)o->read_limits.rows);
    r->values[4] = value_int8(o->fetch.numbers[1], bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
    r->values[5] = value_int4(o->fetch.numbers[2], (int32_t)o->read_limits.row_bytes_max);
    r->values_n = 6;
    r->done = on_read;
}

void outbox_fetch(struct outbox *o, const struct outbox_fetch *fetch)
{
    struct database_request *r = &o->fetch.request;
    bool settled = fetch->settled_upto > fetch->from || (fetch->gaps_n > 0 && fetch->settled_upto >= fetch->firsts[0]);

    read_begin(o, &o->fetch);
    o->reading = RELAY_FETCH;
    array_start(&o->firsts, ARRAY_INT8, fetch->gaps_n, 8);
    array_start(&o->lasts, ARRAY_INT8, fetch->gaps_n, 8);
    array_add_int8s(&o->firsts, fetch->firsts, fetch->gaps_n);
    array_add_int8s(&o->lasts, fetch->lasts, fetch->gaps_n);
    limits_set(o, fetch->rows, fetch->bytes, settled);
    r->values[0] = value_array(&o->firsts);
    r->values[1] = value_array(&o->lasts);
    r->values[2] = value_int8(o->fetch.numbers[3], fetch->from);
    if (settled) {
        array_put_int8(o->settled_upto, fetch->settled_upto);
        r->values[6] = (struct database_value){.bytes = o->settled_upto, .bytes_n = 8};
        r->values_n = 7;
    }
    o->read_limits.small_only = !settled && o->summed_reads == 0 && o->read_limits.small_bytes >= SMALL_BYTES_MIN &&
                                o->read_limits.small_bytes <= o->read_limits.row_bytes_max;
    if (o->read_limits.small_only) {
        r->values[4] = value_int4(o->fetch.numbers[1], (int32_t)o->read_limits.small_bytes);
        r->values_n = 5;
    }
    operation_send(o, LINK_READ, r, settled ? SQL_FETCH_SETTLED : o->read_limits.small_only ? SQL_FETCH_SMALL : SQL_FETCH);
}

void outbox_catch_up(struct outbox *o, uint32_t topic, int64_t from, int64_t upto, uint32_t rows, uint64_t bytes)
{
    struct database_request *r = &o->fetch.request;

    read_begin(o, &o->fetch);
    o->reading = RELAY_CATCH_UP;
    limits_set(o, rows, bytes, false);
    r->values[0] = value_int8(o->fetch.numbers[3], from);
    r->values[1] = value_int8(o->settled_upto, upto);
    r->values[2] = value_text(names_name(o->names, topic));
    operation_send(o, LINK_READ, r, SQL_CATCH_UP);
}

void outbox_patrol(struct outbox *o, int64_t from, int64_t upto, uint32_t rows)
{
    struct database_request *r = &o->fetch.request;

    read_begin(o, &o->fetch);
    o->reading = RELAY_PATROL;
    o->read_limits = (struct decode_limits){.rows = clamp(rows), .bytes = UINT64_MAX, .row_bytes_max = INT32_MAX, .small_bytes = INT32_MAX};
    rows_reserve(o, rows);
    r->values[0] = value_int8(o->fetch.numbers[3], from);
    r->values[1] = value_int8(o->settled_upto, upto);
    r->values[2] = value_int4(o->fetch.numbers[0], (int32_t)o->read_limits.rows);
    r->values_n = 3;
    r->done = on_read;
    operation_send(o, LINK_READ, r, SQL_PATROL);
}

void outbox_writers(struct outbox *o)
{
    read_begin(o, &o->writers);
    o->writers.request.values[0] = value_text(o->sequence);
    o->writers.request.values_n = 1;
    o->writers.request.done = on_sequence;
    operation_send(o, LINK_READ, &o->writers.request, SQL_SEQUENCE);
}

/* --- rows and topics ---------------------------------------------------------------------------------------------- */

void outbox_row(const struct outbox *o, row_slot slot, struct outbox_row *ret_row)
{
    assert(!o->telling_rows);
    bytes_row(o->bytes, slot, ret_row);
}

void outbox_expect(const struct outbox *o, row_slot slot)
{
    bytes_expect(o->bytes, slot);
}

void outbox_expect_key(const struct outbox *o, row_slot slot)
{
    bytes_expect_key(o->bytes, slot);
}

void outbox_drop(struct outbox *o, row_slot slot)
{
    assert(!o->telling_rows);
    bytes_drop(o->bytes, slot);
}

size_t outbox_bytes(const struct outbox *o)
{
    return bytes_total(o->bytes);
}

const char *outbox_topic(const struct outbox *o, uint32_t topic)
{
    return names_name(o->names, topic);
}

void outbox_forget(struct outbox *o, uint32_t topic)
{
    names_forget(o->names, topic);
}
