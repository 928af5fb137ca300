/* SPDX-License-Identifier: BSD-2-Clause */
/* The tests of tests/lib/test.h in one process, one after the other, until the first that fails: a mutant is judged some thousand times, and
 * nobody asks which other tests would have failed too. Needs the tests that only compute. Prints the name of the test that noticed. What is
 * allocated ends where memory does, so that who writes behind it is noticed as in a sanitised build. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* For everybody, the core too; nothing is given back. */
void *calloc(size_t n, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (n * size + 15) & ~(size_t)15, whole = (bytes + page - 1) & ~(page - 1);
    char *memory = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || mprotect(memory + whole, page, PROT_NONE) != 0)
        return NULL;
    return memory + whole - bytes;
}

void free(void *memory)
{
    (void)memory;
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
    signal(SIGBUS, on_end);
    signal(SIGFPE, on_end);
    alarm(SECONDS_MAX);
    for (const struct test *t = first; t != NULL; t = t->next, n++) {
        running = t->name;
        t->run();
    }
    printf("%u passed, 0 failed\n", n);
    return n > 0 ? 0 : 1;
}
