/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/edge/headers.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jsonb cannot hold it, and a header's name ends at a zero byte: jansson refuses \u0000 by itself unless it is asked not to. Names twice
 * cannot come from jsonb either. A scalar is JSON, too, and has a sentence of its own. */
#define FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)

void headers_reset(struct headers *h)
{
    json_decref(h->document);
    free(h->list);
    memset(h, 0, sizeof *h);
}

static bool make_room(struct headers *h, size_t n)
{
    struct producer_header *list;

    if (n <= h->list_max)
        return true;
    list = realloc(h->list, n * sizeof *list);
    if (list == NULL)
        return false;
    h->list = list;
    h->list_max = n;
    return true;
}

static bool add(struct headers *h, const char *name, const json_t *value, char *error, size_t error_size)
{
    if (!json_is_string(value)) {
        snprintf(error, error_size, "the value of header \"%.100s\" is not a string; write every header as a JSON string", name);
        return false;
    }
    if (strcmp(name, "id") == 0) {
        snprintf(error, error_size, "a header is called \"id\", which is the event's own; give it another name");
        return false;
    }
    h->list[h->list_n++] = (struct producer_header){
        .name = name, .name_n = strlen(name), .value = json_string_value(value), .value_n = json_string_length(value)};
    return true;
}

bool headers_decode(struct headers *h, const char *json, size_t json_n, char *error, size_t error_size)
{
    json_error_t reason;
    const char *name;
    json_t *document, *value;

    json_decref(h->document);
    h->list_n = 0;
    h->document = document = json_loadb(json, json_n, FLAGS, &reason);
    if (document == NULL) {
        /* Not jansson's own text: it quotes the headers, and what services write is not for the log. */
        snprintf(error, error_size, "the headers are not JSON that the relay can send (at character %d); correct the row", reason.position);
        return false;
    }
    if (!json_is_object(document)) {
        snprintf(error, error_size, "the headers are not a JSON object; write them as {\"name\": \"value\"}");
        return false;
    }
    if (!make_room(h, json_object_size(document))) {
        snprintf(error, error_size, "out of memory for %zu headers", json_object_size(document));
        return false;
    }
    json_object_foreach(document, name, value) if (!add(h, name, value, error, error_size)) return false;
    return true;
}
