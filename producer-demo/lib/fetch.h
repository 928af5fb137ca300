/* SPDX-License-Identifier: BSD-2-Clause */
/* One HTTP request and its answer, by libcurl, for programs that may block. It knows nothing of retries: those are their caller's, who must
 * keep the key. */
#ifndef PRODUCER_DEMO_FETCH_H
#define PRODUCER_DEMO_FETCH_H

#include <stdbool.h>
#include <stddef.h>

struct fetch; /* one connection that is kept open between requests; for one thread at a time */

struct fetch_request {
    const char *method, *url;
    const char *const *headers; /* "Name: value", NULL-terminated; or NULL */
    const char *body;           /* JSON, unless a header says another Content-Type; or NULL */
    long timeout_ms;            /* for all of it */
};

struct fetch_response {
    int status; /* 0: no answer; what happened to the request is unknown */
    char *body; /* ends with a zero that is not counted; lent until the next request */
    size_t body_n;
    int retry_after_s; /* -1: the header was not there, or was no number */
    bool replayed;     /* Idempotent-Replayed: true */
    char etag[64];     /* "" if there was none */
    char reason[256];  /* with status 0: why, in one line */
};

struct fetch *fetch_open(void); /* ends the program if there is no memory */
void fetch_close(struct fetch *fetch);
/* Send it, once, and wait for the answer; redirects are answers too. All that the request lends is used only meanwhile. A body of over 8 MB
 * is no answer. */
void fetch_send(struct fetch *fetch, const struct fetch_request *request, struct fetch_response *ret_response);

#endif
