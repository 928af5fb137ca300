/* SPDX-License-Identifier: BSD-2-Clause */
/* The log: its lines, and that no reader of them can hold up or kill the writer. */
#include "relay/app/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/services.h"
#include "tests/lib/test.h"

/* Everything that can be read from `fd` now; lent until the next call. */
static char *read_now(int fd)
{
    static char text[1 << 20];
    size_t n = 0;
    ssize_t got;

    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    while ((got = read(fd, text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    return text;
}

static unsigned lines_in(const char *text)
{
    unsigned n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

/* The last line that a log writes, behind its time. */
static const char *line_of(const char *event, const struct log_field *fields)
{
    int ends[2];
    struct log *l;
    char *line;

    CHECK(pipe(ends) == 0);
    l = log_new(ends[1], LOG_LEVEL_INFO, "default");
    log_write(l, LOG_LEVEL_INFO, event, fields);
    log_free(l);
    line = read_now(ends[0]);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    CHECK(strlen(line) > 29 && strncmp(line, "ts=20", 5) == 0 && strncmp(line + 26, "Z ", 2) == 0);
    return line + 28;
}

TEST(log_line)
{
    static const struct log_field fields[] = {{.name = "outage_ms", .number = 12031},
                                              {.name = "least", .number = INT64_MIN},
                                              {.name = "bare", .text = "a/b:1@c,d"},
                                              {.name = "empty", .text = ""},
                                              {.name = "quoted", .text = "a \"b\" c\\d=e"},
                                              {.name = "equals", .text = "a=b"},
                                              {.name = NULL}};

    CHECK_STR(line_of("database back", fields),
              "level=info event=\"database back\" name=default outage_ms=12031 least=-9223372036854775808 "
              "bare=a/b:1@c,d empty=\"\" quoted=\"a \\\"b\\\" c\\\\d=e\" equals=\"a=b\"\n");
}

TEST(log_escapes_what_a_terminal_or_a_parser_would_take)
{
    static const struct log_field fields[] = {{.name = "control", .text = "a\nb\tc\x1b[31m\x7f\r"},
                                              {.name = "good", .text = "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
                                              {.name = "latin1", .text = "gr\xfc\xdf"},
                                              {.name = "upper", .text = "\xc2\x9b"},
                                              {.name = "long", .text = "\xc0\xaf\xe0\x80\xaf\xed\xa0\x80"},
                                              {.name = "short", .text = "\xe2\x82"},
                                              {.name = NULL}};

    CHECK_STR(line_of("x", fields),
              "level=info event=x name=default control=\"a\\nb\\tc\\x1b[31m\\x7f\\x0d\" "
              "good=\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\" latin1=\"gr\\xfc\\xdf\" upper=\"\\xc2\\x9b\" "
              "long=\"\\xc0\\xaf\\xe0\\x80\\xaf\\xed\\xa0\\x80\" short=\"\\xe2\\x82\"\n");
}

TEST(log_cuts_a_long_line)
{
    static char text[10000];
    struct log_field fields[] = {{.name = "text", .text = text}, {.name = "after", .number = 1}, {.name = NULL}};
    const char *line;

    /* Bare and quoted, and at each length around the limit. */
    for (size_t n = 3990; n < 4100; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        text[0] = n % 2 == 0 ? ' ' : 'x';
        line = line_of("x", fields);
        CHECK(strlen(line) + 28 <= 4096);
        CHECK(line[strlen(line) - 1] == '\n' && strchr(line, '\n') == line + strlen(line) - 1);
        if (strstr(line, " after=1\n") == NULL)
            CHECK(strstr(line, " cut=true\n") != NULL);
    }
    memset(text, ' ', sizeof text - 1);
    CHECK(strstr(line_of("x", fields), "\" cut=true\n") != NULL);
}

TEST(log_level)
{
    int ends[2];
    struct log *l;
    const char *text;

    CHECK(pipe(ends) == 0);
    l = log_new(ends[1], LOG_LEVEL_WARNING, "default");
    LOG(l, LOG_LEVEL_DEBUG, "a", LOG_NUMBER("n", 1));
    LOG(l, LOG_LEVEL_INFO, "b", LOG_NUMBER("n", 1));
    LOG(l, LOG_LEVEL_WARNING, "c", LOG_NUMBER("n", 1));
    LOG(l, LOG_LEVEL_ERROR, "d", LOG_TEXT("t", NULL));
    log_free(l);
    text = read_now(ends[0]);
    CHECK(strstr(text, " level=warning event=c name=default n=1\n") == text + 27);
    CHECK(strstr(text, " level=error event=d name=default t=\"\"\n") != NULL);
    CHECK_EQ(lines_in(text), 2);
}

/* --- readers ------------------------------------------------------------------------------------------------------ */

/* Write until lines are dropped, read everything, write again: what was dropped must be told, first. */
static void fill_and_drain(struct log *l, int reader)
{
    const char *text;
    unsigned lines, first;
    uint64_t dropped;
    char wanted[100];

    for (lines = 0; log_lines_dropped(l) < 10; lines++) {
        CHECK(lines < 100000);
        LOG(l, LOG_LEVEL_INFO, "fill", LOG_TEXT("text", "0123456789012345678901234567890123456789012345678901234567890123456789"));
    }
    text = read_now(reader);
    first = lines_in(text);
    CHECK(first <= lines - 10);
    dropped = log_lines_dropped(l);
    LOG(l, LOG_LEVEL_INFO, "again", LOG_NUMBER("n", 1));
    CHECK_EQ(log_lines_dropped(l), (int64_t)dropped);
    text = read_now(reader);
    /* The rest of a line that was taken in part may come before. */
    text = strstr(text, "level=warning");
    CHECK(text != NULL);
    snprintf(wanted, sizeof wanted, "level=warning event=\"log lines dropped\" name=default lines=%u\nts=", (unsigned)dropped);
    CHECK(strncmp(text, wanted, strlen(wanted)) == 0);
    CHECK(strstr(text, " event=again ") != NULL);
    CHECK_EQ(lines_in(text), 2);
    LOG(l, LOG_LEVEL_INFO, "last", LOG_NUMBER("n", 1));
    CHECK_EQ(lines_in(read_now(reader)), 1);
}

TEST(log_full_pipe)
{
    int ends[2];
    struct log *l;

    CHECK(pipe(ends) == 0);
    l = log_new(ends[1], LOG_LEVEL_INFO, "default");
    fill_and_drain(l, ends[0]);
    /* Whoever shares the open file does not see it become non-blocking. */
    CHECK_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    log_free(l);
    CHECK(fcntl(ends[1], F_GETFL) >= 0);
}

/* No descriptor is left, so the pipe cannot be opened once more; as where /proc is missing or the pipe is another user's. */
static struct log *log_polled(int fd)
{
    struct rlimit old, none;
    struct log *l;
    int next = dup(fd);

    CHECK(next >= 0 && close(next) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    none = old;
    none.rlim_cur = (rlim_t)next;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    l = log_new(fd, LOG_LEVEL_INFO, "default");
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    return l;
}

TEST(log_full_pipe_that_cannot_be_opened_again)
{
    int ends[2];
    struct log *l;

    CHECK(pipe(ends) == 0);
    l = log_polled(ends[1]);
    fill_and_drain(l, ends[0]);
    CHECK_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    log_free(l);
}

TEST(log_full_socket)
{
    int ends[2];
    struct log *l;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    l = log_new(ends[1], LOG_LEVEL_INFO, "default");
    fill_and_drain(l, ends[0]);
    CHECK_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    log_free(l);
}

/* Is all of `text` lines of the filling below, whole ones, or of what was dropped? */
static void check_whole_lines(char *text)
{
    char *line, *next;
    unsigned told = 0;

    for (line = text; *line != '\0'; line = next) {
        next = strstr(line, "\r\n");
        CHECK(next != NULL);
        *next = '\0';
        next += 2;
        CHECK(strncmp(line, "ts=", 3) == 0 && strstr(line + 3, "ts=") == NULL);
        told += strstr(line, " event=\"log lines dropped\" name=default lines=") != NULL;
        CHECK(strstr(line, " level=warning ") != NULL || strcmp(line + strlen(line) - 6, " end=1") == 0);
    }
    CHECK(told > 0);
}

/* A terminal takes a line in part. Nothing of it may be lost or come twice. */
TEST(log_full_terminal)
{
    static char all[4 << 20], padding[3900];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), slave;
    struct log *l;
    ssize_t n;
    size_t all_n = 0;

    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    CHECK(slave >= 0);
    l = log_new(slave, LOG_LEVEL_INFO, "default");
    memset(padding, 'x', sizeof padding - 1);
    for (unsigned i = 0; log_lines_dropped(l) < 1000; i++) {
        CHECK(i < 100000);
        LOG(l, LOG_LEVEL_INFO, "fill", LOG_TEXT("text", padding), LOG_NUMBER("end", 1));
        /* Read in steps that are smaller than a line, once it is full. */
        n = log_lines_dropped(l) > 0 ? read(master, all + all_n, 50) : 0;
        all_n += n > 0 ? (size_t)n : 0;
    }
    CHECK_EQ(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
    while ((n = read(master, all + all_n, sizeof all - 1 - all_n)) > 0)
        all_n += (size_t)n;
    log_free(l);
    strcpy(all + all_n, read_now(master));
    check_whole_lines(all);
}

TEST(log_closed_pipe)
{
    int ends[2];
    struct log *own, *polled;

    (void)signal(SIGPIPE, SIG_DFL);
    CHECK(pipe(ends) == 0);
    own = log_new(ends[1], LOG_LEVEL_INFO, "default");
    polled = log_polled(ends[1]);
    CHECK(close(ends[0]) == 0);
    for (int i = 0; i < 3; i++) {
        LOG(own, LOG_LEVEL_INFO, "x", LOG_NUMBER("n", 1));
        LOG(polled, LOG_LEVEL_INFO, "x", LOG_NUMBER("n", 1));
    }
    CHECK_EQ(log_lines_dropped(own), 3);
    CHECK_EQ(log_lines_dropped(polled), 3);
    log_free(own);
    log_free(polled);
}

TEST(log_full_disk)
{
    int fd = open("/dev/full", O_WRONLY);
    struct log *l = log_new(fd, LOG_LEVEL_INFO, "default");

    CHECK(fd >= 0);
    LOG(l, LOG_LEVEL_INFO, "x", LOG_NUMBER("n", 1));
    LOG(l, LOG_LEVEL_INFO, "x", LOG_NUMBER("n", 1));
    CHECK_EQ(log_lines_dropped(l), 2);
    log_free(l);
}

TEST(log_closed_descriptor)
{
    int fd = dup(2);
    struct log *l;

    CHECK(fd >= 0 && close(fd) == 0);
    l = log_new(fd, LOG_LEVEL_INFO, "default");
    LOG(l, LOG_LEVEL_INFO, "x", LOG_NUMBER("n", 1));
    CHECK_EQ(log_lines_dropped(l), 1);
    log_free(l);
}

/* `relay 2>file` shares the offset with what the shell writes there: nothing may be overwritten. */
TEST(log_file_shared_with_another_writer)
{
    char path[300], text[400] = "";
    int fd;
    struct log *l;
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, "%s/log", temp_folder());
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, "before\n", 7), 7);
    l = log_new(fd, LOG_LEVEL_INFO, "default");
    LOG(l, LOG_LEVEL_INFO, "x", LOG_NUMBER("n", 1));
    CHECK_EQ(write(fd, "after\n", 6), 6);
    log_free(l);
    f = fopen(path, "r");
    CHECK(f != NULL);
    n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    CHECK(strncmp(text, "before\nts=", 10) == 0);
    CHECK(n > 6 && strcmp(text + n - 6, "after\n") == 0);
    CHECK_EQ(lines_in(text), 3);
}
