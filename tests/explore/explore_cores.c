/* SPDX-License-Identifier: BSD-2-Clause */
/* Each core that is different is kept once, with the time by its own clock. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "relay/core/relay_state.h"
#include "relay/core/window_state.h"
#include "tests/explore/explore.h"

enum {
    CORES_CHUNK = 4096, /* kept together in memory */
    CHUNKS_MAX = 1024,
    BEAT_MS = 1000
};

struct core {
    uint64_t digest, now_ms;
};

static struct {
    unsigned char *images[CHUNKS_MAX];
    struct core *cores[CHUNKS_MAX];
    uint32_t n, *table, table_mask;
    size_t size;
    struct relay *scratch;
} pool;

/* --- names -------------------------------------------------------------------------------------------------------- */

struct row_event_id event_id_of(uint8_t event)
{
    return (struct row_event_id){{(unsigned char)(event + 1)}};
}

uint8_t event_of(struct row_event_id event_id)
{
    return (uint8_t)(event_id.bytes[0] - 1);
}

int64_t id_of(uint8_t event)
{
    return event % IDS_MAX + 1;
}

struct relay_token token_of(uint8_t number)
{
    return (struct relay_token){{number}};
}

uint8_t token_number(struct relay_token token)
{
    return token.bytes[0];
}

/* --- the pool ----------------------------------------------------------------------------------------------------- */

/* Delays are none, or one beat at most. */
static struct relay_limits limits_of_play(void)
{
    struct relay_limits limits = relay_limits_default();

    limits.fetch_rows = IDS_MAX;
    limits.fetch_bytes = limits.window_bytes = 1000;
    limits.window_rows = IDS_MAX;
    limits.lane_rows = 8;
    limits.lanes_max = 3; /* the lane, its probe lane, and where rows wait for their topic */
    limits.topics_max = 1;
    limits.ranges_max = 8;
    limits.settled_rows = limits.fetch_rows;
    limits.writers_max = 8;
    limits.mark_rows = 8;
    limits.mark_rows_min = 1;
    limits.keys_max = 3;
    limits.mark_delay_ms = limits.poll_min_ms = limits.poll_max_ms = limits.gap_age_ms = limits.save_ms = 0;
    limits.writers_min_ms = BEAT_MS; /* or it would ask for nothing else while a transaction is open */
    limits.backoff_min_ms = limits.backoff_max_ms = 0;
    limits.lease_ttl_ms = 3 * BEAT_MS;
    limits.lease_margin_ms = BEAT_MS;
    limits.stuck_ms = limits.shutdown_ms = limits.probe_rest_ms = limits.idle_cold_ms = BEAT_MS;
    limits.patrol_ids = 0;
    limits.recent_rows = explore_play->crashes > 0 ? 2 : 0;
    return limits;
}

static void table_grow(void)
{
    uint32_t mask = pool.table_mask * 2 + 1;

    free(pool.table);
    pool.table = calloc((size_t)mask + 1, sizeof *pool.table);
    assert(pool.table != NULL);
    pool.table_mask = mask;
    for (uint32_t i = 0; i < pool.n; i++) {
        uint64_t at = pool.cores[i / CORES_CHUNK][i % CORES_CHUNK].digest;

        while (pool.table[at & mask] != 0)
            at++;
        pool.table[at & mask] = i + 1;
    }
}

void cores_start(void)
{
    struct relay_limits limits = limits_of_play();

    pool.scratch = relay_new(&limits, BEAT_MS);
    assert(pool.scratch != NULL);
    pool.size = (relay_size(pool.scratch) - sizeof pool.scratch->notes + 63) & ~(size_t)63;
    pool.table_mask = 1023;
    table_grow();
}

uint32_t cores_new(void)
{
    struct relay_limits limits = limits_of_play();

    relay_free(pool.scratch);
    pool.scratch = relay_new(&limits, BEAT_MS);
    assert(pool.scratch != NULL);
    return cores_put(pool.scratch, BEAT_MS);
}

static unsigned char *image_of(uint32_t number)
{
    return pool.images[number / CORES_CHUNK] + number % CORES_CHUNK * pool.size;
}

/* All of it but its notes, half of it, which are told; and its block stays its own. */
enum {
    NOTES_AT = offsetof(struct relay, notes),
    NOTES_END = NOTES_AT + sizeof((struct relay){0}.notes)
};

static void image_copy(struct relay *to, const unsigned char *image)
{
    void *block = to->block;

    memcpy(to, image, NOTES_AT);
    memcpy((unsigned char *)to + NOTES_END, image + NOTES_AT, relay_size(to) - NOTES_END);
    to->block = block;
}

static void image_make(unsigned char *image, const struct relay *from)
{
    assert(from->notes_n == 0);
    memcpy(image, from, NOTES_AT);
    memcpy(image + NOTES_AT, (const unsigned char *)from + NOTES_END, relay_size(from) - NOTES_END);
}

struct relay *cores_take(uint32_t number, uint64_t *ret_now_ms)
{
    *ret_now_ms = pool.cores[number / CORES_CHUNK][number % CORES_CHUNK].now_ms;
    image_copy(pool.scratch, image_of(number));
    return pool.scratch;
}

/* What differs and changes no decision here: jitter, how often something failed. */
static void core_simplify(struct relay *r)
{
    r->pace.random = 1;
    r->connect_attempts = r->mark_attempts = r->flush_attempts = 0;
    r->read_attempts = r->read_attempts > 0;
    r->settled_rows = 0; /* every save is due at once */
    for (unsigned i = 0; i < RELAY_SESSIONS; i++)
        r->sessions[i].attempts = 0;
}

static uint32_t core_add(const struct relay *r, struct core core)
{
    uint32_t chunk = pool.n / CORES_CHUNK;

    if (pool.n % CORES_CHUNK == 0) {
        assert(chunk < CHUNKS_MAX);
        pool.images[chunk] = aligned_alloc(64, pool.size * CORES_CHUNK);
        pool.cores[chunk] = calloc(CORES_CHUNK, sizeof(struct core));
        assert(pool.images[chunk] != NULL && pool.cores[chunk] != NULL);
    }
    image_make(image_of(pool.n), r);
    pool.cores[chunk][pool.n % CORES_CHUNK] = core;
    return pool.n++;
}

uint32_t cores_put(struct relay *r, uint64_t now_ms)
{
    struct core core = {.now_ms = now_ms};
    uint64_t at;

    core_simplify(r);
    core.digest = relay_digest(r, now_ms);
    if (pool.n > pool.table_mask / 2)
        table_grow();
    for (at = core.digest; pool.table[at & pool.table_mask] != 0; at++) {
        uint32_t number = pool.table[at & pool.table_mask] - 1;

        if (pool.cores[number / CORES_CHUNK][number % CORES_CHUNK].digest == core.digest)
            return number;
    }
    pool.table[at & pool.table_mask] = pool.n + 1;
    return core_add(r, core);
}

uint32_t cores_n(void)
{
    return pool.n;
}

uint8_t cores_token(uint32_t number)
{
    const struct relay *r = (const struct relay *)(const void *)image_of(number);

    return r->lease.held ? token_number(r->lease.token) : 0;
}

row_slot cores_slot(const struct relay *r, uint8_t event)
{
    const struct window *w = relay_window(r);

    for (row_slot slot = 0; slot < w->rows_max; slot++) {
        const struct window_slot *s = window_slots(w) + slot;

        if (s->state == WINDOW_HANDED && event_of(s->event_id) == event)
            return slot;
    }
    return ROW_NO_SLOT;
}
