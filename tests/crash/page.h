/* SPDX-License-Identifier: BSD-2-Clause */
/* What a relay shows at /metrics. */
#ifndef TESTS_CRASH_PAGE_H
#define TESTS_CRASH_PAGE_H

#include <stdint.h>

#include "tests/lib/services.h"

/* The value of the first line that begins with `name` and labels, if any; 0: there is none yet. The port is that of the relay's log. Fails
 * the test if there is no answer, or no such metric. */
int64_t page_metric(const struct process *relay, const char *name);

#endif
