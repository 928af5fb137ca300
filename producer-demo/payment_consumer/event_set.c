/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/event_set.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MIN 64

static const struct uuid none = {{0}};

static bool same(struct uuid a, struct uuid b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* The place of the id, or the empty one where it belongs. An id's last half is random, but who made it may have chosen it: hence the mixing. */
static size_t place_find(const struct event_set *set, struct uuid id)
{
    uint64_t halves[2], hash;
    size_t place;

    memcpy(halves, &id, sizeof halves);
    hash = (halves[1] ^ halves[0] * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    for (place = (hash ^ hash >> 32) & (set->places_n - 1); !same(set->places[place], none) && !same(set->places[place], id);)
        place = (place + 1) & (set->places_n - 1);
    return place;
}

bool event_set_has(const struct event_set *set, struct uuid id)
{
    if (same(id, none))
        return set->zero;
    return set->places_n > 0 && same(set->places[place_find(set, id)], id);
}

static void grow(struct event_set *set)
{
    struct event_set larger = {.places_n = set->places_n > 0 ? set->places_n * 2 : PLACES_MIN, .used_n = set->used_n, .zero = set->zero};

    larger.places = calloc(larger.places_n, sizeof *larger.places);
    if (!larger.places)
        abort();
    for (size_t i = 0; i < set->places_n; i++)
        if (!same(set->places[i], none))
            larger.places[place_find(&larger, set->places[i])] = set->places[i];
    free(set->places);
    *set = larger;
}

bool event_set_add(struct event_set *set, struct uuid id)
{
    size_t place;

    if (event_set_has(set, id))
        return false;
    if (same(id, none)) {
        set->zero = true;
        return true;
    }
    if (set->used_n * 2 >= set->places_n)
        grow(set);
    place = place_find(set, id);
    set->places[place] = id;
    set->used_n++;
    return true;
}

size_t event_set_size(const struct event_set *set)
{
    return set->used_n + set->zero;
}

void event_set_clear(struct event_set *set)
{
    free(set->places);
    *set = (struct event_set){0};
}
