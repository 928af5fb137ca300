/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader of the file: `name = value` on a line, '#' or ';' begins a comment line, nothing else. A value is what lies between the
 * '=' and the end of the line without the blanks around it: quotes and '#' are part of it, since passwords contain them. */
#include "relay/app/config_draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of settings is some kilobytes; certificates and keys are files of their own. */
#define FILE_BYTES_MAX (4U << 20)
#define LINE_BYTES_MAX (1U << 20)

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cut the blanks off both ends of [text, end), in place. */
static char *trim(char *text, char *end)
{
    while (text < end && is_blank(*text))
        text++;
    while (end > text && is_blank(end[-1]))
        end--;
    *end = '\0';
    return text;
}

struct ini {
    struct config_draft *draft;
    const char *path;
    unsigned line;
    const struct config_error *error;
};

static bool assignment_read(const struct ini *ini, char *line, char *equals)
{
    char origin[4096 + CONFIG_NAME_MAX + 32];
    char *value = trim(equals + 1, equals + 1 + strlen(equals + 1));
    char *name = trim(line, equals);
    struct config_place place = {.source = CONFIG_SOURCE_FILE, .origin = origin};

    /* What is left of the '=' may be half a secret, such as a line of base64. */
    if (!config_name_is_plain(name, strlen(name)) || strpbrk(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != NULL)
        return config_fail(ini->error, "%s:%u: what is left of the '=' is not the name of a setting; write name = value", ini->path,
                           ini->line);
    (void)snprintf(origin, sizeof origin, "%s:%u: %s", ini->path, ini->line, name);
    return config_draft_put(ini->draft, &place, name, value, ini->error);
}

static bool line_read(const struct ini *ini, char *line, size_t line_n)
{
    char *equals;

    if (line_n > LINE_BYTES_MAX)
        return config_fail(ini->error, "%s:%u: the line is longer than 1 MiB; put the value into a file and use the _file form", ini->path,
                           ini->line);
    if (memchr(line, '\0', line_n) != NULL)
        return config_fail(ini->error, "%s:%u: the line contains a zero byte; is this a text file in UTF-8?", ini->path, ini->line);
    line = trim(line, line + line_n);
    if (line[0] == '\0' || line[0] == '#' || line[0] == ';')
        return true;
    equals = strchr(line, '=');
    if (line[0] == '[')
        return config_fail(ini->error, "%s:%u: sections are not known; leave this line out", ini->path, ini->line);
    if (equals == NULL)
        return config_fail(ini->error, "%s:%u: there is no '=' in this line; write name = value", ini->path, ini->line);
    return assignment_read(ini, line, equals);
}

bool config_read_ini(struct config_draft *d, const char *path, char *text, size_t text_n, const struct config_error *e)
{
    struct ini ini = {.draft = d, .path = path, .error = e};
    char *end = text + text_n;

    if (text_n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    while (text < end) {
        char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t line_n = (size_t)((newline != NULL ? newline : end) - text);
        ini.line++;
        if (!line_read(&ini, text, line_n))
            return false;
        text += line_n + 1;
    }
    return true;
}

/* Read until the end or until `max` bytes are exceeded; (size_t)-1: errno says why not. */
static size_t slurp(int fd, char *text, size_t max)
{
    size_t text_n = 0;

    while (text_n <= max) {
        ssize_t n = read(fd, text + text_n, max + 1 - text_n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return (size_t)-1;
        if (n == 0)
            break;
        text_n += (size_t)n;
    }
    return text_n;
}

char *config_slurp(const char *path, size_t max, size_t *ret_n, const char *origin, const struct config_error *e)
{
    char *text = malloc(max + 2);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = text != NULL && fd >= 0 ? slurp(fd, text, max) : (size_t)-1;
    int error = errno;

    if (fd >= 0)
        (void)close(fd);
    if (n <= max) {
        text[n] = '\0';
        *ret_n = n;
        return text;
    }
    free(text);
    if (n == (size_t)-1)
        (void)config_fail(e, "%s: cannot read \"%s\": %s", origin, path, strerror(error));
    else
        (void)config_fail(e, "%s: \"%s\" is larger than %zu bytes; is it the right file?", origin, path, max);
    return NULL;
}

bool config_read_ini_file(struct config_draft *d, const char *path, const char *origin, const struct config_error *e)
{
    size_t text_n;
    char *text = config_slurp(path, FILE_BYTES_MAX, &text_n, origin, e);
    bool ok;

    if (text == NULL)
        return false;
    ok = config_read_ini(d, path, text, text_n, e);
    explicit_bzero(text, text_n);
    free(text);
    return ok;
}
