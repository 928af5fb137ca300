/* SPDX-License-Identifier: BSD-2-Clause */
/* From the command line to a verb, and its exit status to the shell. */
#include <stdio.h>
#include <unistd.h>

#include "relay/app/config.h"
#include "relay/app/daemon.h"
#include "relay/app/verbs.h"

static int perform(const struct config *c)
{
    switch (c->verb) {
    case CONFIG_RUN:
        return daemon_run(c);
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

int main(int argc, char **argv)
{
    struct config config;
    char error[1024];
    int status;

    if (!config_read(&config, argc, argv, environ, error, sizeof error)) {
        fprintf(stderr, "outbox-relay: %s\n", error);
        return 2;
    }
    status = perform(&config);
    config_reset(&config);
    /* Output that did not arrive, on a full disk say, must not look like success. */
    if (fflush(stdout) != 0 && status == 0)
        status = 1;
    return status;
}
