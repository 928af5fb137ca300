/* SPDX-License-Identifier: BSD-2-Clause */
/* The marking connection: marks, saves, flushes, pins. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_state.h"

/* --- mark --------------------------------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void on_missed(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    uint32_t n;

    if (error) { /* the mark is repeated, and the question with it */
        operation_failed(o, RELAY_MARK, error);
        return;
    }
    n = database_result_rows(result);
    for (uint32_t i = 0; i < n; i++)
        o->missed[i] = database_result_integer(result, i, 0);
    qsort(o->missed, n, sizeof(*o->missed), compare_ids);
    database_result_free(result);
    o->callbacks.on_marked(o->data, o->missed, n);
}

/* Those of the mark that a DELETE did not return. */
static uint32_t missed_find(struct outbox *o, const struct database_result *result)
{
    uint32_t deleted_n = database_result_rows(result), at = 0, n = 0;
    int64_t *deleted = calloc(deleted_n + 1, sizeof(*deleted));

    if (!deleted)
        abort();
    for (uint32_t i = 0; i < deleted_n; i++)
        deleted[i] = database_result_integer(result, i, 0);
    qsort(deleted, deleted_n, sizeof(*deleted), compare_ids);
    for (uint32_t i = 0; i < o->marking_n; i++) {
        if (at < deleted_n && deleted[at] == o->marking[i])
            at++;
        else
            o->missed[n++] = o->marking[i];
    }
    free(deleted);
    return n;
}

static void on_mark(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    uint32_t touched, missed_n = 0;

    if (error) {
        operation_failed(o, RELAY_MARK, error);
        return;
    }
    touched = database_result_touched(result);
    if (touched < o->marking_n && o->settings.mark == OUTBOX_MARK_DELETE && !o->mark_repeated)
        missed_n = missed_find(o, result);
    database_result_free(result);
    if (touched < o->marking_n && o->settings.mark == OUTBOX_MARK_SENT_AT) {
        o->mark.request.done = on_missed;
        operation_send(o, LINK_MARK, &o->mark.request, SQL_MISSED);
        return;
    }
    o->callbacks.on_marked(o->data, o->missed, missed_n);
}

static void marking_keep(struct outbox *o, const int64_t *ids, uint32_t n)
{
    if (n > o->marking_max) {
        free(o->marking);
        free(o->missed);
        o->marking = calloc(n, sizeof(*o->marking));
        o->missed = calloc(n, sizeof(*o->missed));
        if (!o->marking || !o->missed)
            abort();
        o->marking_max = n;
    }
    memcpy(o->marking, ids, n * sizeof(*ids));
    o->marking_n = n;
}

void outbox_mark(struct outbox *o, const int64_t *ids, const struct row_event_id *event_ids, uint32_t n, bool repeated)
{
    struct database_request *r = &o->mark.request;

    assert(o->connected && !r->busy && n > 0);
    o->mark_repeated = repeated;
    marking_keep(o, ids, n);
    array_start(&o->mark_ids, ARRAY_INT8, n, 8);
    array_start(&o->mark_event_ids, ARRAY_UUID, n, 16);
    for (uint32_t i = 1; i < n; i++)
        assert(ids[i - 1] <= ids[i]);
    array_add_int8s(&o->mark_ids, ids, n);
    array_add_all(&o->mark_event_ids, event_ids, n, sizeof(event_ids->bytes));
    r->values[0] = value_array(&o->mark_ids);
    r->values[1] = value_array(&o->mark_event_ids);
    r->values_n = 2;
    r->done = on_mark;
    r->data = o;
    operation_send(o, LINK_MARK, r, SQL_MARK);
}

/* --- save --------------------------------------------------------------------------------------------------------- */

static void on_save(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    bool saved;

    if (error) {
        operation_failed(o, RELAY_SAVE, error);
        return;
    }
    saved = database_result_integer(result, 0, 0) != 0;
    database_result_free(result);
    o->callbacks.on_saved(o->data, !saved);
}

static void save_add(struct outbox *o, const struct relay_behind *change)
{
    const char *topic = names_name(o->names, change->topic);
    unsigned char held = change->held;

    array_add(&o->save_topics, topic, (uint32_t)strlen(topic));
    array_add_int4(&o->save_partitions, change->partition);
    array_add_int8(&o->save_keys, (int64_t)change->key_hash);
    array_add_int8(&o->save_ids, change->first_id);
    array_add_int4(&o->save_attempts, (int32_t)change->attempts);
    array_add(&o->save_helds, &held, 1);
}

void outbox_save(struct outbox *o, int64_t floor, const struct relay_behind *changes, uint32_t changes_n)
{
    struct database_request *r = &o->save.request;

    assert(o->connected && !r->busy);
    array_start(&o->save_topics, ARRAY_TEXT, changes_n, 32);
    array_start(&o->save_partitions, ARRAY_INT4, changes_n, 4);
    array_start(&o->save_keys, ARRAY_INT8, changes_n, 8);
    array_start(&o->save_ids, ARRAY_INT8, changes_n, 8);
    array_start(&o->save_attempts, ARRAY_INT4, changes_n, 4);
    array_start(&o->save_helds, ARRAY_BOOL, changes_n, 1);
    for (uint32_t i = 0; i < changes_n; i++)
        save_add(o, &changes[i]);
    r->values[0] = value_token(&o->token);
    r->values[1] = value_int8(o->save.numbers[0], floor);
    r->values[2] = value_array(&o->save_topics);
    r->values[3] = value_array(&o->save_partitions);
    r->values[4] = value_array(&o->save_keys);
    r->values[5] = value_array(&o->save_ids);
    r->values[6] = value_array(&o->save_attempts);
    r->values[7] = value_array(&o->save_helds);
    r->values_n = 8;
    r->done = on_save;
    r->data = o;
    operation_send(o, LINK_MARK, r, SQL_SAVE);
}

/* --- flush -------------------------------------------------------------------------------------------------------- */

static void flush_send(struct outbox *o, enum sql_name which);

/* The first of two statements is committed: what lies before its record is flushed, or on the standbys. Takes `result`. */
static void flush_again(struct outbox *o, struct database_result *result)
{
    bool cancelled = o->settings.replicated && database_warning(o->links[LINK_BARRIER].database)[0];

    o->flush_forced = false;
    o->replicated_lsn = (uint64_t)database_result_integer(result, 0, 0);
    database_result_free(result);
    if (cancelled)
        o->callbacks.on_failed(o->data, RELAY_FLUSH, "the wait for the synchronous standbys was cancelled");
    else
        flush_send(o, SQL_FLUSH);
}

static void on_flush(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    struct relay_token token;
    uint64_t flush_lsn;
    char sentence[300];

    if (error) {
        operation_failed(o, RELAY_FLUSH, error);
        return;
    }
    if (o->flush_forced) {
        flush_again(o, result);
        return;
    }
    if (o->settings.replicated && database_result_integer(result, 0, 2) == 0) { /* then the commit waited for nobody */
        database_result_free(result);
        (void)probe_not_replicated(sentence, sizeof(sentence));
        links_lose(o, sentence);
        return;
    }
    token = decode_token(result, 0, 0);
    flush_lsn = o->settings.replicated ? o->replicated_lsn : (uint64_t)database_result_integer(result, 0, 1);
    database_result_free(result);
    o->callbacks.on_flushed(o->data, token, flush_lsn);
}

static void flush_send(struct outbox *o, enum sql_name which)
{
    o->flush.request.values_n = 0;
    o->flush.request.patient = o->settings.replicated && which == SQL_FLUSH_FORCE;
    o->flush.request.done = on_flush;
    o->flush.request.data = o;
    operation_send(o, o->settings.replicated ? LINK_BARRIER : LINK_MARK, &o->flush.request, which);
}

/* Forced, the log is flushed by a commit of its own; where that got to is read by the statement after it. Replicated, it is on the standbys
 * when that commit is answered, up to its own record; the statement after it says that the server is still the one that the rows came from. */
void outbox_flush(struct outbox *o, bool force)
{
    assert(o->connected && !o->flush.request.busy);
    o->flush_forced = force || o->settings.replicated;
    flush_send(o, o->flush_forced ? SQL_FLUSH_FORCE : SQL_FLUSH);
}

/* --- pin ---------------------------------------------------------------------------------------------------------- */

static void pin_free(struct outbox_pin *pin)
{
    struct outbox_pin **link = &pin->outbox->pins;

    while (*link != pin)
        link = &(*link)->next;
    *link = pin->next;
    free(pin);
}

static void on_pin(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox_pin *pin = data;
    struct outbox *o = pin->outbox;
    uint32_t topic = pin->topic;
    int32_t pinned_n;

    if (error) {
        pin_free(pin);
        operation_failed(o, RELAY_TOPIC, error);
        return;
    }
    pinned_n = database_result_rows(result) ? (int32_t)database_result_integer(result, 0, 0) : 0;
    database_result_free(result);
    if (pinned_n == 0 && pin->request.values_n == 1 && pin->request.values[1].bytes) {
        pin->request.values_n = 2;
        operation_send(o, LINK_MARK, &pin->request, SQL_PIN);
        return;
    }
    pin_free(pin);
    o->callbacks.on_pinned(o->data, topic, pinned_n);
}

void outbox_pin(struct outbox *o, uint32_t topic, int32_t actual_n)
{
    struct outbox_pin *pin = calloc(1, sizeof(*pin));

    assert(o->connected);
    if (!pin)
        abort();
    pin->outbox = o;
    pin->topic = topic;
    pin->next = o->pins;
    o->pins = pin;
    pin->request.values[0] = value_text(names_name(o->names, topic));
    if (actual_n > 0)
        pin->request.values[1] = value_int4(pin->actual_n, actual_n);
    pin->request.values_n = 1;
    pin->request.done = on_pin;
    pin->request.data = pin;
    operation_send(o, LINK_MARK, &pin->request, SQL_PINNED);
}
