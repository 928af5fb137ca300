/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/config_setting.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define AT(member)       offsetof(struct config, member)
#define KIB              1024ULL
#define GIB              (KIB * KIB * KIB)
#define HOUR_MS          3600000
#define MILLISECONDS(m)  .kind = CONFIG_SETTING_NUMBER, .offset = AT(m), .unit = "milliseconds"
#define ROWS(m)          .kind = CONFIG_SETTING_NUMBER, .offset = AT(m), .unit = "rows"
#define LATER(behaviour) .kind = CONFIG_SETTING_LATER, .initial = (behaviour)

/* The bounds keep numbers where the core's arithmetic and the server's memory are at ease; nobody has a reason to go beyond them. */
static const struct config_setting settings[] = {
    {.name = "database",
     .kind = CONFIG_SETTING_TEXT,
     .offset = AT(database),
     .initial = "",
     .secret = true,
     .meaning = "conninfo or URI; empty: libpq's own defaults; PG* variables work"},
    {.name = "pooled",
     .kind = CONFIG_SETTING_CHOICE,
     .offset = AT(pooled),
     .initial = "off",
     .choices = "off on",
     .meaning = "on: behind a transaction-mode pooler"},
    {.name = "kafka.*", .kind = CONFIG_SETTING_PROPERTY, .meaning = "any librdkafka property; kafka.bootstrap.servers is required"},
    {.name = "name",
     .kind = CONFIG_SETTING_LABEL,
     .offset = AT(name),
     .initial = "default",
     .meaning = "of this relay, in logs, metrics and the lease"},
    {.name = "instance", .kind = CONFIG_SETTING_LABEL, .offset = AT(instance), .meaning = "of this process, likewise; default: host:pid"},
    {.name = "table",
     .kind = CONFIG_SETTING_TABLE,
     .offset = AT(table),
     .initial = "outbox.event",
     .meaning = "where the rows are, as schema.name"},
    {.name = "mark",
     .kind = CONFIG_SETTING_CHOICE,
     .offset = AT(mark),
     .initial = "sent_at",
     .choices = "sent_at delete",
     .later = "progress",
     .meaning = "what happens to a published row: sent_at is set, or delete it"},
    {.name = "durability",
     .kind = CONFIG_SETTING_CHOICE,
     .offset = AT(durability),
     .initial = "local",
     .choices = "local off replicated",
     .meaning = "rows wait for the disk; replicated: for standbys, too; off: not"},
    {.name = "poll_min_ms",
     MILLISECONDS(poll_min_ms),
     .initial = "1",
     .min = 1,
     .max = 60000,
     .meaning = "between fetches while rows come"},
    {.name = "poll_max_ms",
     MILLISECONDS(poll_max_ms),
     .initial = "50",
     .min = 1,
     .max = 60000,
     .meaning = "between fetches while none come"},
    {.name = "fetch_rows", ROWS(fetch_rows), .initial = "2000", .min = 1, .max = 100000, .meaning = "rows in one fetch"},
    {.name = "window_rows", ROWS(window_rows), .initial = "50000", .min = 1, .max = 10000000, .meaning = "rows between fetch and mark"},
    {.name = "window_bytes",
     .kind = CONFIG_SETTING_BYTES,
     .offset = AT(window_bytes),
     .initial = "64MiB",
     .min = 64 * KIB,
     .max = 64 * GIB,
     .meaning = "their bytes, until they are published: 64MiB, 8MB, 1000000"},
    {.name = "lease_ttl_ms",
     MILLISECONDS(lease_ttl_ms),
     .initial = "10000",
     .min = 1000,
     .max = HOUR_MS,
     .meaning = "after this a relay that went silent is replaced"},
    {.name = "backoff_min_ms",
     MILLISECONDS(backoff_min_ms),
     .initial = "100",
     .min = 1,
     .max = HOUR_MS,
     .meaning = "wait after a first failure; it doubles..."},
    {.name = "backoff_max_ms", MILLISECONDS(backoff_max_ms), .initial = "30000", .min = 1, .max = HOUR_MS, .meaning = "...up to this"},
    {.name = "shutdown_ms",
     MILLISECONDS(shutdown_ms),
     .initial = "10000",
     .min = 1,
     .max = HOUR_MS,
     .meaning = "time for an orderly stop; after it rows stay for the next start"},
    {.name = "listen",
     .kind = CONFIG_SETTING_ADDRESS,
     .offset = AT(listen),
     .initial = "127.0.0.1:9464",
     .meaning = "/metrics, /healthz, /readyz; :9464 is every address"},
    {.name = "log_level",
     .kind = CONFIG_SETTING_CHOICE,
     .offset = AT(log_level),
     .initial = "info",
     .choices = "error warning info debug",
     .meaning = "error, warning, info or debug"},
    {.name = "layout", LATER("native"), .meaning = "of the table: native, debezium or a column map"},
    {.name = "topic", LATER("${topic}"), .meaning = "template over the row's columns"},
    {.name = "format", LATER("plain"), .meaning = "plain or cloudevents"},
    {.name = "notify", LATER("off"), .meaning = "wake up by LISTEN as well"},
    {.name = "on_reject", LATER("hold"), .meaning = "hold the key of a refused row, or dead-letter the row"},
    {.name = "dead_letter_topic", LATER("${topic}.dead"), .meaning = "where on_reject = dead-letter publishes"},
    {.name = "attempts_max", LATER(NULL), .meaning = "tries of a row that fails alone"},
    {.name = "retention_sent", LATER("off"), .meaning = "after this marked rows are deleted"},
    {.name = "retention_dead", LATER("off"), .meaning = "after this dead rows are deleted"},
    {.name = "rate_max", LATER("off"), .meaning = "most rows per second"},
    {.name = "log_keys", LATER("off"), .meaning = "show keys in the log"},
};

static const struct config_verb_name verbs[] = {
    {"run", CONFIG_RUN, "publish rows until stopped (default); --drain: until none is left"},
    {"migrate", CONFIG_MIGRATE, "create or upgrade the schema; --dry-run: print the SQL"},
    {"check", CONFIG_CHECK, "settings, database, schema, Kafka: what is wrong, what to do"},
    {"help", CONFIG_HELP, "this text"},
    {"version", CONFIG_VERSION, "the version"},
    {"status", CONFIG_HELP, NULL},
    {"list", CONFIG_HELP, NULL},
    {"show", CONFIG_HELP, NULL},
    {"retry", CONFIG_HELP, NULL},
    {"skip", CONFIG_HELP, NULL},
    {"prune", CONFIG_HELP, NULL},
    {"replay", CONFIG_HELP, NULL},
    {"pause", CONFIG_HELP, NULL},
    {"resume", CONFIG_HELP, NULL},
    {"repin", CONFIG_HELP, NULL},
    {"accept-move", CONFIG_HELP, NULL},
};

const struct config_setting *config_settings(size_t *ret_n)
{
    *ret_n = sizeof settings / sizeof settings[0];
    return settings;
}

const struct config_verb_name *config_verbs(size_t *ret_n)
{
    *ret_n = sizeof verbs / sizeof verbs[0];
    return verbs;
}

const struct config_setting *config_setting_find(const char *name)
{
    bool is_property = strncmp(name, "kafka.", 6) == 0 && name[6] != '\0' && name[6] != '*';

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const struct config_setting *s = &settings[i];
        if (s->kind == CONFIG_SETTING_PROPERTY ? is_property : strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

bool config_fail(const struct config_error *e, const char *format, ...)
{
    va_list arguments;

    assert(e->size > 0);
    va_start(arguments, format);
    (void)vsnprintf(e->text, e->size, format, arguments);
    va_end(arguments);
    for (char *c = e->text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    return false;
}
