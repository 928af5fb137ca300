/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of the consumer's frame, each alone. */
#include "producer-demo/payment_consumer/delivery.h"
#include "producer-demo/payment_consumer/idset.h"
#include "producer-demo/payment_consumer/meeting.h"
#include "producer-demo/payment_consumer/metrics.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the tally -------------------------------------------------------------------------------------------------------- */

static const struct tally_row rows[] = {
    {"eaten_total", "what=\"bread\"", "Eaten."}, {"eaten_total", "what=\"cheese\"", "Eaten."}, {"left", NULL, "Left."}};

static struct tally *tally_of(const char *file, int rows_n)
{
    char why[200];
    struct tally *tally = tally_open(file, "mice", rows, rows_n, why, sizeof why);

    CHECK(tally);
    return tally;
}

TEST(demo_tally_goes_on_where_its_file_was)
{
    char file[300];
    struct tally *tally, *before;

    (void)snprintf(file, sizeof file, "%s/mice.tally", temp_folder());
    tally = tally_of(file, 3);
    tally_add(tally, 0, 5);
    tally_set(tally, 2, 7);
    tally_latency(tally, 1000);
    before = tally;
    tally = tally_of(file, 3); /* the first is not closed yet: a kill -9 does not */
    tally_add(tally, 0, 2);
    CHECK_EQ(tally_get(tally, 0), 7);
    CHECK_EQ(tally_get(tally, 1), 0);
    CHECK_EQ(tally_get(tally, 2), 7);
    CHECK(tally_percentile(tally, 50) >= 1000 && tally_percentile(tally, 50) <= 1100);
    tally_close(tally);
    tally_close(before);
    tally = tally_of(file, 2); /* another table */
    CHECK_EQ(tally_get(tally, 0), 0);
    tally_close(tally);
}

TEST(demo_tally_percentiles_are_at_most_ten_percent_high)
{
    struct tally *tally = tally_of(NULL, 3);

    CHECK_EQ(tally_percentile(tally, 99), 0);
    for (int us = 1; us <= 100000; us++)
        tally_latency(tally, us);
    CHECK(tally_percentile(tally, 50) >= 50000 && tally_percentile(tally, 50) <= 55500);
    CHECK(tally_percentile(tally, 99) >= 99000 && tally_percentile(tally, 99) <= 110000);
    tally_latency(tally, INT64_C(1) << 50); /* longer than the last bucket begins */
    CHECK(tally_percentile(tally, 100) > 100000);
    tally_close(tally);
}

TEST(demo_tally_text_is_of_prometheus)
{
    struct tally *tally = tally_of(NULL, 3);
    size_t n;
    char *text;

    tally_label(tally, "hole=\"1\"");
    tally_add(tally, 1, 3);
    tally_latency(tally, 2000000);
    text = tally_render(tally, &n);
    CHECK_EQ(n, strlen(text));
    CHECK(strstr(text, "# TYPE mice_eaten_total counter\nmice_eaten_total{hole=\"1\",what=\"bread\"} "
                       "0\nmice_eaten_total{hole=\"1\",what=\"cheese\"} 3\n"));
    CHECK(strstr(text, "# TYPE mice_left gauge\nmice_left{hole=\"1\"} 0\n"));
    CHECK(strstr(text, "mice_latency_seconds_bucket{hole=\"1\",le=\"+Inf\"} 1\nmice_latency_seconds_sum{hole=\"1\"} 2.000000\n"));
    CHECK(strstr(text, "mice_latency_quantile_seconds{hole=\"1\",quantile=\"0.99\"} 2."));
    CHECK(strstr(text, "mice_latency_seconds_bucket{hole=\"1\",le=\"0.000001\"} 0\n"));
    free(text);
    tally_close(tally);
}

/* --- the set of ids ---------------------------------------------------------------------------------------------------- */

#define IDS     20000
#define THREADS 4

struct adding {
    struct idset *set;
    struct uuid *ids;
    int new;
};

static void *add_all(void *context)
{
    struct adding *adding = context;

    for (int i = 0; i < IDS; i++)
        adding->new += idset_add(adding->set, adding->ids[i]);
    return NULL;
}

TEST(demo_idset_calls_each_id_new_once)
{
    static struct uuid ids[IDS];
    struct adding adding[THREADS];
    pthread_t threads[THREADS];
    char why[200];
    struct idset *set = idset_open(NULL, why, sizeof why);
    int new = 0;

    CHECK(set);
    for (int i = 0; i < IDS; i++)
        ids[i] = uuid_derive(1767225600000 + i / 100, "", "", i);
    for (int t = 0; t < THREADS; t++) {
        adding[t] = (struct adding){set, ids, 0};
        CHECK(pthread_create(&threads[t], NULL, add_all, &adding[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++) {
        (void)pthread_join(threads[t], NULL);
        new += adding[t].new;
    }
    CHECK_EQ(new, IDS);
    idset_remove(set, ids[7]);
    CHECK(idset_add(set, ids[7]));
    CHECK(!idset_add(set, ids[7]));
    CHECK(!idset_add(set, ids[8]));
    idset_close(set);
}

TEST(demo_idset_in_a_file_remembers)
{
    char file[300], why[200];
    struct idset *set, *before;

    (void)snprintf(file, sizeof file, "%s/ids", temp_folder());
    set = idset_open(file, why, sizeof why);
    CHECK(set && idset_add(set, uuid_derive(1, "", "", 1)));
    before = set;
    set = idset_open(file, why, sizeof why);
    CHECK(set && !idset_add(set, uuid_derive(1, "", "", 1)));
    CHECK(idset_add(set, uuid_derive(1, "", "", 2)));
    idset_close(set);
    idset_close(before);
}

/* --- redelivery --------------------------------------------------------------------------------------------------------- */

static struct delivery *delivery_of(int number)
{
    struct delivery *delivery = calloc(1, sizeof *delivery);

    CHECK(delivery);
    delivery->size = sizeof *delivery;
    delivery->type = delivery->key = delivery->client_id = delivery->payload = (const char *)delivery;
    delivery->event_id = uuid_derive(1767225600000, "", "", number);
    uuid_print(delivery->event_id, delivery->event_text);
    return delivery;
}

TEST(demo_redelivery_chooses_by_event_and_seed)
{
    int chosen[2] = {0}, both = 0;

    for (int i = 0; i < 10000; i++) {
        struct delivery *delivery = delivery_of(i);
        bool one = delivery_chosen(delivery, 1, 3), two = delivery_chosen(delivery, 2, 3);

        CHECK(one == delivery_chosen(delivery, 1, 3));
        CHECK(!one || delivery_chosen(delivery, 1, 4));
        CHECK(!delivery_chosen(delivery, 1, 0) && delivery_chosen(delivery, 1, 100));
        chosen[0] += one;
        chosen[1] += two;
        both += one && two;
        free(delivery);
    }
    CHECK(chosen[0] > 240 && chosen[0] < 360 && chosen[1] > 240 && chosen[1] < 360);
    CHECK(both < 40);
}

struct joining {
    struct meeting *meeting;
    int number, copies, taken;
};

static void *join_meeting(void *context)
{
    struct joining *joining = context;
    struct delivery *copies[3], **taken;

    for (int i = 0; i < joining->copies; i++)
        copies[i] = delivery_of(i);
    joining->taken = meeting_join(joining->meeting, joining->number, copies, joining->copies, &taken);
    for (int i = 0; i < joining->taken; i++)
        free(taken[i]);
    free(taken);
    return NULL;
}

TEST(demo_redelivery_two_workers_exchange_their_copies)
{
    struct meeting *meeting = meeting_new(2);
    struct joining a = {meeting, 0, 3, 0}, b = {meeting, 1, 2, 0};
    pthread_t thread;
    uint64_t started = test_now_ms();

    CHECK(pthread_create(&thread, NULL, join_meeting, &a) == 0);
    (void)join_meeting(&b);
    (void)pthread_join(thread, NULL);
    /* Either may have come too late for the other on a busy machine: then the copies wait for the next time. */
    CHECK(a.taken == 2 || test_now_ms() - started >= 250);
    CHECK(b.taken == 3 || test_now_ms() - started >= 250);
    meeting_free(meeting);
}

TEST(demo_redelivery_one_worker_gets_its_own_copies_back)
{
    struct meeting *meeting = meeting_new(1);
    struct joining alone = {meeting, 0, 3, 0};

    (void)join_meeting(&alone);
    CHECK_EQ(alone.taken, 3);
    meeting_free(meeting);
}

TEST(demo_redelivery_nobody_waits_for_long)
{
    struct meeting *meeting = meeting_new(2);
    struct joining a = {meeting, 0, 3, 0}, b = {meeting, 1, 0, 0};

    (void)join_meeting(&a); /* the other does not come */
    CHECK_EQ(a.taken, 0);
    (void)join_meeting(&b); /* now it does */
    CHECK_EQ(b.taken, 3);
    meeting_free(meeting);
}

TEST(demo_deliveries_are_sorted_and_copies_within_a_batch_suppressed)
{
    enum {
        N = 30
    };
    struct delivery *batch[N];

    for (int i = 0; i < N; i++) {
        batch[i] = delivery_of(i * 7 % 10);
        batch[i]->copied = i < 10;
    }
    deliveries_sort(batch, N);
    CHECK_EQ(deliveries_count(batch, N, DELIVERY_APPLIED), 10);
    for (int i = 0; i < N; i++) {
        CHECK(i == 0 || strcmp(batch[i - 1]->event_text, batch[i]->event_text) <= 0);
        CHECK(deliveries_find(batch, N, batch[i]->event_text)->outcome == DELIVERY_APPLIED);
        CHECK(batch[i]->outcome == DELIVERY_SUPPRESSED || !batch[i]->copied);
    }
    CHECK(!deliveries_find(batch, N, "00000000-0000-0000-0000-000000000000"));
    CHECK(!deliveries_find(batch, N, "ffffffff-ffff-ffff-ffff-ffffffffffff"));
    for (int i = 0; i < N; i++)
        free(batch[i]);
}
