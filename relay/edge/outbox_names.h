/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of topics and their numbers, from the first row that names one until it is forgotten. */
#ifndef RELAY_EDGE_OUTBOX_NAMES_H
#define RELAY_EDGE_OUTBOX_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct names;

#define NAMES_NONE UINT32_MAX

/* Numbers are below `topics_max`. NULL: out of memory. */
struct names *names_new(uint32_t topics_max);
void names_free(struct names *t); /* NULL is allowed. */

/* The number of `name`, borrowed; a new one if it has none. NAMES_NONE: all numbers are taken. */
uint32_t names_number(struct names *t, const char *name, size_t name_n);
/* Lent until names_forget. Asserts that the number is in use. */
const char *names_name(const struct names *t, uint32_t topic);
void names_forget(struct names *t, uint32_t topic);

#endif
