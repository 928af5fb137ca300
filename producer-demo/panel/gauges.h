/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers in the text of a /metrics page. */
#ifndef PRODUCER_DEMO_PANEL_GAUGES_H
#define PRODUCER_DEMO_PANEL_GAUGES_H

#include <stdint.h>

/* The sum over all labels of the metric `name`; 0 if the text has none. */
double gauges_sum(const char *text, const char *name);
/* The same of the lines whose labels contain `label` (`reason="mismatch"`). */
double gauges_sum_labelled(const char *text, const char *name, const char *label);

#define GAUGES_BUCKETS_MAX 256

/* A histogram: how many were at most that many seconds, cumulative, as Prometheus has it. The bucket of all (+Inf) is the last. */
struct gauges_histogram {
    int n;
    double seconds[GAUGES_BUCKETS_MAX], counts[GAUGES_BUCKETS_MAX];
};

/* Read NAME_bucket lines; n is 0 if there are none. */
void gauges_histogram_read(const char *text, const char *name, struct gauges_histogram *ret_histogram);
/* What `percent` of 100 did not exceed, in microseconds, of what came between `before` and `now`; 0 if nothing came. Within a
 * bucket all are taken to be spread evenly, as Prometheus does. If `before` is of another
 * life of the counter (more than now), all of `now` counts. */
int64_t gauges_percentile(const struct gauges_histogram *before, const struct gauges_histogram *now, double percent);

#endif
