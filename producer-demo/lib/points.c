/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/points.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTS_MAX 32

static const char *const actions[] = {[POINT_KILL] = "kill", [POINT_STOP] = "stop", [POINT_ERROR] = "error"};

/* Of the whole process, as a fault is. One lock for all: who passes a point is about to do something much slower. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *const *point_names;
static struct {
    enum point_action action;
    unsigned long passes_left;
} armed[POINTS_MAX];

void points_name(const char *const *names)
{
    int n = 0;

    while (names[n])
        n++;
    assert(n <= POINTS_MAX);
    point_names = names;
}

/* Of the name that is `name_n` long; -1: there is none. */
static int point_find(const char *name, size_t name_n)
{
    for (int i = 0; point_names && point_names[i]; i++)
        if (strlen(point_names[i]) == name_n && memcmp(point_names[i], name, name_n) == 0)
            return i;
    return -1;
}

static enum point_action action_find(const char *word)
{
    for (size_t i = POINT_KILL; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(actions[i], word) == 0)
            return (enum point_action)i;
    return POINT_NONE;
}

static void names_list(char *ret, size_t size)
{
    size_t n = 0;

    ret[0] = '\0';
    for (int i = 0; point_names && point_names[i] && n < size; i++)
        n += (size_t)snprintf(ret + n, size - n, "%s%s", i > 0 ? ", " : "", point_names[i]);
}

bool points_arm(const char *text, char *ret_reason, size_t reason_size)
{
    size_t name_n = strcspn(text, ":");
    int point = point_find(text, name_n);
    const char *number = text[name_n] ? text + name_n + 1 : "";
    char *end = NULL, names[400];
    unsigned long passes = number[0] >= '1' && number[0] <= '9' ? strtoul(number, &end, 10) : 0;
    enum point_action action = end && *end == ':' ? action_find(end + 1) : POINT_NONE;

    if (point < 0) {
        names_list(names, sizeof names);
        (void)snprintf(ret_reason, reason_size, "\"%.60s\" names no fault point; there are %s", text, names);
        return false;
    }
    if (passes == 0 || action == POINT_NONE) {
        (void)snprintf(ret_reason, reason_size, "\"%.60s\" is not NAME:N:ACTION with N from 1 and ACTION kill, stop or error", text);
        return false;
    }
    pthread_mutex_lock(&mutex);
    armed[point].action = action;
    armed[point].passes_left = passes;
    pthread_mutex_unlock(&mutex);
    return true;
}

/* What happens at this pass of the point. */
static enum point_action point_count(int point)
{
    enum point_action action = POINT_NONE;

    pthread_mutex_lock(&mutex);
    if (armed[point].action != POINT_NONE && --armed[point].passes_left == 0) {
        action = armed[point].action;
        armed[point].action = POINT_NONE;
    }
    pthread_mutex_unlock(&mutex);
    return action;
}

bool points_pass(const char *name)
{
    int point = point_find(name, strlen(name));
    enum point_action action;

    assert(point >= 0);
    action = point_count(point);
    if (action == POINT_NONE)
        return false;
    (void)fprintf(stderr, "fault point %s: %s\n", name, actions[action]);
    /* To this thread: a stop that another one takes leaves this one running until that one is scheduled, into whatever it would lock next. */
    if (action == POINT_KILL)
        (void)raise(SIGKILL);
    if (action == POINT_STOP)
        (void)raise(SIGSTOP);
    return action == POINT_ERROR;
}
