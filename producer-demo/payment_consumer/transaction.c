/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/transaction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS    10000
#define COMMIT_TRIES 3

struct transaction {
    const struct consumer_settings *settings;
    const char *output;
    char id[256];         /* transactional.id */
    rd_kafka_t *producer; /* NULL: there is none, or nobody knows how its transaction ended */
    bool ready;           /* the broker knows it, and the transaction before is over */
};

struct transaction *transaction_open(const struct worker *worker, const char *output)
{
    struct transaction *transaction = calloc(1, sizeof *transaction);
    const struct consumer_settings *settings = worker->settings;
    char new_name[37];

    if (!transaction)
        abort();
    transaction->settings = settings;
    transaction->output = output;
    uuid_print(uuid_make(), new_name);
    (void)snprintf(transaction->id, sizeof transaction->id, "%.80s %.120s %d", settings->group,
                   settings->state && *settings->state ? settings->state : new_name, worker->number);
    return transaction;
}

static void producer_drop(struct transaction *transaction)
{
    if (transaction->producer)
        rd_kafka_destroy(transaction->producer);
    transaction->producer = NULL;
    transaction->ready = false;
}

void transaction_close(struct transaction *transaction)
{
    producer_drop(transaction);
    free(transaction);
}

static void complain(const char *step, const char *why)
{
    (void)fprintf(stderr, "payment-consumer: transaction: %s: %s\n", step, why);
}

static rd_kafka_t *producer_new(const struct transaction *transaction)
{
    char timeout[16], why[256];
    const char *const properties[][2] = {
        {"bootstrap.servers", transaction->settings->kafka},
        {"transactional.id", transaction->id},
        {"transaction.timeout.ms", timeout},
        {"linger.ms", "0"},
        {"socket.nagle.disable", "true"},
        {"reconnect.backoff.max.ms", "1000"},
        {"log_level", "2"},         /* errors are told here, and a refusal is none */
        {"retry.backoff.ms", "10"}, /* a broker is still busy with the end of the last transaction when the next one begins */
    };
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *producer = NULL;

    (void)snprintf(timeout, sizeof timeout, "%d", TRANSACTION_TIMEOUT_MS);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (rd_kafka_conf_set(conf, properties[i][0], properties[i][1], why, sizeof why) != RD_KAFKA_CONF_OK)
            goto failed;
    producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    if (producer)
        return producer;
failed:
    complain("producer", why);
    rd_kafka_conf_destroy(conf);
    return NULL;
}

bool transaction_ready(struct transaction *transaction)
{
    rd_kafka_error_t *error;

    if (transaction->ready)
        return true;
    if (!transaction->producer && !(transaction->producer = producer_new(transaction)))
        return false;
    error = rd_kafka_init_transactions(transaction->producer, ANSWER_MS);
    transaction->ready = !error;
    if (!error)
        return true;
    complain("init", rd_kafka_error_string(error));
    if (!rd_kafka_error_is_retriable(error)) /* one that is goes on where it was, when it is asked for again */
        producer_drop(transaction);
    rd_kafka_error_destroy(error);
    return false;
}

void transaction_abort(struct transaction *transaction)
{
    rd_kafka_error_t *error = transaction->producer ? rd_kafka_abort_transaction(transaction->producer, ANSWER_MS) : NULL;

    if (!error)
        return;
    complain("abort", rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    producer_drop(transaction);
}

static bool is_refusal(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION || code == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID ||
           code == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID || code == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
}

/* Ends the transaction unless there is no error, which it takes. A producer that does not say "abort" is given up: the next one of the same
 * transactional.id ends what this one left. */
static enum transaction_result judge(struct transaction *transaction, const char *step, rd_kafka_error_t *error)
{
    bool refused, abortable;

    if (!error)
        return TRANSACTION_FINE;
    refused = is_refusal(rd_kafka_error_code(error));
    abortable = rd_kafka_error_txn_requires_abort(error);
    if (!refused)
        complain(step, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    if (abortable)
        transaction_abort(transaction);
    else
        producer_drop(transaction);
    return refused ? TRANSACTION_REFUSED : TRANSACTION_FAILED;
}

enum transaction_result transaction_begin(struct transaction *transaction)
{
    return judge(transaction, "begin", rd_kafka_begin_transaction(transaction->producer));
}

enum transaction_result transaction_add(struct transaction *transaction, const struct delivery *delivery)
{
    rd_kafka_resp_err_t failed = rd_kafka_producev(
        transaction->producer, RD_KAFKA_V_TOPIC(transaction->output), RD_KAFKA_V_PARTITION(delivery->partition),
        RD_KAFKA_V_KEY((void *)(uintptr_t)delivery->order_text, strlen(delivery->order_text)),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)delivery->payload, delivery->payload_n), RD_KAFKA_V_HEADER("id", delivery->event_text, -1),
        RD_KAFKA_V_HEADER("type", delivery->type, -1), RD_KAFKA_V_HEADER("client-id", delivery->client_id, -1),
        RD_KAFKA_V_HEADER("idempotency-key", delivery->key, -1), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);

    if (!failed)
        return TRANSACTION_FINE;
    complain("produce", rd_kafka_err2str(failed));
    transaction_abort(transaction);
    return TRANSACTION_FAILED;
}

static rd_kafka_topic_partition_list_t *offsets_list(const char *topic, struct delivery *const *batch, int n, bool copied)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(12);

    for (int i = 0; i < n; i++) {
        rd_kafka_topic_partition_t *partition = rd_kafka_topic_partition_list_find(list, topic, batch[i]->partition);

        if (batch[i]->copied != copied)
            continue;
        if (!partition) {
            partition = rd_kafka_topic_partition_list_add(list, topic, batch[i]->partition);
            partition->offset = 0;
        }
        if (partition->offset <= batch[i]->offset)
            partition->offset = batch[i]->offset + 1;
    }
    return list;
}

enum transaction_result transaction_offsets(struct transaction *transaction, struct delivery *const *batch, int n, bool copied,
                                            const rd_kafka_consumer_group_metadata_t *group)
{
    rd_kafka_topic_partition_list_t *offsets = offsets_list(transaction->settings->topic, batch, n, copied);
    rd_kafka_error_t *error = NULL;

    if (offsets->cnt > 0)
        error = rd_kafka_send_offsets_to_transaction(transaction->producer, offsets, group, ANSWER_MS);
    rd_kafka_topic_partition_list_destroy(offsets);
    return judge(transaction, "offsets", error);
}

enum transaction_result transaction_commit(struct transaction *transaction)
{
    rd_kafka_error_t *error = NULL;

    /* One whose answer did not come is asked for again: it goes on where it was. */
    for (int i = 0; i < COMMIT_TRIES; i++) {
        if (error)
            rd_kafka_error_destroy(error);
        error = rd_kafka_commit_transaction(transaction->producer, ANSWER_MS);
        if (!error || !rd_kafka_error_is_retriable(error))
            break;
    }
    return judge(transaction, "commit", error);
}
