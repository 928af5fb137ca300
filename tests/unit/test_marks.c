/* SPDX-License-Identifier: BSD-2-Clause */
/* The outstanding mark. */
#include "relay/core/marks.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

#define ROWS 1000

/* Add ids in this order, each with the slot of its own number, and sort. */
static void fill(struct marks *m, const int64_t *ids, uint32_t n)
{
    marks_reset(m);
    for (uint32_t i = 0; i < n; i++)
        marks_add(m, (row_slot)ids[i] + 7, ids[i]);
    marks_sort(m);
    CHECK_EQ(marks_n(m), n);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(i == 0 || marks_ids(m)[i - 1] <= marks_ids(m)[i]);
        CHECK_EQ(marks_slot(m, i), marks_ids(m)[i] + 7);
    }
}

static struct marks *marks_new(void)
{
    return marks_init(memset(test_allocate(marks_size(ROWS)), 0xa5, marks_size(ROWS)), ROWS);
}

TEST(marks_are_in_the_order_of_their_ids)
{
    struct marks *m = marks_new();
    const int64_t ids[] = {3, 6, 9, 1, 4, 8, 2, 5, 7};

    fill(m, NULL, 0);
    fill(m, ids, 1);
    fill(m, ids, 3); /* one run */
    fill(m, ids, 6);
    fill(m, ids, 7);
    fill(m, ids, 9);
    CHECK_EQ(marks_ids(m)[0], 1);
    CHECK_EQ(marks_ids(m)[8], 9);
}

TEST(marks_can_be_as_many_as_fit_and_in_the_worst_order)
{
    struct marks *m = marks_new();
    int64_t ids[ROWS];

    for (uint32_t i = 0; i < ROWS; i++)
        ids[i] = ROWS - i;
    fill(m, ids, ROWS);
    for (uint32_t i = 0; i < ROWS; i++)
        ids[i] = i * 7919 % ROWS + 1;
    fill(m, ids, ROWS);
    for (uint32_t i = 0; i < ROWS; i++)
        CHECK_EQ(marks_ids(m)[i], i + 1);
}

/* Two events with one id: both are marked. */
TEST(marks_keep_rows_of_equal_ids)
{
    struct marks *m = marks_new();

    marks_reset(m);
    marks_add(m, 1, 5);
    marks_add(m, 2, 5);
    marks_add(m, 3, 4);
    marks_sort(m);
    CHECK(marks_slot(m, 0) == 3 && marks_slot(m, 1) == 1 && marks_slot(m, 2) == 2);
}

TEST(marks_have_room_for_their_event_ids)
{
    struct marks *m = marks_new();

    marks_reset(m);
    for (uint32_t i = 0; i < ROWS; i++)
        marks_add(m, i, i);
    marks_sort(m);
    for (uint32_t i = 0; i < ROWS; i++)
        marks_event_ids(m)[i] = (struct row_event_id){{1}};
    for (uint32_t i = 0; i < ROWS; i++)
        CHECK(marks_ids(m)[i] == i && marks_slot(m, i) == i && marks_event_ids(m)[i].bytes[0] == 1);
}
