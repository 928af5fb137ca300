/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/explore/explore_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct database_part {
    struct database database;
    event_set log;
    uint8_t faults, refusals, crashes, stops, rollbacks, times;
};

struct late_part {
    struct late_statement statements[LATE_MAX];
    struct session sessions[LATE_MAX];
};

/* Equal values have equal numbers. */
struct pool {
    size_t size;
    unsigned char *values;
    uint32_t n, max, *table, table_mask;
};

static struct pool relays = {.size = sizeof(struct process)};
static struct pool databases = {.size = sizeof(struct database_part)};
static struct pool lates = {.size = sizeof(struct late_part)};

static uint64_t hash_of(const unsigned char *value, size_t size)
{
    uint64_t hash = size;

    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;

        memcpy(&word, value + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * 0x9fb21c651e98df25u;
        hash ^= hash >> 32;
    }
    return hash;
}

static void pool_grow(struct pool *pool)
{
    pool->max = pool->max == 0 ? 1024 : pool->max * 2;
    pool->values = realloc(pool->values, pool->max * pool->size);
    free(pool->table);
    pool->table_mask = pool->max * 2 - 1;
    pool->table = calloc((size_t)pool->table_mask + 1, sizeof *pool->table);
    assert(pool->values != NULL && pool->table != NULL);
    for (uint32_t i = 0; i < pool->n; i++) {
        uint64_t at = hash_of(pool->values + i * pool->size, pool->size);

        while (pool->table[at & pool->table_mask] != 0)
            at++;
        pool->table[at & pool->table_mask] = i + 1;
    }
}

static uint32_t pool_number(struct pool *pool, const void *value)
{
    uint64_t at;

    if (pool->n == pool->max)
        pool_grow(pool);
    for (at = hash_of(value, pool->size); pool->table[at & pool->table_mask] != 0; at++) {
        uint32_t number = pool->table[at & pool->table_mask] - 1;

        if (memcmp(pool->values + number * pool->size, value, pool->size) == 0)
            return number;
    }
    memcpy(pool->values + pool->n * pool->size, value, pool->size);
    pool->table[at & pool->table_mask] = ++pool->n;
    return pool->n - 1;
}

static const void *pool_value(const struct pool *pool, uint32_t number)
{
    return pool->values + number * pool->size;
}

void parts_of_relays(const struct world *w, const struct world *before, const uint32_t parts_before[PARTS], uint32_t parts[PARTS])
{
    for (unsigned i = 0; i < RELAYS; i++) {
        if (memcmp(&w->relays[i], &before->relays[i], sizeof w->relays[i]) == 0)
            parts[i] = parts_before[i];
        else
            parts[i] = pool_number(&relays, &w->relays[i]);
    }
}

void parts_of_rest(const struct world *w, uint32_t parts[PARTS])
{
    struct database_part database;
    struct late_part late;

    memset(&database, 0, sizeof database);
    memset(&late, 0, sizeof late);
    database.database = w->database;
    database.log = w->log;
    database.faults = w->faults;
    database.refusals = w->refusals;
    database.crashes = w->crashes;
    database.stops = w->stops;
    database.rollbacks = w->rollbacks;
    database.times = w->times;
    memcpy(late.statements, w->statements, sizeof late.statements);
    memcpy(late.sessions, w->sessions, sizeof late.sessions);
    parts[PART_DATABASE] = pool_number(&databases, &database);
    parts[PART_LATE] = pool_number(&lates, &late);
}

void parts_world(const uint32_t parts[PARTS], struct world *ret_w)
{
    struct database_part database;
    struct late_part late;

    memset(ret_w, 0, sizeof *ret_w);
    for (unsigned i = 0; i < RELAYS; i++)
        memcpy(&ret_w->relays[i], pool_value(&relays, parts[i]), relays.size);
    memcpy(&database, pool_value(&databases, parts[PART_DATABASE]), sizeof database);
    memcpy(&late, pool_value(&lates, parts[PART_LATE]), sizeof late);
    ret_w->database = database.database;
    ret_w->log = database.log;
    ret_w->faults = database.faults;
    ret_w->refusals = database.refusals;
    ret_w->crashes = database.crashes;
    ret_w->stops = database.stops;
    ret_w->rollbacks = database.rollbacks;
    ret_w->times = database.times;
    memcpy(ret_w->statements, late.statements, sizeof late.statements);
    memcpy(ret_w->sessions, late.sessions, sizeof late.sessions);
}

void parts_first(const struct world *w, uint32_t parts[PARTS])
{
    for (unsigned i = 0; i < RELAYS; i++)
        parts[i] = pool_number(&relays, &w->relays[i]);
    parts_of_rest(w, parts);
}

uint32_t parts_n(unsigned part)
{
    return part == PART_DATABASE ? databases.n : part == PART_LATE ? lates.n : relays.n;
}
