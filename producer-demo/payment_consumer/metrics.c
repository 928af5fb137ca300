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

/* NULL: nowhere, ret_reason "": in memory. */
static const char *file_name(char file[512], const char *state, const char *way, const char *what, char *ret_reason, size_t reason_size)
{
    int n = snprintf(file, 512, "%s/payment-%s.%s", state ? state : "", way, what);

    *ret_reason = '\0';
    if (n >= 0 && n < 512)
        return state && *state ? file : NULL;
    (void)snprintf(ret_reason, reason_size, "--state: the name of the folder is too long");
    return NULL;
}

struct tally *metrics_open(const char *state, const char *way, char *ret_reason, size_t reason_size)
{
    char buffer[512], label[64];
    const char *file = file_name(buffer, state, way, "tally", ret_reason, reason_size);
    struct tally *tally = *ret_reason ? NULL : tally_open(file, "payment", rows, METRICS_N, ret_reason, reason_size);

    if (tally) {
        (void)snprintf(label, sizeof label, "way=\"%s\"", way);
        tally_label(tally, label);
    }
    return tally;
}

struct idset *metrics_witness(const char *state, const char *way, char *ret_reason, size_t reason_size)
{
    char buffer[512];
    const char *file = file_name(buffer, state, way, "seen", ret_reason, reason_size);

    return *ret_reason ? NULL : idset_open(file, ret_reason, reason_size);
}
