/* SPDX-License-Identifier: BSD-2-Clause */
/* What a request asks for, in 32 bytes: a key that comes again with another fingerprint is a client's mistake, and is refused.
 *
 * It is the SHA-256 of three texts, each followed by a zero byte: the method; the path with its ids in lower case and without a query; the
 * body in canonical form: the JSON value printed without blanks, with the names of every object sorted, and all but ASCII as \u escapes. So
 * blanks, the order of names and the way a character is escaped do not count; whatever else differs does (1 and 1.0 too). The caller is
 * not part of it: it is the scope that the key belongs to. */
#ifndef PRODUCER_DEMO_ORDER_SERVICE_FINGERPRINT_H
#define PRODUCER_DEMO_ORDER_SERVICE_FINGERPRINT_H

#include <jansson.h>

/* As 64 hexadecimal digits, lower case. */
void fingerprint_make(const char *method, const char *path, const json_t *body, char ret_hex[65]);

#endif
