/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/faults.h"

#ifdef FAULTS
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ARMED_MAX 64

/* A name, and whether there is an error to see. Those of actions come before and after. */
#define ACTION(name, before, after) \
    {name ".before", before},       \
    {                               \
        name ".after", after        \
    }
#define EVENT(name, error) \
    {                      \
        "on-" name, error  \
    }

static const struct point {
    const char *name;
    bool error;
} points[] = {
    ACTION("connect", true, true),
    ACTION("take", true, true),
    ACTION("beat", true, true),
    ACTION("release", true, true),
    ACTION("fetch", true, true),
    ACTION("catch-up", true, true),
    ACTION("patrol", true, true),
    ACTION("writers", true, true),
    ACTION("flush", true, true),
    ACTION("publish", true, true),
    ACTION("drop", false, false),
    ACTION("mark", true, true),
    ACTION("save", true, true),
    ACTION("topic", true, true),
    ACTION("forget", false, false),
    ACTION("session-open", true, true),
    ACTION("session-close", false, false),
    ACTION("note", false, false),
    ACTION("exit", false, false),
    EVENT("connected", true),
    EVENT("lost", false),
    EVENT("failed", false),
    EVENT("lease", true),
    EVENT("beaten", true),
    EVENT("released", true),
    EVENT("fetched", true),
    EVENT("caught-up", true),
    EVENT("patrolled", true),
    EVENT("writers", true),
    EVENT("flushed", true),
    EVENT("marked", true),
    EVENT("saved", true),
    EVENT("pinned", true),
    EVENT("delivered", true),
    EVENT("refused", false),
    EVENT("broken", false),
    EVENT("closed", false),
    EVENT("topic", true),
    EVENT("idle-limit", false),
    EVENT("reachable", false),
};

enum kind {
    KIND_KILL,
    KIND_STOP,
    KIND_SLEEP,
    KIND_ERROR
};
static const char *const kinds[] = {[KIND_KILL] = "kill", [KIND_STOP] = "stop", [KIND_SLEEP] = "sleep", [KIND_ERROR] = "error"};

/* Of the whole process, as a fault is. */
static struct armed {
    const struct point *point;
    unsigned long at, seen;
    enum kind kind;
    unsigned long sleep_ms;
    bool struck;
} armed[ARMED_MAX];
static unsigned armed_n;

static _Noreturn void refuse(const char *word, const char *why)
{
    (void)fprintf(stderr, "FAULT_POINT: \"%s\" %s; FAULT_POINT=list shows the points\n", word, why);
    exit(2);
}

static _Noreturn void list_points(void)
{
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        (void)printf("%s%s\n", points[i].name, points[i].error ? " error" : "");
    (void)fflush(stdout);
    exit(0);
}

static const struct point *point_find(const char *name)
{
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        if (strcmp(points[i].name, name) == 0)
            return &points[i];
    return NULL;
}

static enum kind kind_read(const char *word, unsigned long *ret_sleep_ms)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i]);

        if (strncmp(word, kinds[i], n) != 0 || (word[n] != '\0' && (i != KIND_SLEEP || word[n] != '=')))
            continue;
        *ret_sleep_ms = word[n] == '=' ? strtoul(word + n + 1, NULL, 10) : 1000;
        return (enum kind)i;
    }
    refuse(word, "is no kind of fault (kill, stop, sleep=MS or error)");
}

/* POINT:N:KIND, taken apart in place. */
static void arm(char *word)
{
    struct armed *a = &armed[armed_n];
    char *n = strchr(word, ':'), *kind = n != NULL ? strchr(n + 1, ':') : NULL;

    if (armed_n++ == ARMED_MAX)
        refuse(word, "is one too many");
    if (kind == NULL)
        refuse(word, "is not POINT:N:KIND");
    *n = *kind = '\0';
    a->point = point_find(word);
    a->at = strtoul(n + 1, NULL, 10);
    if (a->point == NULL || a->at == 0)
        refuse(word, "is no point, or its number is not 1 or more");
    a->kind = kind_read(kind + 1, &a->sleep_ms);
    if (a->kind == KIND_ERROR && !a->point->error)
        refuse(word, "has no error to see");
}

void faults_start(void)
{
    static char text[4096];
    const char *wanted = getenv("FAULT_POINT");
    char *rest = NULL;

    if (wanted == NULL || armed_n > 0)
        return;
    if (strcmp(wanted, "list") == 0)
        list_points();
    (void)snprintf(text, sizeof text, "%s", wanted);
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest))
        arm(word);
}

/* Not through the log, whose lines may wait: the process may be gone with the next instruction. */
static void tell(const struct armed *a)
{
    char line[300], date[40];
    struct timespec t;
    struct tm tm;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t.tv_sec, &tm));
    int n = snprintf(line, sizeof line, "ts=%s.%03dZ level=debug event=fault point=%s occurrence=%lu kind=%s\n", date,
                     (int)(t.tv_nsec / 1000000), a->point->name, a->at, kinds[a->kind]);

    while (write(STDERR_FILENO, line, (size_t)n) < 0 && errno == EINTR)
        ;
}

/* Returns true for an error. */
static bool strike(struct armed *a)
{
    struct timespec nap = {.tv_sec = (time_t)(a->sleep_ms / 1000), .tv_nsec = (long)(a->sleep_ms % 1000) * 1000000};

    a->struck = true;
    tell(a);
    switch (a->kind) {
    case KIND_KILL:
        (void)raise(SIGKILL);
        break;
    case KIND_STOP:
        (void)raise(SIGSTOP);
        break;
    case KIND_SLEEP:
        (void)nanosleep(&nap, NULL);
        break;
    case KIND_ERROR:
        return true;
    }
    return false;
}

/* Those that stand behind one that has not struck yet do not count: one after the other. */
bool faults_at(const char *point)
{
    if (point_find(point) == NULL) {
        (void)fprintf(stderr, "%s is not in the list of fault points\n", point);
        abort();
    }
    for (unsigned i = 0; i < armed_n; i++) {
        struct armed *a = &armed[i];

        if (a->struck)
            continue;
        if (strcmp(a->point->name, point) != 0 || ++a->seen < a->at)
            return false;
        return strike(a);
    }
    return false;
}
#endif
