/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

/* Where tests/deps.sh puts the jars. */
static void jars_find(char *ret, size_t size)
{
    const char *ours = getenv("TEST_KAFKA_JARS"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (ours != NULL)
        snprintf(ret, size, "%s", ours);
    else if (cache != NULL && cache[0] != 0)
        snprintf(ret, size, "%s/outbox-relay/kafka-4.1.1", cache);
    else
        snprintf(ret, size, "%s/.cache/outbox-relay/kafka-4.1.1", home != NULL ? home : "");
    if (access(ret, R_OK) != 0)
        test_fail(__FILE__, __LINE__, "There is no Kafka in %s: run make deps.", ret);
}

static FILE *file_create(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    return f;
}

static void listeners_write(FILE *to, const struct kafka *k)
{
    bool secure = k->secure[0] != 0;
    fprintf(to, "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT%s%s\n", secure ? ",RELAY:" : "",
            k->protocol);
    fprintf(to, "listeners=PLAINTEXT://%s,PROXIED://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d%s%s\n", k->bootstrap, k->proxied_port,
            k->controller_port, secure ? ",RELAY://" : "", k->secure);
    fprintf(to, "advertised.listeners=PLAINTEXT://%s,PROXIED://127.0.0.1:%d%s%s\n", k->bootstrap, k->proxy_port, secure ? ",RELAY://" : "",
            k->secure);
}

void kafka_settings(struct kafka *k, const char *settings)
{
    FILE *from = fopen(TEST_SOURCE_FOLDER "/tests/lib/kafka/server.properties", "re");
    if (from == NULL)
        test_fail(__FILE__, __LINE__, "tests/lib/kafka/server.properties: %s", strerror(errno));
    FILE *to = file_create(k->folder, "server.properties");
    for (int c; (c = fgetc(from)) != EOF;)
        fputc(c, to);
    fclose(from);
    fprintf(to, "node.id=%d\ncontroller.quorum.voters=%s\n", k->node, k->voters);
    listeners_write(to, k);
    fprintf(to, "log.dirs=%s/data\n%s\n", k->folder, settings != NULL ? settings : "");
    fclose(to);
}

/* What Kafka's own tool writes when it formats a log folder, without its second of Java. */
static void data_format(const struct kafka *k, int cluster)
{
    char data[260];
    snprintf(data, sizeof data, "%s/data", k->folder);
    if (mkdir(data, 0755) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", data, strerror(errno));
    FILE *f = file_create(data, "meta.properties");
    fprintf(f, "version=1\ncluster.id=outboxRelayTests%06d\nnode.id=%d\ndirectory.id=outboxRelayFolder%dAAAA\n", cluster, k->node, k->node);
    fclose(f);
}

void kafka_launch(struct kafka *k)
{
    char jars[400], classes[410], properties[260], log[260];
    if (process_running(&k->server))
        test_fail(__FILE__, __LINE__, "Kafka is still running");
    jars_find(jars, sizeof jars);
    snprintf(classes, sizeof classes, "%s/*", jars);
    snprintf(properties, sizeof properties, "%s/server.properties", k->folder);
    snprintf(log, sizeof log, "%s.log", k->folder);
    bool alone = strchr(k->voters, ',') == NULL;
    k->server = process_start((const char *[]){"java", alone ? "-Xmx512m" : "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                                               "-XX:-UsePerfData", "-cp", classes, "kafka.Kafka", properties, NULL},
                              NULL, log);
}

void kafka_await(struct kafka *k)
{
    bool up = false;
    WAIT_UNTIL((up = kafka_topic_partitions(k->bootstrap, NULL) >= 0) || !process_running(&k->server), 120);
    if (!up)
        test_fail(__FILE__, __LINE__, "Kafka does not start:\n%s", process_output(&k->server));
}

/* Ports and folder of a node; it is not started. */
static struct kafka node_new(int node)
{
    static unsigned started_n;
    struct kafka k = {
        .node = node, .port = free_port(), .controller_port = free_port(), .proxied_port = free_port(), .proxy_port = free_port()};
    snprintf(k.bootstrap, sizeof k.bootstrap, "127.0.0.1:%d", k.port);
    snprintf(k.voters, sizeof k.voters, "%d@127.0.0.1:%d", node, k.controller_port);
    snprintf(k.folder, sizeof k.folder, "%s/kafka%u", temp_folder(), ++started_n);
    if (mkdir(k.folder, 0755) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", k.folder, strerror(errno));
    return k;
}

static void node_start(struct kafka *k, const char *settings)
{
    kafka_settings(k, settings);
    data_format(k, k->port);
    kafka_launch(k);
    kafka_await(k);
}

struct kafka kafka_start_with(const char *settings)
{
    struct kafka k = node_new(1);
    node_start(&k, settings);
    return k;
}

struct kafka kafka_start_secure(const char *protocol, const char *settings)
{
    struct kafka k = node_new(1);
    snprintf(k.secure, sizeof k.secure, "127.0.0.1:%d", free_port());
    snprintf(k.protocol, sizeof k.protocol, "%s", protocol);
    node_start(&k, settings);
    return k;
}

struct kafka kafka_start(void)
{
    return kafka_start_with(NULL);
}

struct kafka_cluster kafka_cluster_start(const char *settings)
{
    struct kafka_cluster c = {0};
    char voters[sizeof c.node[0].voters] = "";
    for (int i = 0; i < KAFKA_NODES; i++) {
        c.node[i] = node_new(i + 1);
        size_t at = strlen(voters), to = strlen(c.bootstrap);
        snprintf(voters + at, sizeof voters - at, "%s%s", i > 0 ? "," : "", c.node[i].voters);
        snprintf(c.bootstrap + to, sizeof c.bootstrap - to, "%s%s", i > 0 ? "," : "", c.node[i].bootstrap);
    }
    for (int i = 0; i < KAFKA_NODES; i++) {
        snprintf(c.node[i].voters, sizeof c.node[i].voters, "%s", voters);
        kafka_settings(&c.node[i], settings);
        data_format(&c.node[i], c.node[0].port);
        kafka_launch(&c.node[i]);
    }
    for (int i = 0; i < KAFKA_NODES; i++) {
        kafka_await(&c.node[i]);
        WAIT_UNTIL(kafka_brokers(c.node[i].bootstrap) == KAFKA_NODES, 30);
    }
    return c;
}

void kafka_kill(struct kafka *k)
{
    process_signal(&k->server, SIGKILL);
    process_wait(&k->server, 10);
}

void kafka_restart(struct kafka *k)
{
    kafka_launch(k);
    kafka_await(k);
}

void kafka_stop(struct kafka *k)
{
    process_signal(&k->server, SIGTERM);
    process_wait(&k->server, 30);
}
