/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/demo/stub_shop.h"

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "producer-demo/lib/web.h"
#include "tests/lib/test.h"

struct stub_shop {
    struct web *web;
    char url[64];
    pthread_mutex_t mutex; /* of all below */
    struct stub_order orders[STUB_ORDERS_MAX];
    int orders_n, requests_n;
    struct stub_trouble troubles[STUB_TROUBLES_MAX];
    int troubles_n, troubles_done;
    pid_t client;
};

static void order_show(struct web_response *response, int status, const struct stub_order *order)
{
    web_response_text(response, status, "application/json", "{\"order_id\":\"%s\",\"address\":\"%s\",\"version\":%lld}", order->id,
                      order->address, order->version);
    web_response_header(response, "ETag", "\"%lld\"", order->version);
}

static void text_take(const json_t *body, const char *name, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(body, name));

    (void)snprintf(to, size, "%s", text ? text : "");
}

/* Of `path` "/orders/ID..."; NULL: there is none. */
static struct stub_order *order_find(struct stub_shop *shop, const char *path)
{
    const char *id = path + strlen("/orders/");

    for (int i = 0; i < shop->orders_n; i++)
        if (strncmp(shop->orders[i].id, id, strlen(shop->orders[i].id)) == 0)
            return &shop->orders[i];
    return NULL;
}

static void order_place(struct stub_shop *shop, const struct web_request *request, const json_t *body, struct web_response *response)
{
    const char *key = web_request_header(request, "Idempotency-Key"), *scope = web_request_header(request, "X-Client-Id");
    struct stub_order *order = &shop->orders[shop->orders_n];

    CHECK(key && strlen(key) == 36 && shop->orders_n < STUB_ORDERS_MAX);
    for (int i = 0; i < shop->orders_n; i++)
        if (strcmp(shop->orders[i].id, key) == 0) {
            order_show(response, 201, &shop->orders[i]);
            web_response_header(response, "Idempotent-Replayed", "true");
            return;
        }
    *order = (struct stub_order){.version = 1};
    (void)snprintf(order->id, sizeof order->id, "%s", key);
    (void)snprintf(order->scope, sizeof order->scope, "%s", scope ? scope : "anonymous");
    text_take(body, "reference", order->reference, sizeof order->reference);
    text_take(body, "address", order->address, sizeof order->address);
    shop->orders_n++;
    order_show(response, 201, order);
}

static void order_move(struct stub_order *order, const struct web_request *request, const json_t *body, struct web_response *response)
{
    const char *match = web_request_header(request, "If-Match");
    char version[32];

    (void)snprintf(version, sizeof version, "\"%lld\"", order->version);
    if (!match || strcmp(match, version) != 0) {
        web_response_problem(response, 412, "another version", "read it again");
        return;
    }
    text_take(body, "address", order->address, sizeof order->address);
    order->version++;
    order_show(response, 200, order);
}

static void carry_out(struct stub_shop *shop, const struct web_request *request, struct web_response *response)
{
    json_t *body = json_loads(request->body, 0, NULL);
    struct stub_order *order;

    if (strcmp(request->path, "/orders") == 0)
        order_place(shop, request, body, response);
    else if (!(order = order_find(shop, request->path)))
        web_response_problem(response, 404, "no such order", "use another id");
    else if (strcmp(request->method, "PUT") == 0)
        order_move(order, request, body, response);
    else
        order_show(response, 200, order);
    json_decref(body);
}

static void trouble_make(const struct stub_shop *shop, struct stub_trouble trouble, const struct web_request *request)
{
    if (trouble.kill)
        (void)kill(shop->client, SIGKILL);
    if (trouble.lose)
        (void)shutdown(MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, SHUT_RDWR);
}

static void handle(void *context, const struct web_request *request, struct web_response *response)
{
    struct stub_shop *shop = context;
    struct stub_trouble trouble = {0};

    pthread_mutex_lock(&shop->mutex);
    if (strcmp(request->method, "GET") != 0) {
        shop->requests_n++;
        if (shop->troubles_done < shop->troubles_n)
            trouble = shop->troubles[shop->troubles_done++];
    }
    if (trouble.status == 0)
        carry_out(shop, request, response);
    else
        web_response_problem(response, trouble.status, "trouble", "as the test wanted");
    if (trouble.retry_after_s > 0)
        web_response_header(response, "Retry-After", "%d", trouble.retry_after_s);
    trouble_make(shop, trouble, request);
    pthread_mutex_unlock(&shop->mutex);
}

struct stub_shop *stub_shop_start(int port)
{
    struct stub_shop *shop = test_allocate(sizeof *shop);
    char listen[32], reason[200] = "";

    CHECK(pthread_mutex_init(&shop->mutex, NULL) == 0);
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    shop->web = web_start(
        &(struct web_settings){.listen = listen, .threads = 4, .body_max = 65536, .timeout_s = 60, .handler = handle, .context = shop},
        reason, sizeof reason);
    if (!shop->web)
        test_fail(__FILE__, __LINE__, "%s", reason);
    (void)snprintf(shop->url, sizeof shop->url, "http://127.0.0.1:%d", web_port(shop->web));
    return shop;
}

void stub_shop_stop(struct stub_shop *shop)
{
    web_stop(shop->web);
}

const char *stub_shop_url(const struct stub_shop *shop)
{
    return shop->url;
}

void stub_shop_trouble(struct stub_shop *shop, const struct stub_trouble *troubles, int troubles_n, pid_t client)
{
    CHECK(troubles_n <= STUB_TROUBLES_MAX);
    pthread_mutex_lock(&shop->mutex);
    memcpy(shop->troubles, troubles, (size_t)troubles_n * sizeof *troubles);
    shop->troubles_n = troubles_n;
    shop->troubles_done = 0;
    shop->client = client;
    pthread_mutex_unlock(&shop->mutex);
}

static int number_read(struct stub_shop *shop, const int *number)
{
    int value;

    pthread_mutex_lock(&shop->mutex);
    value = *number;
    pthread_mutex_unlock(&shop->mutex);
    return value;
}

int stub_shop_requests(struct stub_shop *shop)
{
    return number_read(shop, &shop->requests_n);
}

int stub_shop_orders(struct stub_shop *shop)
{
    return number_read(shop, &shop->orders_n);
}

struct stub_order stub_shop_order(struct stub_shop *shop, int number)
{
    struct stub_order order;

    pthread_mutex_lock(&shop->mutex);
    CHECK(number < shop->orders_n);
    order = shop->orders[number];
    pthread_mutex_unlock(&shop->mutex);
    return order;
}

int stub_shop_references(struct stub_shop *shop)
{
    int n = 0;

    pthread_mutex_lock(&shop->mutex);
    for (int i = 0; i < shop->orders_n; i++) {
        int j = 0;

        while (strcmp(shop->orders[j].reference, shop->orders[i].reference) != 0)
            j++;
        n += j == i;
    }
    pthread_mutex_unlock(&shop->mutex);
    return n;
}
