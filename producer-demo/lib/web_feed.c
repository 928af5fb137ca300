/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/lib/web_feed.h"

#include <assert.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What was published once; lives as long as somebody sends it. */
struct text {
    char *bytes;
    size_t n;
    int users;
    uint64_t number; /* of the publication: 1, 2, ... */
};

struct reader {
    struct web_feed *feed;
    struct MHD_Connection *connection;
    struct text *text; /* being sent; NULL: none */
    size_t sent;
    uint64_t seen; /* the last publication that was begun */
    bool waiting;  /* libmicrohttpd does not ask until it is resumed */
    struct reader *next, **link;
};

struct web_feed {
    pthread_mutex_t mutex; /* of all below, and of every reader */
    struct text *newest;
    struct reader *readers;
    int readers_n;
    uint64_t published;
    bool ended;
};

static void text_drop(struct text *text)
{
    if (!text || --text->users > 0)
        return;
    free(text->bytes);
    free(text);
}

struct web_feed *web_feed_open(void)
{
    struct web_feed *feed = calloc(1, sizeof *feed);

    if (!feed)
        abort();
    pthread_mutex_init(&feed->mutex, NULL);
    return feed;
}

void web_feed_close(struct web_feed *feed)
{
    assert(feed->readers_n == 0);
    text_drop(feed->newest);
    pthread_mutex_destroy(&feed->mutex);
    free(feed);
}

static void readers_wake(struct web_feed *feed)
{
    for (struct reader *reader = feed->readers; reader; reader = reader->next)
        if (reader->waiting) {
            reader->waiting = false;
            MHD_resume_connection(reader->connection);
        }
}

void web_feed_publish(struct web_feed *feed, char *bytes, size_t n)
{
    struct text *text = calloc(1, sizeof *text);

    if (!text)
        abort();
    pthread_mutex_lock(&feed->mutex);
    *text = (struct text){bytes, n, 1, ++feed->published};
    text_drop(feed->newest);
    feed->newest = text;
    readers_wake(feed);
    pthread_mutex_unlock(&feed->mutex);
}

int web_feed_readers(struct web_feed *feed)
{
    int n;

    pthread_mutex_lock(&feed->mutex);
    n = feed->readers_n;
    pthread_mutex_unlock(&feed->mutex);
    return n;
}

void web_feed_end(struct web_feed *feed)
{
    pthread_mutex_lock(&feed->mutex);
    feed->ended = true;
    readers_wake(feed);
    pthread_mutex_unlock(&feed->mutex);
}

/* Go on to the newest text; false: it was sent already. */
static bool text_next(struct reader *reader)
{
    struct text *newest = reader->feed->newest;

    if (!newest || newest->number == reader->seen)
        return false;
    newest->users++;
    reader->text = newest;
    reader->sent = 0;
    reader->seen = newest->number;
    return true;
}

static ssize_t text_copy(struct reader *reader, char *buffer, size_t size)
{
    size_t rest = reader->text->n - reader->sent, n = rest < size ? rest : size;

    memcpy(buffer, reader->text->bytes + reader->sent, n);
    reader->sent += n;
    if (n == rest) {
        text_drop(reader->text);
        reader->text = NULL;
    }
    return (ssize_t)n;
}

/* Called by libmicrohttpd when it can send more. */
static ssize_t on_more(void *context, uint64_t position, char *buffer, size_t size)
{
    struct reader *reader = context;
    struct web_feed *feed = reader->feed;
    ssize_t n = 0;

    (void)position;
    pthread_mutex_lock(&feed->mutex);
    if (reader->text || text_next(reader))
        n = text_copy(reader, buffer, size);
    else if (feed->ended)
        n = MHD_CONTENT_READER_END_OF_STREAM;
    else { /* under the mutex, so that no publication comes between */
        reader->waiting = true;
        MHD_suspend_connection(reader->connection);
    }
    pthread_mutex_unlock(&feed->mutex);
    return n;
}

static void on_gone(void *context)
{
    struct reader *reader = context;
    struct web_feed *feed = reader->feed;

    pthread_mutex_lock(&feed->mutex);
    *reader->link = reader->next;
    if (reader->next)
        reader->next->link = reader->link;
    feed->readers_n--;
    text_drop(reader->text);
    pthread_mutex_unlock(&feed->mutex);
    free(reader);
}

struct MHD_Response *web_feed_response(struct web_feed *feed, struct MHD_Connection *connection)
{
    struct reader *reader = calloc(1, sizeof *reader);
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, on_more, reader, on_gone);

    if (!reader || !response)
        abort();
    pthread_mutex_lock(&feed->mutex);
    *reader = (struct reader){.feed = feed, .connection = connection, .next = feed->readers, .link = &feed->readers};
    if (reader->next)
        reader->next->link = &reader->next;
    feed->readers = reader;
    feed->readers_n++;
    pthread_mutex_unlock(&feed->mutex);
    return response;
}
