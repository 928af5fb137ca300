/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/core/topics.h"

#include <assert.h>
#include <string.h>

#include "relay/core/digest.h"
#include "relay/core/hash.h"

struct topic {
    enum topics_state state;
    int32_t pinned_n, actual_n;
    int32_t placed_n; /* partitions below it have lanes of their own; it follows actual_n when the UNPLACED lane is empty */
    uint32_t message_bytes_max;
    uint32_t first_lane;
    uint32_t attempts;
    uint64_t ask_ms; /* when to ask; UINT64_MAX: not */
    uint64_t used_ms;
};

struct lane {
    bool used, probe;
    uint32_t topic;
    int32_t partition;
    uint32_t next, bucket_next; /* next: in its topic, or among the free */
};

struct topics {
    uint32_t topics_max, lanes_max, buckets_mask;
    uint32_t used, topics_top;
    uint32_t lanes_top, free_lane;
    uint64_t ask_ms; /* no topic is due before it */
    bool asking;
    uint32_t next_used;
};

static struct topic *topics_of(const struct topics *t)
{
    return (struct topic *)(uintptr_t)(t + 1);
}

static struct lane *lanes_of(const struct topics *t)
{
    return (struct lane *)(topics_of(t) + t->topics_max);
}

static uint32_t *buckets_of(const struct topics *t)
{
    return (uint32_t *)(lanes_of(t) + t->lanes_max);
}

static struct topic *topic_at(const struct topics *t, uint32_t topic)
{
    assert(topic < t->topics_max);
    return topics_of(t) + topic;
}

static struct lane *lane_at(const struct topics *t, uint32_t lane)
{
    assert(lane < t->lanes_max && lanes_of(t)[lane].used);
    return lanes_of(t) + lane;
}

static uint32_t buckets_n(uint32_t lanes_max)
{
    uint32_t n = 64;

    while (n < lanes_max && n < (1u << 30))
        n *= 2;
    return n;
}

size_t topics_size(uint32_t topics_max, uint32_t lanes_max)
{
    return sizeof(struct topics) + (size_t)topics_max * sizeof(struct topic) + (size_t)lanes_max * sizeof(struct lane) +
           (size_t)buckets_n(lanes_max) * sizeof(uint32_t);
}

struct topics *topics_init(void *memory, uint32_t topics_max, uint32_t lanes_max)
{
    struct topics *t = memory;

    assert(topics_max > 0 && lanes_max > 0);
    memset(memory, 0, topics_size(topics_max, lanes_max));
    t->topics_max = topics_max;
    t->lanes_max = lanes_max;
    t->buckets_mask = buckets_n(lanes_max) - 1;
    t->ask_ms = UINT64_MAX;
    memset(buckets_of(t), 0xff, ((size_t)t->buckets_mask + 1) * sizeof(uint32_t));
    for (uint32_t lane = 0; lane < lanes_max; lane++)
        lanes_of(t)[lane].next = lane + 1 < lanes_max ? lane + 1 : TOPICS_NO_LANE;
    return t;
}

/* --- topics ------------------------------------------------------------------------------------------------------- */

enum topics_state topics_state(const struct topics *t, uint32_t topic)
{
    return topic_at(t, topic)->state;
}

static void ask_at(struct topics *t, struct topic *topic, uint64_t due_ms)
{
    topic->ask_ms = due_ms;
    if (due_ms < t->ask_ms)
        t->ask_ms = due_ms;
}

void topics_use(struct topics *t, uint64_t now_ms, uint32_t topic)
{
    struct topic *it = topic_at(t, topic);

    if (it->state != TOPICS_UNUSED)
        return;
    memset(it, 0, sizeof *it);
    it->state = TOPICS_ASKING;
    it->first_lane = TOPICS_NO_LANE;
    if (topic >= t->topics_top)
        t->topics_top = topic + 1;
    it->used_ms = now_ms;
    t->used++;
    ask_at(t, it, now_ms);
}

void topics_forget(struct topics *t, uint32_t topic)
{
    struct topic *it = topic_at(t, topic);

    assert(it->state != TOPICS_UNUSED && it->first_lane == TOPICS_NO_LANE);
    it->state = TOPICS_UNUSED;
    t->used--;
}

uint32_t topics_used(const struct topics *t)
{
    return t->used;
}

uint32_t topics_next_used(struct topics *t, uint32_t but)
{
    for (uint32_t i = 0; i < t->topics_top; i++) {
        uint32_t topic = t->next_used++ % t->topics_top;

        if (topics_of(t)[topic].state != TOPICS_UNUSED && topic != but)
            return topic;
    }
    return TOPICS_NO_TOPIC;
}

uint64_t topics_age(const struct topics *t, uint64_t now_ms, uint32_t topic)
{
    return now_ms - topic_at(t, topic)->used_ms;
}

/* Rows of a topic that nobody knows may be for one that is fine: they are not held up by those that were missing again and again. Among
 * their like the one that is due for longest, or the last of many would never have its turn. */
static bool goes_before(const struct topic *a, const struct topic *b)
{
    if ((a->state == TOPICS_CLOSED) != (b->state == TOPICS_CLOSED))
        return b->state == TOPICS_CLOSED;
    return a->ask_ms < b->ask_ms;
}

uint32_t topics_ask(struct topics *t, uint64_t now_ms)
{
    struct topic *found = NULL;

    if (t->asking || now_ms < t->ask_ms)
        return TOPICS_NO_TOPIC;
    t->ask_ms = UINT64_MAX;
    for (uint32_t topic = 0; topic < t->topics_top; topic++) {
        struct topic *it = topics_of(t) + topic, *later = it;

        if (it->state == TOPICS_UNUSED)
            continue;
        if (it->ask_ms <= now_ms && (found == NULL || goes_before(it, found))) {
            later = found;
            found = it;
        }
        if (later != NULL && later->ask_ms < t->ask_ms)
            t->ask_ms = later->ask_ms;
    }
    if (found == NULL)
        return TOPICS_NO_TOPIC;
    found->ask_ms = UINT64_MAX;
    t->asking = true;
    return (uint32_t)(found - topics_of(t));
}

uint64_t topics_ask_due_ms(const struct topics *t)
{
    return t->asking ? UINT64_MAX : t->ask_ms;
}

void topics_answered(struct topics *t)
{
    assert(t->asking);
    t->asking = false;
}

void topics_close(struct topics *t, uint64_t now_ms, uint32_t topic, uint32_t delay_ms)
{
    struct topic *it = topic_at(t, topic);

    assert(it->state != TOPICS_UNUSED);
    it->state = TOPICS_CLOSED;
    it->attempts++;
    ask_at(t, it, now_ms + delay_ms);
}

void topics_open(struct topics *t, uint32_t topic, int32_t pinned_n, int32_t actual_n, uint32_t message_bytes_max)
{
    struct topic *it = topic_at(t, topic);

    assert(it->state != TOPICS_UNUSED && pinned_n > 0 && actual_n >= pinned_n);
    if (it->placed_n == 0) /* never less: rows of partitions that vanished wait in their own lanes */
        it->placed_n = actual_n;
    it->state = TOPICS_OPEN;
    it->pinned_n = pinned_n;
    it->actual_n = actual_n;
    it->message_bytes_max = message_bytes_max;
}

void topics_ask_again(struct topics *t, uint64_t now_ms, uint32_t topic, uint32_t delay_ms)
{
    if (topic_at(t, topic)->ask_ms == UINT64_MAX)
        ask_at(t, topic_at(t, topic), now_ms + delay_ms);
}

uint32_t topics_attempts(const struct topics *t, uint32_t topic)
{
    return topic_at(t, topic)->attempts;
}

void topics_acked(struct topics *t, uint32_t topic)
{
    topic_at(t, topic)->attempts = 0;
}

uint32_t topics_message_bytes_max(const struct topics *t)
{
    uint32_t least = 0;

    for (uint32_t topic = 0; topic < t->topics_top; topic++) {
        const struct topic *it = topics_of(t) + topic;

        if (it->state == TOPICS_OPEN && it->message_bytes_max > 0 && (least == 0 || it->message_bytes_max < least))
            least = it->message_bytes_max;
    }
    return least;
}

uint32_t topics_limit(const struct topics *t, uint32_t topic)
{
    return topic_at(t, topic)->message_bytes_max;
}

uint32_t topics_pinned(const struct topics *t, uint32_t topic)
{
    return (uint32_t)topic_at(t, topic)->pinned_n;
}

/* --- lanes -------------------------------------------------------------------------------------------------------- */

int32_t topics_partition(const struct topics *t, uint32_t topic, int32_t wish, uint32_t spread)
{
    return wish >= 0 ? wish : hash_partition(spread, topic_at(t, topic)->pinned_n);
}

int32_t topics_lane_partition(const struct topics *t, uint32_t topic, int32_t wish, uint32_t spread)
{
    const struct topic *it = topic_at(t, topic);
    int32_t partition;

    if (it->placed_n == 0)
        return TOPICS_UNPLACED;
    partition = topics_partition(t, topic, wish, spread);
    return partition < it->placed_n ? partition : TOPICS_UNPLACED;
}

bool topics_places(const struct topics *t, uint32_t topic, int32_t partition)
{
    return topic_at(t, topic)->placed_n == 0 || partition < topic_at(t, topic)->placed_n;
}

bool topics_exists(const struct topics *t, uint32_t topic, int32_t partition)
{
    return topic_at(t, topic)->state == TOPICS_OPEN && partition < topic_at(t, topic)->actual_n;
}

bool topics_wants_place(const struct topics *t, uint32_t topic)
{
    return topic_at(t, topic)->state == TOPICS_OPEN && topic_at(t, topic)->actual_n > topic_at(t, topic)->placed_n;
}

void topics_place(struct topics *t, uint32_t topic)
{
    topic_at(t, topic)->placed_n = topic_at(t, topic)->actual_n;
}

static uint32_t *bucket_of(const struct topics *t, uint32_t topic, int32_t partition)
{
    uint64_t mix = ((uint64_t)topic << 32 | (uint32_t)partition) * 0x9fb21c651e98df25u;

    return buckets_of(t) + ((mix >> 40) & t->buckets_mask);
}

static uint32_t lane_find(const struct topics *t, uint32_t topic, int32_t partition, bool probe)
{
    const struct lane *lanes = lanes_of(t);
    uint32_t lane = *bucket_of(t, topic, partition);

    while (lane != TOPICS_NO_LANE && (lanes[lane].topic != topic || lanes[lane].partition != partition || lanes[lane].probe != probe))
        lane = lanes[lane].bucket_next;
    return lane;
}

static uint32_t lane_add(struct topics *t, uint32_t topic, int32_t partition, bool probe)
{
    uint32_t lane = t->free_lane, *bucket = bucket_of(t, topic, partition);
    struct lane *l;

    if (lane == TOPICS_NO_LANE)
        return lane;
    assert(lane_find(t, topic, partition, probe) == TOPICS_NO_LANE && topic_at(t, topic)->state != TOPICS_UNUSED);
    l = lanes_of(t) + lane;
    t->free_lane = l->next;
    if (lane >= t->lanes_top)
        t->lanes_top = lane + 1;
    *l = (struct lane){.used = true,
                       .probe = probe,
                       .topic = topic,
                       .partition = partition,
                       .next = topic_at(t, topic)->first_lane,
                       .bucket_next = *bucket};
    topic_at(t, topic)->first_lane = *bucket = lane;
    return lane;
}

uint32_t topics_find_lane(const struct topics *t, uint32_t topic, int32_t partition)
{
    return lane_find(t, topic, partition, false);
}

uint32_t topics_add_lane(struct topics *t, uint32_t topic, int32_t partition)
{
    return lane_add(t, topic, partition, false);
}

uint32_t topics_find_probe(const struct topics *t, uint32_t topic, int32_t partition)
{
    return lane_find(t, topic, partition, true);
}

uint32_t topics_add_probe(struct topics *t, uint32_t topic, int32_t partition)
{
    return lane_add(t, topic, partition, true);
}

bool topics_lane_probe(const struct topics *t, uint32_t lane)
{
    return lane_at(t, lane)->probe;
}

void topics_remove_lane(struct topics *t, uint32_t lane)
{
    struct lane *l = lane_at(t, lane);
    uint32_t *at = bucket_of(t, l->topic, l->partition);

    while (*at != lane)
        at = &lanes_of(t)[*at].bucket_next;
    *at = l->bucket_next;
    at = &topic_at(t, l->topic)->first_lane;
    while (*at != lane)
        at = &lanes_of(t)[*at].next;
    *at = l->next;
    l->used = false;
    l->next = t->free_lane;
    t->free_lane = lane;
}

bool topics_lane_used(const struct topics *t, uint32_t lane)
{
    return lane < t->lanes_top && lanes_of(t)[lane].used;
}

uint32_t topics_lanes_top(const struct topics *t)
{
    return t->lanes_top;
}

uint32_t topics_lane_topic(const struct topics *t, uint32_t lane)
{
    return lane_at(t, lane)->topic;
}

int32_t topics_partition_of(const struct topics *t, uint32_t lane)
{
    return lane_at(t, lane)->partition;
}

uint32_t topics_first_lane(const struct topics *t, uint32_t topic)
{
    return topic_at(t, topic)->first_lane;
}

uint32_t topics_next_lane(const struct topics *t, uint32_t lane)
{
    return lane_at(t, lane)->next;
}

uint64_t topics_digest(const struct topics *t, uint64_t now_ms)
{
    uint64_t digest = digest_add(digest_add(4, t->used), t->asking);

    for (uint32_t topic = 0; topic < t->topics_top; topic++) {
        const struct topic *it = topics_of(t) + topic;

        digest = digest_add(digest, it->state);
        if (it->state == TOPICS_UNUSED)
            continue;
        digest = digest_add(digest, (uint64_t)(uint32_t)it->pinned_n << 32 | (uint32_t)it->actual_n);
        digest = digest_add(digest, (uint64_t)(uint32_t)it->placed_n << 32 | it->message_bytes_max);
        digest = digest_add_due(digest_add(digest, it->attempts), it->ask_ms, now_ms);
    }
    for (uint32_t lane = 0; lane < t->lanes_top; lane++) {
        const struct lane *l = lanes_of(t) + lane;

        digest = digest_add(digest, l->used ? (uint64_t)l->topic << 32 | (uint32_t)l->partition : UINT64_MAX);
        digest = digest_add(digest, l->used && l->probe);
    }
    return digest;
}
