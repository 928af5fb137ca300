/* SPDX-License-Identifier: BSD-2-Clause */
/* The three pages of the relay, through libmicrohttpd on the relay's own loop: its epoll descriptor is polled, its time-out drives a
 * timer, it has no thread. Only GET (and HEAD) of /metrics, /healthz and /readyz; everything else is 404 or 405. */
#ifndef RELAY_EDGE_HTTP_H
#define RELAY_EDGE_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct http;
struct uv_loop_s;

enum http_page {
    HTTP_METRICS,
    HTTP_HEALTH,
    HTTP_READY
};

/* Answer `page`: returns the status (200 or 503) and in `ret_body` a malloc'ed text, taken. */
typedef unsigned (*http_render)(void *data, enum http_page page, char **ret_body, size_t *ret_body_n);

/* Listen at `address` ("127.0.0.1:9464", "[::1]:9464", ":9464" for every address; port 0: any free one). Keeps `loop` and `data`. Returns
 * NULL with a sentence in `error`. */
struct http *http_new(struct uv_loop_s *loop, const char *address, http_render render, void *data, char *error, size_t error_size);
unsigned http_port(const struct http *h);
/* `on_freed` is called when the handles on the loop are gone, never before this returns; `h` is gone then. */
void http_free(struct http *h, void (*on_freed)(void *data), void *data);

#endif
