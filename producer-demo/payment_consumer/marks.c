/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/marks.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_S 5

struct marks {
    const struct consumer_settings *settings;
    redisContext *redis; /* NULL: not connected */
};

struct marks *marks_open(const struct consumer_settings *settings)
{
    struct marks *marks = calloc(1, sizeof *marks);

    if (!marks)
        abort();
    marks->settings = settings;
    return marks;
}

static void disconnect(struct marks *marks)
{
    if (marks->redis)
        redisFree(marks->redis);
    marks->redis = NULL;
}

void marks_close(struct marks *marks)
{
    disconnect(marks);
    free(marks);
}

/* What went wrong; whatever was asked for on this connection will not be answered. */
static bool fail(struct marks *marks, const char *why)
{
    (void)fprintf(stderr, "payment-consumer: Redis at %s: %s\n", marks->settings->redis, why);
    disconnect(marks);
    return false;
}

static bool connect_now(struct marks *marks)
{
    const char *address = marks->settings->redis, *colon = strrchr(address, ':');
    const struct timeval timeout = {.tv_sec = TIMEOUT_S};
    char host[256];

    if (marks->redis)
        return true;
    (void)snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - address) : (int)strlen(address), address);
    marks->redis = redisConnectWithTimeout(host, colon ? (int)strtol(colon + 1, NULL, 10) : 6379, timeout);
    if (!marks->redis)
        abort();
    if (marks->redis->err || redisSetTimeout(marks->redis, timeout) != REDIS_OK)
        return fail(marks, marks->redis->errstr);
    return true;
}

enum command {
    COMMAND_EXISTS,
    COMMAND_SET,
    COMMAND_DEL
};

static void command_append(struct marks *marks, enum command command, const char *event)
{
    const char *group = marks->settings->group;
    int appended = REDIS_ERR;

    switch (command) {
    case COMMAND_EXISTS:
        appended = redisAppendCommand(marks->redis, "EXISTS %s:%s", group, event);
        break;
    case COMMAND_SET:
        appended = redisAppendCommand(marks->redis, "SET %s:%s 1 NX EX %lld", group, event, (long long)marks->settings->redis_ttl_s);
        break;
    case COMMAND_DEL:
        appended = redisAppendCommand(marks->redis, "DEL %s:%s", group, event);
        break;
    }
    if (appended != REDIS_OK)
        abort();
}

/* *ret_there: the mark was there before the command. SET answers OK if it was not, and nil if it was. */
static bool reply_take(struct marks *marks, bool *ret_there)
{
    redisReply *reply = NULL;
    bool fine;

    if (redisGetReply(marks->redis, (void **)&reply) != REDIS_OK)
        return fail(marks, marks->redis->errstr);
    fine = reply->type != REDIS_REPLY_ERROR || fail(marks, reply->str);
    *ret_there = reply->type == REDIS_REPLY_NIL || (reply->type == REDIS_REPLY_INTEGER && reply->integer > 0);
    freeReplyObject(reply);
    return fine;
}

/* One command for each delivery, all sent before the first reply is read. */
static bool exchange(struct marks *marks, enum command command, struct delivery *const *batch, int n, bool suppress)
{
    if (!connect_now(marks))
        return false;
    for (int i = 0; i < n; i++)
        if (batch[i]->outcome == DELIVERY_APPLIED)
            command_append(marks, command, batch[i]->event_text);
    for (int i = 0; i < n; i++) {
        bool there = false;

        if (batch[i]->outcome != DELIVERY_APPLIED)
            continue;
        if (!reply_take(marks, &there))
            return false;
        if (there && suppress)
            batch[i]->outcome = DELIVERY_SUPPRESSED;
    }
    return true;
}

bool marks_look(struct marks *marks, struct delivery *const *batch, int n)
{
    return exchange(marks, COMMAND_EXISTS, batch, n, true);
}

bool marks_take(struct marks *marks, struct delivery *const *batch, int n)
{
    return exchange(marks, COMMAND_SET, batch, n, true);
}

bool marks_set(struct marks *marks, struct delivery *const *batch, int n)
{
    return exchange(marks, COMMAND_SET, batch, n, false);
}

bool marks_remove(struct marks *marks, struct delivery *const *batch, int n)
{
    return exchange(marks, COMMAND_DEL, batch, n, false);
}
