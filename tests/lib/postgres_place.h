/* SPDX-License-Identifier: BSD-2-Clause */
/* What the ways to start a server have in common: a place in the temp folder, its owner, the programs. */
#ifndef TESTS_LIB_POSTGRES_PLACE_H
#define TESTS_LIB_POSTGRES_PLACE_H

#include <stddef.h>

#include "tests/lib/services.h"

/* A new place with a free port and an empty folder for the socket; no data folder yet, nothing runs. */
struct postgres postgres_place(void);
void postgres_place_settings(struct postgres *p); /* its port and its socket, into its postgresql.conf */
void postgres_server_start(struct postgres *p);   /* waits until it answers */
/* A folder that belongs to the server's user, made if it is not there. */
void postgres_folder(const char *path);
/* A program of the server. Debian keeps them out of PATH: POSTGRES_BIN chooses; otherwise the last version there is. */
void postgres_program(const char *name, char *ret, size_t size);

#endif
