/* SPDX-License-Identifier: BSD-2-Clause */
/* Commit the offsets first, then apply: nothing comes twice, and what was under way when something broke never comes again. Right where a loss is
 * cheaper than a copy (samples, telemetry); money is not such a thing. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"

static void outcomes_set(struct delivery *const *batch, int n, enum delivery_outcome outcome)
{
    for (int i = 0; i < n; i++)
        if (batch[i]->outcome == DELIVERY_APPLIED)
            batch[i]->outcome = outcome;
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    /* A worker that has a copy of a record whose partition is another's is behind its committed offset: it would not have been given it. */
    for (int i = 0; i < n; i++)
        if (batch[i]->copied)
            batch[i]->outcome = DELIVERY_SUPPRESSED;
    switch (offsets_commit(worker, batch, n)) {
    case OFFSETS_COMMITTED:
        /* From here on nobody comes back to these: to try again would be more than once. */
        if (points_pass(POINT_BETWEEN) || ledger_effect(worker, batch, n) != WAY_DONE)
            outcomes_set(batch, n, DELIVERY_LOST);
        break;
    case OFFSETS_GONE:
        outcomes_set(batch, n, DELIVERY_RETURNED);
        break;
    case OFFSETS_LATER:
        return WAY_LATER;
    }
    return WAY_DONE;
}

const struct way way_at_most_once = {
    .name = "at-most-once",
    .what = "commits the offsets first: no copies, and losses",
    .commits_offsets = true,
    .apply = apply,
};
