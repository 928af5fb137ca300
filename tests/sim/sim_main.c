/* SPDX-License-Identifier: BSD-2-Clause */
/* sim [--seeds N] [--first SEED] [--jobs N] [--trace SEED] [--without CHECK] [--outage] [--stop]
 *
 * --outage: seeds in which the broker is away for ten hours.
 * Runs seeds in a few processes at once and adds up what they tell. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/sim.h"

enum {
    JOBS_MAX = 16
};

struct options {
    uint64_t seeds, first, jobs;
    const char *without; /* a check that is left out */
    bool stop, trace;    /* stop: at the first violation */
    bool outage;
};

struct sums {
    uint64_t passed, failed, rows, steps, checks, fired[FAULTS];
};

enum {
    SEED_SECONDS = 20
}; /* a thousand times what one takes */

static volatile sig_atomic_t seed_now; /* for the message when the core's own assert fails, or it loops */

static void on_end(int signo)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%s in seed %d\n", signo == SIGALRM ? "hangs" : "aborted", (int)seed_now);
    if (n > 0)
        (void)!write(STDERR_FILENO, text, (size_t)n);
    signal(signo, SIG_DFL);
    raise(signo);
}

static bool read_number(const char *text, uint64_t *ret_number)
{
    char *end;
    if (!text)
        return false;
    *ret_number = strtoull(text, &end, 10);
    return end != text && *end == 0;
}

static bool read_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){.seeds = 20000, .first = 1, .jobs = 2};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--stop") == 0) {
            options->stop = true;
            continue;
        }
        if (strcmp(argv[i], "--outage") == 0) {
            options->outage = true;
            continue;
        }
        i++;
        if (strcmp(argv[i - 1], "--without") == 0 && value) {
            options->without = value;
        } else if (strcmp(argv[i - 1], "--trace") == 0 && read_number(value, &options->first)) {
            options->seeds = options->jobs = 1;
            options->trace = true;
        } else {
            uint64_t *number = strcmp(argv[i - 1], "--seeds") == 0   ? &options->seeds
                               : strcmp(argv[i - 1], "--first") == 0 ? &options->first
                               : strcmp(argv[i - 1], "--jobs") == 0  ? &options->jobs
                                                                     : NULL;
            if (!number || !read_number(value, number))
                return false;
        }
    }
    return options->jobs > 0 && options->jobs <= JOBS_MAX;
}

/* Every `jobs`-th seed. */
static struct sums run_some(const struct options *options, uint64_t job)
{
    struct sums sums = {0};
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return sums;
    signal(SIGABRT, on_end);
    signal(SIGALRM, on_end);
    sim->without = options->without;
    sim->tracing = options->trace;
    sim->outage = options->outage;
    for (uint64_t i = job; i < options->seeds && !(options->stop && sums.failed); i += options->jobs) {
        seed_now = (sig_atomic_t)(options->first + i);
        alarm(options->outage ? 10 * SEED_SECONDS : SEED_SECONDS);
        bool passed = sim_run(sim, options->first + i);
        sums.passed += passed;
        sums.failed += !passed;
        sums.rows += sim->rows_n;
        for (uint32_t f = 0; f < FAULTS; f++)
            sums.fired[f] += sim->fired[f];
    }
    sums.steps = sim->steps;
    sums.checks = sim->checks;
    free(sim);
    return sums;
}

static void add(struct sums *to, const struct sums *sums)
{
    to->passed += sums->passed;
    to->failed += sums->failed;
    to->rows += sums->rows;
    to->steps += sums->steps;
    to->checks += sums->checks;
    for (uint32_t f = 0; f < FAULTS; f++)
        to->fired[f] += sums->fired[f];
}

static void print_sums(const struct sums *sums)
{
    uint64_t faults = 0;
    for (uint32_t f = 0; f < FAULTS; f++) {
        faults += sums->fired[f];
        printf("%s%s %llu", f ? ", " : "faults: ", sim_fault_name((enum fault)f), (unsigned long long)sums->fired[f]);
    }
    printf("\n%llu seeds: %llu rows, %llu faults, %llu actions, %llu checks\n", (unsigned long long)(sums->passed + sums->failed),
           (unsigned long long)sums->rows, (unsigned long long)faults, (unsigned long long)sums->steps, (unsigned long long)sums->checks);
    printf("%llu passed, %llu failed\n", (unsigned long long)sums->passed, (unsigned long long)sums->failed);
}

/* Its sums come through `fd`; -1: it could not be started. */
static int start_job(const struct options *options, uint64_t job)
{
    int fds[2];
    if (pipe(fds))
        return -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct sums sums = run_some(options, job);
        fflush(stdout);
        _exit(write(fds[1], &sums, sizeof sums) == (ssize_t)sizeof sums ? 0 : 2);
    }
    close(fds[1]);
    if (pid > 0)
        return fds[0];
    close(fds[0]);
    return -1;
}

int main(int argc, char **argv)
{
    struct options options;
    struct sums sums = {0};
    int fds[JOBS_MAX];
    if (!read_options(&options, argc, argv)) {
        fprintf(stderr, "usage: sim [--seeds N] [--first SEED] [--jobs N] [--trace SEED] [--without CHECK] [--outage] [--stop]\n");
        return 2;
    }
    for (uint64_t job = 0; job < options.jobs; job++)
        fds[job] = start_job(&options, job);
    for (uint64_t job = 0; job < options.jobs; job++) {
        struct sums some = {0};
        if (fds[job] < 0 || read(fds[job], &some, sizeof some) != (ssize_t)sizeof some)
            some = (struct sums){.failed = 1}; /* it aborted */
        add(&sums, &some);
    }
    while (wait(NULL) > 0)
        continue;
    print_sums(&sums);
    return sums.failed ? 1 : 0;
}
