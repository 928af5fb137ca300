/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line: `outbox-relay [VERB] [--flag VALUE | --flag=VALUE]...`. getopt_long would need every kafka.* property in its table. */
#include "relay/app/config_draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct flags {
    struct config_draft *draft;
    int argc, at; /* argv[at] is looked at */
    char *const *argv;
    const char *verb; /* NULL: not said yet */
    bool done;        /* --help and the like: nothing else counts */
    const struct config_error *error;
};

/* --- the verb ----------------------------------------------------------------------------------------------------- */

static bool verb_unknown(const struct flags *f, const char *word)
{
    size_t verbs_n;
    const struct config_verb_name *verbs = config_verbs(&verbs_n);

    /* Only the first argument is shown. One further on may be the rest of a password that should have been quoted. */
    if (f->at != 1 || !config_name_is_plain(word, strlen(word)))
        return config_fail(f->error, "argument %d is not a verb (run, migrate, check, help, version) and belongs to no flag", f->at);
    for (size_t i = 0; i < verbs_n; i++)
        if (verbs[i].meaning != NULL && config_name_distance(word, verbs[i].name, 3) <= 2)
            return config_fail(f->error, "\"%s\" is not a verb; did you mean %s?", word, verbs[i].name);
    return config_fail(f->error, "\"%s\" is not a verb; the verbs are run, migrate, check, help and version", word);
}

static bool verb_read(struct flags *f, const char *word)
{
    size_t verbs_n;
    const struct config_verb_name *verbs = config_verbs(&verbs_n);

    if (f->verb != NULL)
        return config_fail(f->error, "argument %d is one too many after the verb %s; a flag begins with --", f->at, f->verb);
    for (size_t i = 0; i < verbs_n; i++) {
        if (strcmp(verbs[i].name, word) != 0)
            continue;
        if (verbs[i].meaning == NULL)
            return config_fail(f->error, "the verb %s is not in this version; the verbs are run, migrate, check, help and version", word);
        f->verb = verbs[i].name;
        f->draft->verb = verbs[i].verb;
        return true;
    }
    return verb_unknown(f, word);
}

/* --- flags -------------------------------------------------------------------------------------------------------- */

/* Flags that stand alone and say everything. */
static bool word_read(struct flags *f, const char *flag)
{
    static const struct {
        const char *flag;
        enum config_verb verb;
    } words[] = {
        {"--help", CONFIG_HELP},
        {"-h", CONFIG_HELP},
        {"--version", CONFIG_VERSION},
        {"-V", CONFIG_VERSION},
        {"--print-settings-table", CONFIG_PRINT_TABLE},
        {"--print-settings-ini", CONFIG_PRINT_INI},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(flag, words[i].flag) != 0)
            continue;
        f->draft->verb = words[i].verb;
        f->done = true;
        return true;
    }
    if (strcmp(flag, "--drain") == 0)
        return f->draft->drain = true;
    if (strcmp(flag, "--dry-run") == 0)
        return f->draft->dry_run = true;
    return false;
}

/* The value of `flag`: behind its '=', or the next argument. NULL with a sentence. */
static const char *value_take(struct flags *f, const char *flag, const char *equals)
{
    if (equals != NULL)
        return equals + 1;
    if (f->at + 1 < f->argc && strncmp(f->argv[f->at + 1], "--", 2) != 0)
        return f->argv[++f->at];
    (void)config_fail(f->error, "%s needs a value; write %s VALUE or %s=VALUE", flag, flag, flag);
    return NULL;
}

static bool path_put(const struct flags *f, const char *path)
{
    struct config_draft *d = f->draft;

    free(d->path);
    free(d->path_origin);
    d->path = strdup(path);
    d->path_origin = strdup("--config");
    return (d->path != NULL && d->path_origin != NULL) || config_fail(f->error, "out of memory while the settings were read");
}

/* --poll-min-ms is poll_min_ms; the names of kafka.* are librdkafka's and stay as they are. */
static bool name_translate(const char *flag, char ret_name[CONFIG_NAME_MAX], const struct config_error *e)
{
    bool is_property = strncmp(flag, "--kafka.", 8) == 0;
    char hint[CONFIG_NAME_MAX * 2];

    strcpy(ret_name, flag + 2);
    if (is_property)
        return true;
    if (strchr(ret_name, '_') != NULL) {
        config_name_hint(ret_name, CONFIG_SOURCE_FLAG, hint);
        return config_fail(e, "%s is not a flag%s", flag, hint[0] != '\0' ? hint : "; see outbox-relay --help");
    }
    for (char *c = ret_name; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
    return true;
}

static bool setting_read(struct flags *f, const char *argument)
{
    const char *equals = strchr(argument, '='), *value;
    size_t flag_n = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    char flag[CONFIG_NAME_MAX + 2], name[CONFIG_NAME_MAX];

    if (strncmp(argument, "--", 2) != 0 || !config_name_is_plain(argument + 2, flag_n - 2))
        return config_fail(f->error, "argument %d is not a flag; see outbox-relay --help", f->at);
    memcpy(flag, argument, flag_n);
    flag[flag_n] = '\0';
    if (strcmp(flag, "--json") == 0)
        return config_fail(f->error, "--json is not in this version; leave it out");
    if (strcmp(flag, "--drain") == 0 || strcmp(flag, "--dry-run") == 0)
        return config_fail(f->error, "%s takes no value; write it alone", flag);
    if (!name_translate(flag, name, f->error))
        return false;
    if (!config_draft_knows(name) && strcmp(name, "config") != 0)
        return config_draft_put(f->draft, &(struct config_place){CONFIG_SOURCE_FLAG, flag}, name, "", f->error);
    value = value_take(f, flag, equals);
    if (value == NULL)
        return false;
    if (strcmp(name, "config") == 0)
        return path_put(f, value);
    return config_draft_put(f->draft, &(struct config_place){CONFIG_SOURCE_FLAG, flag}, name, value, f->error);
}

static bool together_check(const struct flags *f)
{
    const struct config_draft *d = f->draft;

    if (d->drain && d->verb != CONFIG_RUN)
        return config_fail(f->error, "--drain goes with the verb run only; leave it out");
    if (d->dry_run && d->verb != CONFIG_MIGRATE)
        return config_fail(f->error, "--dry-run goes with the verb migrate only; leave it out");
    return true;
}

bool config_read_flags(struct config_draft *d, int argc, char *const *argv, const struct config_error *e)
{
    struct flags f = {.draft = d, .argc = argc, .argv = argv, .error = e};

    for (f.at = 1; f.at < argc; f.at++) {
        const char *argument = argv[f.at];
        if (word_read(&f, argument)) {
            if (f.done)
                return true;
        } else if (argument[0] == '-' ? !setting_read(&f, argument) : !verb_read(&f, argument)) {
            return false;
        }
    }
    return together_check(&f);
}
