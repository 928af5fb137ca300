/* SPDX-License-Identifier: BSD-2-Clause */
/* Names: how each source spells them, and which one somebody may have meant. */
#include "relay/app/config_setting.h"

#include <stdio.h>
#include <string.h>

bool config_name_is_plain(const char *name, size_t name_n)
{
    if (name_n == 0 || name_n >= CONFIG_NAME_MAX)
        return false;
    for (size_t i = 0; i < name_n; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned config_name_distance(const char *a, const char *b, unsigned limit)
{
    unsigned rows[3][CONFIG_NAME_MAX + 1]; /* of the table of distances between prefixes: this one and the two before it */
    size_t a_n = strlen(a), b_n = strlen(b);

    if (a_n > CONFIG_NAME_MAX || b_n > CONFIG_NAME_MAX)
        return limit + 1;
    for (unsigned j = 0; j <= b_n; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a_n; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3], *above_that = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= b_n; j++) {
            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], above_that[j - 2] + 1);
        }
    }
    return least(rows[a_n % 3][b_n], limit + 1);
}

static void name_spell(const char *name, enum config_source source, char ret_spelled[CONFIG_NAME_MAX + 16])
{
    bool is_property = strncmp(name, "kafka.", 6) == 0;

    (void)snprintf(ret_spelled, CONFIG_NAME_MAX + 16, "%s%s",
                   source == CONFIG_SOURCE_FLAG          ? "--"
                   : source == CONFIG_SOURCE_ENVIRONMENT ? CONFIG_ENVIRONMENT_PREFIX
                                                         : "",
                   name);
    for (char *c = ret_spelled; *c != '\0'; c++) {
        if (source == CONFIG_SOURCE_FLAG && *c == '_' && !is_property)
            *c = '-';
        if (source == CONFIG_SOURCE_ENVIRONMENT && *c == '.')
            *c = '_';
        if (source == CONFIG_SOURCE_ENVIRONMENT && *c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    }
}

void config_name_hint(const char *name, enum config_source source, char ret_hint[CONFIG_NAME_MAX * 2])
{
    static const char *const others[] = {"kafka.bootstrap.servers", "database_file", "config", "drain", "dry_run"};
    size_t others_n = source == CONFIG_SOURCE_FLAG ? 5 : source == CONFIG_SOURCE_ENVIRONMENT ? 3 : 2;
    const char *nearest = NULL;
    unsigned distance = least((unsigned)strlen(name) / 3, 4) + 1;
    char spelled[CONFIG_NAME_MAX + 16];
    size_t settings_n;
    const struct config_setting *settings = config_settings(&settings_n);

    for (size_t i = 0; i < settings_n + others_n; i++) {
        const char *candidate = i < settings_n ? settings[i].name : others[i - settings_n];
        unsigned d = config_name_distance(name, candidate, distance);
        if (d < distance && strchr(candidate, '*') == NULL) {
            distance = d;
            nearest = candidate;
        }
    }
    ret_hint[0] = '\0';
    if (nearest != NULL) {
        name_spell(nearest, source, spelled);
        (void)snprintf(ret_hint, CONFIG_NAME_MAX * 2, "; did you mean %s?", spelled);
    }
}
