/* SPDX-License-Identifier: BSD-2-Clause */
/* What handlers fill in: an answer's headers and body. */
#include "producer-demo/lib/web.h"

#include <assert.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void web_response_header(struct web_response *response, const char *name, const char *format, ...)
{
    va_list arguments;

    assert(response->headers_n < WEB_HEADERS_MAX);
    response->headers[response->headers_n].name = name;
    va_start(arguments, format);
    (void)vsnprintf(response->headers[response->headers_n].value, sizeof response->headers[0].value, format, arguments);
    va_end(arguments);
    response->headers_n++;
}

void web_response_text(struct web_response *response, int status, const char *content_type, const char *format, ...)
{
    va_list arguments;
    int n;

    free(response->body);
    response->status = status;
    response->content_type = content_type;
    va_start(arguments, format);
    n = vasprintf(&response->body, format, arguments);
    va_end(arguments);
    if (n < 0)
        abort();
    response->body_n = (size_t)n;
}

/* Whatever is no UTF-8 has no place in JSON. */
static json_t *words(const char *text)
{
    json_t *string = json_string(text);

    return string ? string : json_string("(not UTF-8)");
}

void web_response_problem(struct web_response *response, int status, const char *title, const char *format, ...)
{
    char detail[1000];
    va_list arguments;
    json_t *problem;

    va_start(arguments, format);
    (void)vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    problem = json_pack("{s:s, s:o, s:i, s:o}", "type", "about:blank", "title", words(title), "status", status, "detail", words(detail));
    if (!problem)
        abort();
    free(response->body);
    response->body = json_dumps(problem, JSON_COMPACT);
    json_decref(problem);
    if (!response->body)
        abort();
    response->body_n = strlen(response->body);
    response->status = status;
    response->content_type = "application/problem+json";
}
