/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash table of chains over an array of names: neighbouring rows mostly have the same topic, so the last answer is tried first. */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "relay/core/hash.h"
#include "relay/edge/outbox_names.h"

struct topic {
    char *name; /* NULL: the number is free, and `next` is the next free one */
    size_t name_n;
    uint32_t next; /* in the chain of its bucket */
};

struct names {
    struct topic *list;
    uint32_t *buckets;
    uint32_t max, buckets_n, free, last;
};

struct names *names_new(uint32_t topics_max)
{
    struct names *t = calloc(1, sizeof(*t));

    assert(topics_max > 0 && topics_max < UINT32_MAX / 4);
    if (!t)
        return NULL;
    t->max = topics_max;
    t->last = NAMES_NONE;
    t->buckets_n = topics_max * 2;
    t->list = calloc(topics_max, sizeof(*t->list));
    t->buckets = malloc(t->buckets_n * sizeof(*t->buckets));
    if (!t->list || !t->buckets) {
        names_free(t);
        return NULL;
    }
    for (uint32_t i = 0; i < topics_max; i++)
        t->list[i].next = i + 1 < topics_max ? i + 1 : NAMES_NONE;
    for (uint32_t i = 0; i < t->buckets_n; i++)
        t->buckets[i] = NAMES_NONE;
    return t;
}

void names_free(struct names *t)
{
    if (!t)
        return;
    for (uint32_t i = 0; t->list && i < t->max; i++)
        free(t->list[i].name);
    free(t->list);
    free(t->buckets);
    free(t);
}

static uint32_t *bucket(const struct names *t, const char *name, size_t name_n)
{
    return &t->buckets[hash_key("", 0, name, name_n) % t->buckets_n];
}

static bool topic_is(const struct topic *topic, const char *name, size_t name_n)
{
    return topic->name_n == name_n && memcmp(topic->name, name, name_n) == 0;
}

uint32_t names_number(struct names *t, const char *name, size_t name_n)
{
    uint32_t *first, n;
    char *copy;

    if (t->last != NAMES_NONE && topic_is(&t->list[t->last], name, name_n))
        return t->last;
    first = bucket(t, name, name_n);
    for (n = *first; n != NAMES_NONE; n = t->list[n].next)
        if (topic_is(&t->list[n], name, name_n))
            return t->last = n;
    if (t->free == NAMES_NONE)
        return NAMES_NONE;
    copy = malloc(name_n + 1);
    if (!copy)
        return NAMES_NONE;
    memcpy(copy, name, name_n);
    copy[name_n] = 0;
    n = t->free;
    t->free = t->list[n].next;
    t->list[n] = (struct topic){.name = copy, .name_n = name_n, .next = *first};
    *first = n;
    return t->last = n;
}

const char *names_name(const struct names *t, uint32_t topic)
{
    assert(topic < t->max && t->list[topic].name);
    return t->list[topic].name;
}

void names_forget(struct names *t, uint32_t topic)
{
    struct topic *forgotten = &t->list[topic];
    uint32_t *link;

    assert(topic < t->max && forgotten->name);
    link = bucket(t, forgotten->name, forgotten->name_n);
    while (*link != topic)
        link = &t->list[*link].next;
    *link = forgotten->next;
    free(forgotten->name);
    *forgotten = (struct topic){.name = NULL, .name_n = 0, .next = t->free};
    t->free = topic;
    t->last = NAMES_NONE;
}
