/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/panel/place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number in FOLDER/NAME.WHAT; 0: there is none. */
static long number_read(const char *folder, const char *name, const char *what)
{
    char path[512], text[32] = "";
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s.%s", folder, name, what);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(text, sizeof text, file))
        text[0] = 0;
    (void)fclose(file);
    return strtol(text, NULL, 10);
}

static bool file_is_there(const char *folder, const char *name, const char *what)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s.%s", folder, name, what);
    return access(path, F_OK) == 0;
}

/* The letter of its state in /proc; 0: there is no such process. Names of programs may have spaces and brackets. */
static char process_state(long pid)
{
    char path[64], line[512] = "";
    const char *bracket;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(line, sizeof line, file))
        line[0] = 0;
    (void)fclose(file);
    bracket = strrchr(line, ')');
    return bracket && bracket[1] == ' ' ? bracket[2] : 0;
}

struct place place_look(const char *folder, const char *name)
{
    struct place place = {PLACE_ABSENT, 0, (int)number_read(folder, name, "port")};
    long pid = number_read(folder, name, "pid");
    char state = pid > 0 ? process_state(pid) : 0;

    if (pid > 0)
        place.state = PLACE_DEAD;
    if (state && state != 'Z' && state != 'X') {
        place.state = state == 'T' ? PLACE_FROZEN : PLACE_RUNNING;
        place.pid = (pid_t)pid;
    }
    if (file_is_there(folder, name, "down"))
        place.state = PLACE_DOWN;
    return place;
}

const char *place_state_name(enum place_state state)
{
    static const char *const names[] = {"absent", "dead", "down", "frozen", "running"};

    return names[state];
}

bool place_signal(const char *folder, const char *name, int signal, pid_t *ret_pid)
{
    struct place place = place_look(folder, name);

    *ret_pid = place.pid;
    return place.pid > 0 && kill(place.pid, signal) == 0;
}

bool place_keep_down(const char *folder, const char *name, bool down)
{
    char path[512];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s.down", folder, name);
    if (!down)
        return unlink(path) == 0 || errno == ENOENT;
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}
