/* SPDX-License-Identifier: BSD-2-Clause */
/* Kafka's framing and the few messages that the fault proxy looks into. Produce is read and answered in its versions 3 to 8 (those before
 * the flexible ones; librdkafka 2.0 sends up to 7), InitProducerId in 0 to 4; of everything else only the header is read. */
#ifndef TESTS_LIB_PROXY_KAFKA_WIRE_H
#define TESTS_LIB_PROXY_KAFKA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/proxy/request.h"
#include "tests/lib/proxy/wire.h"

#define KAFKA_FRAME_MAX (256 * 1024 * 1024)

enum kafka_key {
    KAFKA_PRODUCE = 0,
    KAFKA_INIT_PRODUCER_ID = 22
};

/* Bytes of the frame that begins at `bytes`, its length field counted; 0: not known yet or not all here; -1: this is not Kafka. */
int64_t kafka_frame_size(const uint8_t *bytes, size_t n);

/* Read a whole frame. Returns false if it is no request. What cannot be read of a Produce is left empty. */
bool kafka_request_read(const uint8_t *frame, size_t n, struct request *ret);
int32_t kafka_reply_correlation(const uint8_t *frame, size_t n); /* of a whole frame; -1 if it is no reply */

/* "Produce" -> 0, or a number as text. -1: there is no such API. */
int kafka_key_of(const char *name);

/* Append the reply that refuses all partitions of this request with `code`. Returns false if its API or version is none of ours. */
bool kafka_refuse(const uint8_t *frame, size_t n, int16_t code, struct bytes *ret);
/* Write `code` over the codes in a reply to Produce, and the offset that an error has. Returns how many partitions it has. */
unsigned kafka_spoil(uint8_t *frame, size_t n, int16_t version, int16_t code);

#endif
