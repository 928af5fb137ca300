/* SPDX-License-Identifier: BSD-2-Clause */
/* What systemd is told. A build without libsystemd must do nothing, and do it without a crash. */
#include "relay/app/notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/services.h"
#include "tests/lib/test.h"

/* The next thing that the service manager is told, "" if there is none; lent until the next call. */
static const char *told(int fd)
{
    static char text[1000];
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static int manager(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", temp_folder());
    CHECK(bind(fd, (const struct sockaddr *)&address, sizeof address) == 0);
    CHECK(setenv("NOTIFY_SOCKET", address.sun_path, 1) == 0);
    return fd;
}

TEST(notify_tells_the_service_manager)
{
    int fd = manager();
    char pid[20];

    snprintf(pid, sizeof pid, "%d", (int)getpid());
    CHECK(setenv("WATCHDOG_PID", pid, 1) == 0 && setenv("WATCHDOG_USEC", "3000000", 1) == 0);
#ifdef HAVE_SYSTEMD
    notify_ready();
    CHECK_STR(told(fd), "READY=1");
    notify_status("published %d\nMAINPID=1", 5);
    CHECK_STR(told(fd), "STATUS=published 5");
    CHECK_EQ(notify_alive_interval_ms(), 1500);
    notify_alive();
    CHECK_STR(told(fd), "WATCHDOG=1");
    notify_stopping();
    CHECK_STR(told(fd), "STOPPING=1");
#else
    notify_ready();
    notify_status("published %d", 5);
    notify_alive();
    notify_stopping();
    CHECK_EQ(notify_alive_interval_ms(), 0);
#endif
    CHECK_STR(told(fd), "");
    (void)close(fd);
}

TEST(notify_without_a_service_manager)
{
    CHECK(unsetenv("NOTIFY_SOCKET") == 0 && unsetenv("WATCHDOG_USEC") == 0);
    notify_ready();
    notify_status("%s", "x");
    notify_alive();
    notify_stopping();
    CHECK_EQ(notify_alive_interval_ms(), 0);
}
