/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "producer-demo/lib/embedded.h"
#include "producer-demo/lib/points.h"
#include "producer-demo/lib/uuid.h"
#include "producer-demo/order_service/body.h"
#include "producer-demo/order_service/requests.h"
#include "producer-demo/order_service/work.h"

/* --- for operators ------------------------------------------------------------------------------------------------ */

void counters_show(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    (void)request;
    (void)id;
    response->body = tally_render(shop->tally, &response->body_n);
    response->content_type = "text/plain; version=0.0.4; charset=utf-8";
    response->status = 200;
}

void health_show(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    struct work work;

    (void)request;
    (void)id;
    if (work_begin(&work, shop, "read-before"))
        web_response_text(response, 200, "text/plain; charset=utf-8", "ok\n");
    else
        web_response_text(response, 503, "text/plain; charset=utf-8", "no database: %s\n", work.reason);
    work_end(&work);
}

void openapi_show(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    (void)shop;
    (void)request;
    (void)id;
    web_response_text(response, 200, "application/json", "%s", order_service_openapi);
}

void faults_arm(const struct shop *shop, const struct web_request *request, const char *id, struct web_response *response)
{
    const char *point = NULL;
    const struct body_field field = {.name = "point", .text = &point, .text_max = 200};
    json_t *body = body_read(request, &field, 1, response);
    char reason[300];

    (void)shop;
    (void)id;
    if (body && points_arm(point, reason, sizeof reason))
        response->status = 204;
    else if (body)
        web_response_problem(response, 400, "the fault point is not valid", "%s", reason);
    json_decref(body);
}

/* --- which request it is ------------------------------------------------------------------------------------------ */

static const struct route {
    const char *method, *before, *after; /* the path is before, or before ID after */
    request_handler *handler;
} routes[] = {
    {"POST", "/orders", NULL, order_place},        {"GET", "/orders/", "", order_show},
    {"DELETE", "/orders/", "", order_cancel},      {"PUT", "/orders/", "/address", order_move},
    {"GET", "/orders/", "/refunds", refunds_show}, {"POST", "/orders/", "/refunds", refund_make},
    {"POST", "/faults", NULL, faults_arm},         {"GET", "/metrics", NULL, counters_show},
    {"GET", "/healthz", NULL, health_show},        {"GET", "/openapi.json", NULL, openapi_show},
};

#define ROUTES_N (sizeof routes / sizeof *routes)

/* Is the path of that form? ret_id: the order's id in lower case, or "". */
static bool path_matches(const char *path, const struct route *route, char ret_id[37])
{
    char text[37];
    struct uuid id;
    size_t before_n = strlen(route->before);

    ret_id[0] = 0;
    if (!route->after)
        return strcmp(path, route->before) == 0;
    if (strncmp(path, route->before, before_n) != 0 || strlen(path) < before_n + 36 || strcmp(path + before_n + 36, route->after) != 0)
        return false;
    memcpy(text, path + before_n, 36);
    text[36] = 0;
    if (!uuid_read(text, &id))
        return false;
    uuid_print(id, ret_id);
    return true;
}

/* HEAD is a GET whose body libmicrohttpd does not send. */
static bool method_matches(const char *method, const struct route *route)
{
    return strcmp(method, route->method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

static void allow_add(char *allow, size_t size, const char *method)
{
    size_t n = strlen(allow);

    (void)snprintf(allow + n, size - n, "%s%s%s", n ? ", " : "", method, strcmp(method, "GET") == 0 ? ", HEAD" : "");
}

static void route_take(const struct shop *shop, const struct web_request *request, struct web_response *response)
{
    char id[37], allow[100] = "";

    for (size_t i = 0; i < ROUTES_N; i++) {
        if (!path_matches(request->path, &routes[i], id))
            continue;
        if (method_matches(request->method, &routes[i])) {
            routes[i].handler(shop, request, *id ? id : NULL, response);
            return;
        }
        allow_add(allow, sizeof allow, routes[i].method);
    }
    if (!*allow) {
        web_response_problem(response, 404, "there is no such path", "GET /openapi.json lists them; an order's id is a UUID");
        return;
    }
    web_response_problem(response, 405, "this path does not know the method", "it knows %s", allow);
    web_response_header(response, "Allow", "%s", allow);
}

void request_route(void *context, const struct web_request *request, struct web_response *response)
{
    const struct shop *shop = context;
    struct timespec begin, end;

    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    route_take(shop, request, response);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    tally_latency(shop->tally, (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000);
    if (response->status >= 400 && response->status < 500)
        shop_count(shop, COUNT_REFUSED);
}
