/* SPDX-License-Identifier: BSD-2-Clause */
/* What the file, the environment and the flags said, one text for each name with the place it came from, before anything is made of
 * it. Private to the config module. */
#ifndef RELAY_APP_CONFIG_DRAFT_H
#define RELAY_APP_CONFIG_DRAFT_H

#include "relay/app/config_setting.h"

struct config_value {
    char *name; /* without _file */
    char *text; /* or the path of a file that holds it */
    char *origin;
    const struct config_setting *setting;
    enum config_source source;
    bool is_path;
};

/* Zeroed before the first use. */
struct config_draft {
    enum config_verb verb;
    bool drain, dry_run;
    char *path; /* of the file; NULL: none */
    char *path_origin;
    struct config_value *values;
    size_t values_n, values_max;
};

void config_draft_reset(struct config_draft *d);

/* Where a text was found: what a sentence about it begins with, and how names are spelled there. */
struct config_place {
    enum config_source source;
    const char *origin;
};

/* Note `text` for `name` (spelled as in the file, perhaps with _file at its end). A later source wins over an earlier one; within a file
 * nothing may be said twice. Copies everything. */
bool config_draft_put(struct config_draft *d, const struct config_place *place, const char *name, const char *text,
                      const struct config_error *e);
/* Is there a setting called `name`, perhaps in its _file form? */
bool config_draft_knows(const char *name);
/* Take what `later`, which wins, has; its values move to `d`. */
bool config_draft_merge(struct config_draft *d, struct config_draft *later, const struct config_error *e);
/* NULL: nobody said anything. */
const struct config_value *config_draft_find(const struct config_draft *d, const char *name);

/* --- sources ------------------------------------------------------------------------------------------------------ */

/* The flags, the verb, and the path of the file. */
bool config_read_flags(struct config_draft *d, int argc, char *const *argv, const struct config_error *e);
/* OUTBOX_RELAY_*; OUTBOX_RELAY_CONFIG is the path of the file unless a flag said it. */
bool config_read_environment(struct config_draft *d, char *const *environment, const struct config_error *e);
/* The text of an ini file called `path`, `text_n` bytes, followed by a zero; it is written to. */
bool config_read_ini(struct config_draft *d, const char *path, char *text, size_t text_n, const struct config_error *e);
bool config_read_ini_file(struct config_draft *d, const char *path, const char *origin, const struct config_error *e);

/* All of a file, at most `max` bytes and a zero after them, malloc'ed and taken. NULL with a sentence that begins with `origin`. */
char *config_slurp(const char *path, size_t max, size_t *ret_n, const char *origin, const struct config_error *e);

/* --- kafka.* ------------------------------------------------------------------------------------------------------ */

/* Ask the producer whether it takes what c->kafka holds; the sentence names the origin of the property that is wrong. */
bool config_check_kafka(const struct config *c, const struct config_draft *d, const struct config_error *e);

#endif
