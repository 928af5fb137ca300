/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/metrics.h"

#include <stdio.h>

static const struct tally_row rows[METRICS_N] = {
    [METRIC_DELIVERIES] = {"deliveries_total", NULL, "Records given to a worker, copies by the fault \"redeliver\" included."},
    [METRIC_APPLIED] = {"applied_total", NULL, "Deliveries that had their effect; what a kill -9 cut off is in the ledger but not here."},
    [METRIC_SUPPRESSED] = {"suppressed_total", NULL, "Deliveries recognised as copies; divided by deliveries: the hit rate."},
    [METRIC_LOST] = {"lost_total", NULL, "Deliveries whose offset is committed and whose effect will never be."},
    [METRIC_REDELIVERED] = {"redelivered_total", NULL, "Copies that the fault \"redeliver\" made."},
    [METRIC_DUPLICATES] = {"duplicates_total", NULL,
                           "Deliveries of an event that was delivered before: seen by a witness that no way may ask."},
    [METRIC_RETRIES] = {"retries_total", NULL, "Batches that were tried again."},
    [METRIC_REFUSED_TOO_OLD] = {"refused_total", "reason=\"too-old\"", "Messages put into refused_messages, not applied."},
    [METRIC_REFUSED_FUTURE] = {"refused_total", "reason=\"future\"", "Messages put into refused_messages, not applied."},
    [METRIC_REFUSED_UNREADABLE] = {"refused_total", "reason=\"unreadable\"", "Messages put into refused_messages, not applied."},
    [METRIC_REFUSED_POISON] = {"refused_total", "reason=\"poison\"", "Messages put into refused_messages, not applied."},
    [METRIC_OLDEST_DAY] = {"processed_oldest_seconds", NULL,
                           "Since 1970: where the oldest partition of processed_messages begins; 0: there is none."},
};

struct tally *metrics_open(const char *state, const char *way, char *ret_reason, size_t reason_size)
{
    char file[512], label[64];
    struct tally *tally;
    int n = snprintf(file, sizeof file, "%s/payment-%s.tally", state ? state : "", way);

    if (n < 0 || (size_t)n >= sizeof file) {
        (void)snprintf(ret_reason, reason_size, "--state: the name of the folder is too long");
        return NULL;
    }
    tally = tally_open(state && *state ? file : NULL, "payment", rows, METRICS_N, ret_reason, reason_size);
    if (tally) {
        (void)snprintf(label, sizeof label, "way=\"%s\"", way);
        tally_label(tally, label);
    }
    return tally;
}
