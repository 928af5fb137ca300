/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings: one table makes the flags, the environment, the ini file, --help, `check` and the README's table. A flag wins over
 * OUTBOX_RELAY_*, which wins over the file. What a later version will have is refused, never accepted without effect. */
#ifndef RELAY_APP_CONFIG_H
#define RELAY_APP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum config_verb {
    CONFIG_RUN,
    CONFIG_MIGRATE,
    CONFIG_CHECK,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_PRINT_TABLE, /* --print-settings-table, for tests/settings.sh */
    CONFIG_PRINT_INI    /* --print-settings-ini, makes packaging/outbox-relay.ini */
};
enum config_pooled {
    CONFIG_POOLED_OFF,
    CONFIG_POOLED_ON
};
enum config_mark {
    CONFIG_MARK_SENT_AT,
    CONFIG_MARK_DELETE
};
enum config_durability {
    CONFIG_DURABILITY_LOCAL,
    CONFIG_DURABILITY_OFF,
    CONFIG_DURABILITY_REPLICATED
};
enum config_log_level {
    CONFIG_LOG_ERROR,
    CONFIG_LOG_WARNING,
    CONFIG_LOG_INFO,
    CONFIG_LOG_DEBUG
};

struct config_property {
    char *name, *value; /* librdkafka's, without the prefix */
};

struct config {
    enum config_verb verb;
    bool drain;   /* run --drain */
    bool dry_run; /* migrate --dry-run */

    char *database;
    enum config_pooled pooled;
    struct config_property *kafka; /* each name once */
    size_t kafka_n;
    char *name, *instance, *table, *listen;
    enum config_mark mark;
    enum config_durability durability;
    enum config_log_level log_level;
    uint32_t poll_min_ms, poll_max_ms;
    uint32_t fetch_rows, window_rows;
    uint64_t window_bytes;
    uint32_t lease_ttl_ms;
    uint32_t backoff_min_ms, backoff_max_ms;
    uint32_t shutdown_ms;
};

/* Read everything; `environment` is like environ. Borrows both. Returns false with one sentence in `error`: what, where, what to do. */
bool config_read(struct config *ret_config, int argc, char *const *argv, char *const *environment, char *error, size_t error_size);
void config_reset(struct config *c);

void config_print_help(FILE *to);
void config_print_table(FILE *to); /* the README's table, in Markdown */
void config_print_ini(FILE *to);   /* the commented example */

#endif
