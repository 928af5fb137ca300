/* SPDX-License-Identifier: BSD-2-Clause */
/* Commit the offsets first, then apply: nothing comes twice, and what was under way when something broke never comes again. Right where a loss is
 * cheaper than a copy (samples, telemetry); money is not such a thing. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    bool lost;

    /* A worker that has a copy of a record whose partition is another's is behind its committed offset: it would not have been given it. */
    for (int i = 0; i < n; i++)
        if (batch[i]->copied)
            batch[i]->outcome = DELIVERY_SUPPRESSED;
    if (!offsets_commit(worker, batch, n))
        return WAY_LATER;
    /* From here on nobody comes back to these: to try again would be more than once. */
    lost = points_pass(POINT_BETWEEN) || ledger_effect(worker, batch, n) != WAY_DONE;
    for (int i = 0; i < n && lost; i++)
        if (batch[i]->outcome == DELIVERY_APPLIED)
            batch[i]->outcome = DELIVERY_LOST;
    return WAY_DONE;
}

const struct way way_at_most_once = {
    .name = "at-most-once",
    .what = "commits the offsets first: no copies, and losses",
    .commits_offsets = true,
    .apply = apply,
};
