/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys that wait, each for itself: one of their rows was refused alone, or was passed by. Each has a number, by which its record is found in
 * `behind`; here is what only keys need: whose they are, and what of them is in the window. A key is known by the 64-bit hash of topic and
 * key; two keys with one hash wait for each other, nothing worse.
 */
#ifndef RELAY_CORE_KEYS_H
#define RELAY_CORE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keys;

#define KEYS_NONE UINT32_MAX

size_t keys_size(uint32_t keys_max);
/* Lies in `memory` of keys_size() bytes, kept. */
struct keys *keys_init(void *memory, uint32_t keys_max);
void keys_reset(struct keys *k); /* none waits */

uint32_t keys_n(const struct keys *k);
uint32_t keys_find(const struct keys *k, uint64_t hash); /* KEYS_NONE: it does not wait */
/* It waits from now on; KEYS_NONE: no number is left. It must not be there (asserted). */
uint32_t keys_add(struct keys *k, uint64_t now_ms, uint32_t topic, uint64_t hash);
void keys_remove(struct keys *k, uint32_t key);
uint32_t keys_top(const struct keys *k); /* numbers in use are below it */
bool keys_used(const struct keys *k, uint32_t key);

uint32_t keys_topic(const struct keys *k, uint32_t key);
uint64_t keys_hash(const struct keys *k, uint32_t key);
uint64_t keys_since_ms(const struct keys *k, uint32_t key);

/* So many rows of it were queued or with the producer when it got its number; that many more are, or less. */
void keys_rows_in(struct keys *k, uint32_t key, uint32_t rows);
void keys_row_out(struct keys *k, uint32_t key);    /* acknowledged or dropped */
bool keys_idle(const struct keys *k, uint32_t key); /* none of its rows waits for an acknowledgement */

/* The smallest ids of their rows that are not marked: forget them; row `id` is one; INT64_MAX: there is none. */
void keys_firsts_begin(struct keys *k);
void keys_first_see(struct keys *k, uint32_t key, int64_t id);
int64_t keys_first(const struct keys *k, uint32_t key);

uint64_t keys_digest(const struct keys *k);

#endif
