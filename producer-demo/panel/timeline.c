/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/timeline.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTS_MAX 900
#define MARKS_MAX  64

struct point {
    int64_t at_ms, drift_cents[BOOKS_WAYS_N];
    bool known[BOOKS_WAYS_N];
};

struct mark {
    int64_t at_ms;
    char text[80];
};

struct timeline {
    pthread_mutex_t mutex; /* of all below; rings, counted since the last timeline_forget */
    struct point points[POINTS_MAX];
    struct mark marks[MARKS_MAX];
    int64_t points_n, marks_n;
};

struct timeline *timeline_open(void)
{
    struct timeline *timeline = calloc(1, sizeof *timeline);

    if (!timeline)
        abort();
    pthread_mutex_init(&timeline->mutex, NULL);
    return timeline;
}

void timeline_close(struct timeline *timeline)
{
    pthread_mutex_destroy(&timeline->mutex);
    free(timeline);
}

void timeline_forget(struct timeline *timeline)
{
    pthread_mutex_lock(&timeline->mutex);
    timeline->points_n = timeline->marks_n = 0;
    pthread_mutex_unlock(&timeline->mutex);
}

void timeline_add(struct timeline *timeline, int64_t at_ms, const struct book books[BOOKS_WAYS_N])
{
    struct point *point;

    pthread_mutex_lock(&timeline->mutex);
    point = &timeline->points[timeline->points_n++ % POINTS_MAX];
    point->at_ms = at_ms;
    for (int i = 0; i < BOOKS_WAYS_N; i++) {
        point->known[i] = books[i].known;
        point->drift_cents[i] = books[i].actual_cents - books[i].intended_cents;
    }
    pthread_mutex_unlock(&timeline->mutex);
}

void timeline_mark(struct timeline *timeline, int64_t at_ms, const char *text)
{
    bool is_new = true;

    pthread_mutex_lock(&timeline->mutex);
    for (int64_t i = timeline->marks_n; i-- > 0 && i >= timeline->marks_n - MARKS_MAX && is_new;)
        if (at_ms - timeline->marks[i % MARKS_MAX].at_ms < 2000 && strcmp(timeline->marks[i % MARKS_MAX].text, text) == 0)
            is_new = false;
    if (is_new) {
        struct mark *mark = &timeline->marks[timeline->marks_n++ % MARKS_MAX];

        mark->at_ms = at_ms;
        (void)snprintf(mark->text, sizeof mark->text, "%s", text);
    }
    pthread_mutex_unlock(&timeline->mutex);
}

static json_t *marks_list(const struct timeline *timeline)
{
    json_t *list = json_array();

    for (int64_t i = timeline->marks_n > MARKS_MAX ? timeline->marks_n - MARKS_MAX : 0; i < timeline->marks_n; i++)
        json_array_append_new(list, json_pack("{s:I, s:s}", "at", (json_int_t)timeline->marks[i % MARKS_MAX].at_ms, "text",
                                              timeline->marks[i % MARKS_MAX].text));
    return list;
}

json_t *timeline_marks(struct timeline *timeline)
{
    json_t *list;

    pthread_mutex_lock(&timeline->mutex);
    list = marks_list(timeline);
    pthread_mutex_unlock(&timeline->mutex);
    return list;
}

static int64_t first(const struct timeline *timeline)
{
    return timeline->points_n > POINTS_MAX ? timeline->points_n - POINTS_MAX : 0;
}

static json_t *line_list(const struct timeline *timeline, int way)
{
    json_t *list = json_array();

    for (int64_t i = first(timeline); i < timeline->points_n; i++) {
        const struct point *point = &timeline->points[i % POINTS_MAX];

        json_array_append_new(list, point->known[way] ? json_integer(point->drift_cents[way]) : json_null());
    }
    return list;
}

json_t *timeline_points(struct timeline *timeline)
{
    json_t *at = json_array(), *drift = json_object(), *marks;

    pthread_mutex_lock(&timeline->mutex);
    for (int64_t i = first(timeline); i < timeline->points_n; i++)
        json_array_append_new(at, json_integer(timeline->points[i % POINTS_MAX].at_ms));
    for (int way = 0; way < BOOKS_WAYS_N; way++)
        json_object_set_new(drift, books_ways[way], line_list(timeline, way));
    marks = marks_list(timeline);
    pthread_mutex_unlock(&timeline->mutex);
    return json_pack("{s:o, s:o, s:o}", "at", at, "drift", drift, "marks", marks);
}
