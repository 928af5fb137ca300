/* SPDX-License-Identifier: BSD-2-Clause */
/* The relay's own deaths, and what takes its place. */
#include <signal.h>

#include "tests/crash/line.h"
#include "tests/lib/test.h"

TEST_WITHIN(crash_relay_killed, 90)
{
    struct line *l = line_begin("killed", NULL);

    for (int i = 0; i < 5; i++) {
        struct process *relay = line_relay(l, NULL);

        line_publishing(l);
        line_strike(l);
        process_signal(relay, SIGKILL);
        CHECK_EQ(process_wait(relay, 5), 128 + SIGKILL);
        line_hit(l, "kill -9 of the relay", "exit status %d", 128 + SIGKILL);
    }
    (void)line_relay(l, NULL);
    line_end(l, &(struct line_expected){.windows = LINE_D(1)});
}
