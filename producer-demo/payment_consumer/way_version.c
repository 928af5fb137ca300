/* SPDX-License-Identifier: BSD-2-Clause */
/* Not "move 10 more" but "the balance of this order in its version 3 is 60": a fact with its own identity. The table holds the newest version of
 * each order, an older or an equal one changes nothing; so copies do no harm, however late, and no ids need be kept. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"

#include <stdlib.h>
#include <string.h>

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS fact ("
    "    order_id      uuid   PRIMARY KEY,"
    "    version       bigint NOT NULL,"
    "    balance_cents bigint NOT NULL CONSTRAINT fact_balance_cents_possible CHECK (balance_cents BETWEEN 0 AND 100000000)"
    ") WITH (fillfactor = 80);"
    "CREATE OR REPLACE VIEW balance AS SELECT order_id, balance_cents AS cents FROM fact;";

/* By order, the newest version first, so that two batches with the same orders lock them in the same order. */
static int compare(const void *a, const void *b)
{
    const struct delivery *x = *(struct delivery *const *)a, *y = *(struct delivery *const *)b;
    int order = strcmp(x->order_text, y->order_text);

    return order ? order : (x->version < y->version) - (x->version > y->version);
}

static bool of_one_order(const struct delivery *a, const struct delivery *b)
{
    return strcmp(a->order_text, b->order_text) == 0;
}

/* Put the newest fact of each order; one statement is one transaction. Returns in *ret_changed the orders that it was news for, and their versions
 * before. */
static enum way_result facts_put(struct worker *worker, struct delivery *const *batch, int n, PGresult **ret_changed)
{
    struct ledger_list orders = {0}, versions = {0}, balances = {0};
    enum way_result result;

    for (int i = 0; i < n; i++)
        if (i == 0 || !of_one_order(batch[i], batch[i - 1])) {
            ledger_list_add(&orders, batch[i]->order_text);
            ledger_list_number(&versions, batch[i]->version);
            ledger_list_number(&balances, batch[i]->balance_cents);
        }
    result =
        ledger_run(worker,
                   "INSERT INTO fact (order_id, version, balance_cents)"
                   " SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) f(order_id, version, cents) ORDER BY order_id"
                   " ON CONFLICT (order_id) DO UPDATE SET version = excluded.version, balance_cents = excluded.balance_cents"
                   " WHERE fact.version < excluded.version"
                   /* of the snapshot, so of before; for the counters only */
                   " RETURNING order_id, coalesce((SELECT f.version FROM fact f WHERE f.order_id = fact.order_id), 0)",
                   3, (const char *[]){ledger_list_text(&orders), ledger_list_text(&versions), ledger_list_text(&balances)}, ret_changed);
    ledger_list_free(&orders);
    ledger_list_free(&versions);
    ledger_list_free(&balances);
    return result;
}

/* Applied is what was news, even if a newer version in the same batch overtook it. Both lists are sorted by order. */
static void outcomes_set(struct delivery *const *batch, int n, const PGresult *changed)
{
    int row = 0;

    for (int i = 0; i < n; i++) {
        bool again = i > 0 && of_one_order(batch[i], batch[i - 1]) && batch[i]->version == batch[i - 1]->version;

        while (row < PQntuples(changed) && strcmp(PQgetvalue(changed, row, 0), batch[i]->order_text) < 0)
            row++;
        if (again || row == PQntuples(changed) || strcmp(PQgetvalue(changed, row, 0), batch[i]->order_text) != 0 ||
            batch[i]->version <= strtoll(PQgetvalue(changed, row, 1), NULL, 10))
            batch[i]->outcome = DELIVERY_SUPPRESSED;
    }
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    PGresult *changed = NULL;
    enum way_result result;

    qsort(batch, (size_t)n, sizeof *batch, compare);
    result = facts_put(worker, batch, n, &changed);
    if (result != WAY_DONE)
        return result;
    outcomes_set(batch, n, changed);
    PQclear(changed);
    return points_pass(POINT_BETWEEN) ? WAY_LATER : WAY_DONE;
}

const struct way way_version = {
    .name = "version",
    .what = "a fact by its version, not a movement: an old one changes nothing: exact",
    .schema = schema,
    .apply = apply,
};
