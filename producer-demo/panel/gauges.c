/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/gauges.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One line, `NAME{LABELS} VALUE` or `NAME VALUE`. */
struct line {
    const char *labels; /* up to labels_n bytes; without the braces */
    size_t labels_n;
    double value;
};

/* Read the next line of metric `name` from *text on; false: there is none. */
static bool line_next(const char **text, const char *name, struct line *ret_line)
{
    size_t name_n = strlen(name);

    while (**text) {
        const char *line = *text, *end = strchrnul(line, '\n'), *rest = line + name_n;

        *text = *end ? end + 1 : end;
        if (strncmp(line, name, name_n) != 0 || (*rest != '{' && *rest != ' '))
            continue;
        *ret_line = (struct line){rest, 0, 0};
        if (*rest == '{') {
            const char *close = memrchr(rest, '}', (size_t)(end - rest));

            if (!close)
                continue;
            *ret_line = (struct line){rest + 1, (size_t)(close - rest - 1), 0};
            rest = close + 1;
        }
        ret_line->value = strtod(rest, NULL);
        return true;
    }
    return false;
}

double gauges_sum_labelled(const char *text, const char *name, const char *label)
{
    struct line line;
    double sum = 0;

    while (line_next(&text, name, &line))
        if (memmem(line.labels, line.labels_n, label, strlen(label)))
            sum += line.value;
    return sum;
}

double gauges_sum(const char *text, const char *name)
{
    return gauges_sum_labelled(text, name, "");
}

void gauges_histogram_read(const char *text, const char *name, struct gauges_histogram *ret_histogram)
{
    char bucket[128] = "";
    struct line line;

    ret_histogram->n = 0;
    (void)strncat(bucket, name, sizeof bucket - 8);
    (void)strcat(bucket, "_bucket");
    while (ret_histogram->n < GAUGES_BUCKETS_MAX && line_next(&text, bucket, &line)) {
        const char *le = memmem(line.labels, line.labels_n, "le=\"", 4);

        if (!le)
            continue;
        ret_histogram->seconds[ret_histogram->n] = strtod(le + 4, NULL); /* "+Inf" as well */
        ret_histogram->counts[ret_histogram->n++] = line.value;
    }
}

/* What came between the two readings, up to bucket i; `same`: they are of one life of the counter. */
static double came(const struct gauges_histogram *before, const struct gauges_histogram *now, bool same, int i)
{
    return i < 0 ? 0 : now->counts[i] - (same ? before->counts[i] : 0);
}

int64_t gauges_percentile(const struct gauges_histogram *before, const struct gauges_histogram *now, double percent)
{
    int last = now->n - 1, i = 0;
    bool same = before->n == now->n && last >= 0 && before->counts[last] <= now->counts[last];
    double wanted = came(before, now, same, last) * percent / 100, from, below, in;

    if (wanted <= 0)
        return 0;
    while (i < last && came(before, now, same, i) < wanted)
        i++;
    from = i > 0 ? now->seconds[i - 1] : 0;
    if (isinf(now->seconds[i])) /* beyond the last bound: not less than that */
        return (int64_t)(from * 1e6);
    below = came(before, now, same, i - 1);
    in = came(before, now, same, i) - below;
    return (int64_t)((from + (now->seconds[i] - from) * (in > 0 ? (wanted - below) / in : 1)) * 1e6);
}
