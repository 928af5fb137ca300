/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting until something is so. */
#ifndef PRODUCER_DEMO_PANEL_PATIENCE_H
#define PRODUCER_DEMO_PANEL_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Ask every 50 ms; false: it was not so for `timeout_ms`. */
bool patience_until(bool (*is_so)(void *context), void *context, int64_t timeout_ms);
int64_t patience_now_ms(void); /* of a clock that only goes forward */

#endif
