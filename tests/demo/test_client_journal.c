/* SPDX-License-Identifier: BSD-2-Clause */
/* The client's journal: what was written before a send is there after anything. */
#include "producer-demo/lib/uuid.h"
#include "producer-demo/order_client/journal.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY_A "019b76da-a87b-79cc-b03a-c037fb14d6c1"
#define KEY_B "019b76da-a87b-79cc-b03a-c037fb14d6c2"
#define KEY_C "019b76da-a87b-79cc-b03a-c037fb14d6c3"

static const struct journal_intent intent_a = {
    .key = KEY_A, .method = "POST", .path = "/orders", .body = "{\"address\":\"1 Main Street\"}"};
static const struct journal_intent intent_b = {
    .key = KEY_B, .method = "PUT", .path = "/orders/x/address", .match = "\"3\"", .body = "{\"address\":\"x\"}"};
static const struct journal_intent intent_c = {.key = KEY_C, .method = "DELETE", .path = "/orders/x"};

static const char *journal_path(void)
{
    static char path[200];

    (void)snprintf(path, sizeof path, "%s/journal", temp_folder());
    return path;
}

static struct journal *open_fine(void)
{
    char reason[300] = "";
    struct journal *journal = journal_open(journal_path(), reason, sizeof reason);

    if (!journal)
        test_fail(__FILE__, __LINE__, "%s", reason);
    return journal;
}

static const char *open_refused(void)
{
    static char reason[300];

    CHECK(!journal_open(journal_path(), reason, sizeof reason));
    return reason;
}

static size_t left_n(const struct journal *journal)
{
    size_t n;

    (void)journal_left(journal, &n);
    return n;
}

/* The whole file. */
static char *content(size_t *ret_n)
{
    struct stat about;
    int fd = open(journal_path(), O_RDONLY | O_CLOEXEC);
    char *bytes;

    CHECK(fd >= 0 && fstat(fd, &about) == 0);
    *ret_n = (size_t)about.st_size;
    bytes = test_allocate(*ret_n + 1);
    CHECK(read(fd, bytes, *ret_n) == (ssize_t)*ret_n);
    CHECK(close(fd) == 0);
    return bytes;
}

static void content_set(const char *bytes, size_t n)
{
    int fd = open(journal_path(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0);
}

TEST(demo_client_journal_keeps_what_has_no_end)
{
    struct journal *journal = open_fine();
    const struct journal_intent *left;
    size_t n;

    CHECK_EQ(left_n(journal), 0);
    CHECK(journal_begin(journal, &intent_a) && journal_begin(journal, &intent_b) && journal_begin(journal, &intent_c));
    journal_end(journal, KEY_A, 201);
    journal_close(journal);
    journal = open_fine();
    left = journal_left(journal, &n);
    CHECK_EQ(n, 2);
    CHECK_STR(left[0].key, KEY_B);
    CHECK_STR(left[0].method, "PUT");
    CHECK_STR(left[0].path, "/orders/x/address");
    CHECK_STR(left[0].match, "\"3\"");
    CHECK_STR(left[0].body, "{\"address\":\"x\"}");
    CHECK_STR(left[1].key, KEY_C);
    CHECK(!left[1].match && !left[1].body);
    CHECK_EQ(journal_orders(journal), 1);
    journal_end(journal, KEY_B, 0);
    journal_end(journal, KEY_C, 200);
    journal_end(journal, KEY_C, 200);
    journal_close(journal);
    journal = open_fine();
    CHECK_EQ(left_n(journal), 0);
    journal_close(journal);
}

TEST(demo_client_journal_body_may_have_spaces)
{
    struct journal *journal = open_fine();

    CHECK(journal_begin(journal, &intent_a));
    journal_close(journal);
    journal = open_fine();
    CHECK_STR(journal_left(journal, &(size_t){0})->body, intent_a.body);
    journal_close(journal);
}

TEST(demo_client_journal_is_of_one_client)
{
    struct journal *journal = open_fine();

    CHECK(strstr(open_refused(), "in use"));
    journal_close(journal);
    journal_close(open_fine());
}

/* A journal whose last line, `last`, lacks its last bytes: what came before is left, and more can be written. */
static void torn_check(const char *bytes, size_t n, size_t cut)
{
    struct journal *journal;
    size_t after;

    content_set(bytes, n - cut);
    journal = open_fine();
    CHECK_EQ(left_n(journal), 1);
    CHECK_STR(journal_left(journal, &after)->key, KEY_A);
    CHECK(journal_begin(journal, &intent_c));
    journal_close(journal);
    journal = open_fine();
    CHECK_EQ(left_n(journal), 2);
    journal_close(journal);
}

TEST(demo_client_journal_torn_last_line_is_cut_off)
{
    struct journal *journal = open_fine();
    size_t first_n, n;
    const char *bytes;

    CHECK(journal_begin(journal, &intent_a));
    (void)content(&first_n);
    CHECK(journal_begin(journal, &intent_b));
    journal_close(journal);
    bytes = content(&n);
    for (size_t cut = 1; cut <= n - first_n; cut++)
        torn_check(bytes, n, cut);
}

/* The disk has room for the line, but its bytes did not get there. */
TEST(demo_client_journal_last_line_with_a_wrong_byte_is_cut_off)
{
    struct journal *journal = open_fine();
    size_t first_n, n;
    char *bytes;

    CHECK(journal_begin(journal, &intent_a));
    (void)content(&first_n);
    CHECK(journal_begin(journal, &intent_b));
    journal_close(journal);
    bytes = content(&n);
    for (size_t i = first_n; i < n; i++) {
        char was = bytes[i];

        bytes[i] = i % 2 ? 0 : (char)(was ^ 1);
        torn_check(bytes, n, 0);
        bytes[i] = was;
    }
}

TEST(demo_client_journal_damaged_before_its_end_is_refused)
{
    struct journal *journal = open_fine();
    size_t n;
    char *bytes;

    CHECK(journal_begin(journal, &intent_a) && journal_begin(journal, &intent_b));
    journal_close(journal);
    bytes = content(&n);
    bytes[20] ^= 1;
    content_set(bytes, n);
    CHECK(strstr(open_refused(), "line 1 "));
    CHECK_EQ((content(&n), n), strlen(bytes)); /* nothing was cut off */
}

/* A full disk takes a part of a line. The rest of the journal must not suffer from it. */
TEST(demo_client_journal_on_a_full_disk)
{
    struct journal *journal = open_fine();
    struct rlimit limit;
    size_t n;

    CHECK(journal_begin(journal, &intent_a));
    (void)content(&n);
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && getrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){n + 10, limit.rlim_max}) == 0);
    CHECK(!journal_begin(journal, &intent_b));
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(journal_begin(journal, &intent_c));
    journal_close(journal);
    journal = open_fine();
    CHECK_EQ(left_n(journal), 2);
    journal_close(journal);
}

/* --- many threads, and a kill ------------------------------------------------------------------------------------- */

#define WRITERS 8

struct writers {
    struct journal *journal;
    int promised; /* a pipe: keys of which journal_begin has returned */
};

static void *writer_run(void *context)
{
    struct writers *writers = context;

    for (;;) {
        struct journal_intent intent = intent_a;

        uuid_print(uuid_make(), intent.key);
        if (!journal_begin(writers->journal, &intent) || write(writers->promised, intent.key, 36) != 36)
            return NULL;
    }
}

_Noreturn static void writers_run(int promised)
{
    struct writers writers = {open_fine(), promised};
    pthread_t thread;

    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&thread, NULL, writer_run, &writers) == 0);
    for (;;)
        (void)pause();
}

static bool is_left(const struct journal_intent *left, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(left[i].key, key) == 0)
            return true;
    return false;
}

/* Kill it after so many promises, and read those too that it made until it died. */
#define PROMISES_MAX 20000
static size_t promises_read(int from, pid_t writer, char keys[PROMISES_MAX][37])
{
    size_t n = 0;

    while (n < PROMISES_MAX && read(from, keys[n], 36) == 36)
        if (++n == 200)
            CHECK(kill(writer, SIGKILL) == 0);
    CHECK(waitpid(writer, NULL, 0) == writer);
    return n;
}

TEST_WITHIN(demo_client_journal_has_what_it_promised_after_a_kill, 60)
{
    static char keys[PROMISES_MAX][37];
    int ends[2];
    struct journal *journal;
    const struct journal_intent *left;
    size_t n, promised;
    pid_t writer;

    CHECK(pipe(ends) == 0 && (writer = fork()) >= 0);
    if (writer == 0)
        writers_run(ends[1]);
    CHECK(close(ends[1]) == 0);
    promised = promises_read(ends[0], writer, keys);
    CHECK(promised >= 200);
    journal = open_fine();
    left = journal_left(journal, &n);
    for (size_t i = 0; i < promised; i++)
        CHECK(is_left(left, n, keys[i]));
    journal_close(journal);
}
