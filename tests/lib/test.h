/* SPDX-License-Identifier: BSD-2-Clause */
/* The harness: each test runs in a forked child of its own process group, with a deadline; the closing line is `N passed, N failed`.
 *
 *     TEST(window_hands_in_id_order)
 *     {
 *         CHECK(window_hand(w, &slot));
 *         CHECK_EQ(slot, 3);
 *     }
 *
 * A program is one or more files of tests linked with tests/lib; its main is here. Arguments are parts of names: only tests whose name
 * contains one of them run; =NAME is a whole name. `--list` lists. Exit status 1 when anything failed, or when nothing ran.
 *
 * What a test writes is shown only if it fails, together with the ends of the *.log files of its temp folder. Whatever it left running is
 * killed. In the environment, TEST_SLOW=4 makes every deadline four times as long (for valgrind), TEST_KEEP=1 keeps the temp folder,
 * TEST_PART=2/3 runs every third test, from the second on, with ports of another third than the others have.
 */
#ifndef TESTS_LIB_TEST_H
#define TESTS_LIB_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test {
    const char *name, *file;
    void (*run)(void);
    unsigned deadline_s;
    struct test *next;
};

int test_main(int argc, char **argv); /* all of it; what main calls */
void test_register(struct test *t);
_Noreturn void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void test_check_eq(const char *file, int line, const char *what, int64_t got, int64_t wanted);
void test_check_str(const char *file, int line, const char *what, const char *got, const char *wanted); /* NULL equals NULL only */

/* Called in the parent before the first test and after the last, for what a program's tests share (a broker). Weak: may be defined or not.
 * A failure in either is the program's one failed test. */
void test_suite_start(void);
void test_suite_stop(void);

#define TEST_WITHIN(test_name, seconds)                                                                 \
    static void test_##test_name(void);                                                                 \
    static struct test test_entry_##test_name = {#test_name, __FILE__, test_##test_name, (seconds), 0}; \
    __attribute__((constructor)) static void test_register_##test_name(void)                            \
    {                                                                                                   \
        test_register(&test_entry_##test_name);                                                         \
    }                                                                                                   \
    static void test_##test_name(void)
#define TEST(test_name) TEST_WITHIN(test_name, 20)

#define CHECK(condition)                                     \
    do {                                                     \
        if (!(condition))                                    \
            test_fail(__FILE__, __LINE__, "%s", #condition); \
    } while (0)
#define CHECK_EQ(got, wanted)  test_check_eq(__FILE__, __LINE__, #got, (int64_t)(got), (int64_t)(wanted))
#define CHECK_STR(got, wanted) test_check_str(__FILE__, __LINE__, #got, (got), (wanted))

/* Wait until `condition` holds, asking again every few milliseconds; fails after `seconds`. The only way a test waits. */
#define WAIT_UNTIL(condition, seconds)                                                                             \
    do {                                                                                                           \
        uint64_t wait_deadline_ = test_now_ms() + (uint64_t)(seconds)*1000 * test_slow();                          \
        while (!(condition)) {                                                                                     \
            if (test_now_ms() > wait_deadline_)                                                                    \
                test_fail(__FILE__, __LINE__, "not within %u s: %s", (unsigned)(seconds)*test_slow(), #condition); \
            test_pause();                                                                                          \
        }                                                                                                          \
    } while (0)
/* Zeroed memory that a test need not free: it and what it points to are no leaks. */
void *test_allocate(size_t size);

uint64_t test_now_ms(void);
void test_pause(void);    /* a few milliseconds, for WAIT_UNTIL only */
unsigned test_slow(void); /* the factor for deadlines: TEST_SLOW, 3 in sanitised builds, or 1 */

#endif
