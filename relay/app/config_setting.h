/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of settings and the words of the command line: what there is, what it means, what a text for it must look like. Private to
 * the config module. */
#ifndef RELAY_APP_CONFIG_SETTING_H
#define RELAY_APP_CONFIG_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "relay/app/config.h"

/* Where a sentence about an error goes. */
struct config_error {
    char *text;
    size_t size;
};

/* Write the sentence; control characters, which may come from an argument, become '?'. Always returns false. */
bool config_fail(const struct config_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum config_setting_kind {
    CONFIG_SETTING_TEXT,     /* char *, any */
    CONFIG_SETTING_LABEL,    /* char *, 1 to 200 printable characters */
    CONFIG_SETTING_TABLE,    /* char *, schema.name */
    CONFIG_SETTING_ADDRESS,  /* char *, host:port */
    CONFIG_SETTING_NUMBER,   /* uint32_t */
    CONFIG_SETTING_BYTES,    /* uint64_t, with a unit */
    CONFIG_SETTING_CHOICE,   /* an enum, in the order of `choices` */
    CONFIG_SETTING_PROPERTY, /* every kafka.* */
    CONFIG_SETTING_LATER     /* of a later version: `initial` says how this one behaves, and only that is accepted */
};

struct config_setting {
    const char *name; /* as in the file */
    enum config_setting_kind kind;
    size_t offset;       /* in struct config */
    const char *initial; /* the default, as text; NULL: none */
    const char *meaning; /* at most 66 characters, so that a line of --help has at most 100 */
    uint64_t min, max;   /* of NUMBER and BYTES */
    const char *unit;    /* of NUMBER */
    const char *choices; /* of CHOICE, separated by spaces */
    const char *later;   /* choices of later versions, likewise; or NULL */
    bool secret;         /* has a _file form; its text is never shown (kafka.* is treated alike) */
};

const struct config_setting *config_settings(size_t *ret_n);
/* The setting called `name`, for kafka.* too; NULL: there is none. */
const struct config_setting *config_setting_find(const char *name);

/* Check `text` and store it in `c`, where an older text is freed. `origin` begins the sentence about an error. */
bool config_setting_store(const struct config_setting *s, const char *text, const char *origin, struct config *c,
                          const struct config_error *e);

/* Is `word` one of `words`, which are separated by spaces? Returns its place, or -1. */
int config_word_find(const char *words, const char *word);

/* --- words of the command line ------------------------------------------------------------------------------------ */

struct config_verb_name {
    const char *name;
    enum config_verb verb;
    const char *meaning; /* NULL: of a later version */
};

const struct config_verb_name *config_verbs(size_t *ret_n);

/* --- names -------------------------------------------------------------------------------------------------------- */

enum config_source {
    CONFIG_SOURCE_FILE,
    CONFIG_SOURCE_ENVIRONMENT,
    CONFIG_SOURCE_FLAG
};
#define CONFIG_ENVIRONMENT_PREFIX "OUTBOX_RELAY_"

#define CONFIG_NAME_MAX 128

/* Could `name` be the name of anything here: short, and of letters, digits, '.', '_' and '-'? Only such a name may be shown: in a line
 * with a mistake in it a "name" may hold part of a password. */
bool config_name_is_plain(const char *name, size_t name_n);

/* Write into `ret_hint` "; did you mean NAME?", with the nearest name as `source` spells it, or "" if none is near. */
void config_name_hint(const char *name, enum config_source source, char ret_hint[CONFIG_NAME_MAX * 2]);
/* How many letters have to be put in, left out, replaced or swapped with their neighbour to make `b` of `a`; at most `limit` + 1. */
unsigned config_name_distance(const char *a, const char *b, unsigned limit);

#endif
