/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/attribution.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/attribution_log.h"
#include "tests/lib/oracle_read.h"

/* How long before its window a copy may have been appended: rows wait for their mark much shorter, unless something is wrong already. */
#define MARK_LAG_MS 5000
/* How long after it: what a broker had received already, and what a paused client's library still sends. */
#define APPEND_LAG_MS 30000
/* So long librdkafka tries to get an answer to a batch that was appended: as long as a broker, or enough of its replicas, are away. */
#define RETRIED_MS 120000
/* Marks that a database loses are younger: it writes them to its disk at least so often, and to a standby that is not cut off. */
#define LOST_MARKS_MS 30000
/* Between a death and the moment when it was seen; between an event and its line. */
#define SEEN_MS 500

struct span {
    unsigned window;
    int64_t from_ms, to_ms; /* of the copy before */
    int64_t after_ms;       /* the later copy is not older */
    int64_t room;           /* duplicates that fit; -1: any number */
    bool marked_later;      /* the row was not marked before `after_ms` */
};

struct spans {
    struct span *list;
    size_t n, max;
};

static void add(struct spans *s, struct span span)
{
    s->list = oracle_grow(s->list, s->n, &s->max, sizeof *s->list);
    s->list[s->n++] = span;
}

static bool has(const struct attribution_facts *f, unsigned process, enum attribution_fact_kind kind)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->list[i].process == process && f->list[i].kind == kind)
            return true;
    return false;
}

/* --- windows ------------------------------------------------------------------------------------------------------ */

/* A process ended without a word. Rows that were acknowledged long before are explained only by trouble that it had. */
static void add_death(struct spans *s, const struct attribution_facts *f, unsigned process, int64_t ended_ms, int64_t trouble_ms)
{
    int64_t from_ms = trouble_ms != 0 && trouble_ms < ended_ms ? trouble_ms : ended_ms;

    if (ended_ms == 0 || has(f, process, ATTRIBUTION_STOPPED))
        return;
    add(s, (struct span){.window = 1,
                         .from_ms = from_ms - MARK_LAG_MS,
                         .to_ms = ended_ms + APPEND_LAG_MS,
                         .after_ms = ended_ms - SEEN_MS,
                         .room = -1,
                         .marked_later = true});
}

/* Who else got the lease after `lost` was last granted it, and before it came back; NULL: nobody. */
static const struct attribution_fact *overlap(const struct attribution_facts *f, const struct attribution_fact *lost)
{
    int64_t held_ms = 0, back_ms = INT64_MAX;
    const struct attribution_fact *other = NULL;

    for (size_t i = 0; i < f->n; i++) {
        const struct attribution_fact *x = &f->list[i];

        if (x->kind != ATTRIBUTION_HELD || x->process != lost->process)
            continue;
        if (x->ms <= lost->ms && x->ms > held_ms)
            held_ms = x->ms;
        if (x->ms > lost->ms && x->ms < back_ms)
            back_ms = x->ms;
    }
    for (size_t i = 0; i < f->n; i++) {
        const struct attribution_fact *x = &f->list[i];

        if (x->kind == ATTRIBUTION_HELD && x->process != lost->process && x->ms >= held_ms && x->ms < back_ms &&
            (other == NULL || x->ms < other->ms))
            other = x;
    }
    return other;
}

static void add_lease_lost(struct spans *s, const struct attribution_facts *f, const struct attribution_fact *lost)
{
    const struct attribution_fact *other = overlap(f, lost);

    if (other == NULL || lost->rows + lost->beat_rows == 0)
        return;
    int64_t first_ms = other->ms < lost->ms ? other->ms : lost->ms;

    add(s, (struct span){.window = 4,
                         .from_ms = first_ms - APPEND_LAG_MS,
                         .to_ms = lost->ms + APPEND_LAG_MS,
                         .after_ms = other->ms - SEEN_MS,
                         .room = lost->rows >= 0 ? lost->rows + lost->beat_rows : -1});
}

/* Until when marks went wrong; rows that were acknowledged meanwhile were not marked. */
static int64_t marks_work_ms(const struct attribution_facts *f, const struct attribution_fact *wrong)
{
    int64_t ms = wrong->ms + APPEND_LAG_MS;

    for (size_t i = 0; i < f->n; i++) {
        const struct attribution_fact *x = &f->list[i];

        if (x->kind == ATTRIBUTION_MARK_WORKS && x->process == wrong->process && x->ms >= wrong->ms && x->ms < ms)
            ms = x->ms;
    }
    return ms;
}

/* As `marks`, but for marks that were answered. */
static void add_lost_marks(struct spans *s, struct span marks)
{
    marks.window = 5;
    marks.from_ms += MARK_LAG_MS - LOST_MARKS_MS;
    marks.room = -1;
    add(s, marks);
}

static void add_fact(struct spans *s, const struct attribution_facts *f, const struct attribution_fact *x)
{
    struct span marks = {.window = 2,
                         .from_ms = x->ms - MARK_LAG_MS,
                         .to_ms = marks_work_ms(f, x) + SEEN_MS,
                         .after_ms = x->ms - SEEN_MS,
                         .room = x->rows,
                         .marked_later = true};

    switch (x->kind) {
    case ATTRIBUTION_LEASE_LOST:
        add_lease_lost(s, f, x);
        break;
    case ATTRIBUTION_SESSION_ENDED:
        if (x->rows != 0)
            add(s, (struct span){.window = 3,
                                 .from_ms = x->ms - APPEND_LAG_MS,
                                 .to_ms = x->ms + APPEND_LAG_MS,
                                 .after_ms = x->ms - SEEN_MS,
                                 .room = x->rows});
        break;
    case ATTRIBUTION_DATABASE_LOST:
    case ATTRIBUTION_MARK_FAILED:
    case ATTRIBUTION_OVERRAN:
        if (x->rows != 0)
            add(s, marks);
        if (x->kind == ATTRIBUTION_DATABASE_LOST) /* it may come back without its last marks */
            add_lost_marks(s, marks);
        break;
    case ATTRIBUTION_STARTED_OVER:
        add_lease_lost(s, f, x);
        add_lost_marks(s, marks);
        break;
    case ATTRIBUTION_RENEWED:
        add(s, (struct span){
                   .window = 7, .from_ms = x->ms - RETRIED_MS, .to_ms = x->ms + APPEND_LAG_MS, .after_ms = x->ms - SEEN_MS, .room = -1});
        break;
    case ATTRIBUTION_STOPPED:
    case ATTRIBUTION_HELD:
    case ATTRIBUTION_MARK_WORKS:
        break;
    }
}

/* --- judgement ---------------------------------------------------------------------------------------------------- */

static bool explains(const struct span *s, const struct oracle_duplicate *d)
{
    return d->earlier_ms >= s->from_ms && d->earlier_ms <= s->to_ms && d->later_ms >= s->after_ms &&
           (!s->marked_later || d->marked_ms == 0 || d->marked_ms >= s->after_ms);
}

/* Of the allowed windows with room the one that is over first, one with a limit before one without. */
static struct span *choose(struct spans *s, const struct oracle_duplicate *d, unsigned windows)
{
    struct span *best = NULL;

    for (size_t i = 0; i < s->n; i++) {
        struct span *x = &s->list[i];

        if ((windows >> x->window & 1) == 0 || x->room == 0 || !explains(x, d))
            continue;
        if (best == NULL || (x->room > 0) > (best->room > 0) || ((x->room > 0) == (best->room > 0) && x->to_ms < best->to_ms))
            best = x;
    }
    return best;
}

static void tell_unexplained(struct spans *s, const struct oracle_duplicate *d, struct attribution *ret)
{
    char others[80] = "";
    size_t n = 0;

    if (ret->unexplained++ >= ATTRIBUTION_FINDINGS)
        return;
    for (size_t i = 0; i < s->n && n < sizeof others - 32; i++)
        if (explains(&s->list[i], d))
            n += (size_t)snprintf(others + n, sizeof others - n, " D%u(room %" PRId64 ")", s->list[i].window, s->list[i].room);
    (void)snprintf(ret->finding[ret->findings_n++], sizeof ret->finding[0],
                   "duplicate at offset %" PRId64 " of partition %d: copies at %" PRId64 " and %" PRId64 ", marked at %" PRId64
                   "; no allowed window explains it; windows that would:%s",
                   d->offset, d->partition, d->earlier_ms, d->later_ms, d->marked_ms, n > 0 ? others : " none");
}

static int by_earlier(const void *a, const void *b)
{
    const struct oracle_duplicate *x = a, *y = b;

    return (x->earlier_ms > y->earlier_ms) - (x->earlier_ms < y->earlier_ms);
}

static void judge_all(struct spans *s, const struct oracle_duplicate *duplicates, int64_t n, unsigned windows, struct attribution *ret)
{
    struct oracle_duplicate *sorted = calloc((size_t)n + 1, sizeof *sorted);

    if (sorted == NULL)
        abort();
    if (n > 0)
        memcpy(sorted, duplicates, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_earlier);
    for (int64_t i = 0; i < n; i++) {
        struct span *best = choose(s, &sorted[i], windows);

        if (best == NULL) {
            tell_unexplained(s, &sorted[i], ret);
            continue;
        }
        ret->duplicates[best->window]++;
        best->room -= best->room > 0;
    }
    free(sorted);
}

bool attribution_judge(const struct attribution_process *processes, unsigned processes_n, const struct oracle_duplicate *duplicates,
                       int64_t duplicates_n, unsigned windows, struct attribution *ret, char *error, size_t error_size)
{
    struct attribution_facts facts = {0};
    struct spans spans = {0};
    bool read = true;

    memset(ret, 0, sizeof *ret);
    for (unsigned i = 0; read && i < processes_n; i++) {
        read = attribution_log_read(&facts, processes[i].log, i, error, error_size);
        if (read)
            add_death(&spans, &facts, i, processes[i].ended_ms, facts.trouble_ms);
    }
    for (size_t i = 0; i < facts.n; i++)
        add_fact(&spans, &facts, &facts.list[i]);
    if (read)
        judge_all(&spans, duplicates, duplicates_n, windows, ret);
    free(spans.list);
    attribution_facts_reset(&facts);
    return read;
}
