/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/patience.h"

#include <time.h>

int64_t patience_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool patience_until(bool (*is_so)(void *context), void *context, int64_t timeout_ms)
{
    const struct timespec pause = {0, 50000000};
    int64_t deadline_ms = patience_now_ms() + timeout_ms;

    while (!is_so(context)) {
        if (patience_now_ms() >= deadline_ms)
            return false;
        (void)nanosleep(&pause, NULL);
    }
    return true;
}
