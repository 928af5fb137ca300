/* SPDX-License-Identifier: BSD-2-Clause */
/* What the buttons do: signals to real processes, files that keep them down, requests to the order service and to the consumers, statements. */
#ifndef PRODUCER_DEMO_PANEL_BUTTONS_H
#define PRODUCER_DEMO_PANEL_BUTTONS_H

#include "producer-demo/panel/desk.h"

/* The table for desk_open, whose context is the struct panel; *ret_n rows, for ever. */
const struct desk_row *buttons_rows(int *ret_n);

/* Those that are in files of their own. */
desk_button button_order, button_twice, button_bad_client, button_poison, button_release; /* buttons_orders.c */
desk_button button_reset;                                                                 /* buttons_reset.c */

#endif
