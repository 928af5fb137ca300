/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/proxy/postgres_wire.h"

#include <stdlib.h>
#include <string.h>

#define CODE_CANCEL 80877102
#define CODE_SSL    80877103
#define CODE_GSS    80877104

int64_t postgres_message_size(const uint8_t *bytes, size_t n, bool typed)
{
    size_t before = typed ? 1 : 0;
    if (n < before + 4)
        return 0;
    struct wire w = wire_over(bytes + before, n - before);
    int32_t length = wire_i32(&w);
    if (length < 4 || length > POSTGRES_MESSAGE_MAX)
        return -1;
    size_t whole = before + (size_t)length;
    return n >= whole ? (int64_t)whole : 0;
}

/* --- prepared statements ------------------------------------------------------------------------------------------ */

static struct postgres_statement *statement_find(struct postgres_session *s, const char *name)
{
    struct postgres_statement *p = s->statements;
    while (p != NULL && strcmp(p->name, name) != 0)
        p = p->next;
    return p;
}

static char *copy(const char *text)
{
    char *c = strdup(text);
    if (c == NULL)
        abort();
    return c;
}

static void statement_keep(struct postgres_session *s, const char *name, const char *text)
{
    struct postgres_statement *p = statement_find(s, name);
    if (p == NULL) {
        p = calloc(1, sizeof *p);
        if (p == NULL)
            abort();
        *p = (struct postgres_statement){.next = s->statements, .name = copy(name)};
        s->statements = p;
    }
    free(p->text);
    p->text = copy(text);
}

void postgres_session_reset(struct postgres_session *s)
{
    while (s->statements != NULL) {
        struct postgres_statement *p = s->statements;
        s->statements = p->next;
        free(p->name);
        free(p->text);
        free(p);
    }
    bytes_reset(&s->text);
    *s = (struct postgres_session){0};
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void text_add(struct postgres_session *s, const char *name, const char *text)
{
    bytes_append(&s->text, "[", 1);
    bytes_append(&s->text, name, strlen(name));
    bytes_append(&s->text, "] ", 2);
    bytes_append(&s->text, text, strlen(text));
    bytes_append(&s->text, "\n", 1);
}

static void parse_read(struct postgres_session *s, struct wire *w)
{
    const char *name = wire_zero_string(w), *text = wire_zero_string(w);
    s->prepares = true;
    if (name != NULL && text != NULL)
        statement_keep(s, name, text);
}

static void bind_read(struct postgres_session *s, struct wire *w)
{
    (void)wire_zero_string(w); /* portal */
    const char *name = wire_zero_string(w);
    const struct postgres_statement *p = name != NULL ? statement_find(s, name) : NULL;
    if (p != NULL)
        text_add(s, p->name, p->text);
}

static void query_read(struct postgres_session *s, struct wire *w)
{
    const char *text = wire_zero_string(w);
    s->executes = true;
    if (text != NULL)
        text_add(s, "", text);
}

/* What was read is a request; the next one begins. The text stays until then. */
static enum postgres_part request_end(struct postgres_session *s, struct request *ret)
{
    bytes_append(&s->text, "", 1);
    *ret = (struct request){.type = s->executes   ? "query"
                                    : s->prepares ? "prepare"
                                                  : "sync",
                            .text = s->executes ? (const char *)s->text.list : ""};
    s->text.n = 0;
    s->prepares = s->executes = false;
    return POSTGRES_WHOLE;
}

static enum postgres_part startup_read(struct postgres_session *s, const uint8_t *message, size_t n, struct request *ret)
{
    struct wire w = wire_over(message, n);
    (void)wire_i32(&w);
    int32_t code = wire_i32(&w);
    *ret = (struct request){.type = "startup", .text = ""};
    if (code == CODE_SSL || code == CODE_GSS)
        ret->type = "ssl";
    else if (code == CODE_CANCEL)
        ret->type = "cancel";
    else
        s->started = true;
    return POSTGRES_WHOLE;
}

enum postgres_part postgres_session_read(struct postgres_session *s, const uint8_t *message, size_t n, struct request *ret)
{
    if (!s->started)
        return startup_read(s, message, n, ret);
    struct wire w = wire_over(message + 5, n - 5);
    switch (message[0]) {
    case 'P':
        parse_read(s, &w);
        return POSTGRES_PART;
    case 'B':
        bind_read(s, &w);
        return POSTGRES_PART;
    case 'E':
        s->executes = true;
        return POSTGRES_PART;
    case 'D':
    case 'C':
        return POSTGRES_PART;
    case 'H':
        return POSTGRES_FLUSH;
    case 'Q':
        query_read(s, &w);
        return request_end(s, ret);
    case 'F':
    case 'S':
        return request_end(s, ret);
    default:
        return POSTGRES_ALONE;
    }
}

/* --- a reply of our own ------------------------------------------------------------------------------------------- */

static void field(struct bytes *b, char name, const char *value)
{
    bytes_append(b, &name, 1);
    bytes_append(b, value, strlen(value) + 1);
}

void postgres_refuse(const char *sqlstate, bool fatal, struct bytes *ret)
{
    size_t start = ret->n;
    bytes_append(ret, "E\0\0\0\0", 5);
    field(ret, 'S', fatal ? "FATAL" : "ERROR");
    field(ret, 'V', fatal ? "FATAL" : "ERROR");
    field(ret, 'C', sqlstate);
    field(ret, 'M', "refused by the fault proxy");
    bytes_i8(ret, 0);
    wire_put_i32(ret->list + start + 1, (int32_t)(ret->n - start - 1));
    if (!fatal)
        bytes_append(ret, "Z\0\0\0\5I", 6);
}
