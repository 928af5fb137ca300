/* SPDX-License-Identifier: BSD-2-Clause */
/* One librdkafka client from its creation to its destruction: its event queue, its topics, and what of it must run on a worker thread.
 * Within the edge only. */
#ifndef RELAY_EDGE_PRODUCER_SESSION_H
#define RELAY_EDGE_PRODUCER_SESSION_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct session;

/* `error` of asking any broker for metadata: 0 if one answered. */
typedef void (*session_on_probed)(void *data, rd_kafka_resp_err_t error);

/* Takes `conf`, also if it fails. Adds to the eventfd `wakeup_fd` whenever there may be something in the queue. Keeps `loop`. Returns NULL
 * with a sentence in `error`. */
struct session *session_new(uv_loop_t *loop, rd_kafka_conf_t *conf, uint32_t topics_max, int wakeup_fd, char *error, size_t error_size);

rd_kafka_t *session_client(const struct session *s);
rd_kafka_queue_t *session_queue(const struct session *s);

/* The handle of `topic`, made when it is first asked for (`ret_new`); lent until session_forget. NULL: librdkafka does not take the name. */
rd_kafka_topic_t *session_topic(struct session *s, uint32_t topic, const char *name, bool *ret_new);
void session_forget(struct session *s, uint32_t topic);

/* Ask a broker for the metadata of all topics in use, which also refreshes what the client knows of them. Returns false while such
 * a question is out. A session that ends in between answers nothing. */
bool session_probe(struct session *s, session_on_probed on_probed, void *data);

/* Destroy the client on a worker thread, where it may wait for a name to be resolved; then `s` is gone and `on_ended` is called. */
void session_end(struct session *s, void (*on_ended)(void *data, const struct session *s), void *data);

#endif
