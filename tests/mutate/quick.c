/* SPDX-License-Identifier: BSD-2-Clause */
/* The tests of tests/lib/test.h in one process, one after the other, until the first that fails: a mutant is judged some thousand times, and
 * nobody asks which other tests would have failed too. Needs the tests that only compute. Prints the name of the test that noticed. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

enum {
    SECONDS_MAX = 10 /* all tests together take a tenth of one */
};

static struct test *first, **last = &first;
static const char *running = "none";

void test_register(struct test *t)
{
    *last = t;
    last = &t->next;
}

void test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    printf("FAILED %s\n%s:%d: ", running, file, line);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    exit(1);
}

void test_check_eq(const char *file, int line, const char *what, int64_t got, int64_t wanted)
{
    if (got != wanted)
        test_fail(file, line, "%s is %" PRId64 ", not %" PRId64, what, got, wanted);
}

void test_check_str(const char *file, int line, const char *what, const char *got, const char *wanted)
{
    if (got != wanted && (got == NULL || wanted == NULL || strcmp(got, wanted) != 0))
        test_fail(file, line, "%s is %s, not %s", what, got, wanted);
}

void *test_allocate(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL)
        test_fail(__FILE__, __LINE__, "out of memory");
    return memory;
}

/* A loop without end, an assert of the core, or worse. */
static void on_end(int signo)
{
    (void)!write(STDOUT_FILENO, "FAILED ", 7);
    (void)!write(STDOUT_FILENO, running, strlen(running));
    (void)!write(STDOUT_FILENO, "\n", 1);
    _exit(signo);
}

int main(void)
{
    unsigned n = 0;

    signal(SIGALRM, on_end);
    signal(SIGABRT, on_end);
    signal(SIGSEGV, on_end);
    alarm(SECONDS_MAX);
    for (const struct test *t = first; t != NULL; t = t->next, n++) {
        running = t->name;
        t->run();
    }
    printf("%u passed, 0 failed\n", n);
    return n > 0 ? 0 : 1;
}
