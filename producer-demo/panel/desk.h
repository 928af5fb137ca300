/* SPDX-License-Identifier: BSD-2-Clause */
/* Buttons that were pressed: each is carried out by a thread of the desk, never by one that serves pages, and what came of it is kept as one
 * sentence. The newest 24 are remembered. */
#ifndef PRODUCER_DEMO_PANEL_DESK_H
#define PRODUCER_DEMO_PANEL_DESK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct desk;

/* Carry out one; may block for seconds. `arguments` is an object. Returns whether it worked; `ret_text` gets one sentence either way. */
typedef bool desk_button(void *context, const json_t *arguments, char *ret_text, size_t text_size);

struct desk_row {
    const char *name;
    desk_button *press;
};

/* `rows` (n of them) are lent until desk_close. */
struct desk *desk_open(const struct desk_row *rows, int rows_n, void *context);
void desk_close(struct desk *desk); /* waits for those under way */

enum desk_answer {
    DESK_TAKEN,
    DESK_UNKNOWN, /* no such button */
    DESK_BUSY     /* the same one is being carried out, or all threads are busy */
};

/* Press; keeps a reference of `arguments`. *ret_number is how desk_list calls it. Any thread; does not block. */
enum desk_answer desk_press(struct desk *desk, const char *name, json_t *arguments, int *ret_number);
/* The newest ones, oldest first: [{number, button, at, state: "doing"|"done"|"failed", text}]; the caller's. */
json_t *desk_list(struct desk *desk);

#endif
