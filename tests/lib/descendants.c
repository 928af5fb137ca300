/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

void descendants_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* The fields after the program's name, which may contain anything but ends at the last parenthesis. */
static bool stat_read(pid_t pid, char *ret_state, pid_t *ret_parent)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = 0;
    const char *end = strrchr(line, ')');
    int parent;
    if (end == NULL || sscanf(end, ") %c %d", ret_state, &parent) != 2)
        return false;
    *ret_parent = (pid_t)parent;
    return true;
}

void descendants_of(pid_t parent, struct descendants *ret)
{
    ret->n = 0;
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return;
    for (const struct dirent *e; (e = readdir(proc)) != NULL;) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10), its;
        char state;
        if (pid > 0 && stat_read(pid, &state, &its) && its == parent && state != 'Z' && ret->n < DESCENDANTS_MAX)
            ret->pids[ret->n++] = pid;
    }
    closedir(proc);
}

bool descendants_alive(pid_t pid)
{
    char state;
    pid_t parent;
    return stat_read(pid, &state, &parent) && state != 'Z';
}

void descendants_remember(struct descendants *ret)
{
    descendants_of(getpid(), ret);
}

bool descendants_contain(const struct descendants *d, pid_t pid)
{
    for (unsigned i = 0; d != NULL && i < d->n; i++)
        if (d->pids[i] == pid)
            return true;
    return false;
}

void descendants_reap(pid_t but)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 || info.si_pid == but)
            return;
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

void descendants_kill(const struct descendants *but)
{
    /* Whoever is killed may leave children, which become ours: again until there are none. */
    for (uint64_t deadline_ms = test_now_ms() + 10000; test_now_ms() < deadline_ms;) {
        struct descendants now;
        descendants_remember(&now);
        unsigned killed = 0;
        for (unsigned i = 0; i < now.n; i++)
            if (!descendants_contain(but, now.pids[i])) {
                kill(now.pids[i], SIGKILL);
                killed++;
            }
        descendants_reap(0);
        if (killed == 0)
            return;
        test_pause();
    }
    fprintf(stderr, "Processes of a test do not go away although they were killed.\n");
}
