/* SPDX-License-Identifier: BSD-2-Clause */
/* For the tests of the settings: read them from a text, arguments and an environment that exist in the test only. */
#ifndef TESTS_UNIT_SETTINGS_H
#define TESTS_UNIT_SETTINGS_H

#include <stddef.h>
#include <stdio.h>

#include "relay/app/config.h"

/* A temporary file with these bytes; its path is lent, the file goes with the test program. */
char *settings_file(const char *text, size_t text_n);

/* The path of the file that settings_good and settings_bad write `file` to. */
const char *settings_path(void);

/* Read settings that are right. `file` NULL: none; `arguments` without argv[0] and `environment` are lists ended by NULL, or NULL. */
struct config settings_good(const char *file, const char *const *arguments, const char *const *environment);
/* Read settings that are wrong; the sentence about it, lent until the next call, with the path of the file written as FILE. */
const char *settings_bad(const char *file, const char *const *arguments, const char *const *environment);
/* The same with `file_n` bytes. */
const char *settings_bad_bytes(const char *file, size_t file_n);

/* What `print` prints, malloc'ed and taken. */
char *settings_printed(void (*print)(FILE *to));

#endif
