/* SPDX-License-Identifier: BSD-2-Clause */
/* How a write is kept from blocking, without O_NONBLOCK on an open file that a shell or a sibling shares:
 *
 *   socket               send with MSG_DONTWAIT
 *   pipe, terminal       opened once more through /proc, which makes an open file of our own that can be non-blocking
 *   where that fails     poll first; a line has at most PIPE_BUF bytes, and a pipe that is writable takes so many at once
 *   file                 written as it is: a file on a disk is never "not ready"
 */
#include "relay/app/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* More is not written at once by anybody, and lines of several writers to one pipe do not mix. */
#define LINE_MAX_BYTES PIPE_BUF

enum log_channel {
    LOG_CHANNEL_SOCKET,
    LOG_CHANNEL_OWN, /* non-blocking by itself, or a file */
    LOG_CHANNEL_POLLED
};

struct log {
    int fd, given_fd; /* the same, or one that was opened beside it */
    enum log_channel channel;
    enum log_level level;
    char *name;
    uint64_t dropped, dropped_untold;
    char rest[LINE_MAX_BYTES]; /* of a line that was taken in part (a terminal, a full disk) */
    size_t rest_n;
};

struct line {
    char text[LINE_MAX_BYTES];
    size_t n;
    bool cut;
};

/* --- a line ------------------------------------------------------------------------------------------------------- */

/* Kept free at the end of each line: a closing quote, the sign that something is missing, the newline. */
static const char cut_sign[] = " cut=true";
#define LINE_RESERVE (sizeof cut_sign + 2)

static void put(struct line *line, const char *bytes, size_t n)
{
    if (line->cut || line->n + n > sizeof line->text - LINE_RESERVE) {
        line->cut = true;
        return;
    }
    memcpy(line->text + line->n, bytes, n);
    line->n += n;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* How many bytes from `text` are one character that can be shown as it is; 0: none, its first byte must be escaped. Zero-terminated. */
static size_t printable_bytes(const unsigned char *text)
{
    size_t n = text[0] < 0x80 ? 1 : (text[0] & 0xe0) == 0xc0 ? 2 : (text[0] & 0xf0) == 0xe0 ? 3 : (text[0] & 0xf8) == 0xf0 ? 4 : 0;

    if (n == 1)
        return text[0] >= ' ' && text[0] != 127;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Control characters of the upper half, and forms that are longer than need be. */
    if (n == 2 && (text[0] < 0xc2 || (text[0] == 0xc2 && text[1] < 0xa0)))
        return 0;
    if (n == 3 && ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0)))
        return 0;
    if (n == 4 && ((text[0] == 0xf0 && text[1] < 0x90) || text[0] > 0xf4 || (text[0] == 0xf4 && text[1] >= 0x90)))
        return 0;
    return n;
}

static bool is_bare(const char *text)
{
    if (text[0] == '\0')
        return false;
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127 || *c == '"' || *c == '=' || *c == '\\')
            return false;
    return true;
}

static void put_escaped(struct line *line, const char *text)
{
    char escape[8];

    while (*text != '\0') {
        size_t n = printable_bytes((const unsigned char *)text);
        if (n == 0 || *text == '"' || *text == '\\') {
            const char *plain = *text == '\n' ? "\\n" : *text == '\t' ? "\\t" : *text == '"' ? "\\\"" : *text == '\\' ? "\\\\" : NULL;
            if (plain == NULL)
                (void)snprintf(escape, sizeof escape, "\\x%02x", (unsigned)(unsigned char)*text);
            put_text(line, plain != NULL ? plain : escape);
            n = 1;
        } else {
            put(line, text, n);
        }
        text += n;
    }
}

static void put_field(struct line *line, const char *name, const char *value)
{
    if (line->cut)
        return;
    put_text(line, " ");
    put_text(line, name);
    put_text(line, "=");
    if (is_bare(value)) {
        put_text(line, value);
        return;
    }
    put_text(line, "\"");
    if (line->cut)
        return;
    put_escaped(line, value);
    line->text[line->n++] = '"'; /* of the reserve if need be */
}

static void line_begin(struct line *line, enum log_level level)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    struct timespec now;
    struct tm tm;
    char ts[64];

    line->n = 0;
    line->cut = false;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &tm);
    (void)snprintf(ts, sizeof ts, "ts=%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                   tm.tm_min, tm.tm_sec, (int)(now.tv_nsec / 1000000));
    put_text(line, ts);
    put_field(line, "level", names[level]);
}

static void line_end(struct line *line)
{
    if (line->cut) {
        memcpy(line->text + line->n, cut_sign, sizeof cut_sign - 1);
        line->n += sizeof cut_sign - 1;
    }
    line->text[line->n++] = '\n';
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static ssize_t write_some(const struct log *l, const char *bytes, size_t n)
{
    struct pollfd room = {.fd = l->fd, .events = POLLOUT};
    ssize_t written;

    do {
        if (l->channel == LOG_CHANNEL_SOCKET)
            written = send(l->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        else if (l->channel == LOG_CHANNEL_POLLED && poll(&room, 1, 0) != 1)
            written = 0;
        else
            written = write(l->fd, bytes, n);
    } while (written < 0 && errno == EINTR);
    return written < 0 ? 0 : written;
}

static bool rest_write(struct log *l)
{
    ssize_t written = l->rest_n > 0 ? write_some(l, l->rest, l->rest_n) : 0;

    l->rest_n -= (size_t)written;
    memmove(l->rest, l->rest + written, l->rest_n);
    return l->rest_n == 0;
}

/* False: nothing of the line was written. */
static bool line_write(struct log *l, const struct line *line)
{
    size_t written;

    if (!rest_write(l))
        return false;
    written = (size_t)write_some(l, line->text, line->n);
    if (written == 0)
        return false;
    l->rest_n = line->n - written;
    memcpy(l->rest, line->text + written, l->rest_n);
    return true;
}

static bool dropped_tell(struct log *l)
{
    struct line line;
    char number[24];

    if (l->dropped_untold == 0)
        return true;
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)l->dropped_untold);
    line_begin(&line, LOG_LEVEL_WARNING);
    put_field(&line, "event", "log lines dropped");
    put_field(&line, "name", l->name);
    put_field(&line, "lines", number);
    line_end(&line);
    if (!line_write(l, &line))
        return false;
    l->dropped_untold = 0;
    return true;
}

void log_write(struct log *l, enum log_level level, const char *event, const struct log_field *fields)
{
    struct line line;
    char number[24];

    if (level > l->level)
        return;
    line_begin(&line, level);
    put_field(&line, "event", event);
    put_field(&line, "name", l->name);
    for (; fields->name != NULL; fields++) {
        (void)snprintf(number, sizeof number, "%lld", (long long)fields->number);
        put_field(&line, fields->name, fields->text != NULL ? fields->text : number);
    }
    line_end(&line);
    if (dropped_tell(l) && line_write(l, &line))
        return;
    l->dropped++;
    l->dropped_untold++;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void channel_choose(struct log *l, int fd)
{
    struct stat st;
    char path[32];

    l->fd = fd;
    l->channel = LOG_CHANNEL_OWN;
    if (fstat(fd, &st) != 0 || S_ISREG(st.st_mode))
        return;
    if (S_ISSOCK(st.st_mode)) {
        l->channel = LOG_CHANNEL_SOCKET;
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    l->fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (l->fd < 0) {
        l->fd = fd;
        l->channel = LOG_CHANNEL_POLLED;
    }
}

struct log *log_new(int fd, enum log_level level, const char *name)
{
    struct log *l = calloc(1, sizeof *l);

    if (l == NULL)
        return NULL;
    l->level = level;
    l->name = strdup(name);
    if (l->name == NULL) {
        free(l);
        return NULL;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    channel_choose(l, fd);
    l->given_fd = fd;
    return l;
}

void log_free(struct log *l)
{
    if (l == NULL)
        return;
    (void)(rest_write(l) && dropped_tell(l));
    if (l->fd != l->given_fd)
        (void)close(l->fd);
    free(l->name);
    free(l);
}

uint64_t log_lines_dropped(const struct log *l)
{
    return l->dropped;
}
