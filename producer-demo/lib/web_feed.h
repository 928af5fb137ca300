/* SPDX-License-Identifier: BSD-2-Clause */
/* An answer without an end: whoever asks gets what is published from then on, beginning with the newest (server-sent events, for instance). A
 * reader that is slow misses what was replaced meanwhile and never gets half of anything, so a feed holds one text, and one more for each
 * reader under way. No thread waits for a reader. */
#ifndef PRODUCER_DEMO_WEB_FEED_H
#define PRODUCER_DEMO_WEB_FEED_H

#include <stddef.h>

struct web_feed;
struct MHD_Connection;
struct MHD_Response;

struct web_feed *web_feed_open(void);
/* Replace the newest text by `text` (malloc'ed; the feed frees it) of n bytes; all readers get it. Any thread. */
void web_feed_publish(struct web_feed *feed, char *text, size_t n);
int web_feed_readers(struct web_feed *feed);
/* All answers end; new readers get none. Before web_stop. */
void web_feed_end(struct web_feed *feed);
void web_feed_close(struct web_feed *feed); /* after web_stop */

/* For web.c: the answer to a new reader; it is the caller's. */
struct MHD_Response *web_feed_response(struct web_feed *feed, struct MHD_Connection *connection);

#endif
