/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/fetch.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BODY_MAX (8u << 20)

struct fetch {
    CURL *curl;
    char *body;
    size_t body_n, body_size;
    bool sent; /* the request under way went out, or part of it */
    char error[CURL_ERROR_SIZE];
    struct fetch_response *response; /* of the request under way */
};

/* --- what comes back ------------------------------------------------------------------------------------------------ */

static size_t on_body(char *data, size_t one, size_t n, void *context)
{
    struct fetch *fetch = context;
    size_t needed = fetch->body_n + n + 1;

    (void)one;
    if (needed > BODY_MAX)
        return 0; /* curl ends the request with an error */
    if (needed > fetch->body_size) {
        size_t size = needed < 4096 ? 4096 : needed * 2;
        char *larger = realloc(fetch->body, size);

        if (!larger)
            return 0;
        fetch->body = larger;
        fetch->body_size = size;
    }
    memcpy(fetch->body + fetch->body_n, data, n);
    fetch->body_n += n;
    fetch->body[fetch->body_n] = 0;
    return n;
}

/* The value of the header `name` without the white space around it, cut to fit; false if `line` is another header. */
static bool value_take(const char *line, size_t n, const char *name, char *ret_value, size_t value_size)
{
    size_t name_n = strlen(name);

    if (n <= name_n || strncasecmp(line, name, name_n) != 0 || line[name_n] != ':')
        return false;
    line += name_n + 1;
    n -= name_n + 1;
    while (n && strchr(" \t", *line))
        line++, n--;
    while (n && strchr(" \t\r\n", line[n - 1]))
        n--;
    (void)snprintf(ret_value, value_size, "%.*s", (int)n, line);
    return true;
}

static int seconds_read(const char *text)
{
    char *end;
    long seconds = strtol(text, &end, 10);

    return end != text && !*end && seconds >= 0 && seconds <= 86400 ? (int)seconds : -1;
}

static void headers_forget(struct fetch_response *response)
{
    response->retry_after_s = -1;
    response->replayed = false;
    response->etag[0] = 0;
}

static size_t on_header(char *line, size_t one, size_t n, void *context)
{
    struct fetch_response *response = ((struct fetch *)context)->response;
    char value[64];

    (void)one;
    if (n > 5 && memcmp(line, "HTTP/", 5) == 0)
        headers_forget(response); /* those before were of a 100 Continue */
    else if (value_take(line, n, "ETag", value, sizeof value))
        (void)snprintf(response->etag, sizeof response->etag, "%s", value);
    else if (value_take(line, n, "Retry-After", value, sizeof value))
        response->retry_after_s = seconds_read(value);
    else if (value_take(line, n, "Idempotent-Replayed", value, sizeof value))
        response->replayed = strcasecmp(value, "true") == 0;
    return n;
}

/* --- what goes out -------------------------------------------------------------------------------------------------- */

/* Called before each sending. curl sends a request again by itself when a connection that it had kept open is closed without an answer. The
 * server may have carried it out, so whether to repeat it is not curl's to decide. */
static int on_send(void *context, char *from, char *to, int from_port, int to_port)
{
    struct fetch *fetch = context;
    bool again = fetch->sent;

    (void)from;
    (void)to;
    (void)from_port;
    (void)to_port;
    fetch->sent = true;
    return again ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static struct curl_slist *header_add(struct curl_slist *list, const char *header)
{
    struct curl_slist *longer = curl_slist_append(list, header);

    if (!longer)
        abort();
    return longer;
}

static struct curl_slist *headers_collect(const struct fetch_request *request)
{
    struct curl_slist *list = header_add(NULL, "Expect:"); /* not: ask for leave first */

    bool typed = !request->body;

    for (const char *const *header = request->headers; header && *header; header++) {
        list = header_add(list, *header);
        typed = typed || strncasecmp(*header, "Content-Type:", strlen("Content-Type:")) == 0;
    }
    return typed ? list : header_add(list, "Content-Type: application/json");
}

static void request_prepare(struct fetch *fetch, const struct fetch_request *request, struct curl_slist *headers)
{
    CURL *curl = fetch->curl;

    curl_easy_reset(curl); /* the connection stays open */
    (void)curl_easy_setopt(curl, CURLOPT_URL, request->url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, request->timeout_ms);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, fetch->error);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, fetch);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, fetch);
    (void)curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION, on_send);
    (void)curl_easy_setopt(curl, CURLOPT_PREREQDATA, fetch);
    if (request->body || strcmp(request->method, "POST") == 0)
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body ? request->body : "");
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static void failure_explain(const struct fetch *fetch, CURLcode code, struct fetch_response *ret_response)
{
    const char *why = fetch->error[0] ? fetch->error : curl_easy_strerror(code);

    ret_response->status = 0;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        why = "the connection was closed before an answer came";
    (void)snprintf(ret_response->reason, sizeof ret_response->reason, "%.*s", (int)strcspn(why, "\n"), why);
}

void fetch_send(struct fetch *fetch, const struct fetch_request *request, struct fetch_response *ret_response)
{
    struct curl_slist *headers = headers_collect(request);
    CURLcode code;
    long status = 0;

    memset(ret_response, 0, sizeof *ret_response);
    headers_forget(ret_response);
    fetch->response = ret_response;
    fetch->body_n = 0;
    fetch->body[0] = 0;
    fetch->sent = false;
    fetch->error[0] = 0;
    request_prepare(fetch, request, headers);
    code = curl_easy_perform(fetch->curl);
    if (code == CURLE_OK && curl_easy_getinfo(fetch->curl, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK && status > 0)
        ret_response->status = (int)status;
    else
        failure_explain(fetch, code, ret_response);
    ret_response->body = fetch->body;
    ret_response->body_n = fetch->body_n;
    curl_slist_free_all(headers);
}

/* --- open and close ------------------------------------------------------------------------------------------------- */

static void curl_start(void)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        abort();
}

struct fetch *fetch_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct fetch *fetch = calloc(1, sizeof *fetch);

    if (pthread_once(&once, curl_start) != 0 || !fetch)
        abort();
    fetch->curl = curl_easy_init();
    fetch->body = calloc(1, 1);
    fetch->body_size = 1;
    if (!fetch->curl || !fetch->body)
        abort();
    return fetch;
}

void fetch_close(struct fetch *fetch)
{
    curl_easy_cleanup(fetch->curl);
    free(fetch->body);
    free(fetch);
}
