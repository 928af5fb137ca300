/* SPDX-License-Identifier: BSD-2-Clause */
/* The shop as it is run: a PostgreSQL with the relay's schema, the card processor, the order service, and order-clients that want something. */
#ifndef TESTS_DEMO_SHOP_RIG_H
#define TESTS_DEMO_SHOP_RIG_H

#include "tests/demo/program.h"

struct shop_rig {
    struct postgres postgres;
    struct program card, service;
};

/* Everything but a client, started; lives until the test ends. `fault`: of the service (NAME:N:ACTION), or NULL. */
struct shop_rig *shop_start(const char *fault);
/* It died, or is killed now; start it again, without a fault. */
void shop_service_revive(struct shop_rig *rig);
void shop_card_revive(struct shop_rig *rig);

/* A client with the journal "NAME.journal" in a hurry; `orders` in all, half of them refunded in part, some cancelled or moved. `name` is its
 * client-id. `more` flags, NULL-terminated, or NULL. */
struct program shop_client(const struct shop_rig *rig, const char *name, int orders, const char *const *more);
/* Of the closing line of a client that ended: the number after `name`. */
long shop_client_counted(const struct program *client, const char *name);

/* All that must be true when every client came to its end: every intent is one order, one event for each change without holes in the versions,
 * the sums of the events are what the orders say, every refund moved money once, and no key is in progress. */
void shop_check(const struct shop_rig *rig, int orders);

#endif
