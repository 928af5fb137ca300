/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/services.h"

#include <errno.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

static const struct process_options as_postgres = {.user = "postgres"};

static FILE *file_create(const struct pgbouncer *b, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", b->folder, name);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        test_fail(__FILE__, __LINE__, "%s: %s", path, strerror(errno));
    return f;
}

/* Users that are not in the file are asked for at the server. Standard settings make clients wait for seconds after a server was gone; a
 * test has no time for that. */
static void files_write(const struct pgbouncer *b, const struct postgres *p)
{
    FILE *f = file_create(b, "pgbouncer.ini");
    fprintf(f,
            "[databases]\n* = host=%s port=%d\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\nlisten_port = %d\nauth_type = trust\n"
            "auth_file = %s/users\nauth_user = postgres\nadmin_users = postgres\npool_mode = transaction\nserver_login_retry = 0.2\n"
            "max_client_conn = 200\ndefault_pool_size = 20\nlog_connections = 0\nlog_disconnections = 0\nstats_period = 3600\n%s\n",
            p->socket_folder, p->port, b->folder, b->port, b->folder, b->settings != NULL ? b->settings : "");
    fclose(f);
    f = file_create(b, "users");
    fputs("\"postgres\" \"\"\n", f);
    fclose(f);
}

static void server_start(struct pgbouncer *b)
{
    char config[300], log[250], socket[300];
    snprintf(config, sizeof config, "%s/pgbouncer.ini", b->folder);
    snprintf(log, sizeof log, "%s.log", b->folder);
    snprintf(socket, sizeof socket, "%s/.s.PGSQL.%d", b->folder, b->port);
    unlink(socket); /* of one that was killed */
    /* Debian keeps daemons out of the PATH of users. */
    const char *program = access("/usr/sbin/pgbouncer", X_OK) == 0 ? "/usr/sbin/pgbouncer" : "pgbouncer";
    b->server = process_start_with((const char *[]){program, config, NULL}, NULL, log, as_postgres);
    bool up = false;
    WAIT_UNTIL((up = PQping(b->console) == PQPING_OK) || !process_running(&b->server), 20);
    if (!up)
        test_fail(__FILE__, __LINE__, "PgBouncer does not start:\n%s", process_output(&b->server));
}

struct pgbouncer pgbouncer_start(const struct postgres *p, const char *settings)
{
    static unsigned started_n;
    struct pgbouncer b = {.port = free_port(), .settings = settings};
    snprintf(b.folder, sizeof b.folder, "%s/bouncer%u", temp_folder(), ++started_n);
    snprintf(b.conninfo, sizeof b.conninfo, "host=%s port=%d user=postgres dbname=postgres", b.folder, b.port);
    snprintf(b.console, sizeof b.console, "host=%s port=%d user=postgres dbname=pgbouncer", b.folder, b.port);
    const struct passwd *user = getuid() == 0 ? getpwnam(as_postgres.user) : NULL;
    if (mkdir(b.folder, 0755) != 0 || (user != NULL && chown(b.folder, user->pw_uid, user->pw_gid) != 0))
        test_fail(__FILE__, __LINE__, "%s: %s", b.folder, strerror(errno));
    files_write(&b, p);
    server_start(&b);
    return b;
}

void pgbouncer_kill(struct pgbouncer *b)
{
    if (!process_running(&b->server))
        return;
    process_signal(&b->server, SIGKILL);
    process_wait(&b->server, 10);
}

void pgbouncer_restart(struct pgbouncer *b)
{
    if (process_running(&b->server))
        test_fail(__FILE__, __LINE__, "PgBouncer is still running");
    server_start(b);
}

void pgbouncer_stop(struct pgbouncer *b)
{
    if (!process_running(&b->server))
        return;
    process_signal(&b->server, SIGTERM);
    process_wait(&b->server, 10);
}

void pgbouncer_pause(struct pgbouncer *b)
{
    postgres_query(b->console, "PAUSE");
}

void pgbouncer_resume(struct pgbouncer *b, const struct postgres *p)
{
    files_write(b, p);
    postgres_query(b->console, "RELOAD");
    postgres_query(b->console, "RESUME");
}
