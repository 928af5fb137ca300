/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may press a button: the page that this server gave, in a browser on this machine. Other sites that are open in the same browser can
 * reach 127.0.0.1 as well, so the name asked for is checked (against DNS rebinding), and for buttons where the request comes from. */
#ifndef PRODUCER_DEMO_PANEL_GUARD_H
#define PRODUCER_DEMO_PANEL_GUARD_H

#include "producer-demo/lib/web.h"

/* Is the Host 127.0.0.1 or localhost with our port? If not, `response` says so. */
bool guard_host(const struct web_request *request, int port, struct web_response *response);
/* Is it a POST with JSON that our own page sent (Origin is ours, and Sec-Fetch-Site, where it came, same-origin)? If not, `response` says so. */
bool guard_button(const struct web_request *request, int port, struct web_response *response);

#endif
