/* SPDX-License-Identifier: BSD-2-Clause */
/* What systemd is told, through libsystemd where the build has it (HAVE_SYSTEMD); nothing happens otherwise, nor without a service manager
 * that asked for it. All of it may be called at any time. */
#ifndef RELAY_APP_NOTIFY_H
#define RELAY_APP_NOTIFY_H

#include <stdint.h>

void notify_ready(void);
void notify_stopping(void);
/* One line for people, as in `systemctl status`. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How often notify_alive() is to be called, half of what the service manager allows; 0: it does not ask for it. */
uint64_t notify_alive_interval_ms(void);
void notify_alive(void);

#endif
