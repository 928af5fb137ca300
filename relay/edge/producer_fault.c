/* SPDX-License-Identifier: BSD-2-Clause */
/* The table is a list, not a switch: librdkafka has some two hundred errors and newer ones have more; what is not listed is passing. */
#include "relay/edge/producer_fault.h"

#include <stdio.h>
#include <string.h>

struct fault {
    rd_kafka_resp_err_t error;
    enum relay_fault fault;
};

static const struct fault faults[] = {
    {RD_KAFKA_RESP_ERR_NO_ERROR, RELAY_FAULT_NONE},

    /* The broker refused the batch for its size, or librdkafka the row before it got a sequence number. */
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RELAY_FAULT_SIZE},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, RELAY_FAULT_SIZE},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, RELAY_FAULT_SIZE},

    /* It refused what is in the batch; one row of it is to blame, the others are innocent. */
    {RD_KAFKA_RESP_ERR_INVALID_MSG, RELAY_FAULT_ROW},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, RELAY_FAULT_ROW},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, RELAY_FAULT_ROW},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, RELAY_FAULT_ROW},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, RELAY_FAULT_ROW},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, RELAY_FAULT_ROW},
    {RD_KAFKA_RESP_ERR__BAD_MSG, RELAY_FAULT_ROW},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, RELAY_FAULT_ROW},

    /* No row to blame: the topic is missing, not ours to write, or has fewer partitions than it had. */
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RELAY_FAULT_TOPIC},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, RELAY_FAULT_TOPIC},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RELAY_FAULT_TOPIC},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RELAY_FAULT_TOPIC},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, RELAY_FAULT_TOPIC},

    /* The session is at its end, whatever was in it. */
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR__FATAL, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR__INCONSISTENT, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR__STATE, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR__FENCED, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR__DESTROY, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RELAY_FAULT_SESSION}, /* cannot be: message.timeout.ms is 0 */
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING, RELAY_FAULT_SESSION},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, RELAY_FAULT_SESSION}, /* all topics at once: no breaker of one */
};

enum relay_fault producer_fault(rd_kafka_resp_err_t error)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i].error == error)
            return faults[i].fault;
    return RELAY_FAULT_PASSING;
}

bool producer_fault_is_connection(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__TRANSPORT || error == RD_KAFKA_RESP_ERR__RESOLVE || error == RD_KAFKA_RESP_ERR__SSL ||
           error == RD_KAFKA_RESP_ERR__AUTHENTICATION || error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
           error == RD_KAFKA_RESP_ERR__TIMED_OUT;
}

void producer_fault_sentence(rd_kafka_resp_err_t error, const char *reason, char *ret_text, size_t text_size)
{
    const char *trouble = "no Kafka broker answers";
    const char *advice = "check that Kafka runs, and kafka.bootstrap.servers";

    if (error == RD_KAFKA_RESP_ERR__AUTHENTICATION) {
        trouble = "Kafka refuses the login";
        advice = "check kafka.security.protocol and kafka.sasl.*";
    } else if (error == RD_KAFKA_RESP_ERR__SSL && strstr(reason, "certificate verify failed") != NULL) {
        /* librdkafka does not tell which of these it was. */
        trouble = "the certificate of a Kafka broker is not good";
        advice = "it may have expired, have another name, or be signed by nobody in kafka.ssl.ca.location";
    } else if (error == RD_KAFKA_RESP_ERR__SSL) {
        trouble = "TLS to Kafka does not work";
        advice = "check kafka.security.protocol and kafka.ssl.*";
    } else if (error == RD_KAFKA_RESP_ERR__RESOLVE) {
        trouble = "the name of a Kafka broker cannot be resolved";
        advice = "check kafka.bootstrap.servers, and the brokers' advertised.listeners";
    }
    snprintf(ret_text, text_size, "%s (%s); %s", trouble, reason, advice);
}

void producer_fault_topic_sentence(rd_kafka_resp_err_t error, const char *topic, char *ret_text, size_t text_size)
{
    if (error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
        snprintf(ret_text, text_size, "topic \"%s\" does not exist in Kafka (or may not be described); create it", topic);
    else if (error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        snprintf(ret_text, text_size, "topic \"%s\" is not ours to write; grant WRITE and DESCRIBE on it", topic);
    else if (error == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION)
        snprintf(ret_text, text_size,
                 "\"%s\" cannot be the name of a topic in Kafka; DELETE the rows that name it, and INSERT them with another", topic);
    else
        snprintf(ret_text, text_size, "topic \"%s\" cannot be learned from Kafka (%s); it is asked for again", topic,
                 rd_kafka_err2str(error));
}
