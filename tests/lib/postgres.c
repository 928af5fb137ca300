/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"

#include <errno.h>
#include <glob.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/descendants.h"
#include "tests/lib/folder.h"
#include "tests/lib/postgres_place.h"
#include "tests/lib/test.h"

static const struct process_options as_postgres = {.user = "postgres"};

void postgres_program(const char *name, char *ret, size_t size)
{
    const char *folder = getenv("POSTGRES_BIN");
    glob_t found = {0};
    if (folder == NULL && glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) == 0)
        folder = found.gl_pathv[found.gl_pathc - 1];
    snprintf(ret, size, "%s%s%s", folder != NULL ? folder : "", folder != NULL ? "/" : "", name);
    globfree(&found);
}

void postgres_folder(const char *path)
{
    const struct passwd *user = getuid() == 0 ? getpwnam(as_postgres.user) : NULL;
    if (mkdir(path, 0755) != 0 || (user != NULL && chown(path, user->pw_uid, user->pw_gid) != 0))
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
}

/* initdb takes a second, a copy of its work a tenth: the first test that asks makes it. */
static void cluster_create(const char *data)
{
    char ours[200], made[250], initdb[200];
    snprintf(ours, sizeof ours, "%s/initdb", folder_shared());
    snprintf(made, sizeof made, "%s/done", ours);
    if (access(made, F_OK) != 0) {
        postgres_program("initdb", initdb, sizeof initdb);
        folder_remove(ours);
        postgres_folder(ours);
        char template[250];
        snprintf(template, sizeof template, "%s/data", ours);
        process_run((const char *[]){initdb, "-D", template, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
                                     "--no-instructions", NULL},
                    NULL, as_postgres, 60);
        if (mkdir(made, 0755) != 0)
            test_fail(__FILE__, __LINE__, "%s: %s", made, strerror(errno));
    }
    char from[250];
    snprintf(from, sizeof from, "%s/data", ours);
    process_run((const char *[]){"cp", "-a", from, data, NULL}, NULL, as_postgres, 60);
}

void postgres_settings(struct postgres *p, const char *settings)
{
    char path[250];
    snprintf(path, sizeof path, "%s/postgresql.conf", p->folder);
    FILE *f = fopen(path, "ae");
    if (f == NULL)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    fprintf(f, "%s\n", settings);
    fclose(f);
}

void postgres_server_start(struct postgres *p)
{
    char program[200], log[250];
    postgres_program("postgres", program, sizeof program);
    snprintf(log, sizeof log, "%s.log", p->socket_folder);
    p->server = process_start_with((const char *[]){program, "-D", p->folder, NULL}, NULL, log, as_postgres);
    bool up = false;
    WAIT_UNTIL((up = PQping(p->conninfo) == PQPING_OK) || !process_running(&p->server), 60);
    if (!up)
        test_fail(__FILE__, __LINE__, "PostgreSQL does not start:\n%s", process_output(&p->server));
}

struct postgres postgres_place(void)
{
    static unsigned places_n;
    struct postgres p = {.port = free_port()};
    snprintf(p.socket_folder, sizeof p.socket_folder, "%s/pg%u", temp_folder(), ++places_n);
    snprintf(p.folder, sizeof p.folder, "%.180s/data", p.socket_folder);
    snprintf(p.conninfo, sizeof p.conninfo, "host=%s port=%d user=postgres dbname=postgres", p.socket_folder, p.port);
    postgres_folder(p.socket_folder);
    return p;
}

void postgres_place_settings(struct postgres *p)
{
    char text[400];
    snprintf(text, sizeof text, "port = %d\nunix_socket_directories = '%s'", p->port, p->socket_folder);
    postgres_settings(p, text);
}

struct postgres postgres_start(const char *settings)
{
    struct postgres p = postgres_place();
    cluster_create(p.folder);
    postgres_place_settings(&p);
    postgres_settings(&p, "listen_addresses = ''\nfsync = on\nshared_buffers = 64MB\ndynamic_shared_memory_type = mmap\n"
                          "log_line_prefix = '%m [%p] '");
    if (settings != NULL)
        postgres_settings(&p, settings);
    postgres_server_start(&p);
    return p;
}

static bool gone(const struct descendants *d)
{
    for (unsigned i = 0; i < d->n; i++)
        if (descendants_alive(d->pids[i]))
            return false;
    return true;
}

void postgres_kill(struct postgres *p)
{
    if (!process_running(&p->server))
        return;
    /* Stopped first, so that it starts nobody while its children are killed. */
    process_signal(&p->server, SIGSTOP);
    struct descendants children;
    descendants_of(p->server.pid, &children);
    process_signal(&p->server, SIGKILL);
    for (unsigned i = 0; i < children.n; i++)
        kill(children.pids[i], SIGKILL);
    process_wait(&p->server, 10);
    WAIT_UNTIL(gone(&children), 10);
}

void postgres_restart(struct postgres *p)
{
    if (process_running(&p->server))
        test_fail(__FILE__, __LINE__, "PostgreSQL is still running");
    postgres_server_start(p);
}

void postgres_stop_by(struct postgres *p, int signal_number)
{
    process_signal(&p->server, signal_number);
}

void postgres_stop(struct postgres *p)
{
    if (!process_running(&p->server))
        return;
    postgres_stop_by(p, SIGINT);
    process_wait(&p->server, 30);
}

void postgres_reload(struct postgres *p)
{
    process_signal(&p->server, SIGHUP);
}

void postgres_migrate(const struct postgres *p)
{
    const char *program = getenv("TEST_RELAY_BINARY");
    process_run((const char *[]){program != NULL ? program : TEST_BUILD_FOLDER "/outbox-relay", "migrate", "--database", p->conninfo, NULL},
                NULL, (struct process_options){0}, 60);
}

/* The seventh line of postmaster.pid names the segment by which a server knows another one on its folder; kill -9 leaves it. */
static void segment_remove(const char *path)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return;
    char line[1024];
    unsigned long key;
    int id;
    for (int i = 0; i < 7 && fgets(line, sizeof line, f) != NULL; i++)
        if (i == 6 && sscanf(line, "%lu %d", &key, &id) == 2)
            shmctl(id, IPC_RMID, NULL);
    fclose(f);
}

static void segments_remove(const char *folder, const char *below)
{
    char pattern[400];
    snprintf(pattern, sizeof pattern, "%s%s", folder, below);
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        segment_remove(found.gl_pathv[i]);
    globfree(&found);
}

void postgres_forget(const char *folder)
{
    segments_remove(folder, "/*/data/postmaster.pid");
    segments_remove(folder, "/*/*/data/postmaster.pid");
}
