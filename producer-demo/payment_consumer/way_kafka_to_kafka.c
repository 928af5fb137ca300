/* SPDX-License-Identifier: BSD-2-Clause */
/* The same transaction where it holds: the effect is a record in Kafka too. Output and offsets are committed together or not at all, and who reads
 * committed records only sees each effect once. Two more things make it exact:
 *
 * The topic itself may hold an event twice, since the relay is at-least-once as well, and no transaction of ours sees that. So the output is
 * also the list of what is done: the record of an event's effect carries its id. Key, effect and offset are one record and one transaction.
 * A worker that is given a partition reads the ids from the output partition of the same number before its first record.
 *
 * And a partition has one owner. Whoever was one, and does not know yet that he is it no longer, sends offsets in the name of a generation of the
 * group that is over; the broker refuses them, and with them the transaction. In what order these things happen is the whole proof:
 *  - a transaction whose offsets were refused is never committed;
 *  - one whose offsets were taken is over before a new owner is told where to go on (he asks for stable offsets);
 *  - so its records lie before the output's end when he looks for that end, and he reads up to there, past whatever is still open.
 * All of it ends at the edge of Kafka: the table in PostgreSQL (copier.c) is a copy, and can be wrong for a moment, never for good. */
#include "producer-demo/lib/points.h"
#include "producer-demo/payment_consumer/copier.h"
#include "producer-demo/payment_consumer/delivery.h"
#include "producer-demo/payment_consumer/event_set.h"
#include "producer-demo/payment_consumer/output.h"
#include "producer-demo/payment_consumer/transaction.h"

#include <stdlib.h>

#define SLICE     10000 /* ids read at once */
#define CENTS_MAX 100000000

struct partition {
    struct event_set done; /* the ids of the output up to `next`, and perhaps more */
    int64_t next;
    bool known; /* nobody else has written since `done` was read */
};

struct own {
    char output[OUTPUT_NAME_MAX];
    struct transaction *transaction;
    struct history *history;
    struct partition *partitions;
    int partitions_n;
    unsigned assignments;                       /* the worker's count of them, when... */
    rd_kafka_consumer_group_metadata_t *member; /* ...it was this member, of this generation */
    rd_kafka_consumer_group_metadata_t *nobody; /* the same member in generation 0, which is always over */
    struct copier *copier;                      /* worker 0 has it */
};

/* --- its beginning and its end ---------------------------------------------------------------------------------------- */

static void membership_end(struct own *own)
{
    if (own->member)
        rd_kafka_consumer_group_metadata_destroy(own->member);
    if (own->nobody)
        rd_kafka_consumer_group_metadata_destroy(own->nobody);
    own->member = own->nobody = NULL;
}

static void close(struct worker *worker)
{
    struct own *own = worker->own;

    if (own->copier)
        copier_stop(own->copier);
    membership_end(own);
    if (own->history)
        history_close(own->history);
    if (own->transaction)
        transaction_close(own->transaction);
    for (int i = 0; i < own->partitions_n; i++)
        event_set_clear(&own->partitions[i].done);
    free(own->partitions);
    free(own);
    worker->own = NULL;
}

static bool open(struct worker *worker)
{
    struct own *own = worker->own = calloc(1, sizeof *own);

    if (!own)
        abort();
    output_name(worker->settings, own->output);
    own->partitions_n = output_create(worker->settings, own->output);
    own->partitions = calloc((size_t)own->partitions_n + 1, sizeof *own->partitions);
    if (!own->partitions)
        abort();
    own->transaction = transaction_open(worker, own->output);
    own->history = history_open(worker->settings, own->output);
    if (own->partitions_n == 0 || !own->history) {
        close(worker);
        return false;
    }
    if (worker->number == 0)
        own->copier = copier_start(worker->settings, &way_kafka_to_kafka, own->output, own->partitions_n);
    return true;
}

/* --- what is done already --------------------------------------------------------------------------------------------- */

static void forget(struct own *own)
{
    for (int i = 0; i < own->partitions_n; i++)
        own->partitions[i].known = false;
}

/* The consumer was given partitions anew: who we are in the group from now on, and that others may have written. false: we are nobody, since the
 * group has thrown us out meanwhile. Not to be tried: from nobody the broker would take offsets unasked. */
static bool assignment_learn(struct worker *worker, struct own *own)
{
    char *name;

    if (own->member && own->assignments == worker->assignments)
        return true;
    forget(own);
    membership_end(own);
    name = rd_kafka_memberid(worker->consumer);
    if (name && *name) {
        own->member = rd_kafka_consumer_group_metadata(worker->consumer);
        own->nobody = rd_kafka_consumer_group_metadata_new_with_genid(worker->settings->group, 0, name, NULL);
        own->assignments = worker->assignments;
    }
    if (name)
        rd_kafka_mem_free(worker->consumer, name);
    return own->member != NULL;
}

/* A history_each. */
static void id_keep(void *context, const rd_kafka_message_t *record)
{
    struct delivery *delivery = delivery_read(record);

    (void)event_set_add(context, delivery->event_id);
    free(delivery);
}

/* Read the ids of the partitions from which something came. */
static bool catch_up(struct own *own, struct delivery *const *batch, int n)
{
    for (int i = 0; i < n; i++) {
        struct partition *partition = &own->partitions[batch[i]->partition];
        int more = partition->known || batch[i]->copied ? 0 : 1;

        while (more > 0)
            more = history_read(own->history, batch[i]->partition, &partition->next, SLICE, id_keep, &partition->done);
        if (more < 0)
            return false;
        partition->known = partition->known || !batch[i]->copied;
    }
    return true;
}

/* --- an attempt ------------------------------------------------------------------------------------------------------- */

static enum way_result suppressed(struct delivery *const *batch, int n, bool copied)
{
    for (int i = 0; i < n; i++)
        if (batch[i]->copied == copied)
            batch[i]->outcome = DELIVERY_SUPPRESSED;
    return WAY_DONE;
}

/* Write the effects of all but the copies, except for what is in the output already, and for what was written in this attempt: `ours`. */
static enum transaction_result effects_write(struct own *own, struct delivery *const *batch, int n, struct event_set *ours)
{
    enum transaction_result result = transaction_begin(own->transaction);

    for (int i = 0; i < n && result == TRANSACTION_FINE; i++) {
        if (batch[i]->copied)
            continue;
        if (event_set_has(&own->partitions[batch[i]->partition].done, batch[i]->event_id) || !event_set_add(ours, batch[i]->event_id))
            batch[i]->outcome = DELIVERY_SUPPRESSED;
        else
            result = transaction_add(own->transaction, batch[i]);
    }
    return result;
}

static bool point_strikes(struct own *own, const char *point)
{
    bool strikes = points_pass(point);

    if (strikes)
        transaction_abort(own->transaction);
    return strikes;
}

/* What the owner of the partitions does. A commit that fails may have happened: what is known of the output is old then. */
static enum way_result attempt(struct own *own, struct delivery *const *batch, int n)
{
    struct event_set ours = {0};
    enum transaction_result result = effects_write(own, batch, n, &ours);

    if (result == TRANSACTION_FINE && point_strikes(own, POINT_BETWEEN))
        result = TRANSACTION_FAILED;
    if (result == TRANSACTION_FINE)
        result = transaction_offsets(own->transaction, batch, n, false, own->member);
    if (result == TRANSACTION_FINE && point_strikes(own, POINT_BEFORE_OFFSETS))
        result = TRANSACTION_FAILED;
    if (result == TRANSACTION_FINE)
        result = transaction_commit(own->transaction);
    if (result == TRANSACTION_FINE) {
        (void)points_pass(POINT_AFTER_OFFSETS);
        for (int i = 0; i < n; i++)
            if (batch[i]->outcome == DELIVERY_APPLIED && !batch[i]->copied)
                (void)event_set_add(&own->partitions[batch[i]->partition].done, batch[i]->event_id);
    }
    event_set_clear(&ours);
    if (result == TRANSACTION_FAILED)
        forget(own);
    return result == TRANSACTION_FINE ? WAY_DONE : result == TRANSACTION_REFUSED ? suppressed(batch, n, false) : WAY_LATER;
}

/* The fault "redeliver" gave us records of a partition that we do not own. In life whoever has such records was its owner in an earlier
 * generation, and so he speaks as a member of one. What he does not know is what others have written since; he writes, and is refused. */
static enum way_result attempt_as_former_owner(struct own *own, struct delivery *const *batch, int n)
{
    enum transaction_result result = transaction_begin(own->transaction);

    for (int i = 0; i < n && result == TRANSACTION_FINE; i++)
        if (batch[i]->copied)
            result = transaction_add(own->transaction, batch[i]);
    if (result == TRANSACTION_FINE)
        result = transaction_offsets(own->transaction, batch, n, true, own->nobody);
    if (result == TRANSACTION_FINE)
        result = transaction_commit(own->transaction);
    return result == TRANSACTION_FINE ? WAY_DONE : result == TRANSACTION_REFUSED ? suppressed(batch, n, true) : WAY_LATER;
}

static bool possible(const struct delivery *delivery, const struct own *own)
{
    return llabs(delivery->delta_cents) <= CENTS_MAX && delivery->partition < own->partitions_n;
}

static enum way_result apply(struct worker *worker, struct delivery **batch, int n)
{
    struct own *own = worker->own;
    int copies = 0;

    for (int i = 0; i < n; i++) {
        if (!possible(batch[i], own))
            return WAY_POISON;
        copies += batch[i]->copied;
    }
    /* In this order: nothing that we left open can become part of the output once we have read it. */
    if (!transaction_ready(own->transaction))
        return WAY_LATER;
    if (!assignment_learn(worker, own)) { /* somebody else will be given them */
        (void)suppressed(batch, n, true);
        return suppressed(batch, n, false);
    }
    if (!catch_up(own, batch, n))
        return WAY_LATER;
    /* The former owner first: his attempt can be made again, the owner's would find its own records. */
    if (copies > 0 && attempt_as_former_owner(own, batch, n) != WAY_DONE)
        return WAY_LATER;
    return copies < n ? attempt(own, batch, n) : WAY_DONE;
}

const struct way way_kafka_to_kafka = {
    .name = "kafka-to-kafka",
    .what = "a Kafka transaction whose effect is a record in Kafka: exact",
    .needs_real_kafka = true,
    .commits_offsets = true,
    .schema = copier_schema,
    .open = open,
    .apply = apply,
    .close = close,
};
