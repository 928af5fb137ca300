/* SPDX-License-Identifier: BSD-2-Clause */
/* From the command line to a verb, and its exit status to the shell. */
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "relay/app/config.h"
#include "relay/app/daemon.h"
#include "relay/app/verbs.h"

static int perform(const struct config *c, bool *ret_busy)
{
    switch (c->verb) {
    case CONFIG_RUN:
        return daemon_run(c, ret_busy);
    case CONFIG_MIGRATE:
        return verbs_migrate(c, stdout, stderr);
    case CONFIG_CHECK:
        return verbs_check(c, stdout, stderr);
    case CONFIG_HELP:
        config_print_help(stdout);
        return 0;
    case CONFIG_VERSION:
        return verbs_version(stdout);
    case CONFIG_PRINT_TABLE:
        config_print_table(stdout);
        return 0;
    case CONFIG_PRINT_INI:
        config_print_ini(stdout);
        return 0;
    }
    return 2;
}

/* A descriptor that the caller closed would be given to the first socket, and log lines written into it. Not to be written to: output that
 * goes nowhere is an error. */
static void standard_descriptors_hold(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        (void)close(fd);
}

/* Rows come and go in hundreds of kilobytes. glibc would give such memory back and take it again at once: 32 page faults per thousand rows. */
static void memory_keep(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 8 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
}

int main(int argc, char **argv)
{
    struct config config;
    char error[1024];
    bool busy = false;
    int status;

    standard_descriptors_hold();
    memory_keep();
    if (!config_read(&config, argc, argv, environ, error, sizeof error)) {
        fprintf(stderr, "outbox-relay: %s\n", error);
        return 2;
    }
    status = perform(&config, &busy);
    config_reset(&config);
    /* Output that did not arrive, on a full disk say, must not look like success. */
    if (fflush(stdout) != 0 && status == 0)
        status = 1;
    if (busy)
        _exit(status); /* an orderly exit would wait for the threads */
    return status;
}
