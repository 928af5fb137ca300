/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/outbox_state.h"

static enum probe_result say(enum probe_result result, char *sentence, size_t sentence_size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static enum probe_result say(enum probe_result result, char *sentence, size_t sentence_size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(sentence, sentence_size, format, args);
    va_end(args);
    return result;
}

static void text_copy(char *out, size_t out_size, const struct database_result *result, unsigned column)
{
    uint32_t n;
    const char *text = database_result_value(result, 0, column, &n);

    (void)snprintf(out, out_size, "%.*s", (int)n, text ? text : "");
}

static bool truth(const struct database_result *result, unsigned column)
{
    return database_result_integer(result, 0, column) != 0;
}

bool probe_sees_pooler(const struct database_result *result, int32_t backend)
{
    uint32_t n;
    const char *text = database_result_value(result, 0, 0, &n);

    return !text || atoi(text) != backend;
}

enum {
    SERVER_DATABASE,
    SERVER_USER,
    SERVER_IN_RECOVERY,
    SERVER_HAS_SCHEMA,
    SERVER_HAS_TABLE,
    SERVER_STANDBYS_NAMED
};

enum probe_result probe_not_replicated(char *sentence, size_t sentence_size)
{
    return say(PROBE_REFUSED, sentence, sentence_size,
               "durability is replicated, and the server names no synchronous standby: set its synchronous_standby_names, or durability = "
               "local");
}

enum probe_result probe_server(const struct database_result *result, const struct outbox_settings *settings, char *sentence,
                               size_t sentence_size)
{
    char database[100];

    text_copy(database, sizeof(database), result, SERVER_DATABASE);
    if (truth(result, SERVER_IN_RECOVERY))
        return say(PROBE_REFUSED, sentence, sentence_size,
                   "the server of database \"%s\" is a standby: point the setting `database` to the primary, or wait until it is promoted",
                   database);
    if (!truth(result, SERVER_HAS_SCHEMA))
        return say(PROBE_REFUSED, sentence, sentence_size, "database \"%s\" has no outbox schema: run `outbox-relay migrate`", database);
    if (!truth(result, SERVER_HAS_TABLE))
        return say(PROBE_REFUSED, sentence, sentence_size, "database \"%s\" has no table \"%s\": correct the setting `table`", database,
                   settings->table);
    if (settings->replicated && !truth(result, SERVER_STANDBYS_NAMED))
        return probe_not_replicated(sentence, sentence_size);
    return PROBE_FINE;
}

enum probe_result probe_version(const struct database_result *result, char *sentence, size_t sentence_size)
{
    int major, minor;

    if (database_result_rows(result) == 0)
        return say(PROBE_REFUSED, sentence, sentence_size, "outbox.meta is empty: the schema was not created by `outbox-relay migrate`");
    major = (int)database_result_integer(result, 0, 0);
    minor = (int)database_result_integer(result, 0, 1);
    if (major != OUTBOX_MAJOR)
        return say(PROBE_REFUSED, sentence, sentence_size,
                   "the outbox schema has version %d.%d, this program works with %d.x only: use a relay of version %d", major, minor,
                   OUTBOX_MAJOR, major);
    if (minor < OUTBOX_MINOR)
        return say(PROBE_REFUSED, sentence, sentence_size,
                   "the outbox schema has version %d.%d, this program needs %d.%d: run `outbox-relay migrate`", major, minor, OUTBOX_MAJOR,
                   OUTBOX_MINOR);
    return PROBE_FINE;
}

enum {
    TABLE_SEQUENCE,
    TABLE_INCREMENT,
    TABLE_CACHE,
    TABLE_CYCLE,
    TABLE_IDENTITY,
    TABLE_SUBSCRIPTIONS,
    TABLE_UNIQUE,
    TABLE_GRANTED,
    TABLE_PERMANENT
};

/* A sequence that gives ids out of order or twice. */
static enum probe_result judge_sequence(const struct database_result *result, const char *sequence, char *sentence, size_t sentence_size)
{
    if (database_result_integer(result, 0, TABLE_INCREMENT) != 1)
        return say(PROBE_REFUSED, sentence, sentence_size, "the sequence %s does not count by 1: ALTER SEQUENCE %s INCREMENT 1", sequence,
                   sequence);
    if (database_result_integer(result, 0, TABLE_CACHE) != 1)
        return say(PROBE_REFUSED, sentence, sentence_size,
                   "the sequence %s caches values, which breaks the order of keys: ALTER SEQUENCE %s CACHE 1", sequence, sequence);
    if (truth(result, TABLE_CYCLE))
        return say(PROBE_REFUSED, sentence, sentence_size, "the sequence %s starts again at its end: ALTER SEQUENCE %s NO CYCLE", sequence,
                   sequence);
    return PROBE_FINE;
}

static enum probe_result judge_table(const struct database_result *result, const char *table, char *sentence, size_t sentence_size)
{
    char identity[4], subscriptions[200];

    text_copy(identity, sizeof(identity), result, TABLE_IDENTITY);
    text_copy(subscriptions, sizeof(subscriptions), result, TABLE_SUBSCRIPTIONS);
    if (subscriptions[0])
        return say(PROBE_REFUSED, sentence, sentence_size,
                   "the subscription %s writes to \"%s\" past the lock that keeps rows in order: take the table out of it", subscriptions,
                   table);
    if (!truth(result, TABLE_UNIQUE))
        return say(PROBE_REFUSED, sentence, sentence_size, "the id of \"%s\" has no unique index of its own: make it the primary key",
                   table);
    if (!truth(result, TABLE_PERMANENT))
        return say(PROBE_REFUSED, sentence, sentence_size,
                   "\"%s\" is not a permanent table, a crash would empty it: ALTER TABLE ... SET LOGGED", table);
    if (strcmp(identity, "a") != 0)
        return say(PROBE_WARNING, sentence, sentence_size,
                   "the id of \"%s\" may be given by whoever inserts, which can break the order of keys or lose rows: ALTER COLUMN id SET "
                   "GENERATED ALWAYS",
                   table);
    return PROBE_FINE;
}

void probe_denied(const char *message, char *sentence, size_t sentence_size)
{
    (void)say(PROBE_REFUSED, sentence, sentence_size, "the relay's role lacks privileges (%s): GRANT outbox_relay to it", message);
}

enum probe_result probe_table(const struct database_result *result, const struct outbox_settings *settings, char **ret_sequence,
                              char *sentence, size_t sentence_size)
{
    char sequence[300];
    enum probe_result judged;

    if (database_result_rows(result) == 0)
        return say(PROBE_REFUSED, sentence, sentence_size, "\"%s\" has no column \"id\": correct the setting `table`", settings->table);
    text_copy(sequence, sizeof(sequence), result, TABLE_SEQUENCE);
    if (!truth(result, TABLE_GRANTED))
        return say(PROBE_REFUSED, sentence, sentence_size,
                   "the relay's role lacks privileges on \"%s\", its sequence or the outbox functions: GRANT outbox_relay to it",
                   settings->table);
    if (!sequence[0])
        return say(PROBE_REFUSED, sentence, sentence_size, "the id of \"%s\" has no sequence: make it an identity column", settings->table);
    judged = judge_sequence(result, sequence, sentence, sentence_size);
    if (judged == PROBE_FINE)
        judged = judge_table(result, settings->table, sentence, sentence_size);
    if (judged == PROBE_REFUSED)
        return judged;
    *ret_sequence = strdup(sequence);
    return *ret_sequence ? judged : say(PROBE_REFUSED, sentence, sentence_size, "out of memory");
}
