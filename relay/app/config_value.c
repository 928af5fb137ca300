/* SPDX-License-Identifier: BSD-2-Clause */
/* From a text to a value. */
#include "relay/app/config_setting.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Digits only: no sign, no space, no exponent. Returns what follows them, or NULL if there are none or too many. */
static const char *digits_parse(const char *text, uint64_t *ret_number)
{
    const char *c = text;
    uint64_t number = 0;

    for (; *c >= '0' && *c <= '9'; c++) {
        uint64_t digit = (uint64_t)(*c - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return NULL;
        number = number * 10 + digit;
    }
    *ret_number = number;
    return c == text ? NULL : c;
}

/* A text in a sentence: only a short and printable one is shown. */
static const char *shown(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127 || c - text >= 40)
            return "...";
    return text;
}

static bool number_store(const struct config_setting *s, const char *text, const char *origin, struct config *c,
                         const struct config_error *e)
{
    uint64_t number;
    const char *end = digits_parse(text, &number);

    if (end == NULL || *end != '\0' || number < s->min || number > s->max)
        return config_fail(e, "%s must be a whole number from %llu to %llu (%s), not \"%s\"", origin, (unsigned long long)s->min,
                           (unsigned long long)s->max, s->unit, shown(text));
    assert(number <= UINT32_MAX);
    *(uint32_t *)(void *)((char *)c + s->offset) = (uint32_t)number;
    return true;
}

/* 0: no such unit. */
static uint64_t unit_bytes(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"kB", 1000},
        {"KB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {"KiB", 1ULL << 10},
        {"MiB", 1ULL << 20},
        {"GiB", 1ULL << 30},
    };

    while (*unit == ' ')
        unit++;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, unit) == 0)
            return units[i].bytes;
    return 0;
}

static bool bytes_store(const struct config_setting *s, const char *text, const char *origin, struct config *c,
                        const struct config_error *e)
{
    uint64_t number = 0, unit = 0;
    const char *end = digits_parse(text, &number);

    if (end != NULL && (unit = unit_bytes(end)) == 0)
        return config_fail(e, "%s has a unit that is not known in \"%s\"; use B, kB, MB, GB, KiB, MiB or GiB", origin, shown(text));
    if (end == NULL || number > s->max / unit || number * unit < s->min)
        return config_fail(e, "%s must be from %llu to %llu bytes, as in 64MiB or 8MB, not \"%s\"", origin, (unsigned long long)s->min,
                           (unsigned long long)s->max, shown(text));
    *(uint64_t *)(void *)((char *)c + s->offset) = number * unit;
    return true;
}

int config_word_find(const char *words, const char *word)
{
    size_t word_n = strlen(word);
    int place = 0;

    for (const char *w = words; *w != '\0'; place++) {
        size_t n = strcspn(w, " ");
        if (n == word_n && memcmp(w, word, n) == 0)
            return place;
        w += n + (w[n] == ' ');
    }
    return -1;
}

static bool choice_store(const struct config_setting *s, const char *text, const char *origin, struct config *c,
                         const struct config_error *e)
{
    int place = config_word_find(s->choices, text);
    unsigned value = (unsigned)place;

    if (place < 0 && s->later != NULL && config_word_find(s->later, text) >= 0)
        return config_fail(e, "%s: \"%s\" is not in this version; choose one of: %s", origin, text, s->choices);
    if (place < 0)
        return config_fail(e, "%s cannot be \"%s\"; choose one of: %s", origin, shown(text), s->choices);
    _Static_assert(sizeof(enum config_pooled) == sizeof value && sizeof(enum config_mark) == sizeof value &&
                       sizeof(enum config_durability) == sizeof value && sizeof(enum config_log_level) == sizeof value,
                   "choices are stored as unsigned numbers");
    memcpy((char *)c + s->offset, &value, sizeof value);
    return true;
}

static bool later_accept(const struct config_setting *s, const char *text, const char *origin, const struct config_error *e)
{
    if (s->initial == NULL)
        return config_fail(e, "%s is not in this version; leave it out", origin);
    if (strcmp(text, s->initial) != 0)
        return config_fail(e, "%s is not in this version; leave it out, or at %s", origin, s->initial);
    return true;
}

static bool is_label(const char *text)
{
    size_t n = strlen(text);

    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return false;
    return n >= 1 && n <= 200;
}

/* Quoting is the edge's business; here only the shape counts. */
static bool is_table(const char *text)
{
    const char *dot = strchr(text, '.');

    return is_label(text) && dot != NULL && dot != text && dot[1] != '\0' && strchr(dot + 1, '.') == NULL;
}

static bool is_address(const char *text)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    const char *end = colon != NULL ? digits_parse(colon + 1, &port) : NULL;

    if (end == NULL || *end != '\0' || port > 65535 || strlen(text) > 200)
        return false;
    return text[0] == '[' ? colon[-1] == ']' : strchr(text, ':') == colon;
}

static bool text_store(const struct config_setting *s, const char *text, struct config *c, const struct config_error *e)
{
    char **place = (char **)(void *)((char *)c + s->offset);
    char *copy = strdup(text);

    if (copy == NULL)
        return config_fail(e, "out of memory while the settings were read");
    free(*place);
    *place = copy;
    return true;
}

bool config_setting_store(const struct config_setting *s, const char *text, const char *origin, struct config *c,
                          const struct config_error *e)
{
    switch (s->kind) {
    case CONFIG_SETTING_NUMBER:
        return number_store(s, text, origin, c, e);
    case CONFIG_SETTING_BYTES:
        return bytes_store(s, text, origin, c, e);
    case CONFIG_SETTING_CHOICE:
        return choice_store(s, text, origin, c, e);
    case CONFIG_SETTING_LATER:
        return later_accept(s, text, origin, e);
    case CONFIG_SETTING_LABEL:
        if (!is_label(text))
            return config_fail(e, "%s must be 1 to 200 characters, none of them a control character", origin);
        return text_store(s, text, c, e);
    case CONFIG_SETTING_TABLE:
        if (!is_table(text))
            return config_fail(e, "%s must be a schema and a table with one dot between them, as in outbox.event", origin);
        return text_store(s, text, c, e);
    case CONFIG_SETTING_ADDRESS:
        if (!is_address(text))
            return config_fail(e, "%s must be an address and a port, as in 127.0.0.1:9464, [::1]:9464 or :9464", origin);
        return text_store(s, text, c, e);
    case CONFIG_SETTING_TEXT:
        return text_store(s, text, c, e);
    case CONFIG_SETTING_PROPERTY:
        break; /* has no place of its own: whoever asks is wrong */
    }
    abort();
}
