/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/meeting.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WAIT_NS 250000000L

struct box {
    struct delivery **copies;
    int n;
};

struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t taken; /* somebody emptied his box */
    int workers;
    struct box boxes[];
};

static void box_add(struct box *box, struct delivery **copies, int n)
{
    if (n == 0)
        return;
    box->copies = realloc(box->copies, (size_t)(box->n + n) * sizeof *copies);
    if (!box->copies)
        abort();
    memcpy(box->copies + box->n, copies, (size_t)n * sizeof *copies);
    box->n += n;
}

struct meeting *meeting_new(int workers)
{
    struct meeting *meeting = calloc(1, sizeof *meeting + (size_t)workers * sizeof *meeting->boxes);
    pthread_condattr_t attributes;

    if (!meeting)
        abort();
    meeting->workers = workers;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&meeting->mutex, NULL);
    pthread_cond_init(&meeting->taken, &attributes);
    pthread_condattr_destroy(&attributes);
    return meeting;
}

void meeting_free(struct meeting *meeting)
{
    for (int i = 0; i < meeting->workers; i++) {
        for (int k = 0; k < meeting->boxes[i].n; k++)
            free(meeting->boxes[i].copies[k]);
        free(meeting->boxes[i].copies);
    }
    pthread_cond_destroy(&meeting->taken);
    pthread_mutex_destroy(&meeting->mutex);
    free(meeting);
}

/* Move what lies in the worker's box to what it has taken already, and tell whoever waits for that. */
static void box_empty(struct meeting *meeting, struct box *box, struct box *taken)
{
    box_add(taken, box->copies, box->n);
    free(box->copies);
    *box = (struct box){0};
    pthread_cond_broadcast(&meeting->taken);
}

int meeting_join(struct meeting *meeting, int number, struct delivery **copies, int copies_n, struct delivery ***ret_taken)
{
    struct box taken = {0}, *own = &meeting->boxes[number], *next = &meeting->boxes[(number + 1) % meeting->workers];
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&meeting->mutex);
    box_add(next, copies, copies_n);
    box_empty(meeting, own, &taken);
    /* Two may wait for each other here: each has emptied its box before, and does so again when the other has come. */
    while (copies_n > 0 && next != own && next->n > 0 && pthread_cond_timedwait(&meeting->taken, &meeting->mutex, &until) == 0)
        ;
    box_empty(meeting, own, &taken);
    pthread_mutex_unlock(&meeting->mutex);
    *ret_taken = taken.copies;
    return taken.n;
}
