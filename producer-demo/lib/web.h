/* SPDX-License-Identifier: BSD-2-Clause */
/* An HTTP server for programs that may block: libmicrohttpd with a pool of threads; one handler is called with a whole request and fills in
 * one answer. Limits (size of a body, time for a request) are kept here, so that a handler sees only whole, small requests. */
#ifndef PRODUCER_DEMO_WEB_H
#define PRODUCER_DEMO_WEB_H

#include <stdbool.h>
#include <stddef.h>

struct web;
struct web_feed;
struct MHD_Connection;

struct web_request {
    const char *method, *path; /* the path without the query, as it came */
    const char *body;          /* ends with a zero that body_n does not count */
    size_t body_n;
    struct MHD_Connection *connection; /* for the two below */
};

/* Lent until the handler returns; NULL: there is none. One that came twice, or with a zero byte in it, is "": no value that anybody meant. A
 * query's percent signs are left as they came. */
const char *web_request_header(const struct web_request *request, const char *name);
const char *web_request_query(const struct web_request *request, const char *name);

#define WEB_HEADERS_MAX 8

struct web_response {
    int status;               /* 200 to 599 */
    const char *content_type; /* a literal */
    char *body;               /* malloc'ed; web.c frees it; NULL: empty */
    size_t body_n;
    struct web_feed *feed; /* instead of a body: an answer that goes on (web_feed.h), lent until web_stop returned; NULL: none */
    struct {
        const char *name; /* a literal */
        char value[256];
    } headers[WEB_HEADERS_MAX];
    int headers_n;
};

/* Add one more header to an answer; the value is copied. */
void web_response_header(struct web_response *response, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Its body, as by printf. */
void web_response_text(struct web_response *response, int status, const char *content_type, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An error as application/problem+json (RFC 9457): `title` says what is wrong, `detail` (by printf) what to do. */
void web_response_problem(struct web_response *response, int status, const char *title, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Called on one of the pool's threads, several at once. While it blocks, other connections that this thread has accepted wait.
 * `response` is empty (status 0: becomes 500). */
typedef void web_handler(void *context, const struct web_request *request, struct web_response *response);

struct web_settings {
    const char *listen; /* host:port; port 0: any free one; lent until web_start returns */
    int threads;
    size_t body_max;    /* bytes; longer ones are answered with 413 and not read */
    unsigned timeout_s; /* a request must have arrived whole within; else its connection is closed */
    web_handler *handler;
    void *context;
};

/* Start serving; NULL: ret_reason says why not. */
struct web *web_start(const struct web_settings *settings, char *ret_reason, size_t reason_size);
int web_port(const struct web *web);
/* Stop listening, wait for requests under way (their answers are sent), and end. */
void web_stop(struct web *web);

#endif
