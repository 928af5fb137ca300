/* SPDX-License-Identifier: BSD-2-Clause */
/* outbox_migrate and outbox_check. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/edge/outbox_box.h"

struct findings {
    unsigned n, bad_n;
    char text[100000];
};

static void on_finding(void *data, bool bad, const char *sentence)
{
    struct findings *f = data;
    f->n++;
    f->bad_n += bad;
    CHECK(strlen(f->text) + strlen(sentence) + 2 < sizeof f->text);
    strcat(f->text, sentence);
    strcat(f->text, "\n");
}

static bool migrate(const char *conninfo, bool dry_run, struct findings *f, char *error)
{
    struct outbox_settings settings = box_settings(conninfo);

    memset(f, 0, sizeof *f);
    error[0] = 0;
    return outbox_migrate(&settings, dry_run, &(struct outbox_report){.finding = on_finding, .data = f}, error, 800);
}

static bool check(const char *conninfo, struct findings *f)
{
    struct outbox_settings settings = box_settings(conninfo);

    memset(f, 0, sizeof *f);
    return outbox_check(&settings, &(struct outbox_report){.finding = on_finding, .data = f});
}

static struct findings found;
static char why[800];

TEST_WITHIN(migrate_is_idempotent, 60)
{
    struct postgres p = postgres_start(NULL);

    CHECK(migrate(p.conninfo, false, &found, why));
    CHECK(strstr(found.text, "applied 001_") != NULL && strstr(found.text, "version 1.1") != NULL);
    const char *before = postgres_query(p.conninfo, "SELECT xmin, * FROM outbox.meta");
    CHECK(migrate(p.conninfo, false, &found, why));
    CHECK(strstr(found.text, "nothing to do") != NULL);
    CHECK_STR(postgres_query(p.conninfo, "SELECT xmin, * FROM outbox.meta"), before);
    /* A newer minor version is fine, another major one is not. */
    postgres_query(p.conninfo, "UPDATE outbox.meta SET minor = 9");
    CHECK(migrate(p.conninfo, false, &found, why));
    CHECK(strstr(found.text, "version 1.9: nothing to do") != NULL);
    postgres_query(p.conninfo, "UPDATE outbox.meta SET major = 3");
    CHECK(!migrate(p.conninfo, false, &found, why));
    CHECK(strstr(why, "version 3.9, this program knows 1.x only") != NULL);
    CHECK_EQ(found.n, 0);
}

/* What --dry-run prints is what it would do, and it does nothing. */
TEST_WITHIN(migrate_prints_what_it_would_do, 60)
{
    struct postgres p = postgres_start(NULL);
    char path[300];

    CHECK(migrate(p.conninfo, true, &found, why));
    CHECK_STR(postgres_query(p.conninfo, "SELECT to_regnamespace('outbox')"), "");
    CHECK_STR(postgres_query(p.conninfo, "SELECT rolname FROM pg_roles WHERE rolname LIKE 'outbox%%'"), "");
    snprintf(path, sizeof path, "%s/migration.sql", temp_folder());
    FILE *f = fopen(path, "w");
    fputs(found.text, f);
    fclose(f);
    process_run((const char *[]){"psql", "-Xq1", "-v", "ON_ERROR_STOP=1", "-f", path, p.conninfo, NULL}, NULL, (struct process_options){0},
                30);
    CHECK(migrate(p.conninfo, false, &found, why));
    CHECK(strstr(found.text, "version 1.1: nothing to do") != NULL);
    CHECK(check(p.conninfo, &found));
}

/* Many at once: one does it, the others find it done. */
TEST_WITHIN(migrate_waits_for_another, 60)
{
    struct postgres p = postgres_start(NULL);
    pid_t children[6];
    unsigned did = 0;

    for (unsigned i = 0; i < 6; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            bool good = migrate(p.conninfo, false, &found, why);
            _exit(!good ? 9 : strstr(found.text, "applied") != NULL ? 1 : 0);
        }
    }
    for (unsigned i = 0; i < 6; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status));
        CHECK(WEXITSTATUS(status) < 2);
        did += WEXITSTATUS(status) == 1;
    }
    CHECK_EQ(did, 1);
}

/* A migration that fails leaves nothing behind and says where. */
TEST_WITHIN(migrate_is_whole_or_not_at_all, 60)
{
    struct postgres p = postgres_start(NULL);

    postgres_query(
        p.conninfo,
        "CREATE SCHEMA outbox; CREATE FUNCTION outbox.publish(text, text, bytea, jsonb, uuid) RETURNS int LANGUAGE sql AS 'SELECT 1'");
    CHECK(!migrate(p.conninfo, false, &found, why));
    CHECK(strstr(why, "the migration 002_functions.sql failed, nothing was changed: ") != NULL);
    CHECK_STR(postgres_query(p.conninfo, "SELECT to_regclass('outbox.event')"), "");
    postgres_query(p.conninfo, "DROP FUNCTION outbox.publish");
    CHECK(migrate(p.conninfo, false, &found, why));
    /* Not by a role that may not. */
    postgres_query(p.conninfo, "CREATE ROLE nobody LOGIN");
    postgres_query(p.conninfo, "CREATE DATABASE other");
    char conninfo[400];
    snprintf(conninfo, sizeof conninfo, "host=%s port=%d user=nobody dbname=other", p.socket_folder, p.port);
    CHECK(!migrate(conninfo, false, &found, why));
    CHECK(strstr(why, "permission denied for database other; migrate as the owner") != NULL);
    CHECK(!migrate("host=/nowhere dbname=x", false, &found, why));
    CHECK(strstr(why, "cannot connect to the database") != NULL);
}

TEST_WITHIN(check_finds_what_a_start_would_refuse, 60)
{
    struct postgres p = postgres_start(NULL);
    struct box *b;

    CHECK(!check(p.conninfo, &found));
    CHECK(found.bad_n == 1 && strstr(found.text, "run `outbox-relay migrate`") != NULL);
    CHECK(migrate(p.conninfo, false, &found, why));
    CHECK(check(p.conninfo, &found));
    CHECK(found.bad_n == 0 && strstr(found.text, "the lease is free") != NULL);
    b = box_new(p.conninfo);
    box_connect(b);
    CHECK(box_take(b));
    CHECK(check(p.conninfo, &found));
    CHECK(strstr(found.text, "the lease is held by test (here:1)") != NULL);
    box_free(b);
    postgres_query(p.conninfo, "ALTER TABLE outbox.event ALTER id SET GENERATED BY DEFAULT");
    CHECK(check(p.conninfo, &found));
    CHECK(strstr(found.text, "GENERATED ALWAYS") != NULL);
    postgres_query(p.conninfo, "ALTER SEQUENCE outbox.event_id_seq CACHE 50");
    CHECK(!check(p.conninfo, &found));
    CHECK(strstr(found.text, "CACHE 1") != NULL);
    CHECK(!check("host=/nowhere dbname=x", &found));
    CHECK(found.bad_n == 1 && strstr(found.text, "cannot connect to the database") != NULL);
}
