/* SPDX-License-Identifier: BSD-2-Clause */
/* Fill a topic with the events of an order service that nobody needs to run for it:
 *
 *     payments BOOTSTRAP TOPIC N     N orders placed, one event each
 */
#include "tests/bench/client.h"

#include "producer-demo/lib/uuid.h"

enum {
    PAYLOAD_MAX = 320,
    FLUSH_MS = 60000
};

/* The payload is kept until its report. */
static void on_report(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *data)
{
    (void)kafka;
    (void)data;
    if (message->err)
        client_fail("a record was not taken: %s", rd_kafka_err2str(message->err));
    free(message->_private);
}

static void order_produce(rd_kafka_t *kafka, const char *topic, long number)
{
    char id[37], order[37], *payload = malloc(PAYLOAD_MAX);
    long cents = 100 + number % 10000;
    int n;

    if (payload == NULL)
        client_fail("out of memory");
    uuid_print(uuid_make(), id);
    uuid_print(uuid_make(), order);
    n = snprintf(payload, PAYLOAD_MAX,
                 "{\"order_id\":\"%s\",\"version\":1,\"type\":\"order-placed\",\"customer\":\"customer %ld\",\"delta_cents\":%ld,"
                 "\"balance_cents\":%ld,\"at\":\"2026-01-01T00:00:00Z\"}",
                 order, number, cents, cents);
    client_produce(
        kafka,
        &(struct client_record){
            .topic = topic, .key = order, .key_n = 36, .id = id, .id_n = 36, .payload = payload, .payload_n = (size_t)n, .data = payload});
}

int main(int argc, char **argv)
{
    if (argc != 4)
        client_fail("usage: payments BOOTSTRAP TOPIC N");
    const char *const properties[] = {"bootstrap.servers", argv[1], "enable.idempotence", "true", "linger.ms", "5", NULL};
    rd_kafka_t *kafka = client_kafka(RD_KAFKA_PRODUCER, properties, on_report);
    long orders_n = client_number(argv[3], "N");

    for (long i = 0; i < orders_n; i++)
        order_produce(kafka, argv[2], i);
    if (rd_kafka_flush(kafka, FLUSH_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        client_fail("the broker did not take the records within 60 s");
    rd_kafka_destroy(kafka);
    return 0;
}
