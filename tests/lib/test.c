/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/descendants.h"
#include "tests/lib/folder.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW 3
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 3
#endif
#endif
#ifndef SLOW
#define SLOW 1
#endif

#pragma weak test_suite_start
#pragma weak test_suite_stop

/* Constructors need somewhere to put their tests before main runs. */
static struct test *first, **last = &first;
/* Set while the suite starts or stops: a failure there has no child to end. */
static bool in_suite;

void test_register(struct test *t)
{
    *last = t;
    last = &t->next;
}

unsigned test_slow(void)
{
    const char *factor = getenv("TEST_SLOW");
    unsigned long n = factor != NULL ? strtoul(factor, NULL, 10) : SLOW;
    return n >= 1 && n <= 100 ? (unsigned)n : 1;
}

uint64_t test_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool interrupted(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGHUP) == 1;
}

void test_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    if (in_suite && interrupted())
        test_fail(__FILE__, __LINE__, "interrupted");
}

static void suite_end(void)
{
    if (test_suite_stop != NULL)
        test_suite_stop();
    descendants_kill(NULL);
    folder_remove_all();
}

void test_fail(const char *file, int line, const char *format, ...)
{
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (!in_suite)
        exit(1);
    folder_show_logs(stdout);
    descendants_kill(NULL);
    folder_remove_all();
    puts("0 passed, 1 failed");
    fflush(stdout);
    _exit(1);
}

void test_check_eq(const char *file, int line, const char *what, int64_t got, int64_t wanted)
{
    if (got != wanted)
        test_fail(file, line, "%s is %" PRId64 ", not %" PRId64, what, got, wanted);
}

void test_check_str(const char *file, int line, const char *what, const char *got, const char *wanted)
{
    if (got == wanted || (got != NULL && wanted != NULL && strcmp(got, wanted) == 0))
        return;
    test_fail(file, line, "%s is\n  %s\nnot\n  %s", what, got != NULL ? got : "(NULL)", wanted != NULL ? wanted : "(NULL)");
}

/* Reachable from here, so that checkers of leaks are content. */
static struct allocation {
    struct allocation *next;
    max_align_t bytes[];
} * allocations;

void *test_allocate(size_t size)
{
    struct allocation *a = calloc(1, sizeof *a + size);
    if (a == NULL)
        test_fail(__FILE__, __LINE__, "out of memory");
    a->next = allocations;
    allocations = a;
    return a->bytes;
}

static bool chosen(const struct test *t, char **names)
{
    if (names[0] == NULL)
        return true;
    for (; *names != NULL; names++)
        if (**names == '=' ? strcmp(t->name, *names + 1) == 0 : strstr(t->name, *names) != NULL)
            return true;
    return false;
}

/* TEST_PART=2/3: of the chosen tests the second, the fifth, ... */
static bool in_part(unsigned number)
{
    const char *text = getenv("TEST_PART");
    unsigned part, parts;

    if (text == NULL || sscanf(text, "%u/%u", &part, &parts) != 2 || parts == 0)
        return true;
    return number % parts == part % parts;
}

_Noreturn static void child_run(const struct test *t, const sigset_t *signals, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(folder_output(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(1);
    t->run();
    exit(0);
}

/* Wait for `child` at most `seconds`. Returns its wait status, -1 when its time is up, -2 when somebody wants us to stop. */
static int child_wait(pid_t child, unsigned seconds, const sigset_t *signals)
{
    uint64_t deadline_ms = test_now_ms() + (uint64_t)seconds * 1000;
    for (;;) {
        int status;
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        uint64_t now_ms = test_now_ms();
        if (now_ms >= deadline_ms)
            return -1;
        descendants_reap(child);
        struct timespec rest = {.tv_sec = (time_t)((deadline_ms - now_ms) / 1000),
                                .tv_nsec = (long)((deadline_ms - now_ms) % 1000) * 1000000};
        int got = sigtimedwait(signals, NULL, &rest);
        if (got > 0 && got != SIGCHLD)
            return -2;
    }
}

static void failure_show(const struct test *t, int status, unsigned seconds)
{
    if (status == -1)
        printf("FAILED %s (%s): not done within %u s\n", t->name, t->file, seconds);
    else if (WIFSIGNALED(status))
        printf("FAILED %s (%s): %s\n", t->name, t->file, strsignal(WTERMSIG(status)));
    else
        printf("FAILED %s (%s): status %d\n", t->name, t->file, WEXITSTATUS(status));
    folder_show_output(stdout);
    folder_show_logs(stdout);
}

/* Returns false if it failed; `ret_stop` if somebody interrupted us. */
static bool test_run(const struct test *t, const sigset_t *signals, bool *ret_stop)
{
    struct descendants before;
    descendants_remember(&before);
    folder_enter(t->name);
    fflush(stdout);
    uint64_t started_ms = test_now_ms();
    unsigned seconds = t->deadline_s * test_slow();
    pid_t parent = getpid(), child = fork();
    if (child < 0) {
        printf("FAILED %s: fork: %s\n", t->name, strerror(errno));
        return false;
    }
    if (child == 0)
        child_run(t, signals, parent);
    setpgid(child, child);
    int status = child_wait(child, seconds, signals);
    kill(-child, SIGKILL);
    if (status < 0)
        waitpid(child, NULL, 0);
    descendants_kill(&before);
    *ret_stop = status == -2;
    if (*ret_stop)
        printf("interrupted in %s\n", t->name);
    else if (status != 0)
        failure_show(t, status, seconds);
    else
        printf("ok %s (%u ms)\n", t->name, (unsigned)(test_now_ms() - started_ms));
    folder_leave();
    return status == 0;
}

static int tests_run(char **names)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    in_suite = true;
    if (test_suite_start != NULL)
        test_suite_start();
    unsigned passed = 0, failed = 0, chosen_n = 0;
    bool stop = interrupted();
    in_suite = false;
    for (const struct test *t = first; t != NULL && !stop; t = t->next) {
        if (!chosen(t, names) || !in_part(++chosen_n))
            continue;
        if (test_run(t, &signals, &stop))
            passed++;
        else
            failed++;
    }
    in_suite = !stop;
    suite_end();
    if (stop)
        return 130;
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}

int test_main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (const struct test *t = first; t != NULL; t = t->next)
            puts(t->name);
        return 0;
    }
    signal(SIGPIPE, SIG_IGN);
    descendants_adopt();
    folder_create();
    return tests_run(argv + 1);
}
