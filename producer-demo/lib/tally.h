/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters and one histogram of latencies that survive a kill -9: they lie in a small file that is mapped shared, and the kernel keeps what was
 * counted when the process is gone. So /metrics go on where they were, and the table at the end counts across restarts. Without a file
 * they lie in memory. Any thread may count. */
#ifndef PRODUCER_DEMO_TALLY_H
#define PRODUCER_DEMO_TALLY_H

#include <stddef.h>
#include <stdint.h>

struct tally;

struct tally_row {
    const char *name;   /* of the metric, without the prefix; a counter's ends with _total, another name is a gauge */
    const char *labels; /* `reason="too-old"`, or NULL */
    const char *help;
};

/* Counters numbered as in `rows` (lent for ever: a constant table), all named `prefix`_name. An existing file of the same table goes on;
 * one of another table, or none: all zero. NULL: ret_reason says why. */
struct tally *tally_open(const char *file, const char *prefix, const struct tally_row *rows, int rows_n, char *ret_reason,
                         size_t reason_size);
/* Put these labels before each metric's own, `way="unique"`; copied. Before other threads use the tally. */
void tally_label(struct tally *tally, const char *labels);
void tally_close(struct tally *tally);

void tally_add(struct tally *tally, int row, int64_t n);
void tally_set(struct tally *tally, int row, int64_t n); /* of a gauge */
int64_t tally_get(const struct tally *tally, int row);
/* One latency; all of them make one histogram, `prefix`_latency_seconds, and `prefix`_latency_quantile_seconds. */
void tally_latency(struct tally *tally, int64_t microseconds);
/* The latency that `percent` of 100 did not exceed, from the histogram (its buckets are 10 % apart); 0 if there was none. In microseconds. */
int64_t tally_percentile(const struct tally *tally, double percent);
/* Prometheus text of everything; the caller frees it. */
char *tally_render(const struct tally *tally, size_t *ret_n);

#endif
