/* SPDX-License-Identifier: BSD-2-Clause */
/* `make demo` itself: that it is content with what it shows, and that nothing is left of it, however it ends. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define MARK_NAME "OUTBOX_DEMO_MARK="

/* Every process that the script starts inherits the mark. */
static const char *mark(void)
{
    static char text[64];

    (void)snprintf(text, sizeof text, MARK_NAME "%d", (int)getpid());
    return text;
}

/* A group of its own, as a terminal's foreground group: make, the script and what it waits for would be in it. SIGINT as there, too: who runs
 * tests in the background ignores it, and a script cannot trap what it was born to ignore. */
static struct process demo_start(const char *orders)
{
    char count[32];

    (void)snprintf(count, sizeof count, "ORDERS=%s", orders);
    return process_start(
        (const char *[]){"setsid", "env", "--default-signal=INT", "bash", TEST_SOURCE_FOLDER "/producer-demo/demo.sh", NULL},
        (const char *[]){mark(), "BUILD=" TEST_BUILD_FOLDER, "STAY=no", "RATE=60", count, NULL}, NULL);
}

static bool is_marked(const char *pid)
{
    static char environment[65536];
    char path[300];
    FILE *f;
    size_t n;

    (void)snprintf(path, sizeof path, "/proc/%s/environ", pid);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    n = fread(environment, 1, sizeof environment - 1, f);
    fclose(f);
    return memmem(environment, n, mark(), strlen(mark()) + 1) != NULL;
}

static int marked_count(void)
{
    DIR *processes = opendir("/proc");
    int n = 0;

    CHECK(processes != NULL);
    for (struct dirent *entry; (entry = readdir(processes)) != NULL;)
        n += entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_marked(entry->d_name);
    closedir(processes);
    return n;
}

/* The folder that the demo said it uses. */
static const char *demo_folder(const struct process *demo)
{
    static char folder[64];
    const char *at = strstr(process_output(demo), "/tmp/outbox-demo.");

    CHECK(at != NULL && sscanf(at, "%63[^ ,\n]", folder) == 1);
    return folder;
}

/* Interrupt it once it has said `word`. */
static void interrupt(const char *word, int signal_number, int status)
{
    struct process demo = demo_start("2400");
    const char *folder;

    WAIT_UNTIL(strstr(process_output(&demo), word) != NULL || !process_running(&demo), 120);
    CHECK(process_running(&demo));
    WAIT_UNTIL(marked_count() >= 2, 20); /* the script, and what it has started */
    folder = demo_folder(&demo);
    CHECK_EQ(access(folder, F_OK), 0);
    CHECK_EQ(kill(-demo.pid, signal_number), 0);
    CHECK_EQ(process_wait(&demo, 60), status);
    CHECK(strstr(process_output(&demo), "everything is cleaned up") != NULL);
    WAIT_UNTIL(marked_count() == 0, 20);
    CHECK_EQ(access(folder, F_OK), -1);
}

TEST_WITHIN(demo_e2e_ctrl_c_in_the_middle_leaves_nothing, 200)
{
    interrupt("kill -9 of the relay", SIGINT, 130);
}

TEST_WITHIN(demo_e2e_ctrl_c_at_the_start_leaves_nothing, 200)
{
    interrupt("temporary, in", SIGINT, 130);
}

TEST_WITHIN(demo_e2e_sigterm_leaves_nothing, 200)
{
    interrupt("order-service at", SIGTERM, 143);
}

TEST_WITHIN(demo_e2e_script_is_content, 240)
{
    struct process demo = demo_start("900");

    CHECK_EQ(process_wait(&demo, 200), 0);
    CHECK(strstr(process_output(&demo), "kill -9 of all consumers") != NULL);
    CHECK_EQ(marked_count(), 0);
    CHECK_EQ(access(demo_folder(&demo), F_OK), -1);
}
