/* SPDX-License-Identifier: BSD-2-Clause */
/* Looks at everything about once a second, in a thread of its own, and publishes what it saw as one event to all pages. When looking takes long,
 * because the tables have grown, it looks less often: it never uses more than a third of its time. */
#ifndef PRODUCER_DEMO_PANEL_SAMPLER_H
#define PRODUCER_DEMO_PANEL_SAMPLER_H

#include "producer-demo/panel/panel.h"

#include <jansson.h>
#include <stdint.h>

/* Begin; the panel must have all but its sampler. */
struct sampler *sampler_open(struct panel *panel);
void sampler_close(struct sampler *sampler);
/* The demo begins anew: no history, all counts from zero. Any thread. */
void sampler_forget(struct sampler *sampler);
/* See timeline_points; the caller's. Any thread. */
json_t *sampler_history(struct sampler *sampler);

int64_t sampler_now_ms(void); /* since 1970 */

#endif
