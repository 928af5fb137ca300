/* SPDX-License-Identifier: BSD-2-Clause */
/* One librdkafka client from its creation to its destruction: its event queue, its topics, and what of it must run on a worker thread.
 * Within the edge only. */
#ifndef RELAY_EDGE_PRODUCER_HANDLE_H
#define RELAY_EDGE_PRODUCER_HANDLE_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct handle;

/* `error` of asking any broker for metadata: 0 if one answered. */
typedef void (*handle_on_answered)(void *data, rd_kafka_resp_err_t error);

/* Takes `conf`, also if it fails. Adds to the eventfd `wakeup_fd` whenever there may be something in the queue. Keeps `loop`. Returns NULL
 * with a sentence in `error`. */
struct handle *handle_new(uv_loop_t *loop, rd_kafka_conf_t *conf, uint32_t topics_max, int wakeup_fd, char *error, size_t error_size);

rd_kafka_t *handle_kafka(const struct handle *h);
rd_kafka_queue_t *handle_queue(const struct handle *h);

/* The handle of `topic`, made when it is first asked for (`ret_new`); lent until handle_forget. NULL: librdkafka does not take the name. */
rd_kafka_topic_t *handle_topic(struct handle *h, uint32_t topic, const char *name, bool *ret_new);
void handle_forget(struct handle *h, uint32_t topic);

/* Ask a broker for the metadata of all topics in use, which also refreshes what the client knows of them. Returns false while such
 * a question is out. A client that ends in between answers nothing. */
bool handle_ask(struct handle *h, handle_on_answered on_answered, void *data);

/* Destroy the client on a worker thread, where it may wait for a name to be resolved; then `h` is gone and `on_ended` is called. */
void handle_end(struct handle *h, void (*on_ended)(void *data, const struct handle *h), void *data);

#endif
