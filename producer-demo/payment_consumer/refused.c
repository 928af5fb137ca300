/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/refused.h"

#include "producer-demo/payment_consumer/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The payload as \x..., since nobody knows what is in it. */
static char *payload_print(const struct delivery *delivery)
{
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * delivery->payload_n + 3), *to = text;

    if (!text)
        abort();
    *to++ = '\\';
    *to++ = 'x';
    for (size_t i = 0; i < delivery->payload_n; i++) {
        *to++ = digits[(unsigned char)delivery->payload[i] >> 4];
        *to++ = digits[(unsigned char)delivery->payload[i] & 15];
    }
    *to = 0;
    return text;
}

enum way_result refused_keep(struct worker *worker, const struct delivery *delivery, const char *reason, const char *detail, bool *ret_new)
{
    char partition[16], offset[24], *payload = payload_print(delivery);
    const char *values[] = {worker->settings->topic, partition, offset, delivery->event_text, reason, detail, payload};
    enum way_result result;
    PGresult *rows = NULL;

    (void)snprintf(partition, sizeof partition, "%" PRId32, delivery->partition);
    (void)snprintf(offset, sizeof offset, "%" PRId64, delivery->offset);
    result = ledger_run(worker,
                        "INSERT INTO refused_messages (topic, partition, \"offset\", event_id, reason, detail, payload)"
                        " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING 1",
                        7, values, &rows);
    *ret_new = result == WAY_DONE && PQntuples(rows) > 0;
    if (result == WAY_DONE)
        PQclear(rows);
    free(payload);
    if (*ret_new)
        (void)fprintf(stderr, "payment-consumer: event %s (partition %s, offset %s) refused, %s: %s\n", delivery->event_text, partition,
                      offset, reason, detail);
    return result;
}
