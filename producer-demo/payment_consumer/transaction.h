/* SPDX-License-Identifier: BSD-2-Clause */
/* Kafka's transaction around "consume, process, produce": records of an output topic and the offsets of the input, committed together or not at
 * all. One producer for each worker, whose transactional.id is its own and stays the same when the process is started again with the same
 * folder for its state: what its predecessor left open is then ended at once, otherwise by the broker after TRANSACTION_TIMEOUT_MS.
 * Two workers do not meet here; that a partition has one owner is what the group's metadata say, which go with the offsets (KIP-447). */
#ifndef PRODUCER_DEMO_PAYMENT_CONSUMER_TRANSACTION_H
#define PRODUCER_DEMO_PAYMENT_CONSUMER_TRANSACTION_H

#include "producer-demo/payment_consumer/way.h"

#define TRANSACTION_TIMEOUT_MS 10000

struct transaction; /* for one thread */

enum transaction_result {
    TRANSACTION_FINE,
    TRANSACTION_REFUSED, /* by the broker: whoever the metadata speak of is no member of the group's present generation. Aborted. */
    TRANSACTION_FAILED   /* logged; aborted, or nobody knows how it ended: transaction_ready finds out */
};

/* To the topic `output`, which must outlive it. Ends the program if there is no memory. */
struct transaction *transaction_open(const struct worker *worker, const char *output);
void transaction_close(struct transaction *transaction); /* what is open in it is not committed */

/* Is there a producer, and is the last transaction of this transactional.id over? If not, waits for that, 10 s at most. false: not now. */
bool transaction_ready(struct transaction *transaction);
/* The steps, in this order; each after a TRANSACTION_FINE of the one before. None but the last is visible to who reads committed records. */
enum transaction_result transaction_begin(struct transaction *transaction);
/* What the delivery says, into the output's partition that has the number of its own. */
enum transaction_result transaction_add(struct transaction *transaction, const struct delivery *delivery);
/* The offsets after those of the deliveries that are `copied` as told. Without any: nothing, and fine. */
enum transaction_result transaction_offsets(struct transaction *transaction, struct delivery *const *batch, int n, bool copied,
                                            const rd_kafka_consumer_group_metadata_t *group);
enum transaction_result transaction_commit(struct transaction *transaction);
void transaction_abort(struct transaction *transaction);

#endif
