/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/work.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "producer-demo/lib/points.h"

static bool is_fine(const struct work *work)
{
    return work->trouble[0] == 0;
}

static void trouble_note(struct work *work, const char *trouble, const char *reason)
{
    (void)snprintf(work->trouble, sizeof work->trouble, "%s", trouble);
    (void)snprintf(work->reason, sizeof work->reason, "%.*s", (int)strcspn(reason, "\n"), reason);
}

static bool begin_once(struct work *work)
{
    char reason[256];

    *work = (struct work){.shop = work->shop};
    work->db = store_take(work->shop->store, reason, sizeof reason);
    if (!work->db)
        trouble_note(work, "08001", reason);
    return work_do(work, "BEGIN ISOLATION LEVEL READ COMMITTED", 0, NULL);
}

bool work_begin(struct work *work, const struct shop *shop, const char *point)
{
    char timeout[24];

    *work = (struct work){.shop = shop};
    if (!work_pass(work, point))
        return false;

    (void)snprintf(timeout, sizeof timeout, "%" PRId64 "ms", shop->settings.wait_ms);
    if (!begin_once(work) && work->db) {
        /* The connection had died while nobody used it; nothing is begun, so a new one may be tried. */
        work_end(work);
        (void)begin_once(work);
    }
    return WORK_DO(work, "SELECT set_config('lock_timeout', $1, true)", timeout);
}

bool work_do(struct work *work, const char *sql, int values_n, const char *const *values)
{
    if (!is_fine(work))
        return false;
    PQclear(work->rows);
    work->rows = store_query(work->db, sql, values_n, values);
    if (!store_succeeded(work->rows))
        trouble_note(work, store_error(work->rows), PQerrorMessage(work->db));
    return is_fine(work);
}

int work_rows(const struct work *work)
{
    return is_fine(work) && work->rows ? PQntuples(work->rows) : 0;
}

const char *work_text(const struct work *work, int row, int column)
{
    assert(row < work_rows(work));
    return PQgetvalue(work->rows, row, column);
}

int64_t work_number(const struct work *work, int row, int column)
{
    return strtoll(work_text(work, row, column), NULL, 10);
}

bool work_pass(struct work *work, const char *point)
{
    if (is_fine(work) && points_pass(point))
        trouble_note(work, "FAULT", point);
    return is_fine(work);
}

bool work_commit(struct work *work)
{
    if (!is_fine(work))
        return false;
    work_do(work, "COMMIT", 0, NULL);
    /* A COMMIT of a transaction that had failed says ROLLBACK, and no error. */
    if (is_fine(work) && strcmp(PQcmdStatus(work->rows), "COMMIT") != 0)
        trouble_note(work, "40000", "the transaction was rolled back");
    work->may_be_done = !is_fine(work) && PQstatus(work->db) != CONNECTION_OK;
    return is_fine(work);
}

void work_end(struct work *work)
{
    PQclear(work->rows);
    work->rows = NULL;
    if (!work->db)
        return;
    if (PQtransactionStatus(work->db) != PQTRANS_IDLE)
        (void)store_run(work->db, "ROLLBACK", 0, NULL);
    store_give(work->shop->store, work->db);
    work->db = NULL;
}

void work_explain(const struct work *work, struct web_response *response)
{
    (void)fprintf(stderr, "order-service: a request was not carried out (%s): %s\n", work->trouble, work->reason);
    if (strcmp(work->trouble, "55P03") == 0)
        shop_answer_busy(work->shop, response, "another request is being carried out for this");
    else if (work->may_be_done)
        shop_answer_unavailable(work->shop, response, "the database was lost while it committed, so it may have been carried out");
    else
        shop_answer_unavailable(work->shop, response, "the database did not answer, or refused; nothing was changed");
}
