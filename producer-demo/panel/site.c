/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/site.h"

#include "producer-demo/panel/guard.h"
#include "producer-demo/panel/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nothing but what lies here may be loaded, run, asked or framed. */
#define POLICY                                                                                                            \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none';" \
    " form-action 'none'; frame-ancestors 'none'"

static const struct file {
    const char *path, *name, *type; /* name NULL: the chart library */
} files[] = {
    {"/", "index.html", "text/html; charset=utf-8"},
    {"/page.css", "page.css", "text/css; charset=utf-8"},
    {"/page.js", "page.js", "text/javascript; charset=utf-8"},
    {"/ways.js", "ways.js", "text/javascript; charset=utf-8"},
    {"/charts.js", "charts.js", "text/javascript; charset=utf-8"},
    {"/tour.js", "tour.js", "text/javascript; charset=utf-8"},
    {"/icon.svg", "icon.svg", "image/svg+xml"},
    {"/chart.js", NULL, "text/javascript; charset=utf-8"},
};

/* The whole of a file; the caller frees it. NULL: it cannot be read. */
static char *file_read(const char *path, size_t *ret_n)
{
    FILE *file = fopen(path, "re");
    char *bytes = NULL;
    long size;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        bytes = malloc((size_t)size + 1);
        if (bytes && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
            free(bytes);
            bytes = NULL;
        }
        *ret_n = (size_t)size;
    }
    (void)fclose(file);
    return bytes;
}

static void file_serve(const struct panel *panel, const struct file *file, struct web_response *response)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", panel->page, file->name ? file->name : "");
    response->body = file_read(file->name ? path : panel->chart, &response->body_n);
    if (!response->body) {
        web_response_problem(response, 404, "a file of the page is missing", "see that %s is there", file->name ? path : panel->chart);
        return;
    }
    response->status = 200;
    response->content_type = file->type;
}

static void json_serve(json_t *object, struct web_response *response)
{
    response->body = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!response->body)
        abort();
    response->body_n = strlen(response->body);
    response->status = 200;
    response->content_type = "application/json";
}

static void press(const struct panel *panel, const char *button, const struct web_request *request, struct web_response *response)
{
    json_t *arguments = json_loadb(request->body, request->body_n, 0, NULL);
    int number = 0;

    if (!json_is_object(arguments))
        web_response_problem(response, 400, "no JSON object", "send {} or the button's arguments");
    else
        switch (desk_press(panel->desk, button, arguments, &number)) {
        case DESK_TAKEN:
            web_response_text(response, 202, "application/json", "{\"number\": %d}", number);
            break;
        case DESK_BUSY:
            web_response_problem(response, 409, "this button is still at work", "wait until it is done");
            break;
        case DESK_UNKNOWN:
            web_response_problem(response, 404, "there is no such button", "reload the page");
            break;
        }
    json_decref(arguments);
}

/* Every page that is open holds a connection; nobody needs more of them than this. */
#define READERS_MAX 64

static void events_serve(const struct panel *panel, struct web_response *response)
{
    if (web_feed_readers(panel->feed) >= READERS_MAX) {
        web_response_problem(response, 503, "too many pages are open", "close some; there can be %d", READERS_MAX);
        return;
    }
    response->status = 200;
    response->content_type = "text/event-stream";
    response->feed = panel->feed;
}

static bool get_serve(const struct panel *panel, const char *path, struct web_response *response)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(path, files[i].path) == 0) {
            file_serve(panel, &files[i], response);
            return true;
        }
    if (strcmp(path, "/events") == 0) {
        events_serve(panel, response);
        return true;
    }
    if (strcmp(path, "/history") == 0) {
        json_serve(sampler_history(panel->sampler), response);
        return true;
    }
    return false;
}

void site_handle(void *context, const struct web_request *request, struct web_response *response)
{
    const struct site *site = context;
    const char *path = request->path;

    if (guard_host(request, site->port, response)) {
        if (strncmp(path, "/press/", 7) == 0) {
            if (guard_button(request, site->port, response))
                press(site->panel, path + 7, request, response);
        } else if (strcmp(request->method, "GET") != 0) {
            web_response_problem(response, 405, "only read here", "send a GET");
            web_response_header(response, "Allow", "GET");
        } else if (!get_serve(site->panel, path, response))
            web_response_problem(response, 404, "nothing is here", "open /");
    }
    web_response_header(response, "Content-Security-Policy", POLICY);
    web_response_header(response, "X-Content-Type-Options", "nosniff");
    web_response_header(response, "Referrer-Policy", "no-referrer");
    web_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    web_response_header(response, "Cache-Control", "no-store");
}
