/* SPDX-License-Identifier: BSD-2-Clause */
/* OUTBOX_RELAY_POLL_MIN_MS is poll_min_ms. In OUTBOX_RELAY_KAFKA_SASL_PASSWORD, kafka.sasl.password, an underscore is a dot: every name of
 * librdkafka that has an underscore itself is a callback or is refused. _FILE at the end is the _file form. */
#include "relay/app/config_draft.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Kubernetes tells every container about the services of its namespace. A service called outbox-relay or outbox-relay-something adds
 * OUTBOX_RELAY_SERVICE_HOST, OUTBOX_RELAY_PORT, OUTBOX_RELAY_PORT_9464_TCP_ADDR and so on: nobody's settings. */
static bool is_service_link(const char *name)
{
    for (const char *part = name; part != NULL; part = strchr(part, '_')) {
        part += *part == '_';
        if (strncmp(part, "SERVICE_HOST", 12) == 0 || strncmp(part, "SERVICE_PORT", 12) == 0 || strcmp(part, "PORT") == 0)
            return true;
        if (strncmp(part, "PORT_", 5) == 0 && isdigit((unsigned char)part[5]))
            return true;
    }
    return false;
}

/* The name as in the file. `name` is plain. */
static void name_translate(const char *name, char ret_name[CONFIG_NAME_MAX])
{
    size_t name_n = strlen(name);
    bool is_property = name_n > 6 && strncmp(name, "KAFKA_", 6) == 0;
    size_t body_n = is_property && name_n > 11 && strcmp(name + name_n - 5, "_FILE") == 0 ? name_n - 5 : name_n;

    for (size_t i = 0; i <= name_n; i++)
        ret_name[i] = is_property && name[i] == '_' && i < body_n ? '.' : (char)tolower((unsigned char)name[i]);
}

static bool path_put(struct config_draft *d, const char *origin, const char *path, const struct config_error *e)
{
    if (d->path != NULL)
        return true;
    d->path = strdup(path);
    d->path_origin = strdup(origin);
    return (d->path != NULL && d->path_origin != NULL) || config_fail(e, "out of memory while the settings were read");
}

static bool variable_read(struct config_draft *d, const char *variable, const struct config_error *e)
{
    static const size_t prefix_n = sizeof CONFIG_ENVIRONMENT_PREFIX - 1;
    const char *equals = strchr(variable, '=');
    char origin[sizeof CONFIG_ENVIRONMENT_PREFIX + CONFIG_NAME_MAX], name[CONFIG_NAME_MAX];
    size_t name_n;

    /* An empty variable counts as one that is not there: that is how templates leave something out. */
    if (strncmp(variable, CONFIG_ENVIRONMENT_PREFIX, prefix_n) != 0 || equals == NULL || equals[1] == '\0')
        return true;
    name_n = (size_t)(equals - variable) - prefix_n;
    if (!config_name_is_plain(variable + prefix_n, name_n))
        return config_fail(e, "a variable in the environment that begins with %s has no setting's name", CONFIG_ENVIRONMENT_PREFIX);
    memcpy(origin, variable, prefix_n + name_n);
    origin[prefix_n + name_n] = '\0';
    if (is_service_link(origin + prefix_n))
        return true;
    name_translate(origin + prefix_n, name);
    if (strcmp(name, "config") == 0)
        return path_put(d, origin, equals + 1, e);
    return config_draft_put(d, &(struct config_place){.source = CONFIG_SOURCE_ENVIRONMENT, .origin = origin}, name, equals + 1, e);
}

bool config_read_environment(struct config_draft *d, char *const *environment, const struct config_error *e)
{
    for (; *environment != NULL; environment++)
        if (!variable_read(d, *environment, e))
            return false;
    return true;
}
