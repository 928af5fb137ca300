/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_client/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>

#include "producer-demo/lib/uuid.h"

#define CHECKSUM_N 8 /* digits; a space follows */

/* An intent that was read: the texts point into its line. */
struct journal_entry {
    struct journal_intent intent;
    char *line;
};

struct journal {
    int fd;
    int64_t orders;
    struct journal_entry *entries; /* those without an end */
    struct journal_intent *left;   /* the same, as they are lent */
    size_t entries_n, entries_size;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    off_t end;
    uint64_t written, synced; /* lines since it was opened */
    bool syncing, broken;
};

static uint32_t checksum(const char *text, size_t n)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void entry_add(struct journal *journal, struct journal_entry entry)
{
    if (journal->entries_n == journal->entries_size) {
        journal->entries_size = journal->entries_size ? 2 * journal->entries_size : 64;
        journal->entries = realloc(journal->entries, journal->entries_size * sizeof entry);
        if (!journal->entries)
            abort();
    }
    journal->entries[journal->entries_n++] = entry;
}

/* Open ones are few at any time: as many as the client has threads, and those that it gave up. */
static void entry_end(struct journal *journal, const char *key)
{
    size_t i = journal->entries_n;

    while (i > 0 && strcmp(journal->entries[i - 1].intent.key, key) != 0)
        i--;
    if (i == 0)
        return; /* it ended twice: somebody finished it after a restart whose end was lost */
    free(journal->entries[i - 1].line);
    memmove(&journal->entries[i - 1], &journal->entries[i], (journal->entries_n - i) * sizeof *journal->entries);
    journal->entries_n--;
}

/* `text` is cut into words. false: it is no intent. */
static bool intent_read(char *text, struct journal_intent *ret_intent)
{
    struct journal_intent intent = {.body = NULL};
    char *rest = text, *key = strsep(&rest, " "), *match;
    struct uuid id;

    if (!uuid_read(key, &id))
        return false;
    uuid_print(id, intent.key);
    intent.method = strsep(&rest, " ");
    intent.path = strsep(&rest, " ");
    match = strsep(&rest, " ");
    if (!match || !rest)
        return false;
    intent.match = strcmp(match, "-") == 0 ? NULL : match;
    intent.body = *rest ? rest : NULL;
    *ret_intent = intent;
    return true;
}

/* A line without its newline, which it takes over. false: it is damaged. */
static bool line_take(struct journal *journal, char *line, size_t n)
{
    static const char intent_word[] = "intent ", end_word[] = "end ";
    struct journal_entry entry = {.line = line};
    char *fact = line + CHECKSUM_N + 1, *after, *key;
    bool fine = n > CHECKSUM_N && line[CHECKSUM_N] == ' ' && strlen(line) == n &&
                strtoul(line, &after, 16) == checksum(fact, n - CHECKSUM_N - 1) && after == line + CHECKSUM_N;

    if (fine && strncmp(fact, intent_word, sizeof intent_word - 1) == 0 && intent_read(fact + sizeof intent_word - 1, &entry.intent)) {
        journal->orders += strcmp(entry.intent.method, "POST") == 0 && strcmp(entry.intent.path, "/orders") == 0;
        entry_add(journal, entry);
        return true;
    }
    fine = fine && strncmp(fact, end_word, sizeof end_word - 1) == 0;
    if (fine && (key = strtok_r(fact + sizeof end_word - 1, " ", &after)))
        entry_end(journal, key);
    free(line);
    return fine;
}

/* Read all lines. Returns -1 if all of them are whole, or where the damaged one begins; then `ret_line` is its number, counted from 1, and the
 * file stands after it. */
static off_t lines_read(struct journal *journal, FILE *file, int64_t *ret_line)
{
    off_t began = 0;

    for (*ret_line = 1;; ++*ret_line) {
        char *line = NULL;
        size_t size = 0;
        ssize_t n = getline(&line, &size, file);

        if (n <= 0 || line[n - 1] != '\n') {
            free(line);
            return n <= 0 ? -1 : began;
        }
        line[n - 1] = 0;
        if (!line_take(journal, line, (size_t)n - 1))
            return began;
        began += n;
        journal->end = began;
    }
}

/* Read it, and cut off what the last write left unfinished. */
static bool journal_read(struct journal *journal, const char *path, char *ret_reason, size_t reason_size)
{
    int copy = dup(journal->fd);
    FILE *file = copy >= 0 ? fdopen(copy, "re") : NULL;
    int64_t line;
    off_t damaged;
    bool fine = true;

    if (!file)
        abort();
    damaged = lines_read(journal, file, &line);
    if (damaged >= 0 && getc(file) != EOF) {
        (void)snprintf(ret_reason, reason_size,
                       "line %" PRId64 " of %s is damaged: what it says may have been sent, so look into it by hand", line, path);
        fine = false;
    } else if (damaged >= 0 && ftruncate(journal->fd, damaged) != 0) {
        (void)snprintf(ret_reason, reason_size, "%s cannot be shortened: %s", path, strerror(errno));
        fine = false;
    } else if (damaged >= 0)
        (void)fprintf(stderr, "order-client: the last line of %s was torn, and is cut off\n", path);
    (void)fclose(file);
    return fine;
}

/* --- open and close ----------------------------------------------------------------------------------------------- */

/* A file that was just made is lost with its folder's entry. */
static bool folder_sync(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool synced = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        (void)close(fd);
    free(copy);
    return synced;
}

static bool file_open(struct journal *journal, const char *path, char *ret_reason, size_t reason_size)
{
    journal->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->fd < 0 || !folder_sync(path)) {
        (void)snprintf(ret_reason, reason_size, "%s cannot be opened: %s", path, strerror(errno));
        return false;
    }
    if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0) {
        (void)snprintf(ret_reason, reason_size, "%s is in use by another order-client: each needs its own", path);
        return false;
    }
    return journal_read(journal, path, ret_reason, reason_size);
}

struct journal *journal_open(const char *path, char *ret_reason, size_t reason_size)
{
    struct journal *journal = calloc(1, sizeof *journal);

    if (!journal)
        abort();
    pthread_mutex_init(&journal->mutex, NULL);
    pthread_cond_init(&journal->changed, NULL);
    if (!file_open(journal, path, ret_reason, reason_size)) {
        journal_close(journal);
        return NULL;
    }
    journal->left = calloc(journal->entries_n + 1, sizeof *journal->left);
    if (!journal->left)
        abort();
    for (size_t i = 0; i < journal->entries_n; i++)
        journal->left[i] = journal->entries[i].intent;
    return journal;
}

void journal_close(struct journal *journal)
{
    for (size_t i = 0; i < journal->entries_n; i++)
        free(journal->entries[i].line);
    free(journal->entries);
    free(journal->left);
    if (journal->fd >= 0)
        (void)close(journal->fd); /* and with it the lock */
    pthread_cond_destroy(&journal->changed);
    pthread_mutex_destroy(&journal->mutex);
    free(journal);
}

const struct journal_intent *journal_left(const struct journal *journal, size_t *ret_n)
{
    *ret_n = journal->entries_n;
    return journal->left;
}

int64_t journal_orders(const struct journal *journal)
{
    return journal->orders;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Append a line; the mutex is held. A part of a line that was written is taken back, so that no later one follows it. */
static bool line_append(struct journal *journal, const char *fact, int fact_n)
{
    char *line = NULL;
    int n = asprintf(&line, "%08" PRIx32 " %s\n", checksum(fact, (size_t)fact_n), fact);
    ssize_t written;

    if (n < 0)
        abort();
    written = journal->broken ? -1 : pwrite(journal->fd, line, (size_t)n, journal->end);
    free(line);
    if (written == n) {
        journal->end += n;
        journal->written++;
        return true;
    }
    if (!journal->broken)
        (void)fprintf(stderr, "order-client: the journal cannot be written: %s\n", written < 0 ? strerror(errno) : "no space is left");
    if (ftruncate(journal->fd, journal->end) != 0)
        journal->broken = true;
    return false;
}

/* Wait until `line` lines are on the disk; the mutex is held. One thread syncs for all that wait. After an fsync that failed nobody can know what
 * is on the disk, and trying once more would not tell: nothing more is promised. */
static bool lines_sync(struct journal *journal, uint64_t line)
{
    while (journal->synced < line && !journal->broken) {
        uint64_t target = journal->written;
        bool synced;

        if (journal->syncing) {
            pthread_cond_wait(&journal->changed, &journal->mutex);
            continue;
        }
        journal->syncing = true;
        pthread_mutex_unlock(&journal->mutex);
        synced = fdatasync(journal->fd) == 0;
        if (!synced)
            (void)fprintf(stderr, "order-client: the journal cannot be synced: %s\n", strerror(errno));
        pthread_mutex_lock(&journal->mutex);
        journal->syncing = false;
        journal->broken = journal->broken || !synced;
        if (synced)
            journal->synced = target;
        pthread_cond_broadcast(&journal->changed);
    }
    return journal->synced >= line;
}

bool journal_begin(struct journal *journal, const struct journal_intent *intent)
{
    const char *match = intent->match ? intent->match : "-", *body = intent->body ? intent->body : "";
    char *fact = NULL;
    int n;
    bool begun;

    assert(!strpbrk(intent->method, " \n") && !strpbrk(intent->path, " \n") && !strpbrk(match, " \n") && !strchr(body, '\n'));
    n = asprintf(&fact, "intent %s %s %s %s %s", intent->key, intent->method, intent->path, match, body);
    if (n < 0)
        abort();
    pthread_mutex_lock(&journal->mutex);
    begun = line_append(journal, fact, n) && lines_sync(journal, journal->written);
    pthread_mutex_unlock(&journal->mutex);
    free(fact);
    return begun;
}

void journal_end(struct journal *journal, const char *key, int status)
{
    char fact[80];
    int n = snprintf(fact, sizeof fact, "end %s %d", key, status);

    pthread_mutex_lock(&journal->mutex);
    (void)line_append(journal, fact, n);
    pthread_mutex_unlock(&journal->mutex);
}
