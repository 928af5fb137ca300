/* SPDX-License-Identifier: BSD-2-Clause */
/* What a failed crash test leaves behind. Nothing here may fail the test once more. */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/crash/evidence.h"
#include "tests/lib/oracle_read.h"
#include "tests/lib/services.h"

static const struct evidence_scene *kept;
static pid_t test_pid; /* its children exit, too */

static void copy(const char *from, const char *folder)
{
    char path[600], bytes[65536];
    const char *name = strrchr(from, '/');
    size_t n;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name != NULL ? name + 1 : from);
    FILE *in = fopen(from, "re"), *out = fopen(path, "we");

    while (in != NULL && out != NULL && (n = fread(bytes, 1, sizeof bytes, in)) > 0)
        (void)fwrite(bytes, 1, n, out);
    if (in != NULL)
        (void)fclose(in);
    if (out != NULL)
        (void)fclose(out);
}

static void copy_logs(const char *folder)
{
    static const char *const patterns[] = {"*.log", "output"};

    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        char pattern[300];
        glob_t found;

        (void)snprintf(pattern, sizeof pattern, "%s/%s", temp_folder(), patterns[p]);
        if (glob(pattern, 0, NULL, &found) != 0)
            continue;
        for (size_t i = 0; i < found.gl_pathc; i++)
            copy(found.gl_pathv[i], folder);
        globfree(&found);
    }
}

/* A server that does not answer is not waited for. */
static void copy_table(const char *database, const char *folder, const char *name, const char *query)
{
    char command[1500];

    (void)snprintf(command, sizeof command,
                   "PGCONNECT_TIMEOUT=5 timeout 60 psql -qX '%s' -c \"\\copy (%s) TO '%s/%s' WITH (FORMAT csv, HEADER)\" >/dev/null 2>&1",
                   database, query, folder, name);
    if (system(command) != 0)
        (void)printf("    %s could not be kept\n", name);
}

static void copy_topics(const struct evidence_scene *scene, const char *folder)
{
    struct oracle_reading reading;
    char path[600], error[400];
    FILE *f;

    (void)snprintf(path, sizeof path, "%s/topics.csv", folder);
    oracle_reading_init(&reading, scene->topics);
    if (!oracle_read_topics(&reading, scene->kafka, error, sizeof error))
        (void)printf("    topics.csv could not be kept: %s\n", error);
    f = fopen(path, "we");
    if (f == NULL)
        return;
    (void)fprintf(f, "topic,partition,offset,timestamp_ms,event_id,payload_hash\n");
    for (size_t i = 0; i < reading.records_n; i++) {
        const struct oracle_record *r = &reading.record[i];

        (void)fprintf(f, "%s,%d,%" PRId64 ",%" PRId64 ",", reading.topic[r->topic], r->partition, r->offset, r->timestamp_ms);
        for (int b = 0; b < 16; b++)
            (void)fprintf(f, "%02x", r->event_id[b]);
        (void)fprintf(f, ",%" PRId64 "\n", r->payload_hash);
    }
    (void)fclose(f);
    oracle_reading_reset(&reading);
}

static void on_end(int status, void *data)
{
    const char *root = getenv("TEST_EVIDENCE_FOLDER");
    char folder[400];

    (void)data;
    if (status == 0 || root == NULL || getpid() != test_pid)
        return;
    (void)snprintf(folder, sizeof folder, "%.300s/%s", root, kept->name);
    (void)mkdir(root, 0755);
    (void)mkdir(folder, 0755);
    (void)printf("    what it left behind is in %s; again: %s\n", folder, kept->repeat);
    copy_table(kept->database, folder, "history.csv", "SELECT * FROM demo.history ORDER BY topic, key, version");
    copy_table(kept->database, folder, "event.csv",
               "SELECT id, event_id, topic, key, partition, created_at, sent_at FROM outbox.event ORDER BY id");
    copy_table(kept->database, folder, "state.csv",
               "SELECT p.*, l.holder, l.epoch, b.* FROM outbox.position p, outbox.lease l, outbox.beat b");
    copy_topics(kept, folder);
    (void)fflush(stdout);
    copy_logs(folder);
}

void evidence_keep(const struct evidence_scene *scene)
{
    bool first = kept == NULL;

    kept = scene;
    test_pid = getpid();
    if (first)
        (void)on_exit(on_end, NULL);
}
