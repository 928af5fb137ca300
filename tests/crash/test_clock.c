/* SPDX-License-Identifier: BSD-2-Clause */
/* Clocks that jump by an hour, forward and back, of the relay and of the database. The lease is measured by clocks that do not jump. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/crash/line.h"
#include "tests/lib/test.h"

/* libfaketime: the file says by how much the clock is wrong, and is read at each question. Monotonic clocks are left alone, as a machine's
 * are whose time is set. */
struct clock {
    char file[300], file_env[400], preload_env[400];
};

static void clock_set(const struct clock *c, const char *by)
{
    char next[320];
    FILE *f;

    (void)snprintf(next, sizeof next, "%s.next", c->file);
    f = fopen(next, "we");
    CHECK(f != NULL);
    (void)fprintf(f, "%s\n", by);
    (void)fclose(f);
    CHECK_EQ(chmod(next, 0644), 0);
    CHECK_EQ(rename(next, c->file), 0);
}

static struct clock clock_begin(const char *name)
{
    struct clock c;
    glob_t found;

    if (glob("/usr/lib/*/faketime/libfaketime.so.1", 0, NULL, &found) != 0)
        test_fail(__FILE__, __LINE__, "libfaketime is not installed (Debian: faketime)");
    (void)snprintf(c.preload_env, sizeof c.preload_env, "LD_PRELOAD=%s", found.gl_pathv[0]);
    globfree(&found);
    (void)snprintf(c.file, sizeof c.file, "%s/%s.clock", temp_folder(), name);
    (void)snprintf(c.file_env, sizeof c.file_env, "FAKETIME_TIMESTAMP_FILE=%s", c.file);
    clock_set(&c, "+0");
    return c;
}

static const char *const jumps[] = {"+3600s", "+0s", "-3600s", "+0s"};
#define JUMPS (sizeof jumps / sizeof *jumps)

static long long jump_s(const char *by)
{
    return strtoll(by, NULL, 10);
}

/* Whatever a line of its log says after `from` says it with a clock that is wrong by `by`. */
static bool says_since(const struct process *relay, size_t from, const char *words, const char *by)
{
    const char *text = process_output(relay), *line;

    if (strlen(text) <= from || (line = strstr(text + from, words)) == NULL)
        return false;
    while (line > text && line[-1] != '\n')
        line--;
    long long wrong_s = (line_time_ms(line) - e2e_real_ms()) / 1000 - jump_s(by);

    return wrong_s > -60 && wrong_s < 60;
}

static void relay_backends_terminate(const struct line *l, const char *name)
{
    CHECK(postgres_number(l->e.db.conninfo,
                          "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name "
                          "LIKE 'outbox-relay%% %s'",
                          name) > 0);
}

/* Nobody else gets the lease, and nothing is published twice. The connections are cut too, so that the log shows the clock. */
TEST_WITHIN(crash_clock_of_the_relay, 120)
{
    struct line *l = line_begin("clock-relay", NULL);
    struct clock c = clock_begin("relay");
    const char *const env[] = {c.preload_env, c.file_env, "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1", NULL};
    struct process *relay = line_relay_with(l, (const char *const[]){"--name", "jumps", NULL}, NULL, env, NULL), *other;

    line_publishing(l);
    other = LINE_RELAY(l, "--name", "waits");
    WAIT_UNTIL(e2e_said(other, "another relay holds the lease, waiting"), 20);
    for (size_t i = 0; i < JUMPS; i++) {
        size_t from = strlen(process_output(relay));

        line_strike(l);
        clock_set(&c, jumps[i]);
        relay_backends_terminate(l, "jumps");
        WAIT_UNTIL(says_since(relay, from, "event=\"lease held\"", jumps[i]), 20);
        line_hit(l, "the relay's clock jumps by an hour", "its log is %lld s ahead", jump_s(jumps[i]));
        line_publishing(l);
        CHECK(!e2e_said(other, "event=\"lease held\""));
    }
    line_end(l, &(struct line_expected){0});
}

/* The lease's time is the database's. An hour ahead ends every lease: another one may take it, and the holder gives way. */
TEST_WITHIN(crash_clock_of_the_database, 120)
{
    struct clock c = clock_begin("database");
    struct line *l;

    CHECK_EQ(putenv(c.preload_env) + putenv(c.file_env) + setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1) +
                 setenv("FAKETIME_NO_CACHE", "1", 1),
             0);
    l = line_begin("clock-database", NULL);
    CHECK_EQ(unsetenv("LD_PRELOAD"), 0);
    (void)LINE_RELAY(l, "--name", "one");
    (void)LINE_RELAY(l, "--name", "two");
    for (size_t i = 0; i < JUMPS; i++) {
        line_publishing(l);
        line_strike(l);
        clock_set(&c, jumps[i]);
        WAIT_UNTIL(
            llabs(e2e_number(&l->e, "SELECT extract(epoch FROM clock_timestamp())::bigint") - e2e_real_ms() / 1000 - jump_s(jumps[i])) < 60,
            10);
        line_hit(l, "the database's clock jumps by an hour", "it is %lld s ahead", jump_s(jumps[i]));
        line_publishing(l);
    }
    line_end(l, &(struct line_expected){.windows = LINE_D(4)});
}
