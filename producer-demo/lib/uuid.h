/* SPDX-License-Identifier: BSD-2-Clause */
/* UUIDs of version 7: 48 bits of milliseconds since 1970, then bits that make them unique. They sort by time, so a table that keeps the
 * identities of messages can be cut into days. They are either made (random: an intent, an order) or derived (the same words in, the same
 * UUID out: an event's identity, which must not change when the same request is carried out again). */
#ifndef PRODUCER_DEMO_UUID_H
#define PRODUCER_DEMO_UUID_H

#include <stdbool.h>
#include <stdint.h>

struct uuid {
    unsigned char bytes[16];
};

struct uuid uuid_make(void); /* a new one, of now; ends the program if the system has no random numbers */
/* Of the moment `created_ms` (since 1970) and of the SHA-256 of the three words; a word's end counts, so ("a", "bc") is not ("ab", "c"). */
struct uuid uuid_derive(int64_t created_ms, const char *scope, const char *key, int64_t number);
int64_t uuid_created_ms(struct uuid id);
void uuid_print(struct uuid id, char ret_text[37]); /* 8-4-4-4-12, lower case */
/* Text of that form, of any version, upper or lower case; false: it is none, and *ret_id is unchanged. */
bool uuid_read(const char *text, struct uuid *ret_id);

#endif
