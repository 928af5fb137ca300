/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/key.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static bool bare_read(const char *text, char ret_key[KEY_MAX + 1])
{
    size_t n = strlen(text);

    if (n < 1 || n > KEY_MAX)
        return false;
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~' || strchr("\",;\\", *c))
            return false;
    memcpy(ret_key, text, n + 1);
    return true;
}

/* `text` begins after the first quote. */
static bool quoted_read(const char *text, char ret_key[KEY_MAX + 1])
{
    char key[KEY_MAX + 1];
    size_t n = 0;

    for (; *text != '"'; text++) {
        if (*text == '\\' && *++text != '"' && *text != '\\')
            return false;
        if (*text < ' ' || *text > '~' || n == KEY_MAX)
            return false; /* the end of the text too */
        key[n++] = *text;
    }
    if (text[1] || n == 0)
        return false;
    key[n] = 0;
    memcpy(ret_key, key, n + 1);
    return true;
}

bool key_read(const char *header, char ret_key[KEY_MAX + 1])
{
    if (!header)
        return false;
    return *header == '"' ? quoted_read(header + 1, ret_key) : bare_read(header, ret_key);
}

bool key_read_path(const char *part, char ret_key[KEY_MAX + 1])
{
    char key[KEY_MAX + 1];
    size_t n = 0;

    while (*part) {
        char c = *part++;

        if (c == '%') {
            const char digits[3] = {part[0], part[0] ? part[1] : (char)0, 0};

            if (!isxdigit((unsigned char)digits[0]) || !isxdigit((unsigned char)digits[1]))
                return false;
            c = (char)strtol(digits, NULL, 16);
            part += 2;
        }
        if (c < ' ' || c > '~' || n == KEY_MAX)
            return false;
        key[n++] = c;
    }
    key[n] = 0;
    memcpy(ret_key, key, n + 1);
    return n > 0;
}
