/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/folder.h"

#include <errno.h>
#include <ftw.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define OUTPUT_SHOWN (64 * 1024)
#define LOG_SHOWN    (4 * 1024)

/* Where this program, and the test that runs, keep their files. */
static char base[100], shared[110], current[120], output[130];
static unsigned entered_n;

void folder_create(void)
{
    const char *tmp = getenv("TMPDIR");
    if (tmp == NULL || strlen(tmp) > 40)
        tmp = "/tmp";
    snprintf(base, sizeof base, "%s/relay-test-XXXXXX", tmp);
    if (mkdtemp(base) == NULL) {
        fprintf(stderr, "There is no temp folder %s: %s\n", base, strerror(errno));
        exit(1);
    }
    chmod(base, 0755); /* the user of PostgreSQL passes through */
    snprintf(shared, sizeof shared, "%s/shared", base);
    mkdir(shared, 0755);
    snprintf(current, sizeof current, "%s", shared);
}

void folder_enter(const char *test)
{
    snprintf(current, sizeof current, "%s/%u", base, ++entered_n);
    mkdir(current, 0755);
    snprintf(output, sizeof output, "%s/output", current);
    if (getenv("TEST_KEEP") != NULL)
        printf("%s: %s\n", test, current);
}

void folder_leave(void)
{
    if (getenv("TEST_KEEP") == NULL)
        folder_remove(current);
    snprintf(current, sizeof current, "%s", shared);
}

void folder_remove_all(void)
{
    if (getenv("TEST_KEEP") == NULL)
        folder_remove(base);
}

const char *folder_shared(void)
{
    return shared;
}

const char *folder_output(void)
{
    return output;
}

const char *temp_folder(void)
{
    return current;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    remove(path);
    return 0;
}

void folder_remove(const char *path)
{
    postgres_forget(path);
    nftw(path, entry_remove, 32, FTW_DEPTH | FTW_PHYS);
}

/* The last `n` bytes of the file. */
static void file_show(const char *path, long n, FILE *to)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    fseek(f, size > n ? size - n : 0, SEEK_SET);
    int last = '\n';
    for (int c; (c = fgetc(f)) != EOF; last = c) {
        if (last == '\n')
            fputs("    ", to);
        fputc(c, to);
    }
    if (last != '\n')
        fputc('\n', to);
    fclose(f);
}

void folder_show_output(FILE *to)
{
    file_show(output, OUTPUT_SHOWN, to);
}

void folder_show_logs(FILE *to)
{
    char pattern[160];
    snprintf(pattern, sizeof pattern, "%s/*.log", current);
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        fprintf(to, "  the end of %s:\n", found.gl_pathv[i]);
        file_show(found.gl_pathv[i], LOG_SHOWN, to);
    }
    globfree(&found);
}
