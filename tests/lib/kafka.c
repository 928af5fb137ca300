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

static void properties_write(const struct kafka *k, const char *settings)
{
    FILE *from = fopen(TEST_SOURCE_FOLDER "/tests/lib/kafka/server.properties", "re");
    if (from == NULL)
        test_fail(__FILE__, __LINE__, "tests/lib/kafka/server.properties: %s", strerror(errno));
    FILE *to = file_create(k->folder, "server.properties");
    for (int c; (c = fgetc(from)) != EOF;)
        fputc(c, to);
    fclose(from);
    int controller = free_port();
    fprintf(to, "controller.quorum.voters=1@127.0.0.1:%d\n", controller);
    fprintf(to, "listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d\n", k->port, controller);
    fprintf(to, "advertised.listeners=PLAINTEXT://127.0.0.1:%d\n", k->port);
    fprintf(to, "log.dirs=%s/data\n%s\n", k->folder, settings != NULL ? settings : "");
    fclose(to);
}

/* What Kafka's own tool writes when it formats a log folder, without its second of Java. */
static void data_format(const struct kafka *k)
{
    char data[260];
    snprintf(data, sizeof data, "%s/data", k->folder);
    if (mkdir(data, 0755) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", data, strerror(errno));
    FILE *f = file_create(data, "meta.properties");
    fprintf(f, "version=1\ncluster.id=outboxRelayTests%06d\nnode.id=1\ndirectory.id=outboxRelayFolderAAAAA\n", k->port);
    fclose(f);
}

static void server_start(struct kafka *k)
{
    char jars[400], classes[410], properties[260], log[260];
    jars_find(jars, sizeof jars);
    snprintf(classes, sizeof classes, "%s/*", jars);
    snprintf(properties, sizeof properties, "%s/server.properties", k->folder);
    snprintf(log, sizeof log, "%s.log", k->folder);
    k->server = process_start((const char *[]){"java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp",
                                               classes, "kafka.Kafka", properties, NULL},
                              NULL, log);
    bool up = false;
    WAIT_UNTIL((up = kafka_topic_partitions(k->bootstrap, NULL) >= 0) || !process_running(&k->server), 60);
    if (!up)
        test_fail(__FILE__, __LINE__, "Kafka does not start:\n%s", process_output(&k->server));
}

struct kafka kafka_start_with(const char *settings)
{
    static unsigned started_n;
    struct kafka k = {.port = free_port()};
    snprintf(k.bootstrap, sizeof k.bootstrap, "127.0.0.1:%d", k.port);
    snprintf(k.folder, sizeof k.folder, "%s/kafka%u", temp_folder(), ++started_n);
    if (mkdir(k.folder, 0755) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", k.folder, strerror(errno));
    properties_write(&k, settings);
    data_format(&k);
    server_start(&k);
    return k;
}

struct kafka kafka_start(void)
{
    return kafka_start_with(NULL);
}

void kafka_kill(struct kafka *k)
{
    process_signal(&k->server, SIGKILL);
    process_wait(&k->server, 10);
}

void kafka_restart(struct kafka *k)
{
    if (process_running(&k->server))
        test_fail(__FILE__, __LINE__, "Kafka is still running");
    server_start(k);
}

void kafka_stop(struct kafka *k)
{
    process_signal(&k->server, SIGTERM);
    process_wait(&k->server, 30);
}
