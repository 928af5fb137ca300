/* SPDX-License-Identifier: BSD-2-Clause */
/* Look whether the event is in the ledger; if not, insert it. Two workers with the same event at the same moment both look, both find nothing,
 * and both insert: the check and the act are two steps, and nothing keeps the second away from the space between them. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"

/* An index for the check, which forbids nothing. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS entry ("
    "    event_id    uuid        NOT NULL,"
    "    order_id    uuid        NOT NULL,"
    "    delta_cents bigint      NOT NULL CONSTRAINT entry_delta_cents_possible CHECK (abs(delta_cents) <= 100000000),"
    "    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp());"
    "CREATE INDEX IF NOT EXISTS entry_event_id ON entry (event_id);"
    "CREATE OR REPLACE VIEW balance AS SELECT order_id, sum(delta_cents)::bigint AS cents FROM entry GROUP BY order_id;";

static enum way_result check(struct worker *worker, struct delivery *const *batch, int n)
{
    struct ledger_list ids = {0};
    PGresult *there = NULL;
    enum way_result result;

    for (int i = 0; i < n; i++)
        ledger_list_add(&ids, batch[i]->event_text);
    result = ledger_run(worker, "SELECT event_id FROM entry WHERE event_id = ANY ($1::uuid[])", 1, (const char *[]){ledger_list_text(&ids)},
                        &there);
    for (int i = 0; result == WAY_DONE && i < PQntuples(there); i++)
        deliveries_find(batch, n, PQgetvalue(there, i, 0))->outcome = DELIVERY_SUPPRESSED;
    if (result == WAY_DONE)
        PQclear(there);
    ledger_list_free(&ids);
    return result;
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    enum way_result result;

    deliveries_sort(batch, n);
    result = check(worker, batch, n);
    if (result == WAY_DONE && points_pass(POINT_BETWEEN))
        return WAY_LATER;
    if (result == WAY_DONE)
        result = ledger_effect(worker, batch, n);
    return result;
}

const struct way way_check_then_act = {
    .name = "check-then-act",
    .what = "looks whether the event is there, then inserts it: two at the same moment both do",
    .schema = schema,
    .apply = apply,
};
