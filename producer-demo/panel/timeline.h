/* SPDX-License-Identifier: BSD-2-Clause */
/* The drift of every way over the last quarter of an hour, and what happened when: what a page that was opened just now draws. Any thread. */
#ifndef PRODUCER_DEMO_PANEL_TIMELINE_H
#define PRODUCER_DEMO_PANEL_TIMELINE_H

#include "producer-demo/panel/books.h"

#include <jansson.h>
#include <stdint.h>

struct timeline;

struct timeline *timeline_open(void);
void timeline_close(struct timeline *timeline);
void timeline_forget(struct timeline *timeline);

/* One point of every line. */
void timeline_add(struct timeline *timeline, int64_t at_ms, const struct book books[BOOKS_WAYS_N]);
/* Something happened; `text` is copied. The same text within two seconds is one event. */
void timeline_mark(struct timeline *timeline, int64_t at_ms, const char *text);
json_t *timeline_marks(struct timeline *timeline);  /* [{at, text}], oldest first */
json_t *timeline_points(struct timeline *timeline); /* {at: [...], drift: {WAY: [cents or null, ...]}, marks} */

#endif
