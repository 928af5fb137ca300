/* SPDX-License-Identifier: BSD-2-Clause */
/* The ranges lie in two columns, firsts and lasts, as a statement wants them; a read writes the ranges that it leaves into a second pair of
 * columns and the pairs change places, so that an answer costs one pass however many ranges it splits.
 */
#include "relay/core/gaps.h"

#include <assert.h>
#include <string.h>

#include "relay/core/digest.h"
#include "relay/core/holders.h"
#include "relay/core/relay.h"

enum gaps_phase {
    GAPS_IDLE,    /* no round */
    GAPS_ASKED,   /* a question is on its way for the ranges below round_upto */
    GAPS_HOLDERS, /* some who held the lock then have not ended, and will soon */
    GAPS_READ     /* one more read closes those that nobody holds up any more */
};

struct gaps {
    uint32_t ranges_max, writers_max;
    uint32_t n, next_n; /* ranges now; and written so far by the read being answered */
    uint32_t at;        /* the range that the read being answered has come to */
    bool current;       /* which of the two pairs of columns is the one now */
    bool reading;       /* a read is on its way... */
    bool read_closes;   /* ...and began after its round was ready for it */
    bool asking;        /* a question is on its way */
    enum gaps_phase phase;
    int64_t highest;
    int64_t round_upto; /* the round's gaps are those up to here that were open when it began */
};

/* --- layout ------------------------------------------------------------------------------------------------------- */

static uint32_t column_n(const struct gaps *g)
{
    return g->ranges_max;
}

static int64_t *column(const struct gaps *g, unsigned number)
{
    return (int64_t *)(uintptr_t)(g + 1) + (size_t)number * column_n(g);
}

static int64_t *firsts_of(const struct gaps *g, bool pair)
{
    return column(g, pair ? 3 : 0);
}

static int64_t *lasts_of(const struct gaps *g, bool pair)
{
    return column(g, pair ? 4 : 1);
}

static uint64_t *since_of(const struct gaps *g, bool pair)
{
    return (uint64_t *)column(g, pair ? 5 : 2);
}

/* Who must end first. */
static struct holders *holders_of(const struct gaps *g)
{
    return (struct holders *)column(g, 6);
}

size_t gaps_size(uint32_t ranges_max, uint32_t writers_max)
{
    return sizeof(struct gaps) + 6 * (size_t)ranges_max * sizeof(int64_t) + holders_size(writers_max);
}

struct gaps *gaps_init(void *memory, uint32_t ranges_max, uint32_t writers_max, int64_t floor)
{
    struct gaps *g = memory;

    assert(ranges_max > 1);
    memset(memory, 0, gaps_size(ranges_max, writers_max));
    g->ranges_max = ranges_max;
    g->writers_max = writers_max;
    (void)holders_init(holders_of(g), writers_max);
    gaps_reset(g, floor);
    return g;
}

void gaps_reset(struct gaps *g, int64_t floor)
{
    g->n = g->next_n = g->at = 0;
    holders_reset(holders_of(g));
    g->reading = g->read_closes = g->asking = false;
    g->phase = GAPS_IDLE;
    g->highest = floor;
    g->round_upto = 0;
}

/* --- reads -------------------------------------------------------------------------------------------------------- */

void gaps_read_begin(struct gaps *g)
{
    assert(!g->reading);
    g->reading = true;
    g->read_closes = g->phase == GAPS_READ;
    g->at = g->next_n = 0;
}

uint32_t gaps_ranges(const struct gaps *g, const int64_t **ret_firsts, const int64_t **ret_lasts)
{
    *ret_firsts = firsts_of(g, g->current);
    *ret_lasts = lasts_of(g, g->current);
    return g->n;
}

static void range_push(struct gaps *g, int64_t first, int64_t last, uint64_t since_ms)
{
    assert(g->next_n < g->ranges_max);
    firsts_of(g, !g->current)[g->next_n] = first;
    lasts_of(g, !g->current)[g->next_n] = last;
    since_of(g, !g->current)[g->next_n] = since_ms;
    g->next_n++;
}

/* Carry over the ranges that end below `id`. */
static void ranges_pass(struct gaps *g, int64_t id)
{
    const int64_t *firsts = firsts_of(g, g->current), *lasts = lasts_of(g, g->current);

    while (g->at < g->n && lasts[g->at] < id) {
        range_push(g, firsts[g->at], lasts[g->at], since_of(g, g->current)[g->at]);
        g->at++;
    }
}

/* Is there room for one more range, beside those that were written and those that are left? */
static bool ranges_have_room(const struct gaps *g)
{
    return g->next_n + (g->n - g->at) < g->ranges_max;
}

bool gaps_read_see(struct gaps *g, uint64_t now_ms, int64_t id)
{
    int64_t *first;

    assert(g->reading);
    ranges_pass(g, id);
    if (id > g->highest) {
        if (id > g->highest + 1) {
            if (!ranges_have_room(g))
                return false;
#ifndef MUTANT_ID_ABOVE_LAST
            range_push(g, g->highest + 1, id - 1, now_ms);
#endif
        }
        g->highest = id;
        return true;
    }
    first = firsts_of(g, g->current) + g->at;
    if (g->at == g->n || id < *first)
        return true; /* in no gap: it was seen before */
    if (*first < id) {
        if (id < lasts_of(g, g->current)[g->at] && !ranges_have_room(g))
            return false;
        range_push(g, *first, id - 1, since_of(g, g->current)[g->at]);
    }
    *first = id + 1;
    if (*first > lasts_of(g, g->current)[g->at])
        g->at++;
    return true;
}

/* The first range that ends at or above `id`. */
static uint32_t range_at(const struct gaps *g, int64_t id)
{
    const int64_t *lasts = lasts_of(g, g->current);
    uint32_t low = 0, high = g->n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (lasts[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Is a gap open above `above`, up to `upto`? */
static bool open_within(const struct gaps *g, int64_t above, int64_t upto)
{
    uint32_t at = range_at(g, above + 1);

    return above < upto && at < g->n && firsts_of(g, g->current)[at] <= upto;
}

/* Move the ranges from `from` on to `to`. */
static void ranges_move(struct gaps *g, uint32_t from, uint32_t to)
{
    int64_t *firsts = firsts_of(g, g->current), *lasts = lasts_of(g, g->current);
    uint64_t *since = since_of(g, g->current);
    size_t n = g->n - from;

    memmove(firsts + to, firsts + from, n * sizeof *firsts);
    memmove(lasts + to, lasts + from, n * sizeof *lasts);
    memmove(since + to, since + from, n * sizeof *since);
    g->n = to + (uint32_t)n;
}

/* Close the gaps above `above`, up to `upto`. */
static void ranges_close(struct gaps *g, int64_t above, int64_t upto)
{
    int64_t *firsts = firsts_of(g, g->current), *lasts = lasts_of(g, g->current);
    uint32_t at = range_at(g, above + 1), end;

    if (above >= upto)
        return;
    if (at < g->n && firsts[at] <= above && lasts[at] > upto) {
        if (g->n == g->ranges_max)
            return; /* no room to split it: the next read may go further */
        ranges_move(g, at, at + 1);
        lasts[at++] = above;
    } else if (at < g->n && firsts[at] <= above) {
        lasts[at++] = above;
    }
    for (end = at; end < g->n && lasts[end] <= upto;)
        end++;
    ranges_move(g, end, at);
    if (at < g->n && firsts[at] <= upto)
        firsts[at] = upto + 1;
}

/* What does the round wait for next? Gaps that only the quiet hold up wait for the next one: they must not hold up those above them. */
static void round_go_on(struct gaps *g)
{
    int64_t blocked, quiet;

    if (g->phase == GAPS_IDLE || g->asking)
        return;
    blocked = holders_block_upto(holders_of(g));
    quiet = holders_quiet_block_upto(holders_of(g));
    if (open_within(g, blocked, g->round_upto))
        g->phase = GAPS_READ;
    else
        g->phase = open_within(g, quiet, blocked) ? GAPS_HOLDERS : GAPS_IDLE;
}

void gaps_read_end(struct gaps *g, int64_t upto)
{
    assert(g->reading);
    ranges_pass(g, INT64_MAX);
    g->current = !g->current;
    g->n = g->next_n;
    g->reading = false;
#ifdef MUTANT_CUT_CLOSES
    upto = INT64_MAX;
#endif
    if (g->read_closes)
        ranges_close(g, holders_block_upto(holders_of(g)), upto < g->round_upto ? upto : g->round_upto);
    round_go_on(g);
}

void gaps_read_fail(struct gaps *g)
{
    assert(g->reading);
    g->reading = false;
}

bool gaps_full(const struct gaps *g, uint32_t rows)
{
    return g->n + rows > g->ranges_max;
}

/* --- closing ------------------------------------------------------------------------------------------------------ */

uint64_t gaps_wants_writers_due_ms(const struct gaps *g, uint32_t age_ms)
{
    if (g->n == 0 || g->asking || g->phase == GAPS_READ)
        return UINT64_MAX;
    return g->phase == GAPS_HOLDERS ? 0 : since_of(g, g->current)[0] + age_ms;
}

bool gaps_wants_writers(const struct gaps *g, uint64_t now_ms, uint32_t age_ms)
{
    return now_ms >= gaps_wants_writers_due_ms(g, age_ms);
}

void gaps_writers_begin(struct gaps *g)
{
    assert(!g->asking);
    g->asking = true;
    if (g->phase == GAPS_IDLE) {
        g->phase = GAPS_ASKED;
        g->round_upto = g->highest; /* every gap that is open now lies below, every later one above */
    }
}

void gaps_writers_end(struct gaps *g, int64_t last_id, const struct relay_writer *writers, uint32_t writers_n)
{
    assert(g->asking);
    if (g->phase == GAPS_ASKED && (last_id < g->round_upto || writers_n > g->writers_max)) {
        gaps_writers_fail(g);
        return;
    }
    g->asking = false;
    holders_see(holders_of(g), last_id, writers, writers_n, g->phase == GAPS_ASKED ? g->round_upto : 0);
#ifdef MUTANT_HOLDERS_FIRST
    g->round_upto = g->highest; /* covers gaps that were seen after the holders were asked for */
#endif
    round_go_on(g);
#ifdef MUTANT_NO_MORE_READ
    if (g->phase == GAPS_READ && !g->reading) {
        ranges_close(g, holders_block_upto(holders_of(g)), g->round_upto);
        round_go_on(g);
    }
#endif
}

void gaps_writers_fail(struct gaps *g)
{
    assert(g->asking);
    g->asking = false;
    if (g->phase == GAPS_ASKED)
        g->phase = GAPS_IDLE;
    round_go_on(g);
}

bool gaps_wants_read(const struct gaps *g)
{
    return g->phase == GAPS_READ && !(g->reading && g->read_closes);
}

/* --- to know ------------------------------------------------------------------------------------------------------ */

bool gaps_open_at(const struct gaps *g, int64_t id)
{
    assert(!g->reading);
    return open_within(g, id - 1, id);
}

uint32_t gaps_n(const struct gaps *g)
{
    return g->n;
}

int64_t gaps_highest(const struct gaps *g)
{
    return g->highest;
}

int64_t gaps_closed_upto(const struct gaps *g)
{
#ifdef MUTANT_FLOOR_PAST_GAP
    return g->highest;
#endif
    return g->n > 0 ? firsts_of(g, g->current)[0] - 1 : g->highest;
}

uint64_t gaps_oldest_ms(const struct gaps *g)
{
    return g->n > 0 ? since_of(g, g->current)[0] : 0;
}

uint64_t gaps_digest(const struct gaps *g, uint64_t now_ms)
{
    uint64_t digest = digest_add(digest_add(3, (uint64_t)g->highest), g->n);

    digest = digest_add(digest, (uint64_t)(g->reading * 4 + g->read_closes * 2 + g->asking) * 8 + g->phase);
    if (g->phase != GAPS_IDLE)
        digest = digest_add(digest, (uint64_t)g->round_upto);
    for (uint32_t i = 0; i < g->n; i++) {
        digest = digest_add(digest, (uint64_t)firsts_of(g, g->current)[i]);
        digest = digest_add(digest, (uint64_t)lasts_of(g, g->current)[i]);
        digest = digest_add(digest, now_ms - since_of(g, g->current)[i]);
    }
    return digest_add(digest, holders_digest(holders_of(g)));
}
