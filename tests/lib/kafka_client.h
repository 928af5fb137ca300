/* SPDX-License-Identifier: BSD-2-Clause */
/* A librdkafka client for questions and for an administrator's work. Within tests/lib. */
#ifndef TESTS_LIB_KAFKA_CLIENT_H
#define TESTS_LIB_KAFKA_CLIENT_H

#include <librdkafka/rdkafka.h>

rd_kafka_t *kafka_client_new(const char *bootstrap); /* silent; fails the test if it cannot be made */
/* As kafka_topic_partitions. */
int kafka_client_partitions(rd_kafka_t *client, const char *topic);

#endif
