/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/settings.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/services.h"
#include "tests/lib/test.h"

static void file_write(const char *path, const char *text, size_t text_n)
{
    FILE *f = fopen(path, "w");

    CHECK(f != NULL);
    CHECK(fwrite(text, 1, text_n, f) == text_n);
    CHECK(fclose(f) == 0);
}

char *settings_file(const char *text, size_t text_n)
{
    static char paths[8][256];
    static unsigned n;
    char *path = paths[n % 8];

    snprintf(path, sizeof paths[0], "%s/secret-%u", temp_folder(), n++);
    file_write(path, text, text_n);
    return path;
}

const char *settings_path(void)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/settings.ini", temp_folder());
    return path;
}

static bool read_all(struct config *ret_c, bool has_file, const char *const *arguments, const char *const *environment, char *error,
                     size_t error_size)
{
    static char name[] = "outbox-relay", flag[] = "--config";
    static char *nothing[] = {NULL};
    char *argv[20] = {name};
    int argc = 1;

    if (has_file) {
        argv[argc++] = flag;
        argv[argc++] = (char *)(size_t)settings_path();
    }
    for (; arguments != NULL && *arguments != NULL; arguments++)
        argv[argc++] = (char *)(size_t)*arguments;
    CHECK(argc < 20);
    return config_read(ret_c, argc, argv, environment != NULL ? (char *const *)(size_t)environment : nothing, error, error_size);
}

struct config settings_good(const char *file, const char *const *arguments, const char *const *environment)
{
    struct config c;
    char error[1024];

    if (file != NULL)
        file_write(settings_path(), file, strlen(file));
    if (!read_all(&c, file != NULL, arguments, environment, error, sizeof error))
        test_fail(__FILE__, __LINE__, "refused: %s", error);
    return c;
}

static const char *bad(bool has_file, const char *const *arguments, const char *const *environment)
{
    static char sentence[1024];
    struct config c;
    char error[1024], *path;

    if (read_all(&c, has_file, arguments, environment, error, sizeof error))
        test_fail(__FILE__, __LINE__, "accepted");
    CHECK(c.kafka == NULL && c.database == NULL);
    path = strstr(error, settings_path());
    if (path == NULL)
        return strcpy(sentence, error);
    snprintf(sentence, sizeof sentence, "%.*sFILE%s", (int)(path - error), error, path + strlen(settings_path()));
    return sentence;
}

const char *settings_bad(const char *file, const char *const *arguments, const char *const *environment)
{
    if (file != NULL)
        file_write(settings_path(), file, strlen(file));
    return bad(file != NULL, arguments, environment);
}

const char *settings_bad_bytes(const char *file, size_t file_n)
{
    file_write(settings_path(), file, file_n);
    return bad(true, NULL, NULL);
}

char *settings_printed(void (*print)(FILE *to))
{
    char *text;
    size_t text_n;
    FILE *to = open_memstream(&text, &text_n);

    CHECK(to != NULL);
    print(to);
    CHECK(fclose(to) == 0);
    return text;
}
