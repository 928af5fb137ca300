/* SPDX-License-Identifier: BSD-2-Clause */
/* librdkafka's mock cluster as a program: `mock-cluster [BROKERS]`. It says "ok BOOTSTRAP", then reads commands from stdin, one a line, and
 * answers each with "ok" or "no: REASON". It ends with its input. It does not de-duplicate, fence or honour aborts: good for a
 * demonstration and for the plumbing of errors, no proof of anything else. */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cluster {
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *mock;
    int brokers;
};

static const char *topic(const struct cluster *c, const char *rest)
{
    char name[250];
    int partitions;
    if (sscanf(rest, "%249s %d", name, &partitions) != 2)
        return "topic NAME PARTITIONS";
    rd_kafka_resp_err_t error = rd_kafka_mock_topic_create(c->mock, name, partitions, 1);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? NULL : rd_kafka_err2str(error);
}

static const char *error_push(const struct cluster *c, const char *rest)
{
    short key;
    int code;
    unsigned count;
    if (sscanf(rest, "%hd %d %u", &key, &code, &count) != 3)
        return "error APIKEY CODE COUNT";
    for (; count > 0; count--)
        rd_kafka_mock_push_request_errors(c->mock, key, 1, (rd_kafka_resp_err_t)code);
    return NULL;
}

static const char *rtt(const struct cluster *c, const char *rest)
{
    int ms;
    if (sscanf(rest, "%d", &ms) != 1)
        return "rtt MS";
    for (int b = 1; b <= c->brokers; b++)
        rd_kafka_mock_broker_set_rtt(c->mock, b, ms);
    return NULL;
}

static const char *down(const struct cluster *c, const char *rest)
{
    (void)rest;
    for (int b = 1; b <= c->brokers; b++)
        rd_kafka_mock_broker_set_down(c->mock, b);
    return NULL;
}

static const char *up(const struct cluster *c, const char *rest)
{
    (void)rest;
    for (int b = 1; b <= c->brokers; b++)
        rd_kafka_mock_broker_set_up(c->mock, b);
    return NULL;
}

static const char *leader(const struct cluster *c, const char *rest)
{
    char name[250];
    int partition, broker;
    if (sscanf(rest, "%249s %d %d", name, &partition, &broker) != 3)
        return "leader TOPIC PARTITION BROKER";
    rd_kafka_resp_err_t error = rd_kafka_mock_partition_set_leader(c->mock, name, partition, broker);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? NULL : rd_kafka_err2str(error);
}

static const char *topic_error(const struct cluster *c, const char *rest)
{
    char name[250];
    int code;
    if (sscanf(rest, "%249s %d", name, &code) != 2)
        return "topic-error NAME CODE";
    rd_kafka_mock_topic_set_error(c->mock, name, (rd_kafka_resp_err_t)code);
    return NULL;
}

static const struct command {
    const char *name;
    const char *(*perform)(const struct cluster *c, const char *rest); /* returns NULL, or what is wrong */
} commands[] = {
    {"topic", topic}, {"error", error_push}, {"rtt", rtt}, {"down", down}, {"up", up}, {"leader", leader}, {"topic-error", topic_error},
};

static const char *command_perform(const struct cluster *c, char *line)
{
    char *rest = line;
    const char *name = strsep(&rest, " \n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].perform(c, rest != NULL ? rest : "");
    return "there is no such command";
}

static bool cluster_open(struct cluster *c, int brokers)
{
    char error[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    /* Without it each answer waits for 40 ms: the cluster's sockets take their options from the client that hosts it. */
    rd_kafka_conf_set(conf, "socket.nagle.disable", "true", error, sizeof error);
    c->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof error);
    c->brokers = brokers;
    c->mock = c->host != NULL ? rd_kafka_mock_cluster_new(c->host, brokers) : NULL;
    return c->mock != NULL;
}

int main(int argc, char **argv)
{
    struct cluster c = {0};
    int brokers = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    if (brokers < 1 || brokers > 100 || !cluster_open(&c, brokers)) {
        fprintf(stderr, "usage: mock-cluster [BROKERS]\n");
        return 2;
    }
    printf("ok %s\n", rd_kafka_mock_cluster_bootstraps(c.mock));
    fflush(stdout);
    for (char line[300]; fgets(line, sizeof line, stdin) != NULL; fflush(stdout)) {
        const char *wrong = command_perform(&c, line);
        if (wrong != NULL)
            printf("no: %s\n", wrong);
        else
            puts("ok");
    }
    rd_kafka_mock_cluster_destroy(c.mock);
    rd_kafka_destroy(c.host);
    return 0;
}
