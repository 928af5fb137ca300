/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/proxy/rule.h"

#include <stdlib.h>
#include <string.h>

/* xorshift64*: the same seed gives the same faults to the same requests. */
static uint32_t random_below(struct rules *rules, uint32_t n)
{
    uint64_t x = rules->seed != 0 ? rules->seed : 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    rules->seed = x;
    return (uint32_t)((x * 0x2545F4914F6CDD1DULL) >> 33) % n;
}

void rules_reset(struct rules *rules)
{
    for (unsigned i = 0; i < rules->n; i++)
        free(rules->list[i].lanes);
    *rules = (struct rules){.on_hit = rules->on_hit};
}

struct rule *rules_find(struct rules *rules, const char *name)
{
    for (unsigned i = 0; i < rules->n; i++)
        if (strcmp(rules->list[i].name, name) == 0)
            return &rules->list[i];
    return NULL;
}

static bool matches(const struct rule *r, const char *upstream, const struct request *q)
{
    return r->active && strcmp(r->upstream, upstream) == 0 && (r->key < 0 || r->key == q->key) &&
           (r->type[0] == 0 || strcmp(r->type, q->type) == 0) && (r->text[0] == 0 || strstr(q->text, r->text) != NULL) &&
           (r->topic[0] == 0 || strcmp(r->topic, q->topic) == 0) && (r->partition < 0 || r->partition == q->partition) &&
           (r->sequence < 0 || r->sequence == q->sequence);
}

/* FNV-1a. All requests are of one lane for a rule that does not tell them apart. */
static uint64_t lane_of(const struct rule *r, const struct request *q)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    if (!r->per_lane)
        return 0;
    for (const char *c = q->topic; *c != 0; c++)
        h = (h ^ (uint8_t)*c) * 0x100000001b3ULL;
    h = (h ^ (uint32_t)q->partition) * 0x100000001b3ULL;
    return (h ^ (uint64_t)q->producer) * 0x100000001b3ULL;
}

static struct rule_lane *lane_find(struct rule *r, uint64_t key)
{
    for (unsigned i = 0; i < r->lanes_n; i++)
        if (r->lanes[i].key == key)
            return &r->lanes[i];
    if (r->lanes_n == r->lanes_max) {
        r->lanes_max = r->lanes_max * 2 + 4;
        r->lanes = realloc(r->lanes, r->lanes_max * sizeof *r->lanes);
        if (r->lanes == NULL)
            abort();
    }
    r->lanes[r->lanes_n] = (struct rule_lane){.key = key};
    return &r->lanes[r->lanes_n++];
}

/* Not before the rule that it waits for took a request. */
static bool waits(struct rules *rules, const struct rule *r)
{
    const struct rule *before = r->after[0] != 0 ? rules_find(rules, r->after) : NULL;
    uint32_t taken = 0;

    for (unsigned i = 0; before != NULL && i < before->lanes_n; i++)
        taken += before->lanes[i].taken;
    return r->after[0] != 0 && taken == 0;
}

static bool takes(struct rules *rules, struct rule *r, const struct request *q, uint64_t *ret_lane)
{
    *ret_lane = lane_of(r, q);
    struct rule_lane *lane = lane_find(r, *ret_lane);
    r->seen++;
    lane->seen++;
    if (r->action == RULE_COUNT || lane->seen <= r->skip || (r->times > 0 && lane->taken >= r->times))
        return false;
    if (r->chance < 1000 && random_below(rules, 1000) >= r->chance)
        return false;
    lane->taken++;
    return true;
}

struct rule *rules_judge(struct rules *rules, const char *upstream, const struct request *request, uint64_t *ret_lane)
{
    for (unsigned i = 0; i < rules->n; i++) {
        struct rule *r = &rules->list[i];
        if (matches(r, upstream, request) && !waits(rules, r) && takes(rules, r, request, ret_lane))
            return r;
    }
    return NULL;
}

void rule_hit(const struct rules *rules, struct rule *r, const char *what)
{
    r->hits++;
    if (rules->on_hit != NULL)
        rules->on_hit(r, what);
}

void rule_return(struct rule *r, uint64_t lane)
{
    struct rule_lane *l = lane_find(r, lane);
    if (l->taken > 0)
        l->taken--;
}

void rules_clear(struct rules *rules, const char *upstream)
{
    for (unsigned i = 0; i < rules->n; i++)
        if (strcmp(rules->list[i].upstream, upstream) == 0)
            rules->list[i].active = false;
}
