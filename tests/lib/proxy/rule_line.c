/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of a rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/proxy/kafka_wire.h"
#include "tests/lib/proxy/rule.h"

static const struct action_word {
    const char *word;
    enum rule_action action;
} actions[] = {
    {"pass", RULE_PASS},
    {"count", RULE_COUNT},
    {"drop", RULE_DROP},
    {"lose", RULE_LOSE},
    {"mute", RULE_MUTE},
    {"error", RULE_ERROR},
    {"spoil", RULE_SPOIL},
    {"duplicate", RULE_DUPLICATE},
    {"cut", RULE_CUT},
    {"tear", RULE_TEAR},
    {"tear-reply", RULE_TEAR_REPLY},
    {"freeze", RULE_FREEZE},
    {"half-close", RULE_HALF_CLOSE},
};

static bool action_read(struct rule *r, const char *word)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].word, word) == 0) {
            r->action = actions[i].action;
            return true;
        }
    return false;
}

static bool text_read(char *to, size_t size, const char *value)
{
    return value[0] != 0 && (size_t)snprintf(to, size, "%s", value) < size;
}

static bool number_read(int64_t *ret, const char *value, int64_t least, int64_t most)
{
    char *end;
    *ret = strtoll(value, &end, 10);
    return end != value && *end == 0 && *ret >= least && *ret <= most;
}

static bool u32_read(uint32_t *ret, const char *value, uint32_t most)
{
    int64_t n;
    bool good = number_read(&n, value, 0, most);
    *ret = (uint32_t)n;
    return good;
}

static bool i32_read(int32_t *ret, const char *value)
{
    int64_t n;
    bool good = number_read(&n, value, 0, INT32_MAX);
    *ret = (int32_t)n;
    return good;
}

/* A type of PostgreSQL's requests has no number in Kafka. */
static bool on_read(struct rule *r, const char *value)
{
    static const char *const types[] = {"startup", "ssl", "cancel", "query", "prepare", "sync"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i], value) == 0)
            return text_read(r->type, sizeof r->type, value);
    r->key = kafka_key_of(value);
    return r->key >= 0;
}

/* A number is Kafka's, five letters or digits are a SQLSTATE; five digits may be either. */
static bool code_read(struct rule *r, const char *value)
{
    int64_t n = 0;
    bool state = strlen(value) == 5 && text_read(r->sqlstate, sizeof r->sqlstate, value);
    bool code = number_read(&n, value, INT16_MIN, INT16_MAX);
    r->code = (int16_t)n;
    return state || code;
}

static bool sides_read(struct rule *r, const char *value)
{
    r->sides = strcmp(value, "up") == 0     ? RULE_UP
               : strcmp(value, "down") == 0 ? RULE_DOWN
               : strcmp(value, "both") == 0 ? RULE_BOTH
                                            : (enum rule_sides)0;
    return r->sides != 0;
}

static bool per_read(struct rule *r, const char *value)
{
    r->per_lane = strcmp(value, "lane") == 0;
    return r->per_lane;
}

static bool field_read(struct rule *r, const char *name, const char *value)
{
    if (strcmp(name, "on") == 0)
        return on_read(r, value);
    if (strcmp(name, "text") == 0)
        return text_read(r->text, sizeof r->text, value);
    if (strcmp(name, "topic") == 0)
        return text_read(r->topic, sizeof r->topic, value);
    if (strcmp(name, "partition") == 0)
        return i32_read(&r->partition, value);
    if (strcmp(name, "sequence") == 0)
        return i32_read(&r->sequence, value);
    if (strcmp(name, "skip") == 0)
        return u32_read(&r->skip, value, UINT32_MAX);
    if (strcmp(name, "times") == 0)
        return u32_read(&r->times, value, UINT32_MAX);
    if (strcmp(name, "after") == 0)
        return text_read(r->after, sizeof r->after, value);
    if (strcmp(name, "chance") == 0)
        return u32_read(&r->chance, value, 1000);
    if (strcmp(name, "hold") == 0)
        return u32_read(&r->hold_ms, value, 3600000);
    if (strcmp(name, "delay") == 0)
        return u32_read(&r->delay_ms, value, 3600000);
    if (strcmp(name, "code") == 0)
        return code_read(r, value);
    if (strcmp(name, "side") == 0)
        return sides_read(r, value);
    if (strcmp(name, "aside") == 0)
        return r->aside = strcmp(value, "1") == 0;
    return strcmp(name, "per") == 0 && per_read(r, value);
}

/* `rest` is changed. */
static bool fields_read(struct rule *r, char *rest)
{
    while (rest != NULL && *rest != 0) {
        /* The text may have spaces in it, so it is the last. */
        char *pair = strncmp(rest, "text=", 5) == 0 ? rest : strsep(&rest, " ");
        if (pair == rest)
            rest = NULL;
        char *value = strchr(pair, '=');
        if (value == NULL)
            return false;
        *value++ = 0;
        if (!field_read(r, pair, value))
            return false;
    }
    return true;
}

const char *rules_add(struct rules *rules, char *line)
{
    struct rule r = {.active = true, .key = -1, .partition = -1, .sequence = -1, .times = 1, .chance = 1000, .sides = RULE_BOTH};
    char *rest = line;
    const char *name = strsep(&rest, " "), *upstream = strsep(&rest, " "), *action = strsep(&rest, " ");
    if (action == NULL || !text_read(r.name, sizeof r.name, name) || !text_read(r.upstream, sizeof r.upstream, upstream))
        return "rule NAME UPSTREAM ACTION [key=value ...]";
    if (!action_read(&r, action))
        return "there is no such action";
    if (!fields_read(&r, rest))
        return "a key that there is not, or a value out of its range";
    if ((r.action == RULE_ERROR || r.action == RULE_SPOIL) && r.code == 0 && r.sqlstate[0] == 0)
        return "this action needs code=";
    if (rules_find(rules, r.name) != NULL)
        return "there is a rule of this name";
    if (rules->n == RULES_MAX)
        return "there are too many rules";
    rules->list[rules->n++] = r;
    return NULL;
}
