/* SPDX-License-Identifier: BSD-2-Clause */
/* Performs what the relay decides; decides nothing. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "relay/app/daemon_faults.h"
#include "relay/app/daemon_state.h"

/* Rows that one turn of the loop hands over: some milliseconds, then reports, answers and pages have their turn. */
enum {
    ACTIONS_A_TURN = 4096
};

/* --- publish ------------------------------------------------------------------------------------------------------ */

/* Every row has one, so it is printed a byte at a time from a table. */
void daemon_event_id_print(const struct row_event_id *id, char text[37])
{
    static const unsigned char places[16] = {0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34};
#define ROW(h) h "0" h "1" h "2" h "3" h "4" h "5" h "6" h "7" h "8" h "9" h "a" h "b" h "c" h "d" h "e" h "f"
    static const char bytes[] = ROW("0") ROW("1") ROW("2") ROW("3") ROW("4") ROW("5") ROW("6") ROW("7") ROW("8") ROW("9") ROW("a") ROW("b")
        ROW("c") ROW("d") ROW("e") ROW("f");
#undef ROW

    text[8] = text[13] = text[18] = text[23] = '-';
    text[36] = '\0';
    for (unsigned i = 0; i < sizeof id->bytes; i++)
        memcpy(text + places[i], bytes + (size_t)id->bytes[i] * 2, 2);
}

/* Header `id` first, then the row's own, in the room of d->headers. Returns false with a sentence if these cannot be. */
static bool record_headers(struct daemon *d, const struct outbox_row *row, const struct producer_header *id, struct producer_record *record,
                           struct producer_header *list, size_t list_max, char *error, size_t error_size)
{
    record->headers = id;
    record->headers_n = 1;
    if (row->headers == NULL)
        return true;
    if (!headers_decode(&d->headers, row->headers, row->headers_n, error, error_size))
        return false;
    if (d->headers.list_n + 1 > list_max) {
        snprintf(error, error_size, "it has %zu headers, more than %zu", d->headers.list_n, list_max - 1);
        return false;
    }
    list[0] = *id;
    if (d->headers.list_n > 0)
        memcpy(list + 1, d->headers.list, d->headers.list_n * sizeof *list);
    record->headers = list;
    record->headers_n = d->headers.list_n + 1;
    return true;
}

/* A session or topic that is at fault is told by its own line. */
static void unpublished(struct daemon *d, const struct relay_action *action, enum relay_fault fault, const char *reason)
{
    if (fault == RELAY_FAULT_ROW || fault == RELAY_FAULT_SIZE)
        daemon_tell_unpublished(d, action, reason);
    relay_on_unpublished(d->relay, daemon_now(d), action->slot, fault);
}

static void publish(struct daemon *d, const struct relay_action *action)
{
    struct outbox_row row;
    struct producer_header list[256], id = {.name = "id", .name_n = 2, .value_n = 36};
    struct producer_record record = {.slot = action->slot, .topic = action->topic, .partition = action->partition};
    char id_text[37], error[256];
    const char *code = "";
    enum relay_fault fault;

    if (action->later_slot != ROW_NO_SLOT)
        outbox_expect(d->outbox, action->later_slot);
    if (action->next_slot != ROW_NO_SLOT)
        outbox_expect_key(d->outbox, action->next_slot);
    outbox_row(d->outbox, action->slot, &row);
    daemon_event_id_print(&action->event_id, id_text);
    id.value = id_text;
    if (row.too_large) {
        snprintf(error, sizeof error, "it is larger than kafka.message.max.bytes (%u): raise that, or delete the row",
                 producer_message_bytes_max(d->producer));
        unpublished(d, action, RELAY_FAULT_SIZE, error);
        return;
    }
    if (!record_headers(d, &row, &id, &record, list, sizeof list / sizeof *list, error, sizeof error)) {
        unpublished(d, action, RELAY_FAULT_ROW, error);
        return;
    }
    record.topic_name = outbox_topic(d->outbox, action->topic);
    record.key = row.key;
    record.key_n = row.key_n;
    record.payload = row.payload;
    record.payload_n = row.payload_n;
    record.timestamp_ms = row.created_ms;
    fault = producer_publish(d->producer, action->session, &record, &code);
#ifdef MUTANT_MARK_BEFORE_REPORT
    outbox_drop(d->outbox, action->slot);
#endif
    if (fault == RELAY_FAULT_NONE)
        return;
    daemon_tell_code(d, action->session, code);
    if (fault == RELAY_FAULT_SIZE)
        snprintf(error, sizeof error,
                 "with its headers it is larger than kafka.message.max.bytes (%u) or the topic's max.message.bytes: raise "
                 "that, or delete the row",
                 producer_message_bytes_max(d->producer));
    else
        snprintf(error, sizeof error, "Kafka's client does not take it (%s): correct or delete the row", code);
    unpublished(d, action, fault, error);
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static void connect_outbox(struct daemon *d)
{
    d->connect_attempts++;
    outbox_connect(d->outbox);
}

static void lease(struct daemon *d, const struct relay_action *action)
{
    d->lease_asked_ms = daemon_now(d);
    if (action->type == RELAY_LEASE_TAKE)
        outbox_take(d->outbox, action->from);
    else if (action->type == RELAY_LEASE_BEAT)
        outbox_beat(d->outbox);
    else
        outbox_release(d->outbox);
}

static void fetch(struct daemon *d, const struct relay_action *action)
{
    struct outbox_fetch fetch = {.from = action->from, .settled_upto = action->settled_upto, .rows = action->rows, .bytes = action->bytes};

    fetch.gaps_n = relay_gaps(d->relay, &fetch.firsts, &fetch.lasts);
    outbox_fetch(d->outbox, &fetch);
}

static void mark(struct daemon *d, bool repeated)
{
    const int64_t *ids;
    const struct row_event_id *event_ids;
    uint32_t n = relay_marks(d->relay, &ids, &event_ids);

    outbox_mark(d->outbox, ids, event_ids, n, repeated);
}

static void save(struct daemon *d, const struct relay_action *action)
{
    const struct relay_behind *changes;
    uint32_t n = relay_saving(d->relay, &changes);

    outbox_save(d->outbox, action->from, changes, n);
}

static void session_open(struct daemon *d, const struct relay_action *action)
{
    char error[512];

    if (producer_open(d->producer, action->session, action->bytes, error, sizeof error)) {
        relay_on_session_open(d->relay, daemon_now(d), action->session);
        return;
    }
    LOG(d->log, LOG_LEVEL_ERROR, "session failed", LOG_TEXT("session", daemon_session_word(action->session)), LOG_TEXT("reason", error));
    relay_on_session_failed(d->relay, daemon_now(d), action->session);
}

static void ask_topic(struct daemon *d, const struct relay_action *action)
{
    d->topic.asked = true;
    d->topic.number = action->topic;
    stats_name_topic(d->stats, action->topic, outbox_topic(d->outbox, action->topic));
    producer_learn(d->producer, action->topic, outbox_topic(d->outbox, action->topic));
}

static void forget_topic(struct daemon *d, uint32_t topic)
{
    producer_forget(d->producer, topic);
    outbox_forget(d->outbox, topic);
}

static void leave(struct daemon *d, const struct relay_action *action)
{
    if (action->rows > 0) {
        LOG(d->log, LOG_LEVEL_WARNING, "stop overran shutdown_ms", LOG_NUMBER("rows_unmarked", action->rows));
        d->status = 1;
    }
    d->exited = true;
}

static void perform(struct daemon *d, const struct relay_action *action)
{
    switch (action->type) {
    case RELAY_CONNECT:
        connect_outbox(d);
        break;
    case RELAY_LEASE_TAKE:
    case RELAY_LEASE_BEAT:
    case RELAY_LEASE_RELEASE:
        lease(d, action);
        break;
    case RELAY_FETCH:
        fetch(d, action);
        break;
    case RELAY_CATCH_UP:
        outbox_catch_up(d->outbox, action->topic, action->from, action->upto, action->rows, action->bytes);
        break;
    case RELAY_PATROL:
        outbox_patrol(d->outbox, action->from, action->upto, action->rows);
        break;
    case RELAY_WRITERS:
        outbox_writers(d->outbox);
        break;
    case RELAY_FLUSH:
        outbox_flush(d->outbox, action->force);
        break;
    case RELAY_PUBLISH:
        publish(d, action);
        break;
    case RELAY_DROP:
        outbox_drop(d->outbox, action->slot);
        break;
    case RELAY_MARK:
        mark(d, action->force);
        break;
    case RELAY_SAVE:
        save(d, action);
        break;
    case RELAY_TOPIC:
        ask_topic(d, action);
        break;
    case RELAY_FORGET:
        forget_topic(d, action->topic);
        break;
    case RELAY_SESSION_OPEN:
        session_open(d, action);
        break;
    case RELAY_SESSION_CLOSE:
        producer_close(d->producer, action->session);
        break;
    case RELAY_NOTE:
        daemon_tell_note(d, action);
        break;
    case RELAY_EXIT:
        leave(d, action);
        break;
    case RELAY_WAIT:
        assert(false && "waiting is not performed");
    }
}

uint64_t daemon_act(struct daemon *d)
{
    daemon_fault_turn(d);
    for (unsigned n = 0; n < ACTIONS_A_TURN; n++) {
        struct relay_action action = relay_next(d->relay, daemon_now(d));

        if (action.type == RELAY_WAIT)
            return action.until_ms;
        if (!daemon_fault_before(d, &action)) {
            perform(d, &action);
            daemon_fault_after(d, &action);
        }
        /* A row is handed within the lease by a clock that is at most so many actions old. */
        d->clock_stale |= n % 64 == 63 || action.type == RELAY_SESSION_OPEN;
    }
    return 0;
}
