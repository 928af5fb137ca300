/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/proxy/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct answer {
    char *text;
    size_t size;
};

static struct listener *listener_find(struct command_box *box, const char *name)
{
    struct listener *l = box->listeners;
    while (l != NULL && strcmp(l->name, name) != 0)
        l = l->next;
    return l;
}

/* --- commands of the program: each returns NULL, or what is wrong ---------------------------------------------------- */

static bool protocol_read(const char *word, enum protocol *ret)
{
    static const char *const words[] = {[PROTOCOL_RAW] = "raw", [PROTOCOL_KAFKA] = "kafka", [PROTOCOL_POSTGRES] = "postgres"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], word) == 0) {
            *ret = (enum protocol)i;
            return true;
        }
    return false;
}

static const char *listen_perform(struct command_box *box, char *rest, struct answer answer)
{
    char name[NAME_MAX_LEN], protocol[16];
    int port, upstream_port;
    struct listener *l = calloc(1, sizeof *l);
    if (l == NULL)
        abort();
    l->rules = &box->rules;
    if (sscanf(rest, "%39s %15s %d %d", name, protocol, &port, &upstream_port) != 4 || !protocol_read(protocol, &l->protocol)) {
        free(l);
        return "listen NAME kafka|postgres|raw PORT UPSTREAM-PORT";
    }
    (void)snprintf(l->name, sizeof l->name, "%s", name);
    l->upstream_port = upstream_port;
    l->next = box->listeners;
    box->listeners = l;
    port = listener_open(l, box->loop, port);
    if (port < 0)
        return "cannot listen on this port";
    (void)snprintf(answer.text, answer.size, "ok %d", port);
    return NULL;
}

static const char *rule_perform(struct command_box *box, char *rest, struct answer answer)
{
    (void)answer;
    return rules_add(&box->rules, rest);
}

static const char *forget_perform(struct command_box *box, char *rest, struct answer answer)
{
    struct rule *r = rules_find(&box->rules, rest);
    (void)answer;
    if (r == NULL)
        return "there is no such rule";
    r->active = false;
    return NULL;
}

static const char *hits_perform(struct command_box *box, char *rest, struct answer answer)
{
    const struct rule *r = rules_find(&box->rules, rest);
    if (r == NULL)
        return "there is no such rule";
    (void)snprintf(answer.text, answer.size, "ok hits=%" PRIu64 " seen=%" PRIu64, r->hits, r->seen);
    return NULL;
}

static const char *seed_perform(struct command_box *box, char *rest, struct answer answer)
{
    (void)answer;
    box->rules.seed = strtoull(rest, NULL, 10);
    return NULL;
}

/* --- commands to a listener ------------------------------------------------------------------------------------------ */

static const char *sides_read(const char *word, bool ret_sides[2])
{
    ret_sides[SIDE_UP] = strcmp(word, "up") == 0 || strcmp(word, "both") == 0;
    ret_sides[SIDE_DOWN] = strcmp(word, "down") == 0 || strcmp(word, "both") == 0;
    return ret_sides[SIDE_UP] || ret_sides[SIDE_DOWN] ? NULL : "up, down or both";
}

static const char *reset_perform(struct listener *l, const char *word, struct answer answer)
{
    (void)word;
    (void)snprintf(answer.text, answer.size, "ok %" PRIu64, l->open);
    listener_reset_all(l);
    return NULL;
}

static const char *cut_perform(struct listener *l, const char *word, struct answer answer)
{
    l->cut = true;
    return reset_perform(l, word, answer);
}

static const char *freeze_perform(struct listener *l, const char *word, struct answer answer)
{
    bool sides[2];
    const char *wrong = sides_read(word, sides);
    (void)answer;
    l->frozen[SIDE_UP] |= sides[SIDE_UP];
    l->frozen[SIDE_DOWN] |= sides[SIDE_DOWN];
    return wrong;
}

static const char *half_close_perform(struct listener *l, const char *word, struct answer answer)
{
    bool sides[2];
    const char *wrong = sides_read(word, sides);
    (void)snprintf(answer.text, answer.size, "ok %" PRIu64, l->open);
    for (int side = 0; wrong == NULL && side < 2; side++)
        if (sides[side])
            listener_half_close(l, (enum side)side);
    return wrong;
}

static const char *number_read(const char *word, uint32_t *ret)
{
    char *end;
    unsigned long n = strtoul(word, &end, 10);
    if (end == word || *end != 0 || n > UINT32_MAX)
        return "a number";
    *ret = (uint32_t)n;
    return NULL;
}

static const char *latency_perform(struct listener *l, const char *word, struct answer answer)
{
    (void)answer;
    return number_read(word, &l->latency_ms);
}

static const char *throttle_perform(struct listener *l, const char *word, struct answer answer)
{
    (void)answer;
    return number_read(word, &l->rate);
}

static const char *heal_perform(struct listener *l, const char *word, struct answer answer)
{
    (void)word, (void)answer;
    l->cut = l->frozen[SIDE_UP] = l->frozen[SIDE_DOWN] = false;
    l->latency_ms = l->rate = 0;
    rules_clear(l->rules, l->name);
    listener_pump(l);
    return NULL;
}

static const char *stats_perform(struct listener *l, const char *word, struct answer answer)
{
    struct listener_counts n = listener_count(l);
    (void)word;
    (void)snprintf(answer.text, answer.size,
                   "ok accepted=%" PRIu64 " open=%" PRIu64 " requests=%" PRIu64 " replies=%" PRIu64 " unmatched=%" PRIu64 " up=%" PRIu64
                   " down=%" PRIu64 " waiting-up=%" PRIu64 " waiting-down=%" PRIu64,
                   l->accepted, l->open, n.requests, n.replies, n.unmatched, l->bytes[SIDE_UP], l->bytes[SIDE_DOWN], n.waiting[SIDE_UP],
                   n.waiting[SIDE_DOWN]);
    return NULL;
}

/* --- which is which -------------------------------------------------------------------------------------------------- */

static const struct command {
    const char *name;
    const char *(*perform)(struct command_box *box, char *rest, struct answer answer);
    const char *(*perform_on)(struct listener *l, const char *word, struct answer answer);
} commands[] = {
    {"listen", listen_perform, NULL},   {"rule", rule_perform, NULL},         {"forget", forget_perform, NULL},
    {"hits", hits_perform, NULL},       {"seed", seed_perform, NULL},         {"cut", NULL, cut_perform},
    {"reset", NULL, reset_perform},     {"freeze", NULL, freeze_perform},     {"half-close", NULL, half_close_perform},
    {"latency", NULL, latency_perform}, {"throttle", NULL, throttle_perform}, {"heal", NULL, heal_perform},
    {"stats", NULL, stats_perform},
};

static const char *command_do(struct command_box *box, const struct command *command, char *rest, struct answer answer)
{
    if (command->perform != NULL)
        return command->perform(box, rest, answer);
    const char *name = strsep(&rest, " ");
    struct listener *l = listener_find(box, name);
    if (l == NULL)
        return "there is no such upstream";
    return command->perform_on(l, rest != NULL ? rest : "", answer);
}

void command_perform(struct command_box *box, char *line, char *ret_answer, size_t answer_size)
{
    char *rest = line, none[] = "";
    const char *name = strsep(&rest, " "), *wrong = "there is no such command";
    struct answer answer = {ret_answer, answer_size};
    (void)snprintf(ret_answer, answer_size, "ok");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            wrong = command_do(box, &commands[i], rest != NULL ? rest : none, answer);
    if (wrong != NULL)
        (void)snprintf(ret_answer, answer_size, "no: %s", wrong);
}
