/* SPDX-License-Identifier: BSD-2-Clause */
/* What administrators do, through librdkafka's admin interface. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/kafka_client.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define CHANGE_MS 20000

/* One change: a client, the queue its answer comes to, what it does and to what. */
struct change {
    rd_kafka_t *client;
    rd_kafka_queue_t *queue;
    const char *what, *object;
};

static struct change change_begin(const char *bootstrap, const char *what, const char *object)
{
    struct change c = {.client = kafka_client_new(bootstrap), .what = what, .object = object};
    c.queue = rd_kafka_queue_new(c.client);
    return c;
}

static void change_end(struct change *c)
{
    rd_kafka_queue_destroy(c->queue);
    rd_kafka_destroy(c->client);
}

static void refuse(const struct change *c, const char *reason)
{
    test_fail(__FILE__, __LINE__, "%s %s: %s", c->what, c->object, reason);
}

/* Of each kind of answer, the one error in it; NULL: none. */
static const char *topic_error(const rd_kafka_topic_result_t **results)
{
    return rd_kafka_topic_result_error(results[0]) != RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_topic_result_error_string(results[0]) : NULL;
}

static const char *config_error(const rd_kafka_ConfigResource_t **results)
{
    return rd_kafka_ConfigResource_error(results[0]) != RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_ConfigResource_error_string(results[0])
                                                                                   : NULL;
}

static const char *acl_error(const rd_kafka_error_t *error)
{
    return error != NULL ? rd_kafka_error_string(error) : NULL;
}

static const char *answer_error(rd_kafka_event_t *event)
{
    size_t n = 0;
    switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_CREATETOPICS_RESULT:
        return topic_error(rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n));
    case RD_KAFKA_EVENT_DELETETOPICS_RESULT:
        return topic_error(rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n));
    case RD_KAFKA_EVENT_CREATEPARTITIONS_RESULT:
        return topic_error(rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(event), &n));
    case RD_KAFKA_EVENT_ALTERCONFIGS_RESULT:
        return config_error(rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(event), &n));
    case RD_KAFKA_EVENT_CREATEACLS_RESULT:
        return acl_error(rd_kafka_acl_result_error(rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(event), &n)[0]));
    case RD_KAFKA_EVENT_DELETEACLS_RESULT:
        return acl_error(rd_kafka_DeleteAcls_result_response_error(
            rd_kafka_DeleteAcls_result_responses(rd_kafka_event_DeleteAcls_result(event), &n)[0]));
    default:
        return "an answer of another kind";
    }
}

/* The one answer, which fails the test if it is an error. */
static void answer_check(struct change *c)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(c->queue, CHANGE_MS * (int)test_slow());
    if (event == NULL)
        refuse(c, "no answer");
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        refuse(c, rd_kafka_event_error_string(event));
    const char *error = answer_error(event);
    if (error != NULL)
        refuse(c, error);
    rd_kafka_event_destroy(event);
}

/* --- topics ------------------------------------------------------------------------------------------------------- */

/* Tell each "name=value" of `config`. */
static void config_each(const char *config, void (*tell)(void *data, const char *name, const char *value), void *data)
{
    char *copy = strdup(config != NULL ? config : ""), *rest = copy;
    for (char *pair; copy != NULL && *copy != 0 && (pair = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(pair, '=');
        if (value == NULL)
            test_fail(__FILE__, __LINE__, "\"%s\" is not name=value", pair);
        *value++ = 0;
        tell(data, pair, value);
    }
    free(copy);
}

static void tell_new_topic(void *data, const char *name, const char *value)
{
    rd_kafka_NewTopic_set_config(data, name, value);
}

static void tell_resource(void *data, const char *name, const char *value)
{
    rd_kafka_ConfigResource_set_config(data, name, value);
}

void kafka_topic_create(const char *bootstrap, const char *topic, int partitions, const char *config)
{
    char error[256];
    struct change c = change_begin(bootstrap, "create topic", topic);
    rd_kafka_NewTopic_t *wanted = rd_kafka_NewTopic_new(topic, partitions, -1, error, sizeof error);
    if (wanted == NULL)
        refuse(&c, error);
    config_each(config, tell_new_topic, wanted);
    rd_kafka_CreateTopics(c.client, &wanted, 1, NULL, c.queue);
    answer_check(&c);
    rd_kafka_NewTopic_destroy(wanted);
    WAIT_UNTIL(kafka_client_partitions(c.client, topic) == partitions, 20);
    change_end(&c);
}

void kafka_topic_delete(const char *bootstrap, const char *topic)
{
    struct change c = change_begin(bootstrap, "delete topic", topic);
    rd_kafka_DeleteTopic_t *unwanted = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_DeleteTopics(c.client, &unwanted, 1, NULL, c.queue);
    answer_check(&c);
    rd_kafka_DeleteTopic_destroy(unwanted);
    WAIT_UNTIL(kafka_client_partitions(c.client, topic) == 0, 20);
    change_end(&c);
}

struct config_look {
    const rd_kafka_ConfigResource_t *resource; /* as the broker has it */
    bool differs;
};

static void compare_config(void *data, const char *name, const char *value)
{
    struct config_look *look = data;
    size_t n = 0;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(look->resource, &n);
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found |= strcmp(rd_kafka_ConfigEntry_name(entries[i]), name) == 0 && strcmp(rd_kafka_ConfigEntry_value(entries[i]), value) == 0;
    look->differs |= !found;
}

/* A broker learns a little later what the controller has answered. */
static bool topic_is_configured(struct change *c, const char *topic, const char *config)
{
    size_t n = 0;
    struct config_look look = {.differs = true};
    rd_kafka_ConfigResource_t *question = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_DescribeConfigs(c->client, &question, 1, NULL, c->queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(c->queue, CHANGE_MS);
    const rd_kafka_ConfigResource_t **answers =
        event != NULL ? rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event), &n) : NULL;
    if (n == 1) {
        look = (struct config_look){.resource = answers[0]};
        config_each(config, compare_config, &look);
    }
    rd_kafka_event_destroy(event);
    rd_kafka_ConfigResource_destroy(question);
    return !look.differs;
}

void kafka_topic_configure(const char *bootstrap, const char *topic, const char *config)
{
    struct change c = change_begin(bootstrap, "configure topic", topic);
    rd_kafka_ConfigResource_t *wanted = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    config_each(config, tell_resource, wanted);
    rd_kafka_AlterConfigs(c.client, &wanted, 1, NULL, c.queue);
    answer_check(&c);
    rd_kafka_ConfigResource_destroy(wanted);
    WAIT_UNTIL(topic_is_configured(&c, topic, config), 20);
    change_end(&c);
}

void kafka_topic_extend(const char *bootstrap, const char *topic, int partitions)
{
    char error[256];
    struct change c = change_begin(bootstrap, "add partitions to topic", topic);
    rd_kafka_NewPartitions_t *wanted = rd_kafka_NewPartitions_new(topic, (size_t)partitions, error, sizeof error);
    if (wanted == NULL)
        refuse(&c, error);
    rd_kafka_CreatePartitions(c.client, &wanted, 1, NULL, c.queue);
    answer_check(&c);
    rd_kafka_NewPartitions_destroy(wanted);
    WAIT_UNTIL(kafka_client_partitions(c.client, topic) == partitions, 20);
    change_end(&c);
}

/* --- rights ------------------------------------------------------------------------------------------------------- */

static rd_kafka_AclOperation_t operation_number(const char *name)
{
    for (int i = 0; i < RD_KAFKA_ACL_OPERATION__CNT; i++)
        if (strcmp(rd_kafka_AclOperation_name((rd_kafka_AclOperation_t)i), name) == 0)
            return (rd_kafka_AclOperation_t)i;
    test_fail(__FILE__, __LINE__, "Kafka knows no operation %s", name);
}

void kafka_acl_add(const char *bootstrap, struct kafka_acl acl)
{
    char error[256], user[100];
    struct change c = change_begin(bootstrap, "add right to topic", acl.topic);
    snprintf(user, sizeof user, "User:%s", acl.user);
    rd_kafka_AclBinding_t *wanted = rd_kafka_AclBinding_new(
        RD_KAFKA_RESOURCE_TOPIC, acl.topic, RD_KAFKA_RESOURCE_PATTERN_LITERAL, user, "*", operation_number(acl.operation),
        acl.deny ? RD_KAFKA_ACL_PERMISSION_TYPE_DENY : RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, error, sizeof error);
    if (wanted == NULL)
        refuse(&c, error);
    rd_kafka_CreateAcls(c.client, &wanted, 1, NULL, c.queue);
    answer_check(&c);
    rd_kafka_AclBinding_destroy(wanted);
    change_end(&c);
}

void kafka_acl_remove(const char *bootstrap, struct kafka_acl acl)
{
    char error[256], user[100];
    struct change c = change_begin(bootstrap, "remove right to topic", acl.topic);
    snprintf(user, sizeof user, "User:%s", acl.user);
    rd_kafka_AclBindingFilter_t *unwanted = rd_kafka_AclBindingFilter_new(
        RD_KAFKA_RESOURCE_TOPIC, acl.topic, RD_KAFKA_RESOURCE_PATTERN_LITERAL, user, "*", operation_number(acl.operation),
        acl.deny ? RD_KAFKA_ACL_PERMISSION_TYPE_DENY : RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, error, sizeof error);
    if (unwanted == NULL)
        refuse(&c, error);
    rd_kafka_DeleteAcls(c.client, &unwanted, 1, NULL, c.queue);
    answer_check(&c);
    rd_kafka_AclBinding_destroy(unwanted);
    change_end(&c);
}
