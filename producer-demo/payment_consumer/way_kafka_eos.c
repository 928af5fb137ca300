/* SPDX-License-Identifier: BSD-2-Clause */
/* The misconception: "our broker has exactly-once". It has, for what lies in the broker. Here each batch is a Kafka transaction, as in the
 * textbook: records are read, a confirmation of each is written, the offsets are committed with the confirmations. And beside it stands the
 * effect, in a database that takes no part in that transaction. Who dies in between has paid; the broker aborts the confirmations, gives the
 * records out again, and they are paid again. The topic of confirmations is exact to the last record, and the ledger is wrong.
 *
 * The other order, first Kafka's commit and then the database's, loses instead. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/ledger.h"
#include "producer-demo/payment_consumer/output.h"
#include "producer-demo/payment_consumer/transaction.h"

#include <stdlib.h>

struct own {
    char output[OUTPUT_NAME_MAX];
    struct transaction *transaction;
};

static bool open(struct worker *worker)
{
    struct own *own = calloc(1, sizeof *own);

    if (!own)
        abort();
    output_name(worker->settings, own->output);
    if (!output_create(worker->settings, own->output)) {
        free(own);
        return false;
    }
    own->transaction = transaction_open(worker, own->output);
    worker->own = own;
    return true;
}

static void close(struct worker *worker)
{
    struct own *own = worker->own;

    transaction_close(own->transaction);
    free(own);
}

static enum transaction_result confirm(struct transaction *transaction, struct delivery *const *batch, int n)
{
    enum transaction_result result = TRANSACTION_FINE;

    for (int i = 0; i < n && result == TRANSACTION_FINE; i++)
        result = transaction_add(transaction, batch[i]);
    return result;
}

static enum transaction_result offsets_send(struct worker *worker, struct delivery *const *batch, int n)
{
    const struct own *own = worker->own;
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(worker->consumer);
    enum transaction_result result = transaction_offsets(own->transaction, batch, n, false, group);

    rd_kafka_consumer_group_metadata_destroy(group);
    return result;
}

static bool point_strikes(struct transaction *transaction, const char *point)
{
    bool strikes = points_pass(point);

    if (strikes)
        transaction_abort(transaction);
    return strikes;
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    const struct own *own = worker->own;
    struct transaction *transaction = own->transaction;
    enum transaction_result result;
    enum way_result effect;

    if (!transaction_ready(transaction) || transaction_begin(transaction) != TRANSACTION_FINE ||
        confirm(transaction, batch, n) != TRANSACTION_FINE)
        return WAY_LATER;
    effect = ledger_effect(worker, batch, n); /* committed, whatever becomes of the transaction that is open here */
    if (effect != WAY_DONE) {
        transaction_abort(transaction);
        return effect;
    }
    if (point_strikes(transaction, POINT_BETWEEN))
        return WAY_LATER;
    result = offsets_send(worker, batch, n);
    if (result == TRANSACTION_REFUSED) /* they have another owner, who will do it all again */
        return WAY_DONE;
    if (result != TRANSACTION_FINE || point_strikes(transaction, POINT_BEFORE_OFFSETS) ||
        transaction_commit(transaction) != TRANSACTION_FINE)
        return WAY_LATER; /* "nothing happened", as far as Kafka knows */
    (void)points_pass(POINT_AFTER_OFFSETS);
    return WAY_DONE;
}

const struct way way_kafka_eos = {
    .name = "kafka-eos",
    .what = "a Kafka transaction with a database effect beside it: doubles",
    .needs_real_kafka = true,
    .commits_offsets = true,
    .open = open,
    .apply = apply,
    .close = close,
};
