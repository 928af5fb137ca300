/* SPDX-License-Identifier: BSD-2-Clause */
/* Standbys, and disks that are full. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/postgres_place.h"
#include "tests/lib/test.h"

/* --- standbys ------------------------------------------------------------------------------------------------------- */

struct postgres postgres_standby(const struct postgres *primary, const char *name, const char *settings)
{
    struct postgres p = postgres_place();
    char program[200], follow[700], signal_file[250];
    FILE *f;

    postgres_program("pg_basebackup", program, sizeof program);
    process_run((const char *[]){program, "-d", primary->conninfo, "-D", p.folder, "-c", "fast", "-X", "stream", "--no-sync", NULL}, NULL,
                (struct process_options){.user = "postgres"}, 60);
    postgres_place_settings(&p);
    (void)snprintf(follow, sizeof follow,
                   "primary_conninfo = '%s application_name=%s'\nwal_retrieve_retry_interval = 100ms\nhot_standby = on", primary->conninfo,
                   name);
    postgres_settings(&p, follow);
    if (settings != NULL)
        postgres_settings(&p, settings);
    (void)snprintf(signal_file, sizeof signal_file, "%s/standby.signal", p.folder);
    f = fopen(signal_file, "we");
    if (f == NULL)
        test_fail(__FILE__, __LINE__, "%s: %s", signal_file, strerror(errno));
    (void)fclose(f);
    postgres_server_start(&p);
    WAIT_UNTIL(postgres_number(primary->conninfo,
                               "SELECT count(*) FROM pg_stat_replication WHERE application_name = '%s' AND state = 'streaming'", name) == 1,
               30);
    return p;
}

void postgres_promote(struct postgres *standby)
{
    (void)postgres_query(standby->conninfo, "SELECT pg_promote(false)");
    WAIT_UNTIL(postgres_number(standby->conninfo, "SELECT pg_is_in_recovery()::int") == 0, 30);
}

/* --- full disks ----------------------------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
    int f = open(path, O_WRONLY | O_CLOEXEC);

    if (f < 0 || write(f, text, strlen(text)) != (ssize_t)strlen(text))
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    (void)close(f);
}

/* From here on we and our children have mounts of our own. Whoever is not root becomes it for them. */
static void mounts_part(void)
{
    static bool parted;
    char map[64];
    unsigned user = getuid(), group = getgid();

    if (parted)
        return;
    if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0)
        test_fail(__FILE__, __LINE__, "a disk of its own needs the right to unshare mounts: %s", strerror(errno));
    if (user != 0) {
        (void)snprintf(map, sizeof map, "%u %u 1", user, user);
        write_text("/proc/self/uid_map", map);
        write_text("/proc/self/setgroups", "deny");
        (void)snprintf(map, sizeof map, "%u %u 1", group, group);
        write_text("/proc/self/gid_map", map);
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        test_fail(__FILE__, __LINE__, "mounts cannot be made private: %s", strerror(errno));
    parted = true;
}

void postgres_disk(struct postgres *p, const char *part, unsigned megabytes)
{
    char path[250], aside[300], options[64], inside[310];
    struct process_options as_postgres = {.user = "postgres"};
    struct stat was;

    postgres_stop(p);
    mounts_part();
    (void)snprintf(path, sizeof path, "%s/%s", p->folder, part);
    (void)snprintf(aside, sizeof aside, "%s.aside", path);
    if (stat(path, &was) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    (void)snprintf(options, sizeof options, "size=%um,mode=0700,uid=%u,gid=%u", megabytes, was.st_uid, was.st_gid);
    process_run((const char *[]){"cp", "-a", path, aside, NULL}, NULL, as_postgres, 60);
    if (mount("tmpfs", path, "tmpfs", 0, options) != 0)
        test_fail(__FILE__, __LINE__, "no disk of %u MB at %s: %s", megabytes, path, strerror(errno));
    (void)snprintf(inside, sizeof inside, "%s/.", aside);
    process_run((const char *[]){"cp", "-a", inside, path, NULL}, NULL, as_postgres, 60);
    process_run((const char *[]){"rm", "-rf", aside, NULL}, NULL, as_postgres, 60);
    postgres_restart(p);
}

static void filler_name(const struct postgres *p, const char *part, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%s/%s/filler", p->folder, part);
}

void postgres_disk_fill(const struct postgres *p, const char *part)
{
    static const char block[4096] = {0};
    char path[250];

    filler_name(p, part, path, sizeof path);
    int f = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (f < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    while (write(f, block, sizeof block) > 0)
        ;
    if (errno != ENOSPC)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    (void)close(f);
}

void postgres_disk_free(const struct postgres *p, const char *part)
{
    char path[250];

    filler_name(p, part, path, sizeof path);
    if (unlink(path) != 0)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
}
