/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes of the demo as the panel knows them: the script that started them keeps a folder with, for each, NAME.pid and NAME.port, and
 * starts again whatever is dead, unless there is NAME.down. So the panel owns no process: it sends signals, and makes or removes such files. */
#ifndef PRODUCER_DEMO_PANEL_PLACE_H
#define PRODUCER_DEMO_PANEL_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

enum place_state {
    PLACE_ABSENT, /* this demo has none of that name */
    PLACE_DEAD,   /* the script will start it again */
    PLACE_DOWN,   /* kept stopped by its NAME.down */
    PLACE_FROZEN, /* SIGSTOP */
    PLACE_RUNNING
};

struct place {
    enum place_state state;
    pid_t pid; /* 0 unless it is frozen or running */
    int port;  /* of its HTTP server; 0: it has none */
};

/* Look now. `folder` is the script's; `name` that of a process. */
struct place place_look(const char *folder, const char *name);
const char *place_state_name(enum place_state state); /* absent, dead, down, frozen, running */
/* Send it a signal; false: it does not run. Which process it was goes to *ret_pid. */
bool place_signal(const char *folder, const char *name, int signal, pid_t *ret_pid);
/* Shall it be kept stopped? false: the file cannot be made or removed; errno says why. */
bool place_keep_down(const char *folder, const char *name, bool down);

#endif
