/* SPDX-License-Identifier: BSD-2-Clause */
/* No protection: what comes is applied. A record that comes twice moves its money twice, and nothing fails, so nobody is told. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    enum way_result result = ledger_effect(worker, batch, n);

    /* The money has moved, and the broker does not know yet: whoever dies here moves it again. */
    if (result == WAY_DONE && points_pass(POINT_BETWEEN))
        return WAY_LATER;
    return result;
}

const struct way way_none = {
    .name = "none",
    .what = "applies what comes: each copy counts",
    .apply = apply,
};
