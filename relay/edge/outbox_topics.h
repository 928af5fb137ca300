/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of topics and their numbers, from the first row that names one until it is forgotten. */
#ifndef RELAY_EDGE_OUTBOX_TOPICS_H
#define RELAY_EDGE_OUTBOX_TOPICS_H

#include <stddef.h>
#include <stdint.h>

struct topics;

#define TOPICS_NONE UINT32_MAX

/* Numbers are below `topics_max`. NULL: out of memory. */
struct topics *topics_new(uint32_t topics_max);
void topics_free(struct topics *t); /* NULL is allowed. */

/* The number of `name`, borrowed; a new one if it has none. TOPICS_NONE: all numbers are taken. */
uint32_t topics_number(struct topics *t, const char *name, size_t name_n);
/* Lent until topics_forget. Asserts that the number is in use. */
const char *topics_name(const struct topics *t, uint32_t topic);
void topics_forget(struct topics *t, uint32_t topic);

#endif
