/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/progress.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARTITIONS_MAX 64
#define ROUND_MS       500
#define ENDS_MAX       1200 /* ten minutes of rounds: a group that is further behind is known to be, and not since when */
#define ROUNDS_KEPT    6    /* a way that commits first applies a moment later: what is told is this many rounds old */

/* Where the topic ended at a time. */
struct ends {
    int64_t at_ms, offsets[PARTITIONS_MAX];
};

struct group {
    rd_kafka_t *client;
    int64_t settled_ms[ROUNDS_KEPT]; /* the newest last */
    int64_t lag;
};

struct progress {
    rd_kafka_t *client; /* asks for the topic's ends */
    char *topic;
    int partitions_n, groups_n;
    pthread_t thread;
    struct ends *ends;     /* a ring of ENDS_MAX */
    int64_t ends_n;        /* ever written */
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    bool stopping;
    int64_t answered_ms;
    struct group groups[];
};

static int64_t now_ms(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool partitions_learn(struct progress *progress)
{
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(progress->client, progress->topic, NULL);

    if (rd_kafka_metadata(progress->client, 0, topic, &metadata, 1000) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (metadata->topic_cnt == 1 && metadata->topics[0].partition_cnt <= PARTITIONS_MAX)
            progress->partitions_n = metadata->topics[0].partition_cnt;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(topic);
    return progress->partitions_n > 0;
}

static rd_kafka_topic_partition_list_t *partitions_list(const struct progress *progress, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(progress->partitions_n);

    for (int p = 0; p < progress->partitions_n; p++)
        rd_kafka_topic_partition_list_add(list, progress->topic, p)->offset = offset;
    return list;
}

/* Ask where the topic ends. The time is taken before, so that all that was in it then lies below. */
static bool ends_read(struct progress *progress)
{
    struct ends *ends = &progress->ends[progress->ends_n % ENDS_MAX];
    rd_kafka_topic_partition_list_t *list = partitions_list(progress, RD_KAFKA_OFFSET_END);
    int64_t before_ms = now_ms(CLOCK_REALTIME);
    bool succeeded = rd_kafka_offsets_for_times(progress->client, list, 2000) == RD_KAFKA_RESP_ERR_NO_ERROR;

    for (int p = 0; p < list->cnt; p++)
        succeeded = succeeded && !list->elems[p].err && list->elems[p].offset >= 0;
    if (succeeded) {
        ends->at_ms = before_ms;
        for (int p = 0; p < list->cnt; p++)
            ends->offsets[list->elems[p].partition] = list->elems[p].offset;
        progress->ends_n++;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return succeeded;
}

/* The newest moment at which the topic ended at or below the offsets. */
static int64_t settled_find(const struct progress *progress, const int64_t *offsets)
{
    for (int64_t i = progress->ends_n - 1; i >= 0 && i >= progress->ends_n - ENDS_MAX; i--) {
        const struct ends *ends = &progress->ends[i % ENDS_MAX];
        bool covered = true;

        for (int p = 0; p < progress->partitions_n; p++)
            covered = covered && offsets[p] >= ends->offsets[p];
        if (covered)
            return ends->at_ms;
    }
    return 0;
}

static void group_note(struct progress *progress, struct group *group, const int64_t *offsets)
{
    const struct ends *newest = &progress->ends[(progress->ends_n - 1) % ENDS_MAX];
    int64_t settled_ms = settled_find(progress, offsets), lag = 0;

    for (int p = 0; p < progress->partitions_n; p++)
        lag += newest->offsets[p] > offsets[p] ? newest->offsets[p] - offsets[p] : 0;
    pthread_mutex_lock(&progress->mutex);
    memmove(group->settled_ms, group->settled_ms + 1, (ROUNDS_KEPT - 1) * sizeof *group->settled_ms);
    /* Never backwards, though an offset may be. */
    if (settled_ms < group->settled_ms[ROUNDS_KEPT - 2])
        settled_ms = group->settled_ms[ROUNDS_KEPT - 2];
    group->settled_ms[ROUNDS_KEPT - 1] = settled_ms;
    group->lag = lag;
    pthread_mutex_unlock(&progress->mutex);
}

/* Each group is asked for by a client of its own that never joins it. librdkafka could ask for all with one (ListConsumerGroupOffsets), but
 * 2.0.2 aborts there when the broker goes away meanwhile. */
static void group_read(struct progress *progress, struct group *group)
{
    rd_kafka_topic_partition_list_t *list = partitions_list(progress, RD_KAFKA_OFFSET_INVALID);
    int64_t offsets[PARTITIONS_MAX] = {0};

    if (rd_kafka_committed(group->client, list, 2000) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (int i = 0; i < list->cnt; i++)
            if (list->elems[i].offset > 0) /* negative: none yet */
                offsets[list->elems[i].partition] = list->elems[i].offset;
        group_note(progress, group, offsets);
    }
    rd_kafka_topic_partition_list_destroy(list);
    for (rd_kafka_message_t *told; (told = rd_kafka_consumer_poll(group->client, 0));)
        rd_kafka_message_destroy(told); /* errors of the connection, which the offsets tell as well */
}

/* Wait until the next round; false: stop. */
static bool round_wait(struct progress *progress, bool answered)
{
    int64_t until_ms = now_ms(CLOCK_MONOTONIC) + ROUND_MS;
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    bool stopping;

    pthread_mutex_lock(&progress->mutex);
    if (answered)
        progress->answered_ms = now_ms(CLOCK_MONOTONIC);
    while (!progress->stopping && pthread_cond_timedwait(&progress->changed, &progress->mutex, &until) == 0)
        continue;
    stopping = progress->stopping;
    pthread_mutex_unlock(&progress->mutex);
    return !stopping;
}

static void *progress_run(void *context)
{
    struct progress *progress = context;
    bool answered;

    do {
        answered = (progress->partitions_n > 0 || partitions_learn(progress)) && ends_read(progress);
        for (int g = 0; answered && g < progress->groups_n; g++)
            group_read(progress, &progress->groups[g]);
    } while (round_wait(progress, answered));
    return NULL;
}

static struct progress *progress_allocate(const char *topic, int groups_n)
{
    struct progress *progress = calloc(1, sizeof *progress + (size_t)groups_n * sizeof *progress->groups);
    pthread_condattr_t monotonic;

    if (!progress || !(progress->topic = strdup(topic)) || !(progress->ends = calloc(ENDS_MAX, sizeof *progress->ends)))
        abort();
    progress->groups_n = groups_n;
    for (int g = 0; g < groups_n; g++)
        progress->groups[g] = (struct group){.lag = -1};
    progress->answered_ms = -60000;
    pthread_mutex_init(&progress->mutex, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    return progress;
}

static void progress_free(struct progress *progress)
{
    pthread_cond_destroy(&progress->changed);
    pthread_mutex_destroy(&progress->mutex);
    free(progress->ends);
    free(progress->topic);
    free(progress);
}

/* A client that is silent about outages, since they are shown. `group` NULL: of no group. NULL: ret_reason says why not. */
static rd_kafka_t *client_open(const char *kafka, const char *group, char *ret_reason, unsigned long reason_size)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *client;

    if (rd_kafka_conf_set(conf, "bootstrap.servers", kafka, ret_reason, reason_size) != RD_KAFKA_CONF_OK ||
        rd_kafka_conf_set(conf, "reconnect.backoff.max.ms", "1000", ret_reason, reason_size) != RD_KAFKA_CONF_OK ||
        (group && rd_kafka_conf_set(conf, "group.id", group, ret_reason, reason_size) != RD_KAFKA_CONF_OK))
        abort();
    rd_kafka_conf_set_log_cb(conf, NULL);
    client = rd_kafka_new(group ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER, conf, ret_reason, reason_size);
    if (!client)
        rd_kafka_conf_destroy(conf);
    else if (group)
        (void)rd_kafka_poll_set_consumer(client);
    return client;
}

static void clients_close(struct progress *progress)
{
    for (int g = 0; g < progress->groups_n; g++)
        if (progress->groups[g].client)
            rd_kafka_destroy(progress->groups[g].client);
    if (progress->client)
        rd_kafka_destroy(progress->client);
}

struct progress *progress_open(const char *kafka, const char *topic, const char *const *groups, int groups_n, char *ret_reason,
                               unsigned long reason_size)
{
    struct progress *progress = progress_allocate(topic, groups_n);
    bool opened = (progress->client = client_open(kafka, NULL, ret_reason, reason_size));

    for (int g = 0; opened && g < groups_n; g++)
        opened = (progress->groups[g].client = client_open(kafka, groups[g], ret_reason, reason_size));
    if (!opened) {
        clients_close(progress);
        progress_free(progress);
        return NULL;
    }
    if (pthread_create(&progress->thread, NULL, progress_run, progress) != 0)
        abort();
    return progress;
}

void progress_close(struct progress *progress)
{
    pthread_mutex_lock(&progress->mutex);
    progress->stopping = true;
    pthread_cond_signal(&progress->changed);
    pthread_mutex_unlock(&progress->mutex);
    (void)pthread_join(progress->thread, NULL);
    clients_close(progress);
    progress_free(progress);
}

struct progress_group progress_look(struct progress *progress, int group)
{
    struct progress_group look;

    pthread_mutex_lock(&progress->mutex);
    look = (struct progress_group){progress->groups[group].settled_ms[0], progress->groups[group].lag};
    pthread_mutex_unlock(&progress->mutex);
    return look;
}

bool progress_broker_is_up(struct progress *progress)
{
    bool is_up;

    pthread_mutex_lock(&progress->mutex);
    is_up = now_ms(CLOCK_MONOTONIC) - progress->answered_ms < 4000;
    pthread_mutex_unlock(&progress->mutex);
    return is_up;
}
