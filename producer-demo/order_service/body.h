/* SPDX-License-Identifier: BSD-2-Clause */
/* The body of a request: a JSON object with known fields. What is wrong with it is told in the answer (400, 415), and nothing is stored under
 * the key: the client may mend the body and use the key again. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_BODY_H
#define PRODUCER_DEMO_ORDER_SERVICE_BODY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "producer-demo/lib/web.h"

/* One field that the body may have; one of the two targets. */
struct body_field {
    const char *name;
    bool optional;
    const char **text; /* lent by the JSON; NULL: it was not there */
    size_t text_max;   /* characters; at least 1 */
    int64_t *number;
    int64_t number_max; /* at least 1 */
};

/* Read the body by the table; the caller frees the JSON, with json_decref, when it needs the texts no more. NULL: the answer is filled in.
 * Fields that the table does not know are refused: they would be lost without a word. */
json_t *body_read(const struct web_request *request, const struct body_field *fields, int fields_n, struct web_response *response);

#endif
