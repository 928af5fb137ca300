/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/core/marks.h"

#include <assert.h>
#include <string.h>

struct mark {
    int64_t id;
    row_slot slot;
};

/* Behind it: two columns of marks to merge between, the ids, the event_ids. */
struct marks {
    _Alignas(16) uint32_t rows_max; /* what lies behind is aligned too */
    uint32_t n;
    uint32_t column; /* which of the two is the one now */
};

static struct mark *column_of(const struct marks *m, uint32_t column)
{
    return (struct mark *)(uintptr_t)(m + 1) + (size_t)column * m->rows_max;
}

static int64_t *ids_of(const struct marks *m)
{
    return (int64_t *)column_of(m, 2);
}

size_t marks_size(uint32_t rows_max)
{
    return sizeof(struct marks) + (size_t)rows_max * (2 * sizeof(struct mark) + sizeof(int64_t) + sizeof(struct row_event_id));
}

struct marks *marks_init(void *memory, uint32_t rows_max)
{
    struct marks *m = memory;

    memset(memory, 0, marks_size(rows_max));
    m->rows_max = rows_max;
    return m;
}

void marks_reset(struct marks *m)
{
    m->n = 0;
}

void marks_add(struct marks *m, row_slot slot, int64_t id)
{
    assert(m->n < m->rows_max);
    column_of(m, m->column)[m->n++] = (struct mark){id, slot};
}

/* Where the ascending run that begins at `at` ends. */
static uint32_t run_end(const struct mark *marks, uint32_t n, uint32_t at)
{
    if (at >= n)
        return n;
    for (at++; at < n && marks[at - 1].id <= marks[at].id; at++)
        continue;
    return at;
}

/* Merge neighbouring runs, two by two. Returns how many runs there were. */
static uint32_t merge_runs(const struct mark *from, struct mark *to, uint32_t n)
{
    uint32_t runs = 0, at = 0, out = 0;

    while (at < n) {
        uint32_t left = at, left_end = run_end(from, n, at), right = left_end, right_end = run_end(from, n, left_end);

        runs += right < n ? 2 : 1;
        at = right_end;
        while (left < left_end && right < right_end)
            to[out++] = from[left].id <= from[right].id ? from[left++] : from[right++];
        memcpy(to + out, from + left, (left_end - left) * sizeof *to);
        out += left_end - left;
        memcpy(to + out, from + right, (right_end - right) * sizeof *to);
        out += right_end - right;
    }
    return runs;
}

void marks_sort(struct marks *m)
{
    uint32_t runs;

    do {
        runs = merge_runs(column_of(m, m->column), column_of(m, !m->column), m->n);
        m->column = !m->column;
    } while (runs > 2);
    for (uint32_t i = 0; i < m->n; i++)
        ids_of(m)[i] = column_of(m, m->column)[i].id;
}

uint32_t marks_n(const struct marks *m)
{
    return m->n;
}

row_slot marks_slot(const struct marks *m, uint32_t i)
{
    assert(i < m->n);
    return column_of(m, m->column)[i].slot;
}

const int64_t *marks_ids(const struct marks *m)
{
    return ids_of(m);
}

struct row_event_id *marks_event_ids(const struct marks *m)
{
    return (struct row_event_id *)(ids_of(m) + m->rows_max);
}
