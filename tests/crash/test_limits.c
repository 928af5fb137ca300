/* SPDX-License-Identifier: BSD-2-Clause */
/* What a machine runs out of: memory, descriptors, room for the log. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/crash/line.h"
#include "tests/lib/test.h"

/* As of `ulimit`, of a process that runs already. */
static void limit(const struct process *relay, __rlimit_resource_t what, rlim_t soft)
{
    struct rlimit l;

    CHECK_EQ(prlimit(relay->pid, what, NULL, &l), 0);
    l.rlim_cur = soft < l.rlim_max ? soft : l.rlim_max;
    CHECK_EQ(prlimit(relay->pid, what, &l, NULL), 0);
}

/* Bytes of address space that it has. */
static rlim_t space_of(const struct process *relay)
{
    char path[60], line[200];
    unsigned long kib = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)relay->pid);
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f) != NULL && sscanf(line, "VmSize: %lu", &kib) != 1)
        ;
    (void)fclose(f);
    CHECK(kib > 0);
    return (rlim_t)kib * 1024;
}

/* It may live through it (an outage of the database, a row that waits) or die; what is published is right either way. */
TEST_WITHIN(crash_limits_memory, 120)
{
    struct line *l = line_begin("memory", NULL);
    unsigned died = 0, suffered = 0;

    for (int i = 0; i < 3; i++) {
        struct process *relay = line_relay(l, NULL);
        int status = 0;

        line_publishing(l);
        line_strike(l);
        limit(relay, RLIMIT_AS, space_of(relay) + (rlim_t)i * 300000);
        for (int burst = 0; burst < 6 && process_running(relay); burst++)
            line_burst(l, 4000);
        if (process_running(relay)) {
            limit(relay, RLIMIT_AS, RLIM_INFINITY);
            suffered += e2e_said(relay, "emory");
            line_publishing(l);
            e2e_stop(relay);
        } else {
            status = process_wait(relay, 1);
            CHECK(status != 0);
            died++;
        }
        line_hit(l, "no more address space", "it %s, status %d", status != 0 ? "died" : "went on", status);
    }
    CHECK(died + suffered > 0);
    (void)line_relay(l, NULL);
    line_end(l, &(struct line_expected){.windows = LINE_D(1) | LINE_D(2) | LINE_D(3)});
}

/* A connection that is lost cannot be opened again until there are descriptors. */
TEST_WITHIN(crash_limits_descriptors, 90)
{
    struct line *l = line_begin("descriptors", NULL);
    struct process *relay = LINE_RELAY(l, "--backoff-max-ms", "500", "--log-level", "debug");

    line_publishing(l);
    line_strike(l);
    limit(relay, RLIMIT_NOFILE, 5);
    (void)postgres_query(l->e.db.conninfo,
                         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'outbox-relay%%'");
    WAIT_UNTIL(e2e_said(relay, "Too many open files") || e2e_said(relay, "too many open files"), 20);
    line_look(l);
    line_hit(l, "no descriptor left", "its log: too many open files");
    CHECK(process_running(relay));
    limit(relay, RLIMIT_NOFILE, 1024);
    line_publishing(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(2)});
}

/* Lines that nobody can keep are counted, and nothing else happens. */
TEST_WITHIN(crash_limits_log_disk, 90)
{
    struct line *l = line_begin("log-disk", NULL);
    int port = free_port();
    char listen[40];

    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    struct process *relay = line_relay_with(l, (const char *const[]){"--listen", listen, "--backoff-max-ms", "500", NULL},
                                            (const char *const[]){"sh", "-c", "exec \"$0\" \"$@\" 2>/dev/full", NULL}, NULL, NULL);

    line_publishing(l);
    for (int i = 0; i < 5; i++) {
        line_strike(l);
        CHECK(postgres_number(l->e.db.conninfo, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name "
                                                "LIKE 'outbox-relay%%'") > 0);
        line_hit(l, "its connections cut while its log's disk is full", "the server terminated them");
        line_publishing(l);
    }
    CHECK_STR(process_output(relay), "");
    CHECK(e2e_metric(port, "outbox_relay_log_lines_dropped_total") >= 10);
    line_end(l, &(struct line_expected){0});
}
