/* SPDX-License-Identifier: BSD-2-Clause */
/* One transaction of a request. Its steps are statements; when one fails, the later ones do nothing, so that a request is written down as a
 * row of steps and asks once, at the end, whether all is well. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_WORK_H
#define PRODUCER_DEMO_ORDER_SERVICE_WORK_H

#include "producer-demo/order_service/shop.h"

struct work {
    const struct shop *shop;
    PGconn *db;
    PGresult *rows;   /* of the last statement; NULL: none */
    char trouble[6];  /* "": all is well; else the SQLSTATE of what failed */
    char reason[256]; /* what the server said of it */
    bool may_be_done; /* the COMMIT was sent, and no answer came */
};

/* Pass the fault point `point`, then begin: READ COMMITTED, waiting for locks no longer than the setting. Every work_begin needs a work_end,
 * whatever it returned. */
bool work_begin(struct work *work, const struct shop *shop, const char *point);
/* Carry out a statement; its rows are in work->rows until the next one. `values` are texts. false: it, or an earlier one, failed. */
bool work_do(struct work *work, const char *sql, int values_n, const char *const *values);
#define WORK_DO(work, sql, ...) \
    work_do((work), (sql), (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)), (const char *const[]){__VA_ARGS__})
int work_rows(const struct work *work);                              /* of the last statement; 0 after trouble */
const char *work_text(const struct work *work, int row, int column); /* lent until the next statement; "" for NULL */
int64_t work_number(const struct work *work, int row, int column);
/* Pass a fault point, which may end the process, or fail like a statement. */
bool work_pass(struct work *work, const char *point);
bool work_commit(struct work *work);
/* Roll back what was not committed, give the connection back. */
void work_end(struct work *work);
/* After trouble: 409 if something was locked too long, else 503; the log has the reason. */
void work_explain(const struct work *work, struct web_response *response);

#endif
