/* SPDX-License-Identifier: BSD-2-Clause */
/* The outstanding mark: which rows it covers, in the order of their ids, in the columns that a statement takes. */
#ifndef RELAY_CORE_MARKS_H
#define RELAY_CORE_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "relay/core/row.h"

struct marks;

size_t marks_size(uint32_t rows_max);
/* Lies in `memory` of marks_size() bytes, kept. */
struct marks *marks_init(void *memory, uint32_t rows_max);

void marks_reset(struct marks *m);
/* At most rows_max of them (asserted). */
void marks_add(struct marks *m, row_slot slot, int64_t id);
/* All are added: put them in the order of their ids. Reports come as a few ascending runs, one a partition: runs are merged. */
void marks_sort(struct marks *m);

uint32_t marks_n(const struct marks *m);
row_slot marks_slot(const struct marks *m, uint32_t i);
const int64_t *marks_ids(const struct marks *m);
struct row_event_id *marks_event_ids(const struct marks *m); /* for the caller to fill, after the sort */

#endif
