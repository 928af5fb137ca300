/* SPDX-License-Identifier: BSD-2-Clause */
/* Which producers a broker remembers of a partition: DescribeProducers (61), version 0, which librdkafka does not speak. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define DESCRIBE_PRODUCERS 61
#define ANSWER_MAX         65536

struct bytes {
    unsigned char at[ANSWER_MAX];
    size_t n, read;
};

static void put(struct bytes *to, uint64_t number, unsigned size)
{
    while (size-- > 0)
        to->at[to->n++] = (unsigned char)(number >> (8 * size));
}

/* An array or text of `n` in the compact form: n + 1. Below 127, so that it is one byte. */
static void put_count(struct bytes *to, size_t n)
{
    if (n >= 127)
        test_fail(__FILE__, __LINE__, "%zu is too much for a question about producers", n);
    put(to, n + 1, 1);
}

static uint64_t get(struct bytes *from, unsigned size)
{
    uint64_t number = 0;
    for (; size > 0; size--) {
        if (from->read >= from->n)
            test_fail(__FILE__, __LINE__, "the answer about producers ends too early");
        number = number << 8 | from->at[from->read++];
    }
    return number;
}

/* A compact count: 7 bits a byte, the lowest first. */
static int64_t get_count(struct bytes *from)
{
    uint64_t number = 0, byte;
    unsigned shift = 0;
    do {
        byte = get(from, 1);
        number |= (byte & 127) << shift;
        shift += 7;
    } while (byte > 127);
    return (int64_t)number - 1;
}

static void request_write(struct bytes *q, const char *topic, int partition)
{
    put(q, 0, 4); /* its size, at the end */
    put(q, DESCRIBE_PRODUCERS, 2);
    put(q, 0, 2);          /* version */
    put(q, 1, 4);          /* correlation */
    put(q, UINT16_MAX, 2); /* no client id */
    put(q, 0, 1);          /* no tags, here and below */
    put_count(q, 1);
    put_count(q, strlen(topic));
    memcpy(q->at + q->n, topic, strlen(topic));
    q->n += strlen(topic);
    put_count(q, 1);
    put(q, (uint64_t)partition, 4);
    put(q, 0, 2);
    size_t n = q->n;
    q->n = 0;
    put(q, n - 4, 4);
    q->n = n;
}

static int broker_connect(const char *bootstrap)
{
    const char *port = strrchr(bootstrap, ':');
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 10};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t)(port != NULL ? atoi(port + 1) : 0));
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        connect(s, (const struct sockaddr *)&to, sizeof to) != 0)
        test_fail(__FILE__, __LINE__, "no broker at %s", bootstrap);
    return s;
}

static void receive(int s, unsigned char *to, size_t n)
{
    if (n > ANSWER_MAX || recv(s, to, n, MSG_WAITALL) != (ssize_t)n)
        test_fail(__FILE__, __LINE__, "no answer about producers");
}

/* Of one topic and one partition, as asked. */
static int answer_read(struct bytes *a, const char *topic)
{
    (void)get(a, 4 + 1); /* correlation, tags */
    (void)get(a, 4);     /* throttled for */
    (void)get_count(a);
    a->read += (size_t)get_count(a); /* the topic's name */
    (void)get_count(a);
    (void)get(a, 4); /* partition */
    int error = (int)get(a, 2);
    int64_t text_n = get_count(a);
    if (error != 0)
        test_fail(__FILE__, __LINE__, "producers of topic %s: error %d", topic, error);
    a->read += text_n > 0 ? (size_t)text_n : 0;
    return (int)get_count(a);
}

int kafka_topic_producers(const char *bootstrap, const char *topic, int partition)
{
    struct bytes *question = test_allocate(sizeof *question), *answer = test_allocate(sizeof *answer);
    int s = broker_connect(bootstrap);
    request_write(question, topic, partition);
    if (send(s, question->at, question->n, MSG_NOSIGNAL) != (ssize_t)question->n)
        test_fail(__FILE__, __LINE__, "no question about producers");
    answer->n = 4;
    receive(s, answer->at, 4);
    size_t n = get(answer, 4);
    receive(s, answer->at, n);
    close(s);
    answer->n = n;
    answer->read = 0;
    return answer_read(answer, topic);
}
