/* SPDX-License-Identifier: BSD-2-Clause */
/* An order service in this process, small enough to be told what goes wrong with which request: it heeds keys, and knows orders and their
 * addresses. For tests of the client; what the real one does is tested elsewhere. */
#ifndef TESTS_DEMO_STUB_SHOP_H
#define TESTS_DEMO_STUB_SHOP_H

#include <stdbool.h>
#include <sys/types.h>

#define STUB_ORDERS_MAX   2000
#define STUB_TROUBLES_MAX 32

struct stub_order {
    char id[40]; /* its first key */
    char scope[40], reference[40], address[80];
    long long version;
};

/* What happens to a request of POST, PUT or DELETE. */
struct stub_trouble {
    int status;        /* it is answered with this and not carried out; 0: it is carried out */
    int retry_after_s; /* with it; 0: without the header */
    bool lose;         /* the connection is closed instead of an answer */
    bool kill;         /* so is the client, by SIGKILL, before the answer */
};

struct stub_shop; /* any number of threads may ask it */

struct stub_shop *stub_shop_start(int port); /* 0: any free one */
void stub_shop_stop(struct stub_shop *shop);
const char *stub_shop_url(const struct stub_shop *shop); /* lent until it is stopped */

/* To the next requests, one each; then there is no more trouble. `client`: whom to kill. Before the requests are sent. */
void stub_shop_trouble(struct stub_shop *shop, const struct stub_trouble *troubles, int troubles_n, pid_t client);

int stub_shop_requests(struct stub_shop *shop); /* POST, PUT and DELETE, carried out or not */
int stub_shop_orders(struct stub_shop *shop);
struct stub_order stub_shop_order(struct stub_shop *shop, int number); /* from 0, in the order in which they were made */
int stub_shop_references(struct stub_shop *shop);                      /* how many different ones the orders have */

#endif
