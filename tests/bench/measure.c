/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a program and says what it cost: itself, PostgreSQL and the broker, from /proc.
 *
 *     measure run OUTPUT POSTMASTER BROKER COMMAND...      until COMMAND ends; its output goes to the file OUTPUT
 *     measure watch SECONDS POSTMASTER BROKER PROCESS      what PROCESS and the servers use in the next SECONDS
 *
 * POSTMASTER, BROKER and PROCESS are process ids; a broker of 0 is none. One line of name=value pairs on stdout: wall_s, started_ms and
 * ended_ms (of the epoch), cpu_s, postgres_s, broker_s, rss_kb, unaccounted (percent of the whole machine's time that was used by none of
 * them, or stolen by the host), status. The backends that ended meanwhile are in the postmaster's sum over its children. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct usage {
    double postgres_s, broker_s, machine_s, wall_s;
};

_Noreturn static void fail(const char *what)
{
    fprintf(stderr, "measure: %s: %s\n", what, strerror(errno));
    exit(2);
}

static double clock_s(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* User and system time of one process, with that of the children it has waited for if `with_children`. Its parent in `ret_parent`.
 * 0 if it is gone. */
static double process_s(long pid, int with_children, long *ret_parent)
{
    char path[64], text[1024];
    unsigned long long user = 0, system = 0, children_user = 0, children_system = 0;

    *ret_parent = -1;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    /* The name in parentheses may hold anything, so count fields after it. */
    const char *fields = strrchr(text, ')');
    if (fields == NULL || sscanf(fields + 1, " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", ret_parent, &user, &system,
                                 &children_user, &children_system) != 5)
        return 0;
    return (double)(user + system + (with_children ? children_user + children_system : 0)) / (double)sysconf(_SC_CLK_TCK);
}

static double children_s(long postmaster)
{
    long parent;
    double sum = 0;
    DIR *folder = opendir("/proc");

    if (folder == NULL)
        fail("/proc");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (isdigit((unsigned char)entry->d_name[0])) {
            double own = process_s(strtol(entry->d_name, NULL, 10), 0, &parent);
            if (parent == postmaster)
                sum += own;
        }
    closedir(folder);
    return sum;
}

/* Again if a backend was moved from the living to the postmaster's sum meanwhile: it would count twice, or not at all. */
static double postgres_s(long postmaster)
{
    long parent;
    double before, living, after = process_s(postmaster, 1, &parent);

    do {
        before = after;
        living = children_s(postmaster);
        after = process_s(postmaster, 1, &parent);
    } while (after > before);
    return living + after;
}

/* Seconds in which some processor was busy or taken away by the host. */
static double machine_s(void)
{
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
    FILE *file = fopen("/proc/stat", "r");

    if (file == NULL ||
        fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal) != 8)
        fail("/proc/stat");
    fclose(file);
    return (double)(user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK);
}

static struct usage usage_now(long postmaster, long broker)
{
    long parent;

    return (struct usage){.postgres_s = postgres_s(postmaster),
                          .broker_s = broker == 0 ? 0 : process_s(broker, 0, &parent),
                          .machine_s = machine_s(),
                          .wall_s = clock_s(CLOCK_MONOTONIC)};
}

static void report(const struct usage *before, const struct usage *after, double started_s, double cpu_s, long rss_kb, int status)
{
    double wall_s = after->wall_s - before->wall_s, postgres = after->postgres_s - before->postgres_s,
           broker = after->broker_s - before->broker_s;
    double unaccounted_s = after->machine_s - before->machine_s - cpu_s - postgres - broker;
    double all_s = wall_s * (double)sysconf(_SC_NPROCESSORS_ONLN);

    printf("wall_s=%.4f started_ms=%.0f ended_ms=%.0f cpu_s=%.3f postgres_s=%.3f broker_s=%.3f rss_kb=%ld unaccounted=%.1f status=%d\n",
           wall_s, started_s * 1e3, (started_s + wall_s) * 1e3, cpu_s, postgres, broker, rss_kb, 100 * unaccounted_s / all_s, status);
}

static void run(const char *output, long postmaster, long broker, char **command)
{
    struct usage before = usage_now(postmaster, broker);
    double started_s = clock_s(CLOCK_REALTIME);
    struct rusage rusage;
    int status;
    pid_t pid = fork();

    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        int file = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0)
            fail(output);
        execv(command[0], command);
        fail(command[0]);
    }
    while (wait4(pid, &status, 0, &rusage) < 0)
        if (errno != EINTR)
            fail("wait4");
    struct usage after = usage_now(postmaster, broker);
    double cpu_s =
        (double)(rusage.ru_utime.tv_sec + rusage.ru_stime.tv_sec) + (double)(rusage.ru_utime.tv_usec + rusage.ru_stime.tv_usec) / 1e6;
    report(&before, &after, started_s, cpu_s, rusage.ru_maxrss, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static long peak_rss_kb(long pid)
{
    char path[64], line[256];
    long kb = 0;

    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail(path);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kb) == 1)
            break;
    fclose(file);
    return kb;
}

static void watch(unsigned seconds, long postmaster, long broker, long pid)
{
    long parent;
    struct usage before = usage_now(postmaster, broker);
    double started_s = clock_s(CLOCK_REALTIME), cpu_s = process_s(pid, 0, &parent);

    sleep(seconds);
    cpu_s = process_s(pid, 0, &parent) - cpu_s;
    struct usage after = usage_now(postmaster, broker);
    report(&before, &after, started_s, cpu_s, peak_rss_kb(pid), 0);
}

int main(int argc, char **argv)
{
    if (argc > 5 && strcmp(argv[1], "run") == 0)
        run(argv[2], strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10), argv + 5);
    else if (argc == 6 && strcmp(argv[1], "watch") == 0)
        watch((unsigned)strtoul(argv[2], NULL, 10), strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10), strtol(argv[5], NULL, 10));
    else {
        fputs("usage: measure run OUTPUT POSTMASTER BROKER COMMAND... | measure watch SECONDS POSTMASTER BROKER PROCESS\n", stderr);
        return 2;
    }
    return 0;
}
