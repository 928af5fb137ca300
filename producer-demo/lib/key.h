/* SPDX-License-Identifier: BSD-2-Clause */
/* The value of an Idempotency-Key header. Who makes it may choose it, so it is a name to be compared and stored, nothing else. */
#ifndef PRODUCER_DEMO_KEY_H
#define PRODUCER_DEMO_KEY_H

#include <stdbool.h>

#define KEY_MAX 255

/* Two ways to write one key: bare (visible ASCII without quotes, commas, semicolons and backslashes), or as a string in double quotes, of
 * printable ASCII, where \" and \\ stand for themselves. 1 to KEY_MAX characters are left of it. false: it is none of these. `header` may
 * be NULL. */
bool key_read(const char *header, char ret_key[KEY_MAX + 1]);
/* A key out of a path, where it may be written with %20 and the like. false: it is not one that key_read could have given. */
bool key_read_path(const char *part, char ret_key[KEY_MAX + 1]);

#endif
