/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL's framing, protocol 3. What a client sends up to Sync, or one Query, is one request; its reply goes up to ReadyForQuery. A
 * session remembers the texts of prepared statements, so that a request is known by what it executes. Portals that are executed in a
 * later request than the one that bound them are not followed. */
#ifndef TESTS_LIB_PROXY_POSTGRES_WIRE_H
#define TESTS_LIB_PROXY_POSTGRES_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/proxy/request.h"
#include "tests/lib/proxy/wire.h"

#define POSTGRES_MESSAGE_MAX 0x40000000

struct postgres_statement {
    struct postgres_statement *next;
    char *name, *text;
};

struct postgres_session {
    bool started; /* the start-up packet went by: messages have a type now */
    struct postgres_statement *statements;
    struct bytes text; /* of the request that is being read: what it executes, ended by a zero */
    bool prepares, executes;
};

/* Bytes of the message that begins at `bytes`; 0: not all here; -1: this is not PostgreSQL. Those of the server always have a type, but
 * for the one byte that answers a request for encryption. */
int64_t postgres_message_size(const uint8_t *bytes, size_t n, bool typed);

enum postgres_part {
    POSTGRES_PART,  /* of a request that goes on */
    POSTGRES_WHOLE, /* the last of a request: `ret` is filled */
    POSTGRES_FLUSH, /* the client wants what there is now; the request goes on */
    POSTGRES_ALONE, /* no reply of its own: passwords, COPY data, Terminate */
};

/* Read the client's next message. `ret->text` is lent until the next call. */
enum postgres_part postgres_session_read(struct postgres_session *s, const uint8_t *message, size_t n, struct request *ret);
void postgres_session_reset(struct postgres_session *s);

/* An error with this SQLSTATE as a server sends it, and then, unless `fatal`, that it is ready. */
void postgres_refuse(const char *sqlstate, bool fatal, struct bytes *ret);

#endif
