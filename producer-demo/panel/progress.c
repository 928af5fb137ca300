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
    const char *name;
    int64_t settled_ms[ROUNDS_KEPT]; /* the newest last */
    int64_t lag;
};

struct progress {
    rd_kafka_t *client;
    rd_kafka_queue_t *queue;
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

static void offsets_take(struct progress *progress, struct group *group, rd_kafka_event_t *event)
{
    const rd_kafka_ListConsumerGroupOffsets_result_t *result = rd_kafka_event_ListConsumerGroupOffsets_result(event);
    size_t n = 0;
    const rd_kafka_group_result_t **results = result ? rd_kafka_ListConsumerGroupOffsets_result_groups(result, &n) : NULL;
    const rd_kafka_topic_partition_list_t *list = n == 1 ? rd_kafka_group_result_partitions(results[0]) : NULL;
    int64_t offsets[PARTITIONS_MAX] = {0};

    if (rd_kafka_event_error(event) || !list || rd_kafka_group_result_error(results[0]))
        return;
    for (int i = 0; i < list->cnt; i++)
        if (list->elems[i].offset > 0 && list->elems[i].partition < PARTITIONS_MAX) /* negative: none yet */
            offsets[list->elems[i].partition] = list->elems[i].offset;
    group_note(progress, group, offsets);
}

static void group_read(struct progress *progress, struct group *group)
{
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(progress->client, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    rd_kafka_topic_partition_list_t *list = partitions_list(progress, RD_KAFKA_OFFSET_INVALID);
    rd_kafka_ListConsumerGroupOffsets_t *question = rd_kafka_ListConsumerGroupOffsets_new(group->name, list);
    rd_kafka_event_t *event;
    char why[128];

    (void)rd_kafka_AdminOptions_set_request_timeout(options, 2000, why, sizeof why);
    rd_kafka_ListConsumerGroupOffsets(progress->client, &question, 1, options, progress->queue);
    event = rd_kafka_queue_poll(progress->queue, 5000);
    if (event) {
        offsets_take(progress, group, event);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_ListConsumerGroupOffsets_destroy(question);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_AdminOptions_destroy(options);
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

static struct progress *progress_allocate(const char *topic, const char *const *groups, int groups_n)
{
    struct progress *progress = calloc(1, sizeof *progress + (size_t)groups_n * sizeof *progress->groups);
    pthread_condattr_t monotonic;

    if (!progress || !(progress->topic = strdup(topic)) || !(progress->ends = calloc(ENDS_MAX, sizeof *progress->ends)))
        abort();
    progress->groups_n = groups_n;
    for (int g = 0; g < groups_n; g++)
        progress->groups[g] = (struct group){.name = groups[g], .lag = -1};
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

struct progress *progress_open(const char *kafka, const char *topic, const char *const *groups, int groups_n, char *ret_reason,
                               unsigned long reason_size)
{
    struct progress *progress = progress_allocate(topic, groups, groups_n);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();

    if (rd_kafka_conf_set(conf, "bootstrap.servers", kafka, ret_reason, reason_size) != RD_KAFKA_CONF_OK ||
        rd_kafka_conf_set(conf, "reconnect.backoff.max.ms", "1000", ret_reason, reason_size) != RD_KAFKA_CONF_OK)
        abort();
    rd_kafka_conf_set_log_cb(conf, NULL); /* an outage is shown, not logged */
    progress->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, ret_reason, reason_size);
    if (!progress->client) {
        progress_free(progress);
        return NULL;
    }
    progress->queue = rd_kafka_queue_new(progress->client);
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
    rd_kafka_queue_destroy(progress->queue);
    rd_kafka_destroy(progress->client);
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
