/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "relay/app/config_draft.h"
#include "relay/edge/outbox.h"

#define SECRET_BYTES_MAX (1U << 20)

static bool out_of_memory(const struct config_error *e)
{
    return config_fail(e, "out of memory while the settings were read");
}

/* --- from the draft to the settings ------------------------------------------------------------------------------- */

/* Replace the path of a _file form by what the file holds, without the line ends after it. */
static bool path_follow(struct config_value *v, const struct config_error *e)
{
    size_t n;
    char *text;

    if (!v->is_path)
        return true;
    text = config_slurp(v->text, SECRET_BYTES_MAX, &n, v->origin, e);
    if (text == NULL)
        return false;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        text[--n] = '\0';
    if (n == 0 || memchr(text, '\0', n) != NULL) {
        (void)config_fail(e, "%s: the file \"%s\" %s; write the value into it, as text", v->origin, v->text,
                          n == 0 ? "is empty" : "contains a zero byte");
        free(text);
        return false;
    }
    free(v->text);
    v->text = text;
    v->is_path = false;
    return true;
}

static bool property_add(struct config *c, const struct config_value *v, const struct config_error *e)
{
    struct config_property *kafka = realloc(c->kafka, (c->kafka_n + 1) * sizeof *kafka);

    if (kafka == NULL)
        return out_of_memory(e);
    c->kafka = kafka;
    kafka[c->kafka_n] = (struct config_property){.name = strdup(v->name + strlen("kafka.")), .value = strdup(v->text)};
    c->kafka_n++;
    return (kafka[c->kafka_n - 1].name != NULL && kafka[c->kafka_n - 1].value != NULL) || out_of_memory(e);
}

static bool defaults_store(struct config *c, const struct config_error *e)
{
    size_t settings_n;
    const struct config_setting *settings = config_settings(&settings_n);
    char host[128] = "localhost", instance[160];
    const struct config_setting *s = config_setting_find("instance");

    for (size_t i = 0; i < settings_n; i++)
        if (settings[i].initial != NULL && !config_setting_store(&settings[i], settings[i].initial, settings[i].name, c, e))
            return false;
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(instance, sizeof instance, "%s:%ld", host, (long)getpid());
    return config_setting_store(s, instance, s->name, c, e);
}

static bool draft_store(struct config *c, struct config_draft *d, const struct config_error *e)
{
    for (size_t i = 0; i < d->values_n; i++) {
        struct config_value *v = &d->values[i];
        if (!path_follow(v, e))
            return false;
        if (v->setting->kind == CONFIG_SETTING_PROPERTY ? !property_add(c, v, e)
                                                        : !config_setting_store(v->setting, v->text, v->origin, c, e))
            return false;
    }
    return true;
}

/* --- settings that must fit together ------------------------------------------------------------------------------ */

static uint32_t number_of(const struct config *c, const char *name)
{
    const struct config_setting *s = config_setting_find(name);

    assert(s->kind == CONFIG_SETTING_NUMBER);
    return *(const uint32_t *)(const void *)((const char *)c + s->offset);
}

static bool order_check(const struct config *c, const struct config_draft *d, const char *low, const char *high,
                        const struct config_error *e)
{
    const struct config_value *low_value = config_draft_find(d, low), *high_value = config_draft_find(d, high);
    uint32_t low_number = number_of(c, low), high_number = number_of(c, high);

    if (low_number <= high_number)
        return true;
    if (low_value != NULL)
        return config_fail(e, "%s, %u, must not be above %s, %u; lower it or raise %s", low_value->origin, low_number,
                           high_value != NULL ? high_value->origin : high, high_number, high);
    return config_fail(e, "%s, %u, must not be below %s, %u; raise it or lower %s", high_value->origin, high_number, low, low_number, low);
}

/* libpq's own complaint may quote the password. */
static bool database_check(const struct config *c, const struct config_draft *d, const struct config_error *e)
{
    const struct config_value *v = config_draft_find(d, "database"), *pooled = config_draft_find(d, "pooled");

    if (!outbox_accepts(c->database))
        return config_fail(e, "%s is not a valid connection string; write name=value pairs or a postgresql:// URI",
                           v != NULL ? v->origin : "database");
    if (c->pooled == CONFIG_POOLED_ON && !outbox_pools(c->database))
        return config_fail(e,
                           "%s: a transaction pooler refuses the parameter options of database, of PGOPTIONS or of a service; leave it "
                           "out, and use ALTER ROLE ... SET instead",
                           pooled != NULL ? pooled->origin : "pooled");
    return true;
}

static bool together_check(const struct config *c, const struct config_draft *d, const struct config_error *e)
{
    const struct config_value *bootstrap = config_draft_find(d, "kafka.bootstrap.servers");
    bool needs_kafka = d->verb == CONFIG_RUN || d->verb == CONFIG_CHECK;

    /* Before the one that is missing: its name may be what was mistyped. */
    if (!database_check(c, d, e) || !config_check_kafka(c, d, e))
        return false;
    if (needs_kafka && (bootstrap == NULL || bootstrap->text[0] == '\0'))
        return config_fail(e, "kafka.bootstrap.servers is required; set it in the file, as --kafka.bootstrap.servers HOST:PORT or as "
                              "OUTBOX_RELAY_KAFKA_BOOTSTRAP_SERVERS");
    return order_check(c, d, "poll_min_ms", "poll_max_ms", e) && order_check(c, d, "fetch_rows", "window_rows", e) &&
           order_check(c, d, "backoff_min_ms", "backoff_max_ms", e);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* The flags are read first, for the verb and the path of the file; later sources leave what is there already. */
static bool draft_read(struct config_draft *d, struct config_draft *flags, char *const *environment, const struct config_error *e)
{
    struct config_draft variables = {.path = NULL};
    bool ok = config_read_environment(&variables, environment, e);
    const char *path = flags->path != NULL ? flags->path : variables.path;
    const char *origin = flags->path != NULL ? flags->path_origin : variables.path_origin;

    if (ok && path != NULL)
        ok = config_read_ini_file(d, path, origin, e);
    ok = ok && config_draft_merge(d, &variables, e) && config_draft_merge(d, flags, e);
    config_draft_reset(&variables);
    return ok;
}

static bool settings_read(struct config *c, struct config_draft *flags, char *const *environment, const struct config_error *e)
{
    struct config_draft d = {.verb = flags->verb};
    bool ok = draft_read(&d, flags, environment, e) && defaults_store(c, e) && draft_store(c, &d, e) && together_check(c, &d, e);

    config_draft_reset(&d);
    return ok;
}

bool config_read(struct config *ret_config, int argc, char *const *argv, char *const *environment, char *error, size_t error_size)
{
    struct config_error e = {.text = error, .size = error_size};
    struct config_draft flags = {.verb = CONFIG_RUN};
    bool ok;

    *ret_config = (struct config){.verb = CONFIG_RUN};
    ok = config_read_flags(&flags, argc, argv, &e);
    ret_config->verb = flags.verb;
    ret_config->drain = flags.drain;
    ret_config->dry_run = flags.dry_run;
    if (ok && flags.verb != CONFIG_HELP && flags.verb != CONFIG_VERSION && flags.verb != CONFIG_PRINT_TABLE &&
        flags.verb != CONFIG_PRINT_INI)
        ok = settings_read(ret_config, &flags, environment, &e);
    config_draft_reset(&flags);
    if (!ok)
        config_reset(ret_config);
    return ok;
}

void config_reset(struct config *c)
{
    for (size_t i = 0; i < c->kafka_n; i++) {
        free(c->kafka[i].name);
        free(c->kafka[i].value);
    }
    free(c->kafka);
    free(c->database);
    free(c->name);
    free(c->instance);
    free(c->table);
    free(c->listen);
    *c = (struct config){.verb = CONFIG_RUN};
}
