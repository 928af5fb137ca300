/* SPDX-License-Identifier: BSD-2-Clause */
/* What the producer says about kafka.*, with the place where the property at fault was set. */
#include "relay/app/config_draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/edge/producer.h"

static const char *property_origin(const struct config_draft *d, const char *property, char *ret_name, size_t name_size)
{
    const struct config_value *v;

    (void)snprintf(ret_name, name_size, "kafka.%s", property);
    v = config_draft_find(d, ret_name);
    return v != NULL ? v->origin : ret_name;
}

/* librdkafka repeats a value in its complaint. A property whose name sounds secret is not repeated. */
static bool is_secret(const char *property)
{
    static const char *const parts[] = {"password", "secret", "pem", "key", "oauthbearer", "token", "credential", "username"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(property, parts[i]) != NULL)
            return true;
    return false;
}

static bool holds_secret(const struct config *c, const char *sentence)
{
    for (size_t i = 0; i < c->kafka_n; i++)
        if (is_secret(c->kafka[i].name) && c->kafka[i].value[0] != '\0' && strstr(sentence, c->kafka[i].value) != NULL)
            return true;
    return false;
}

/* The producer's sentence about one property begins with its name; the place where it was set says more. */
static bool accepted_fail(const struct config *c, const struct config_draft *d, const char *sentence, const struct config_error *e)
{
    char name[CONFIG_NAME_MAX + 8];

    if (holds_secret(c, sentence))
        return config_fail(e, "the settings kafka.* are not accepted by librdkafka, and its reason is not shown because it holds a secret; "
                              "check their values");
    for (size_t i = 0; i < c->kafka_n; i++) {
        const char *origin = property_origin(d, c->kafka[i].name, name, sizeof name);
        size_t name_n = strlen(name);
        if (strncmp(sentence, name, name_n) == 0 && sentence[name_n] == ' ')
            return config_fail(e, "%s%s", origin, sentence + name_n);
    }
    return config_fail(e, "%s", sentence);
}

bool config_check_kafka(const struct config *c, const struct config_draft *d, const struct config_error *e)
{
    struct producer_property *properties = calloc(c->kafka_n + 1, sizeof *properties);
    char sentence[512], name[CONFIG_NAME_MAX + 8];
    bool ok = true;

    if (properties == NULL)
        return config_fail(e, "out of memory while the settings were read");
    for (size_t i = 0; ok && i < c->kafka_n; i++) {
        const char *reason = producer_refuses(c->kafka[i].name, c->kafka[i].value);
        properties[i] = (struct producer_property){.name = c->kafka[i].name, .value = c->kafka[i].value};
        if (reason != NULL)
            ok = config_fail(e, "%s %s", property_origin(d, c->kafka[i].name, name, sizeof name), reason);
    }
    if (ok && !producer_accepts(properties, c->kafka_n, sentence, sizeof sentence))
        ok = accepted_fail(c, d, sentence, e);
    free(properties);
    return ok;
}
