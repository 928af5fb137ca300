/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/broker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "relay/edge/producer.h"

struct visit {
    uv_loop_t loop;
    uv_timer_t timer;
    struct producer *producer;
    bool decided, answers;
    char *sentence;
    size_t sentence_size;
};

/* The first verdict counts; then everything is closed, step by step, until the loop is empty. */
static void decide(struct visit *v, bool answers, const char *sentence)
{
    if (v->decided)
        return;
    v->decided = true;
    v->answers = answers;
    (void)snprintf(v->sentence, v->sentence_size, "%s", sentence);
    uv_close((uv_handle_t *)&v->timer, NULL);
    producer_close(v->producer, RELAY_MAIN);
}

static void on_reachable(void *data, bool reachable, const char *reason)
{
    decide(data, reachable, reason);
}

static void on_broken(void *data, enum relay_session session, enum relay_fault fault, const char *code, const char *reason)
{
    char sentence[512];

    (void)session;
    (void)fault;
    (void)snprintf(sentence, sizeof sentence, "Kafka refuses the session (%s: %s)", code, reason);
    decide(data, false, sentence);
}

static void on_late(uv_timer_t *timer)
{
    decide(timer->data, false, "no Kafka broker answers; are kafka.bootstrap.servers right, and is there a way to them?");
}

/* The loop is empty now, which is what ends it. */
static void on_freed(void *data)
{
    (void)data;
}

static void on_closed(void *data, enum relay_session session)
{
    struct visit *v = data;

    (void)session;
    producer_free(v->producer, on_freed, v);
}

/* Nothing is published and nothing is asked about topics. */
static void on_delivered(void *data, enum relay_session session, row_slot slot, row_slot later_slot)
{
    (void)data;
    (void)session;
    (void)slot;
    (void)later_slot;
}

static void on_refused(void *data, enum relay_session session, row_slot slot, enum relay_fault fault, const char *code)
{
    (void)data;
    (void)session;
    (void)slot;
    (void)fault;
    (void)code;
}

static void on_topic(void *data, uint32_t topic, int32_t partitions_n, uint32_t message_bytes_max, const char *reason)
{
    (void)data;
    (void)topic;
    (void)partitions_n;
    (void)message_bytes_max;
    (void)reason;
}

static void on_idle_limit(void *data, uint64_t expiration_ms)
{
    (void)data;
    (void)expiration_ms;
}

/* on_reachable has the reason in one sentence; the log has it in ten. */
static void on_log(void *data, enum producer_log_level level, const char *facility, const char *text)
{
    (void)data;
    (void)level;
    (void)facility;
    (void)text;
}

static const struct producer_callbacks callbacks = {
    .on_delivered = on_delivered,
    .on_refused = on_refused,
    .on_broken = on_broken,
    .on_closed = on_closed,
    .on_topic = on_topic,
    .on_idle_limit = on_idle_limit,
    .on_reachable = on_reachable,
    .on_log = on_log,
};

static struct producer *producer_of(struct visit *v, const struct config *c)
{
    struct producer_property *properties = calloc(c->kafka_n + 1, sizeof *properties);
    struct producer *p = NULL;

    for (size_t i = 0; properties != NULL && i < c->kafka_n; i++)
        properties[i] = (struct producer_property){.name = c->kafka[i].name, .value = c->kafka[i].value};
    if (properties != NULL)
        p = producer_new(&v->loop, properties, c->kafka_n, 1, 1, 1, &callbacks, v);
    free(properties);
    return p;
}

bool broker_answers(const struct config *c, unsigned wait_ms, char *ret_sentence, size_t sentence_size)
{
    struct visit v = {.sentence = ret_sentence, .sentence_size = sentence_size};

    (void)snprintf(ret_sentence, sentence_size, "out of memory while Kafka was asked");
    if (uv_loop_init(&v.loop) != 0)
        return false;
    v.producer = producer_of(&v, c);
    if (v.producer != NULL && producer_open(v.producer, RELAY_MAIN, 0, ret_sentence, sentence_size)) {
        (void)uv_timer_init(&v.loop, &v.timer);
        v.timer.data = &v;
        (void)uv_timer_start(&v.timer, on_late, wait_ms, 0);
    } else if (v.producer != NULL) {
        producer_free(v.producer, on_freed, &v);
    }
    (void)uv_run(&v.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&v.loop);
    return v.answers;
}
