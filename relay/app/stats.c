/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/stats.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "relay/app/stats_state.h"

/* --- labels ------------------------------------------------------------------------------------------------------- */

static bool labels_new(struct stats_labels *labels, size_t max)
{
    labels->list = calloc(max + 1, sizeof *labels->list);
    labels->max = max;
    labels->n = 1;
    return labels->list != NULL;
}

static void labels_free(struct stats_labels *labels)
{
    if (labels->list == NULL)
        return;
    for (size_t i = 1; i < labels->n; i++)
        free(labels->list[i].text);
    free(labels->list);
}

/* The place of `text`, which is added if there is room; 0, the place of "(other)", if not. */
static size_t labels_place(struct stats_labels *labels, const char *text)
{
    char *copy;

    for (size_t i = 1; i < labels->n; i++)
        if (strcmp(labels->list[i].text, text) == 0)
            return i;
    if (labels->n > labels->max || (copy = strdup(text)) == NULL)
        return 0;
    labels->list[labels->n].text = copy;
    return labels->n++;
}

/* --- histograms --------------------------------------------------------------------------------------------------- */

/* Bounds double; with `halves` there is one more between each two. Without a division, a table or a search. */
static unsigned bucket_of(uint64_t value, bool halves)
{
    unsigned log2;

    if (value <= 1)
        return 0;
    log2 = 63 - (unsigned)__builtin_clzll(value - 1); /* 2^log2 < value <= 2^(log2 + 1) */
    if (!halves)
        return log2 + 1;
    /* 1, 2, 3, 4, 6, 8, 12, 16...: there is nothing between 1 and 2. */
    return log2 == 0 ? 1 : 2 * log2 + (value > 3ULL << (log2 - 1));
}

uint64_t stats_bound(unsigned bucket, bool halves)
{
    if (!halves)
        return 1ULL << bucket;
    if (bucket <= 1)
        return bucket + 1;
    return (bucket & 1) != 0 ? 1ULL << (bucket / 2 + 1) : 3ULL << (bucket / 2 - 1);
}

static void histogram_count(struct stats_histogram *h, uint64_t value)
{
    unsigned bucket = bucket_of(value, h->halves);

    h->counts[bucket < h->buckets_n ? bucket : h->buckets_n]++;
    h->sum += value;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct stats *stats_new(uint32_t topics_max)
{
    struct stats *s = calloc(1, sizeof *s);
    struct timespec now;

    if (s == NULL)
        return NULL;
    s->topics_max = topics_max;
    s->topic_places = calloc(topics_max, sizeof *s->topic_places);
    s->insert_to_ack_ms = (struct stats_histogram){.buckets_n = ACK_BUCKETS, .halves = true};
    s->mark_batch_rows = (struct stats_histogram){.buckets_n = MARK_BUCKETS};
    if ((topics_max > 0 && s->topic_places == NULL) || !labels_new(&s->published, TOPIC_LABELS) || !labels_new(&s->errors, CODE_LABELS) ||
        !labels_new(&s->sessions[RELAY_MAIN], CODE_LABELS) || !labels_new(&s->sessions[RELAY_PROBE], CODE_LABELS)) {
        stats_free(s);
        return NULL;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    s->started_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return s;
}

void stats_free(struct stats *s)
{
    if (s == NULL)
        return;
    labels_free(&s->published);
    labels_free(&s->errors);
    labels_free(&s->sessions[RELAY_MAIN]);
    labels_free(&s->sessions[RELAY_PROBE]);
    free(s->topic_places);
    free(s);
}

/* --- counting ----------------------------------------------------------------------------------------------------- */

void stats_name_topic(struct stats *s, uint32_t topic, const char *name)
{
    assert(topic < s->topics_max);
    s->topic_places[topic] = (uint32_t)labels_place(&s->published, name);
}

void stats_count_published(struct stats *s, uint32_t topic, int64_t insert_to_ack_ms)
{
    assert(topic < s->topics_max);
    s->published.list[s->topic_places[topic]].count++;
    histogram_count(&s->insert_to_ack_ms, insert_to_ack_ms > 0 ? (uint64_t)insert_to_ack_ms : 0);
}

void stats_count_error(struct stats *s, const char *code)
{
    s->errors.list[labels_place(&s->errors, code)].count++;
}

void stats_count_session(struct stats *s, enum relay_session session, const char *reason)
{
    s->sessions[session].list[labels_place(&s->sessions[session], reason)].count++;
}

void stats_count_republished(struct stats *s, uint64_t rows)
{
    s->republished += rows;
}

void stats_count_fetched(struct stats *s, uint64_t rows)
{
    s->fetched += rows;
}

void stats_count_marked(struct stats *s, uint64_t rows)
{
    s->marked += rows;
    histogram_count(&s->mark_batch_rows, rows);
}

void stats_count_superseded(struct stats *s, uint64_t rows)
{
    s->superseded += rows;
}

void stats_count_phantom(struct stats *s)
{
    s->phantoms++;
}

void stats_count_patrol_found(struct stats *s)
{
    s->patrol_found++;
}

void stats_count_reconnect(struct stats *s)
{
    s->reconnects++;
}

void stats_count_start_over(struct stats *s)
{
    s->start_overs++;
}
