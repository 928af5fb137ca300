/* SPDX-License-Identifier: BSD-2-Clause */
/* What is served where: the page's files, /events (server-sent), /history, POST /press/BUTTON. */
#ifndef PRODUCER_DEMO_PANEL_SITE_H
#define PRODUCER_DEMO_PANEL_SITE_H

#include "producer-demo/lib/web.h"
#include "producer-demo/panel/panel.h"

struct site {
    struct panel *panel;
    int port; /* ours */
};

web_handler site_handle; /* its context is a struct site */

#endif
