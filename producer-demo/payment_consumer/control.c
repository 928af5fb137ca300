/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/payment_consumer/control.h"

#include "producer-demo/lib/points.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define FAULTS_BYTES_MAX 4096

static void faults_show(const struct crew *crew, struct web_response *response)
{
    web_response_text(response, 200, "application/json", "{\"redeliver_percent\":%lld}\n", (long long)crew->redeliver_percent);
}

/* {"redeliver_percent": 0..100} or {"point": "NAME:N:ACTION"}, or both. */
static void faults_set(struct crew *crew, const struct web_request *request, struct web_response *response)
{
    json_t *body = json_loadb(request->body, request->body_n, 0, NULL);
    json_int_t percent = -1;
    const char *point = NULL;
    char reason[256];

    if (!body || json_unpack(body, "{s?I, s?s !}", "redeliver_percent", &percent, "point", &point) != 0 || (percent < 0 && !point) ||
        percent < -1 || percent > 100)
        web_response_problem(response, 400, "These are no faults", "%s",
                             "send {\"redeliver_percent\": 0..100} or {\"point\": \"NAME:N:ACTION\"}");
    else if (point && !points_arm(point, reason, sizeof reason))
        web_response_problem(response, 400, "There is no such fault", "%s", reason);
    else {
        if (percent >= 0)
            crew->redeliver_percent = percent;
        faults_show(crew, response);
    }
    json_decref(body);
}

static void metrics_show(const struct crew *crew, struct web_response *response)
{
    response->status = 200;
    response->content_type = "text/plain; version=0.0.4";
    response->body = tally_render(crew->tally, &response->body_n);
}

static void handle(void *context, const struct web_request *request, struct web_response *response)
{
    struct crew *crew = context;
    bool get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    bool faults = strcmp(request->path, "/faults") == 0;

    if (faults && strcmp(request->method, "POST") == 0) {
        faults_set(crew, request, response);
    } else if (faults && get) {
        faults_show(crew, response);
    } else if (strcmp(request->path, "/metrics") == 0 && get) {
        metrics_show(crew, response);
    } else if (strcmp(request->path, "/healthz") == 0 && get) {
        web_response_text(response, 200, "text/plain", "fine\n");
    } else if (faults || strcmp(request->path, "/metrics") == 0 || strcmp(request->path, "/healthz") == 0) {
        web_response_problem(response, 405, "Not this method here", "%s", "GET /metrics, GET /healthz, POST /faults are there");
        web_response_header(response, "Allow", faults ? "GET, HEAD, POST" : "GET, HEAD");
    } else {
        web_response_problem(response, 404, "There is nothing", "%s", "GET /metrics, GET /healthz, POST /faults are there");
    }
}

struct web *control_start(struct crew *crew, char *ret_reason, size_t reason_size)
{
    return web_start(&(struct web_settings){.listen = crew->settings->listen,
                                            .threads = 1,
                                            .body_max = FAULTS_BYTES_MAX,
                                            .timeout_s = 10,
                                            .handler = handle,
                                            .context = crew},
                     ret_reason, reason_size);
}
