/* SPDX-License-Identifier: BSD-2-Clause */
/* A statement behind a transaction pooler: four statements in a pipeline with one synchronisation, which a pooler carries to one server.
 *
 *     BEGIN        names every property of the transaction: a default of the role, or one that another client left behind, must not matter
 *     settings     until the end of the transaction; the time of a statement, too: the server measures each message of a pipeline by itself
 *     statement    unnamed
 *     COMMIT       its error is the statement's
 *
 * After an error the server skips what is left and stays in the failed transaction: one more message ends it. */
#include "relay/edge/database_state.h"

enum {
    ANSWER_STATEMENT = 2 /* of four */
};

static int send_plain(struct database *db, const char *sql)
{
    return PQsendQueryParams(db->pg, sql, 0, NULL, NULL, NULL, NULL, 1);
}

bool database_transaction_send(struct database *db, const struct database_request *r)
{
    db->piped = true;
    db->answers_n = 0;
    return PQenterPipelineMode(db->pg) && send_plain(db, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE NOT DEFERRABLE") &&
           send_plain(db, db->pooled) && database_send_values(db, r) && send_plain(db, "COMMIT") && PQpipelineSync(db->pg);
}

static bool transaction_over(struct database *db)
{
    db->piped = false;
    if (!PQexitPipelineMode(db->pg)) {
        database_lose_by_libpq(db);
        return false;
    }
    if (PQtransactionStatus(db->pg) == PQTRANS_IDLE)
        return true;
    /* The error is kept; what comes now is answered like any other statement. */
    if (PQsendQuery(db->pg, "ROLLBACK"))
        database_flush(db);
    else
        database_lose_by_libpq(db);
    return false;
}

bool database_transaction_answered(struct database *db, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    if (!result) /* between two statements */
        return false;
    if (status == PGRES_PIPELINE_SYNC) {
        PQclear(result);
        return transaction_over(db);
    }
    if (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE || db->answers_n == ANSWER_STATEMENT)
        database_result_keep(db, result);
    else
        PQclear(result);
    db->answers_n++;
    return false;
}
