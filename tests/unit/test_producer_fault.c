/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>

#include "relay/edge/producer_fault.h"
#include "relay/edge/producer_reach.h"
#include "tests/lib/test.h"

TEST(producer_fault_classes)
{
    static const struct {
        rd_kafka_resp_err_t error;
        enum relay_fault fault;
    } cases[] = {
        {RD_KAFKA_RESP_ERR_NO_ERROR, RELAY_FAULT_NONE},
        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RELAY_FAULT_SIZE},
        {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, RELAY_FAULT_SIZE},
        {RD_KAFKA_RESP_ERR_INVALID_RECORD, RELAY_FAULT_ROW},
        {RD_KAFKA_RESP_ERR_INVALID_MSG, RELAY_FAULT_ROW},
        {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, RELAY_FAULT_ROW},
        {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, RELAY_FAULT_ROW},
        {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RELAY_FAULT_TOPIC},
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RELAY_FAULT_TOPIC},
        {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RELAY_FAULT_TOPIC},
        {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, RELAY_FAULT_TOPIC},
        {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, RELAY_FAULT_SESSION},
        {RD_KAFKA_RESP_ERR__PURGE_QUEUE, RELAY_FAULT_SESSION},
        {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, RELAY_FAULT_SESSION},
        {RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, RELAY_FAULT_SESSION},
        {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, RELAY_FAULT_SESSION},
        {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, RELAY_FAULT_SESSION},
        {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RELAY_FAULT_SESSION},
        {RD_KAFKA_RESP_ERR__TRANSPORT, RELAY_FAULT_PASSING},
        {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RELAY_FAULT_PASSING},
        {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RELAY_FAULT_PASSING},
        {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, RELAY_FAULT_PASSING},
        {RD_KAFKA_RESP_ERR_UNKNOWN, RELAY_FAULT_PASSING},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (producer_fault(cases[i].error) != cases[i].fault)
            test_fail(__FILE__, __LINE__, "%s is %d, not %d", rd_kafka_err2name(cases[i].error), (int)producer_fault(cases[i].error),
                      (int)cases[i].fault);
}

/* No error but "no error" may count as delivered, those of later librdkafka included. */
TEST(producer_fault_of_an_unknown_error_is_passing)
{
    CHECK_EQ(producer_fault((rd_kafka_resp_err_t)4711), RELAY_FAULT_PASSING);
    CHECK_EQ(producer_fault((rd_kafka_resp_err_t)-4711), RELAY_FAULT_PASSING);
    for (int error = -300; error < 300; error++)
        CHECK((producer_fault((rd_kafka_resp_err_t)error) == RELAY_FAULT_NONE) == (error == 0));
}

TEST(producer_fault_says_what_to_do)
{
    char text[300];

    producer_fault_sentence(RD_KAFKA_RESP_ERR__AUTHENTICATION, "h:1: wrong", text, sizeof text);
    CHECK_STR(text, "Kafka refuses the login (h:1: wrong); check kafka.security.protocol and kafka.sasl.*");
    producer_fault_sentence(RD_KAFKA_RESP_ERR__SSL, "h:1: expired", text, sizeof text);
    CHECK(strstr(text, "TLS") != NULL && strstr(text, "kafka.ssl.*") != NULL);
    producer_fault_sentence(RD_KAFKA_RESP_ERR__SSL, "h:1: certificate verify failed", text, sizeof text);
    CHECK(strstr(text, "may have expired") != NULL && strstr(text, "kafka.ssl.ca.location") != NULL);
    producer_fault_sentence(RD_KAFKA_RESP_ERR__RESOLVE, "no h", text, sizeof text);
    CHECK(strstr(text, "resolved") != NULL && strstr(text, "kafka.bootstrap.servers") != NULL);
    producer_fault_sentence(RD_KAFKA_RESP_ERR__TRANSPORT, "refused", text, sizeof text);
    CHECK(strstr(text, "no Kafka broker answers") != NULL);
    producer_fault_topic_sentence(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, "t", text, sizeof text);
    CHECK(strstr(text, "topic \"t\" does not exist") != NULL);
    producer_fault_topic_sentence(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, "t", text, sizeof text);
    CHECK(strstr(text, "WRITE") != NULL);
    producer_fault_topic_sentence(RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, "t", text, sizeof text);
    CHECK(strstr(text, "\"t\"") != NULL);
}

TEST(producer_reach_tells_only_changes)
{
    struct reach r = {0};
    char reason[300] = "";

    CHECK(reach_answered(&r));
    CHECK(!reach_answered(&r));
    CHECK(reach_is_good(&r));
    reach_doubt(&r, 2000);
    CHECK(!reach_silent(&r, 3000, RD_KAFKA_RESP_ERR__TIMED_OUT, reason, sizeof reason)); /* nothing says that all are down */
    CHECK(reach_silent(&r, 7000, RD_KAFKA_RESP_ERR__TIMED_OUT, reason, sizeof reason));
    CHECK(!reach_is_good(&r));
    CHECK(strstr(reason, "no Kafka broker answers") != NULL);
    CHECK(!reach_silent(&r, 9000, RD_KAFKA_RESP_ERR__TIMED_OUT, reason, sizeof reason));
    CHECK(reach_answered(&r));
}

TEST(producer_reach_tells_the_cause_not_what_follows_from_it)
{
    struct reach r = {0};
    char reason[300] = "";

    (void)reach_answered(&r);
    reach_doubt(&r, 2000);
    reach_trouble(&r, RD_KAFKA_RESP_ERR__TRANSPORT, "disconnected");
    reach_trouble(&r, RD_KAFKA_RESP_ERR__AUTHENTICATION, "wrong password");
    reach_trouble(&r, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "1/1 brokers are down");
    reach_trouble(&r, RD_KAFKA_RESP_ERR__TRANSPORT, "disconnected");
    CHECK(reach_silent(&r, 2500, RD_KAFKA_RESP_ERR__TRANSPORT, reason, sizeof reason));
    CHECK(strstr(reason, "login (wrong password)") != NULL);
    /* An answer forgets it: the next outage has another cause. */
    (void)reach_answered(&r);
    reach_doubt(&r, 4000);
    reach_trouble(&r, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "1/1 brokers are down");
    CHECK(reach_silent(&r, 4500, RD_KAFKA_RESP_ERR__TRANSPORT, reason, sizeof reason));
    CHECK(strstr(reason, "1/1 brokers are down") != NULL);
}

/* The broker was killed, and comes back with a password that is not ours. */
TEST(producer_reach_tells_once_in_an_outage_when_its_cause_becomes_known)
{
    struct reach r = {0};
    char reason[500];

    (void)reach_answered(&r);
    for (int outage = 0; outage < 2; outage++) {
        reach_trouble(&r, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "1/1 brokers are down");
        CHECK(reach_silent(&r, 7000, RD_KAFKA_RESP_ERR__TIMED_OUT, reason, sizeof reason));
        CHECK(!reach_silent(&r, 8000, RD_KAFKA_RESP_ERR__TIMED_OUT, reason, sizeof reason));
        reach_trouble(&r, RD_KAFKA_RESP_ERR__AUTHENTICATION, "h:1: invalid credentials");
        CHECK(reach_silent(&r, 9000, RD_KAFKA_RESP_ERR__TIMED_OUT, reason, sizeof reason));
        CHECK(strstr(reason, "Kafka refuses the login (h:1: invalid credentials)") != NULL);
        reach_trouble(&r, RD_KAFKA_RESP_ERR__SSL, "h:1: handshake failed");
        CHECK(!reach_silent(&r, 10000, RD_KAFKA_RESP_ERR__TIMED_OUT, reason, sizeof reason));
        CHECK(!reach_is_good(&r));
        CHECK(reach_answered(&r));
    }
}
