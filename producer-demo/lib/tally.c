/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/tally.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROWS_MAX    64
#define BUCKETS     201 /* each ends 10 % above the one before: from 1 us to more than three minutes */
#define BUCKET_STEP 8   /* of these, one in the text: a factor of 2.1 */

/* What lies in the file. Several threads, and several processes, count in it. */
struct counts {
    uint64_t table; /* a hash of its rows' names: a file of another table is not taken for this one */
    int64_t rows[ROWS_MAX];
    int64_t buckets[BUCKETS];
    int64_t latencies_us;
};

struct tally {
    const struct tally_row *rows;
    int rows_n;
    char *prefix, *labels;
    struct counts *counts;
    int64_t limits_us[BUCKETS]; /* the ends of the buckets; the last has none */
};

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return (hash ^ 255) * 1099511628211u;
}

static uint64_t hash_table(const char *prefix, const struct tally_row *rows, int rows_n)
{
    uint64_t hash = hash_text(14695981039346656037u, prefix);

    for (int i = 0; i < rows_n; i++)
        hash = hash_text(hash_text(hash, rows[i].name), rows[i].labels ? rows[i].labels : "");
    return hash;
}

/* The file's counts, or memory that has no file. NULL: errno says why not. */
static struct counts *counts_map(const char *file)
{
    struct counts *counts = NULL;
    void *memory;
    int fd = -1;

    if (file) {
        fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 || ftruncate(fd, sizeof *counts) != 0)
            goto out;
    }
    memory = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (memory != MAP_FAILED)
        counts = memory;
out:
    if (fd >= 0)
        (void)close(fd);
    return counts;
}

static void limits_fill(int64_t *limits_us)
{
    double limit = 1;

    for (int i = 0; i < BUCKETS; i++, limit *= 1.1)
        limits_us[i] = i < 10 ? i + 1 : (int64_t)limit; /* under 10 us they are 1 us apart */
    for (int i = 1; i < BUCKETS; i++)
        if (limits_us[i] <= limits_us[i - 1])
            limits_us[i] = limits_us[i - 1] + 1;
}

struct tally *tally_open(const char *file, const char *prefix, const struct tally_row *rows, int rows_n, char *ret_reason,
                         size_t reason_size)
{
    struct tally *tally = calloc(1, sizeof *tally);
    uint64_t table = hash_table(prefix, rows, rows_n);

    assert(rows_n <= ROWS_MAX);
    if (!tally || !(tally->prefix = strdup(prefix)))
        abort();
    tally->rows = rows;
    tally->rows_n = rows_n;
    limits_fill(tally->limits_us);
    tally->counts = counts_map(file);
    if (!tally->counts) {
        (void)snprintf(ret_reason, reason_size, "%s cannot keep the counters: %s", file ? file : "memory", strerror(errno));
        tally_close(tally);
        return NULL;
    }
    if (tally->counts->table != table) {
        memset(tally->counts, 0, sizeof *tally->counts);
        tally->counts->table = table;
    }
    return tally;
}

void tally_label(struct tally *tally, const char *labels)
{
    free(tally->labels);
    tally->labels = strdup(labels);
    if (!tally->labels)
        abort();
}

void tally_close(struct tally *tally)
{
    if (tally->counts)
        (void)munmap(tally->counts, sizeof *tally->counts);
    free(tally->prefix);
    free(tally->labels);
    free(tally);
}

void tally_add(struct tally *tally, int row, int64_t n)
{
    assert(row >= 0 && row < tally->rows_n);
    (void)__atomic_fetch_add(&tally->counts->rows[row], n, __ATOMIC_RELAXED);
}

void tally_set(struct tally *tally, int row, int64_t n)
{
    assert(row >= 0 && row < tally->rows_n);
    __atomic_store_n(&tally->counts->rows[row], n, __ATOMIC_RELAXED);
}

int64_t tally_get(const struct tally *tally, int row)
{
    assert(row >= 0 && row < tally->rows_n);
    return __atomic_load_n(&tally->counts->rows[row], __ATOMIC_RELAXED);
}

void tally_latency(struct tally *tally, int64_t microseconds)
{
    int bucket = 0;

    while (bucket < BUCKETS - 1 && tally->limits_us[bucket] < microseconds)
        bucket++;
    (void)__atomic_fetch_add(&tally->counts->buckets[bucket], 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&tally->counts->latencies_us, microseconds, __ATOMIC_RELAXED);
}

/* Latencies in buckets 0 to `last`. */
static int64_t latencies_upto(const struct tally *tally, int last)
{
    int64_t sum = 0;

    for (int i = 0; i <= last; i++)
        sum += __atomic_load_n(&tally->counts->buckets[i], __ATOMIC_RELAXED);
    return sum;
}

int64_t tally_percentile(const struct tally *tally, double percent)
{
    double wanted = (double)latencies_upto(tally, BUCKETS - 1) * percent / 100;
    int64_t sum = 0;

    for (int i = 0; i < BUCKETS; i++) {
        sum += __atomic_load_n(&tally->counts->buckets[i], __ATOMIC_RELAXED);
        if (sum > 0 && (double)sum >= wanted)
            return tally->limits_us[i];
    }
    return 0;
}

/* --- Prometheus text ------------------------------------------------------------------------------------------------ */

/* Labels of the row and of the whole tally, in braces; nothing if there are none. */
static void labels_print(FILE *to, const struct tally *tally, const char *labels)
{
    const char *common = tally->labels ? tally->labels : "";

    if (labels || *common)
        (void)fprintf(to, "{%s%s%s}", common, labels && *common ? "," : "", labels ? labels : "");
}

static void row_print(FILE *to, const struct tally *tally, int i)
{
    const struct tally_row *row = &tally->rows[i];
    size_t n = strlen(row->name);
    bool counter = n > 6 && strcmp(row->name + n - 6, "_total") == 0;

    /* Rows of one name, with different labels, are one metric. */
    if (i == 0 || strcmp(tally->rows[i - 1].name, row->name) != 0)
        (void)fprintf(to, "# HELP %s_%s %s\n# TYPE %s_%s %s\n", tally->prefix, row->name, row->help, tally->prefix, row->name,
                      counter ? "counter" : "gauge");
    (void)fprintf(to, "%s_%s", tally->prefix, row->name);
    labels_print(to, tally, row->labels);
    (void)fprintf(to, " %" PRId64 "\n", tally_get(tally, i));
}

static void histogram_print(FILE *to, const struct tally *tally)
{
    char le[48];
    int64_t all = latencies_upto(tally, BUCKETS - 1);

    (void)fprintf(to, "# HELP %s_latency_seconds How long one took.\n# TYPE %s_latency_seconds histogram\n", tally->prefix, tally->prefix);
    for (int i = 0; i < BUCKETS - 1; i += BUCKET_STEP) {
        (void)snprintf(le, sizeof le, "le=\"%.6f\"", (double)tally->limits_us[i] / 1e6);
        (void)fprintf(to, "%s_latency_seconds_bucket", tally->prefix);
        labels_print(to, tally, le);
        (void)fprintf(to, " %" PRId64 "\n", latencies_upto(tally, i));
    }
    (void)fprintf(to, "%s_latency_seconds_bucket", tally->prefix);
    labels_print(to, tally, "le=\"+Inf\"");
    (void)fprintf(to, " %" PRId64 "\n%s_latency_seconds_sum", all, tally->prefix);
    labels_print(to, tally, NULL);
    (void)fprintf(to, " %.6f\n%s_latency_seconds_count", (double)__atomic_load_n(&tally->counts->latencies_us, __ATOMIC_RELAXED) / 1e6,
                  tally->prefix);
    labels_print(to, tally, NULL);
    (void)fprintf(to, " %" PRId64 "\n", all);
}

/* What the buckets of the text are too coarse for. */
static void quantiles_print(FILE *to, const struct tally *tally)
{
    static const char *const quantiles[] = {"0.5", "0.99"};
    char label[32];

    (void)fprintf(to, "# HELP %s_latency_quantile_seconds Of all of them so far; at most 10 %% high.\n", tally->prefix);
    (void)fprintf(to, "# TYPE %s_latency_quantile_seconds gauge\n", tally->prefix);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(label, sizeof label, "quantile=\"%s\"", quantiles[i]);
        (void)fprintf(to, "%s_latency_quantile_seconds", tally->prefix);
        labels_print(to, tally, label);
        (void)fprintf(to, " %.6f\n", (double)tally_percentile(tally, 100 * strtod(quantiles[i], NULL)) / 1e6);
    }
}

char *tally_render(const struct tally *tally, size_t *ret_n)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, ret_n);

    if (!to)
        abort();
    for (int i = 0; i < tally->rows_n; i++)
        row_print(to, tally, i);
    histogram_print(to, tally);
    quantiles_print(to, tally);
    if (fclose(to) != 0)
        abort();
    return text;
}
