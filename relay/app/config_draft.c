/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/config_draft.h"

#include <stdlib.h>
#include <string.h>

static void value_reset(struct config_value *v)
{
    free(v->name);
    /* A secret must not lie around in freed memory. */
    if (v->text != NULL)
        explicit_bzero(v->text, strlen(v->text));
    free(v->text);
    free(v->origin);
    *v = (struct config_value){.name = NULL};
}

void config_draft_reset(struct config_draft *d)
{
    for (size_t i = 0; i < d->values_n; i++)
        value_reset(&d->values[i]);
    free(d->values);
    free(d->path);
    free(d->path_origin);
    *d = (struct config_draft){.values = NULL};
}

static struct config_value *value_find(const struct config_draft *d, const char *name)
{
    for (size_t i = 0; i < d->values_n; i++)
        if (strcmp(d->values[i].name, name) == 0)
            return &d->values[i];
    return NULL;
}

const struct config_value *config_draft_find(const struct config_draft *d, const char *name)
{
    return value_find(d, name);
}

/* Room for one value more, all zero and not counted yet; NULL: out of memory. */
static struct config_value *value_new(struct config_draft *d)
{
    if (d->values_n == d->values_max) {
        size_t max = d->values_max * 2 + 16;
        struct config_value *values = realloc(d->values, max * sizeof *values);
        if (values == NULL)
            return NULL;
        d->values = values;
        d->values_max = max;
    }
    d->values[d->values_n] = (struct config_value){.name = NULL};
    return &d->values[d->values_n];
}

/* Cut "_file" off `name`, if it is the _file form of a secret. */
static bool path_form_cut(char *name)
{
    size_t n = strlen(name);
    const struct config_setting *s;

    if (n <= 5 || strcmp(name + n - 5, "_file") != 0)
        return false;
    name[n - 5] = '\0';
    s = config_setting_find(name);
    if (s != NULL && (s->secret || s->kind == CONFIG_SETTING_PROPERTY))
        return true;
    name[n - 5] = '_';
    return false;
}

static bool clash_check(const struct config_value *old, const struct config_place *place, bool is_path, const struct config_error *e)
{
    if (old->source != place->source)
        return true;
    if (place->source == CONFIG_SOURCE_FILE)
        return config_fail(e, "%s was set before, at %s; leave one of them out", place->origin, old->origin);
    if (old->is_path != is_path)
        return config_fail(e, "%s and %s set the same; leave one of them out", place->origin, old->origin);
    return true;
}

static bool value_put(struct config_draft *d, const struct config_place *place, const char *name, const char *text, bool is_path,
                      const struct config_error *e)
{
    struct config_value *v = value_find(d, name);
    bool is_new = v == NULL;

    if (!is_new && !clash_check(v, place, is_path, e))
        return false;
    if (is_new)
        v = value_new(d);
    else
        value_reset(v);
    if (v == NULL)
        return config_fail(e, "out of memory while the settings were read");
    d->values_n += is_new;
    *v = (struct config_value){.name = strdup(name),
                               .text = strdup(text),
                               .origin = strdup(place->origin),
                               .setting = config_setting_find(name),
                               .source = place->source,
                               .is_path = is_path};
    if (v->name != NULL && v->text != NULL && v->origin != NULL)
        return true;
    value_reset(v);
    *v = d->values[--d->values_n];
    return config_fail(e, "out of memory while the settings were read");
}

bool config_draft_knows(const char *name)
{
    char known[CONFIG_NAME_MAX];

    if (!config_name_is_plain(name, strlen(name)))
        return false;
    strcpy(known, name);
    (void)path_form_cut(known);
    return config_setting_find(known) != NULL;
}

bool config_draft_put(struct config_draft *d, const struct config_place *place, const char *name, const char *text,
                      const struct config_error *e)
{
    char known[CONFIG_NAME_MAX], hint[CONFIG_NAME_MAX * 2];
    bool is_path;

    if (!config_name_is_plain(name, strlen(name)))
        return config_fail(e, "%s: this is not the name of a setting", place->origin);
    strcpy(known, name);
    is_path = path_form_cut(known);
    if (config_setting_find(known) == NULL) {
        config_name_hint(name, place->source, hint);
        return config_fail(e, "%s is not a setting%s", place->origin, hint[0] != '\0' ? hint : "; see outbox-relay --help");
    }
    return value_put(d, place, known, text, is_path, e);
}

bool config_draft_merge(struct config_draft *d, struct config_draft *later, const struct config_error *e)
{
    for (; later->values_n > 0; later->values_n--) {
        struct config_value *from = &later->values[later->values_n - 1];
        struct config_value *to = value_find(d, from->name);
        if (to != NULL)
            value_reset(to);
        else if ((to = value_new(d)) != NULL)
            d->values_n++;
        else
            return config_fail(e, "out of memory while the settings were read");
        *to = *from;
    }
    return true;
}
