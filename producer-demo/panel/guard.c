/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/guard.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Is `text` `prefix` and one of our names with our port? */
static bool is_ours(const char *text, const char *prefix, int port)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    char wanted[64];

    for (size_t i = 0; text && i < sizeof names / sizeof *names; i++) {
        (void)snprintf(wanted, sizeof wanted, "%s%s:%d", prefix, names[i], port);
        if (strcasecmp(text, wanted) == 0)
            return true;
    }
    return false;
}

bool guard_host(const struct web_request *request, int port, struct web_response *response)
{
    if (is_ours(web_request_header(request, "Host"), "", port))
        return true;
    web_response_problem(response, 421, "this host is not served here", "open http://127.0.0.1:%d/", port);
    return false;
}

static bool is_json(const char *type)
{
    return type && strncasecmp(type, "application/json", 16) == 0 && (type[16] == 0 || type[16] == ';' || type[16] == ' ');
}

bool guard_button(const struct web_request *request, int port, struct web_response *response)
{
    const char *site = web_request_header(request, "Sec-Fetch-Site");

    if (strcmp(request->method, "POST") != 0) {
        web_response_problem(response, 405, "a button is pressed with POST", "send a POST");
        web_response_header(response, "Allow", "POST");
    } else if (!is_ours(web_request_header(request, "Origin"), "http://", port) || (site && strcmp(site, "same-origin") != 0))
        web_response_problem(response, 403, "not from our own page", "press the button on http://127.0.0.1:%d/", port);
    else if (!is_json(web_request_header(request, "Content-Type")))
        web_response_problem(response, 415, "no JSON", "send Content-Type: application/json");
    else
        return true;
    return false;
}
