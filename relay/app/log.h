/* SPDX-License-Identifier: BSD-2-Clause */
/* One logfmt line an event, to a descriptor that never blocks the loop: lines that do not fit are counted, and told when there is room.
 *
 *     ts=2026-11-29T17:50:08.123Z level=info event="database back" name=default outage_ms=12031 attempts=34
 */
#ifndef RELAY_APP_LOG_H
#define RELAY_APP_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log;

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

struct log_field {
    const char *name; /* NULL ends a list */
    const char *text; /* NULL: `number` counts */
    int64_t number;
};
/* For the lists of LOG(). Borrows both; a text that is NULL is written as an empty one. */
static inline struct log_field log_text(const char *name, const char *text)
{
    return (struct log_field){.name = name, .text = text != NULL ? text : ""};
}

static inline struct log_field log_number(const char *name, int64_t number)
{
    return (struct log_field){.name = name, .number = number};
}
#define LOG_TEXT(field_name, value)   log_text((field_name), (value))
#define LOG_NUMBER(field_name, value) log_number((field_name), (int64_t)(value))

/* `fd` is kept, not closed; its writes are made non-blocking without changing the open file that other processes share. Copies `name`.
 * A line is at most 4096 bytes. The process ignores SIGPIPE from now on: a reader that went away costs lines, not the relay. NULL: out of
 * memory. */
struct log *log_new(int fd, enum log_level level, const char *name);
void log_free(struct log *l); /* NULL is allowed. */

/* Write a line; `fields` end with a field without a name. Borrows everything. Control characters are escaped. */
void log_write(struct log *l, enum log_level level, const char *event, const struct log_field *fields);
#define LOG(l, level, event, ...) log_write((l), (level), (event), (const struct log_field[]){__VA_ARGS__, {.name = NULL}})

#define LOG_EVENT(l, level, event) log_write((l), (level), (event), &(const struct log_field){.name = NULL})

uint64_t log_lines_dropped(const struct log *l);

#endif
