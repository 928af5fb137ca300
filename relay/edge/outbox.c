/* SPDX-License-Identifier: BSD-2-Clause */
/* Life of the outbox, and the lease. See outbox_connect.c, outbox_read.c and outbox_mark.c for the rest, outbox_sql.c for the SQL. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "relay/edge/outbox_state.h"

/* --- life --------------------------------------------------------------------------------------------------------- */

static void draw(struct relay_token *token)
{
    /* 16 bytes never come short; without randomness two relays could hold one token. */
    if (getrandom(token->bytes, sizeof(token->bytes), 0) != (ssize_t)sizeof(token->bytes))
        abort();
}

static void settings_free(struct outbox_settings *s)
{
    const char *const strings[] = {s->database, s->table, s->name, s->instance};

    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        union {
            const char *in;
            void *out;
        } string = {strings[i]};
        free(string.out);
    }
}

static bool settings_copy(struct outbox_settings *to, const struct outbox_settings *from)
{
    *to = *from;
    to->database = strdup(from->database);
    to->table = strdup(from->table);
    to->name = strdup(from->name);
    to->instance = strdup(from->instance);
    return to->database && to->table && to->name && to->instance;
}

static void outbox_end(struct outbox *o)
{
    struct array *const arrays[] = {&o->firsts,         &o->lasts,         &o->backends,        &o->mark_ids,
                                    &o->mark_event_ids, &o->save_topics,   &o->save_partitions, &o->save_keys,
                                    &o->save_ids,       &o->save_attempts, &o->save_helds};

    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        array_reset(arrays[i]);
    while (o->pins) {
        struct outbox_pin *pin = o->pins;
        o->pins = pin->next;
        free(pin);
    }
    settings_free(&o->settings);
    sql_reset(&o->sql);
    bytes_free(o->bytes);
    names_free(o->names);
    free(o->rows);
    free(o->slots);
    free(o->found);
    free(o->marking);
    free(o->missed);
    free(o->table);
    free(o->holder);
    free(o->sequence);
    free(o);
}

static void on_link_freed(void *data)
{
    struct outbox *o = data;
    void (*on_freed)(void *) = o->on_freed;
    void *on_freed_data = o->on_freed_data;

    if (--o->freeing > 0)
        return;
    outbox_end(o);
    if (on_freed)
        on_freed(on_freed_data);
}

void outbox_free(struct outbox *o, void (*on_freed)(void *data), void *data)
{
    o->on_freed = on_freed;
    o->on_freed_data = data;
    links_free(o, on_link_freed);
}

static bool parts_new(struct outbox *o, const struct outbox_settings *settings)
{
    if (!settings_copy(&o->settings, settings))
        return false;
    o->table = sql_table(settings->table);
    if (asprintf(&o->holder, "%s (%s)", settings->name, settings->instance) < 0)
        o->holder = NULL;
    o->bytes = bytes_new(settings->window_rows);
    o->names = names_new(settings->topics_max);
    return o->table && o->holder && o->bytes && o->names &&
           sql_build(&o->sql, &(struct sql_settings){.columns = &outbox_columns_native,
                                                     .table = o->table,
                                                     .mark = settings->mark,
                                                     .pooled = settings->pooled,
                                                     .replicated = settings->replicated,
                                                     .process_key = process_key(o),
                                                     .statement_ms = settings->statement_ms,
                                                     .lease_statement_ms = lease_statement_ms(settings)});
}

struct outbox *outbox_new(struct uv_loop_s *loop, const struct outbox_settings *settings, const struct outbox_callbacks *callbacks,
                          void *data)
{
    struct outbox *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    o->loop = loop;
    o->callbacks = *callbacks;
    o->data = data;
    o->links_n = settings->replicated ? LINKS : LINK_BARRIER;
    draw(&o->process);
    if (parts_new(o, settings) && links_new(o))
        return o;
    if (o->links[0].database)
        outbox_free(o, NULL, NULL);
    else
        outbox_end(o);
    return NULL;
}

/* --- lease -------------------------------------------------------------------------------------------------------- */

enum taken { /* columns of SQL_TAKE; those of the records are in outbox_decode.c */
    TAKEN_GRANTED,
    TAKEN_HOLDER,
    TAKEN_FLOOR,
    TAKEN_LAST_ID,
    TAKEN_FLOOR_RESET,
    TAKEN_INCARNATION_LOST = 11, /* behind those */
    TAKEN_BEAT,
    TAKEN_BEAT_TTL_MS
};

static void tell_refused(struct outbox *o, const struct database_result *result)
{
    char holder[200];
    uint32_t n;
    const char *name = database_result_value(result, 0, TAKEN_HOLDER, &n);

    (void)snprintf(holder, sizeof(holder), "%.*s", (int)n, name ? name : "");
    if (o->callbacks.on_holder)
        o->callbacks.on_holder(o->data, database_result_integer(result, 0, TAKEN_BEAT),
                               (uint64_t)database_result_integer(result, 0, TAKEN_BEAT_TTL_MS));
    o->callbacks.on_lease(o->data, NULL, holder);
}

static void tell_granted(struct outbox *o, const struct database_result *result, const struct relay_behind *behind)
{
    struct relay_saved saved = {
        .token = o->asked,
        .floor = database_result_integer(result, 0, TAKEN_FLOOR),
        .last_id = database_result_integer(result, 0, TAKEN_LAST_ID),
        .behind = behind,
        .behind_n = database_result_rows(result) - 1,
        .floor_reset = database_result_integer(result, 0, TAKEN_FLOOR_RESET) != 0,
        .incarnation_lost = database_result_integer(result, 0, TAKEN_INCARNATION_LOST) != 0,
    };

    o->token = o->asked;
    o->callbacks.on_lease(o->data, &saved, o->holder);
}

static void on_take(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    struct relay_behind *behind = NULL;

    if (error) {
        operation_failed(o, RELAY_LEASE_TAKE, error);
        return;
    }
    if (database_result_integer(result, 0, TAKEN_GRANTED) == 0) {
        tell_refused(o, result);
        goto out;
    }
    behind = calloc(database_result_rows(result), sizeof(*behind));
    if (!behind)
        abort();
    if (decode_behind(result, o->names, behind))
        tell_granted(o, result, behind);
    else
        o->callbacks.on_failed(o->data, RELAY_LEASE_TAKE, "outbox.behind names more topics than this relay may know at once");
out:
    free(behind);
    database_result_free(result);
}

void outbox_take(struct outbox *o, int64_t silent_beat)
{
    struct database_request *r = &o->take.request;

    assert(o->connected && !r->busy);
    draw(&o->asked);
    r->values[0] = value_token(&o->asked);
    r->values[1] = value_token(&o->process);
    r->values[2] = value_text(o->holder);
    r->values[3] = value_int4(o->take.numbers[0], (int32_t)o->settings.lease_ttl_ms);
    r->values[4] = value_text(o->sequence);
    r->values[5] = value_int8(o->take.numbers[1], silent_beat);
    r->values_n = 6;
#ifdef MUTANT_LEASE_LOCAL_CLOCK
    const char *ahead_s = getenv("CLOCK_AHEAD_S"); /* of this process, in the place of a clock that was set wrong */
    r->values[r->values_n++] = value_int8(o->take.numbers[2], (int64_t)time(NULL) + (ahead_s ? strtoll(ahead_s, NULL, 10) : 0));
#endif
    r->done = on_take;
    r->data = o;
    operation_send(o, LINK_LEASE, r, SQL_TAKE);
}

static void on_beat(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;
    struct relay_token token;
    bool held;
    int64_t last_id;

    if (error) {
        operation_failed(o, RELAY_LEASE_BEAT, error);
        return;
    }
    held = database_result_integer(result, 0, 0) != 0;
    token = decode_token(result, 0, 1);
    last_id = database_result_integer(result, 0, 2);
    database_result_free(result);
    o->callbacks.on_beaten(o->data, held, token, last_id);
}

void outbox_beat(struct outbox *o)
{
    struct database_request *r = &o->beat.request;

    assert(o->connected && !r->busy);
    r->values[0] = value_token(&o->token);
    r->values[1] = value_int4(o->beat.numbers[0], (int32_t)o->settings.lease_ttl_ms);
    r->values[2] = value_text(o->sequence);
    r->values_n = 3;
    r->done = on_beat;
    r->data = o;
    operation_send(o, LINK_LEASE, r, SQL_BEAT);
}

static void on_release(void *data, struct database_result *result, const struct database_error *error)
{
    struct outbox *o = data;

    database_result_free(result);
    if (error)
        operation_failed(o, RELAY_LEASE_RELEASE, error);
    else
        o->callbacks.on_released(o->data);
}

void outbox_release(struct outbox *o)
{
    struct database_request *r = &o->release.request;

    assert(o->connected && !r->busy);
    r->values[0] = value_token(&o->token);
    r->values_n = 1;
    r->done = on_release;
    r->data = o;
    operation_send(o, LINK_LEASE, r, SQL_RELEASE);
}
