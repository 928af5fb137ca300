/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests that fail in every way there is, for tests/harness_test.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/services.h"
#include "tests/lib/test.h"

TEST(good)
{
    puts("of a test that passes, nothing is shown");
    CHECK(1);
}

TEST(checks)
{
    puts("what it wrote");
    CHECK(getpid() == 0);
}

TEST(checks_number)
{
    CHECK_EQ(1 + 1, 3);
}

TEST(checks_string)
{
    CHECK_STR("one", "two");
}

TEST_WITHIN(deadline, 1)
{
    for (;;)
        pause();
}

TEST(signal)
{
    abort();
}

TEST(status)
{
    exit(3);
}

TEST(wait)
{
    WAIT_UNTIL(getpid() == 0, 1);
}

TEST(log)
{
    struct process p = process_start((const char *[]){"sh", "-c", "echo what it logged", NULL}, NULL, NULL);
    process_wait(&p, 5);
    CHECK(0);
}

/* An orphan in a session of its own, and a child. Their time is what the script looks for. */
TEST(leaves_processes)
{
    process_start((const char *[]){"sh", "-c", "setsid sleep $PLANTED & exec sleep $PLANTED", NULL}, NULL, NULL);
}

TEST_WITHIN(hangs, 60)
{
    process_start((const char *[]){"sh", "-c", "setsid sleep $PLANTED & exec sleep $PLANTED", NULL}, NULL, NULL);
    puts("it hangs");
    fflush(stdout);
    for (;;)
        pause();
}
