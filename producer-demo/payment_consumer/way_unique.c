/* SPDX-License-Identifier: BSD-2-Clause */
/* The event's id goes into a table with a primary key, in the transaction of the effect: both happen or neither does. There is no window, no memory
 * to lose, no restart to survive. The second of two that come at the same moment waits for the first, and then finds its id. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"

/* Insert the ids of all; those that were there already are copies. In order, so that two batches with the same ids cannot wait for each
 * other in a circle. */
static enum way_result keys_insert(struct worker *worker, struct delivery *const *batch, int n)
{
    struct ledger_list ids = {0};
    PGresult *fresh = NULL;
    enum way_result result;

    for (int i = 0; i < n; i++)
        if (batch[i]->outcome == DELIVERY_APPLIED)
            ledger_list_add(&ids, batch[i]->event_text);
    result = ledger_run(worker,
                        "INSERT INTO processed_messages (event_id) SELECT id FROM unnest($1::uuid[]) id ORDER BY id"
                        " ON CONFLICT DO NOTHING RETURNING event_id",
                        1, (const char *[]){ledger_list_text(&ids)}, &fresh);
    ledger_list_free(&ids);
    if (result != WAY_DONE)
        return result;
    for (int i = 0; i < n; i++)
        batch[i]->outcome = DELIVERY_SUPPRESSED;
    for (int i = 0; i < PQntuples(fresh); i++)
        deliveries_find(batch, n, PQgetvalue(fresh, i, 0))->outcome = DELIVERY_APPLIED;
    PQclear(fresh);
    return WAY_DONE;
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    enum way_result result;

    deliveries_sort(batch, n);
    result = ledger_begin(worker);
    if (result == WAY_DONE)
        result = keys_insert(worker, batch, n);
    if (result == WAY_DONE && points_pass(POINT_BETWEEN))
        result = ledger_rollback(worker, WAY_LATER);
    if (result == WAY_DONE)
        result = ledger_effect(worker, batch, n);
    if (result == WAY_DONE)
        result = ledger_commit(worker);
    return result;
}

const struct way way_unique = {
    .name = "unique",
    .what = "the id in a table with a primary key, in the transaction of the effect: exact",
    .keeps_ids = true,
    .apply = apply,
};
