/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the panel share; main.c fills it in before any thread runs, and it does not change. */
#ifndef PRODUCER_DEMO_PANEL_PANEL_H
#define PRODUCER_DEMO_PANEL_PANEL_H

#include "producer-demo/lib/store.h"
#include "producer-demo/lib/web_feed.h"
#include "producer-demo/panel/desk.h"
#include "producer-demo/panel/journey.h"
#include "producer-demo/panel/progress.h"
#include "producer-demo/panel/tap.h"

struct sampler;

struct panel {
    const char *folder;       /* of the processes, see place.h */
    const char *topic;        /* the orders' */
    const char *page, *chart; /* folder of the page's files; the chart library */
    const char *absent;       /* why some ways are not there, "WAY: reason" in lines; "" if nobody said */
    struct store *store;
    struct tap *tap;
    struct progress *progress;
    struct journey *journey;
    struct desk *desk;
    struct sampler *sampler;
    struct web_feed *feed;
};

#define PANEL_PLACES_MAX 24

/* The names of all processes that a demo may have: services first, then consumer-WAY in the order of books_ways. NULL after the last. */
const char *panel_place(int i);

#endif
