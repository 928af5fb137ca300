/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/points.h"
#include "tests/lib/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[] = {"between", "after", NULL};
static char reason[200];

TEST(demo_points_fail_at_the_pass_that_was_asked_for_and_once)
{
    points_name(names);
    CHECK(!points_pass("between"));
    CHECK(points_arm("between:2:error", reason, sizeof reason));
    CHECK(!points_pass("between"));
    CHECK(!points_pass("after"));
    CHECK(points_pass("between"));
    CHECK(!points_pass("between"));
    CHECK(points_arm("after:9:error", reason, sizeof reason));
    CHECK(points_arm("after:1:error", reason, sizeof reason));
    CHECK(points_pass("after"));
}

TEST(demo_points_refuse_what_they_do_not_understand)
{
    static const char *const wrong[] = {"",
                                        "between",
                                        "between:",
                                        "between:1",
                                        "between:0:kill",
                                        "between:-1:kill",
                                        "betwee:1:kill",
                                        "between:1:explode",
                                        "between:x:error",
                                        "between:1:kill:again",
                                        "before:1:kill",
                                        "between:1:"};

    points_name(names);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        reason[0] = '\0';
        CHECK(!points_arm(wrong[i], reason, sizeof reason));
        CHECK(strchr(reason, '"'));
    }
    CHECK(!points_arm("before:1:kill", reason, sizeof reason));
    CHECK_STR(reason, "\"before:1:kill\" names no fault point; there are between, after");
    CHECK(!points_pass("between"));
}

static pid_t child_that_passes(const char *armed)
{
    pid_t child = fork();

    CHECK(child >= 0);
    if (child > 0)
        return child;
    points_name(names);
    _exit(points_arm(armed, reason, sizeof reason) && !points_pass("after") ? 7 : 1);
}

TEST(demo_points_kill_and_stop_the_process)
{
    int status;
    pid_t child = child_that_passes("after:1:kill");

    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    child = child_that_passes("after:1:stop");
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    CHECK(WIFSTOPPED(status));
    kill(child, SIGCONT);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void *steps_count(void *steps)
{
    (void)points_pass("after");
    while (++*(volatile unsigned long *)steps > 0)
        continue;
    return NULL;
}

/* The thread that meets it stops there, not when another one of its process has had time for the signal. */
TEST_WITHIN(demo_points_stop_a_thread_where_it_is, 60)
{
    for (int i = 0; i < 50; i++) {
        unsigned long *steps = mmap(NULL, sizeof *steps, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t child;
        pthread_t thread;
        int status;

        CHECK(steps != MAP_FAILED && (child = fork()) >= 0);
        if (child == 0) {
            points_name(names);
            if (!points_arm("after:1:stop", reason, sizeof reason) || pthread_create(&thread, NULL, steps_count, steps) != 0)
                _exit(1);
            (void)pthread_join(thread, NULL);
        }
        CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
        CHECK(WIFSTOPPED(status));
        CHECK_EQ(*steps, 0);
        CHECK_EQ(kill(child, SIGKILL), 0);
        CHECK_EQ(waitpid(child, &status, 0), child);
        (void)munmap(steps, sizeof *steps);
    }
}
