/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/test.h"

static bool server_answers(const struct redis *r)
{
    redisContext *c = redisConnectWithTimeout("127.0.0.1", r->port, (struct timeval){.tv_sec = 2});
    redisReply *reply = c != NULL && c->err == 0 ? redisCommand(c, "PING") : NULL;
    bool answers = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    redisFree(c);
    return answers;
}

/* It keeps nothing on a disk, as a cache that is thought to be enough does not either. */
static void server_start(struct redis *r)
{
    char port[16], log[250];
    snprintf(port, sizeof port, "%d", r->port);
    snprintf(log, sizeof log, "%s.log", r->folder);
    r->server = process_start((const char *[]){"redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                                               "--dir", r->folder, NULL},
                              NULL, log);
    bool up = false;
    WAIT_UNTIL((up = server_answers(r)) || !process_running(&r->server), 20);
    if (!up)
        test_fail(__FILE__, __LINE__, "Redis does not start:\n%s", process_output(&r->server));
}

struct redis redis_start(void)
{
    static unsigned started_n;
    struct redis r = {.port = free_port()};
    snprintf(r.address, sizeof r.address, "127.0.0.1:%d", r.port);
    snprintf(r.folder, sizeof r.folder, "%s/redis%u", temp_folder(), ++started_n);
    if (mkdir(r.folder, 0755) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", r.folder, strerror(errno));
    server_start(&r);
    return r;
}

void redis_kill(struct redis *r)
{
    if (!process_running(&r->server))
        return;
    process_signal(&r->server, SIGKILL);
    process_wait(&r->server, 10);
}

void redis_restart(struct redis *r)
{
    if (process_running(&r->server))
        test_fail(__FILE__, __LINE__, "Redis is still running");
    server_start(r);
}

void redis_stop(struct redis *r)
{
    if (!process_running(&r->server))
        return;
    process_signal(&r->server, SIGTERM);
    process_wait(&r->server, 10);
}

int64_t redis_number(const struct redis *r, const char *format, ...)
{
    redisContext *c = redisConnectWithTimeout("127.0.0.1", r->port, (struct timeval){.tv_sec = 5});
    if (c == NULL || c->err != 0)
        test_fail(__FILE__, __LINE__, "Redis cannot be reached: %s", c != NULL ? c->errstr : "no memory");
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(c, format, args);
    va_end(args);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        test_fail(__FILE__, __LINE__, "Redis: %s: %s", format, reply != NULL ? reply->str : c->errstr);
    int64_t number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    redisFree(c);
    return number;
}
