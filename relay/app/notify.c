/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/notify.h"

#ifdef HAVE_SYSTEMD

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

void notify_ready(void)
{
    (void)sd_notify(0, "READY=1");
}

void notify_stopping(void)
{
    (void)sd_notify(0, "STOPPING=1");
}

void notify_status(const char *format, ...)
{
    char text[256] = "STATUS=";
    size_t prefix_n = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text + prefix_n, sizeof text - prefix_n, format, arguments);
    va_end(arguments);
    /* A second line would be another assignment. */
    text[strcspn(text, "\n")] = '\0';
    (void)sd_notify(0, text);
}

uint64_t notify_alive_interval_ms(void)
{
    uint64_t usec = 0;

    if (sd_watchdog_enabled(0, &usec) <= 0)
        return 0;
    return usec / 2000 > 0 ? usec / 2000 : 1;
}

void notify_alive(void)
{
    (void)sd_notify(0, "WATCHDOG=1");
}

#else

void notify_ready(void)
{
}

void notify_stopping(void)
{
}

void notify_status(const char *format, ...)
{
    (void)format;
}

uint64_t notify_alive_interval_ms(void)
{
    return 0;
}

void notify_alive(void)
{
}

#endif
