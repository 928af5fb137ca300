/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands of the fault proxy, one a line; tests/lib/proxy.h says which there are. */
#ifndef TESTS_LIB_PROXY_COMMAND_H
#define TESTS_LIB_PROXY_COMMAND_H

#include <stddef.h>
#include <uv.h>

#include "tests/lib/proxy/connection.h"

struct command_box {
    uv_loop_t *loop;
    struct rules rules;
    struct listener *listeners;
};

/* Perform `line`, which is changed. The answer is a line without its end: "ok", "ok VALUE ..." or "no: REASON". */
void command_perform(struct command_box *box, char *line, char *ret_answer, size_t answer_size);

#endif
