/* SPDX-License-Identifier: BSD-2-Clause */
/* The headers of a row: a JSON object of strings, decoded (through jansson) into names and values for a record. */
#ifndef RELAY_EDGE_HEADERS_H
#define RELAY_EDGE_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include "relay/edge/producer.h"

/* Room that is used again from row to row. Zeroed before the first use. */
struct headers {
    struct producer_header *list; /* names and values lent until the next headers_decode or headers_reset */
    size_t list_n, list_max;
    void *document;
};

/* Decode `json_n` bytes at `json`, borrowed. Returns false with a sentence in `error` if they are not an object of strings; an object that
 * contains "id" is refused too, since that header is the event's own. Values may contain zero bytes only as \u0000, which is refused. */
bool headers_decode(struct headers *h, const char *json, size_t json_n, char *error, size_t error_size);
void headers_reset(struct headers *h);

#endif
