/* SPDX-License-Identifier: BSD-2-Clause */
/* Every class of answer to Produce. Which class it is decides who waits, never safety: order, loss and marks are the oracle's. */
#include <stdio.h>

#include "tests/crash/network.h"
#include "tests/lib/test.h"

struct code {
    int number;
    const char *name;
};

/* The batch is refused by the proxy, and is not in the log; or, `appended`, it is, and the broker's answer is replaced. */
static void codes_try(struct network *n, const struct code *codes, size_t codes_n, bool appended)
{
    for (size_t i = 0; i < codes_n; i++)
        network_fault(n, codes[i].name, "kafka %s code=%d on=Produce topic=%s", appended ? "spoil" : "error", codes[i].number, n->l->name);
    line_publishing(n->l);
}

#define CODES(n, list, appended) codes_try((n), (list), sizeof(list) / sizeof(list)[0], (appended))

/* librdkafka tries again inside of the session. */
TEST_WITHIN(crash_network_codes_that_are_retried, 120)
{
    static const struct code codes[] = {
        {6, "NOT_LEADER_OR_FOLLOWER"},
        {5, "LEADER_NOT_AVAILABLE"},
        {19, "NOT_ENOUGH_REPLICAS"},
        {7, "REQUEST_TIMED_OUT"},
        {20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"},
        {56, "KAFKA_STORAGE_ERROR"},
        {3, "UNKNOWN_TOPIC_OR_PARTITION"},
    };
    struct network *n = network_begin("retried", NULL);

    (void)network_relay(n);
    CODES(n, codes, false);
    kafka_line_check_no_attempts(n->l);
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* The same after the append: where the client believes that nothing was appended, what it sends again is known to the broker. */
TEST_WITHIN(crash_network_codes_after_the_append, 120)
{
    static const struct code codes[] = {
        {7, "REQUEST_TIMED_OUT, appended"},      {20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND, appended"},
        {6, "NOT_LEADER_OR_FOLLOWER, appended"}, {46, "DUPLICATE_SEQUENCE_NUMBER, appended"},
        {-1, "UNKNOWN_SERVER_ERROR, appended"},  {10, "MESSAGE_TOO_LARGE, appended"},
    };
    struct network *n = network_begin("appended", NULL);

    (void)network_relay(n);
    CODES(n, codes, true);
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* A whole batch is refused for one row of it, or for none: the innocent are found by trying each alone. */
TEST_WITHIN(crash_network_codes_of_rows, 120)
{
    static const struct code codes[] = {
        {87, "INVALID_RECORD"},    {10, "MESSAGE_TOO_LARGE"}, {18, "RECORD_LIST_TOO_LARGE"},        {2, "CORRUPT_MESSAGE"},
        {32, "INVALID_TIMESTAMP"}, {44, "POLICY_VIOLATION"},  {76, "UNSUPPORTED_COMPRESSION_TYPE"},
    };
    struct network *n = network_begin("rows", NULL);

    (void)network_relay(n);
    CODES(n, codes, false);
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* The topic waits, and is asked for again. */
TEST_WITHIN(crash_network_codes_of_topics, 120)
{
    static const struct code codes[] = {
        {29, "TOPIC_AUTHORIZATION_FAILED"}, {17, "INVALID_TOPIC_EXCEPTION"}, {29, "TOPIC_AUTHORIZATION_FAILED"}};
    struct network *n = network_begin("topics", NULL);

    (void)network_relay(n);
    CODES(n, codes, false);
    kafka_line_check_no_attempts(n->l);
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* The session is over, whatever was in it. */
TEST_WITHIN(crash_network_codes_of_sessions, 120)
{
    static const struct code codes[] = {
        {31, "CLUSTER_AUTHORIZATION_FAILED"}, {45, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, {59, "UNKNOWN_PRODUCER_ID"},
        {47, "INVALID_PRODUCER_EPOCH"},       {49, "INVALID_PRODUCER_ID_MAPPING"},  {90, "PRODUCER_FENCED"},
    };
    struct network *n = network_begin("sessions", NULL);

    (void)network_relay(n);
    CODES(n, codes, false);
    kafka_line_check_no_attempts(n->l);
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* Nobody listed these: a new session after a while, and nobody is to blame. */
TEST_WITHIN(crash_network_codes_that_nobody_listed, 120)
{
    static const struct code codes[] = {{-1, "UNKNOWN_SERVER_ERROR"}, {89, "THROTTLING_QUOTA_EXCEEDED"},
                                        {74, "FENCED_LEADER_EPOCH"},  {43, "UNSUPPORTED_FOR_MESSAGE_FORMAT"},
                                        {35, "UNSUPPORTED_VERSION"},  {500, "a code of the future"}};
    struct network *n = network_begin("unlisted", NULL);

    (void)network_relay(n);
    CODES(n, codes, false);
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}

/* The producer itself is refused. */
TEST_WITHIN(crash_network_codes_of_producers, 120)
{
    struct network *n = network_begin("producers", NULL);

    (void)network_relay(n);
    for (int i = 0; i < 3; i++) {
        static const int codes[] = {14, 15, 31}; /* loading, not available, not authorized */
        char rule[16];

        (void)snprintf(rule, sizeof rule, "init%d", i);
        (void)proxy_command(&n->proxy, "rule %s kafka error code=%d on=InitProducerId times=2", rule, codes[i]);
        network_fault(n, "session ended", "kafka error code=87 on=Produce topic=producers");
        WAIT_UNTIL(proxy_hits(&n->proxy, rule) == 2 || (line_strike(n->l), false), 30);
        line_strike(n->l);
        line_hit(n->l, "InitProducerId refused twice", "proxy: 2 hits, code %d", codes[i]);
    }
    network_end(n, &(struct line_expected){.windows = LINE_D(3)});
}
