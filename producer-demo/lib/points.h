/* SPDX-License-Identifier: BSD-2-Clause */
/* Named fault points: places between two steps where a program of the demo can be made to die, to stop, or to fail. They are always compiled
 * in, since showing what happens there is what these programs are for. Armed by --fault NAME:N:ACTION, or at run time by POST /faults. */
#ifndef PRODUCER_DEMO_POINTS_H
#define PRODUCER_DEMO_POINTS_H

#include <stdbool.h>
#include <stddef.h>

enum point_action {
    POINT_NONE,
    POINT_KILL,
    POINT_STOP,
    POINT_ERROR
};

/* The names that this program has, for checks and messages; NULL-terminated, lent for ever. Call it before the others. */
void points_name(const char *const *names);
/* Arm one: at its Nth pass from now (1 is the next), ACTION is kill (SIGKILL), stop (SIGSTOP) or error. `text` is "NAME:N:ACTION". Another arming
 * of the same point replaces the first. false: ret_reason says in one line what is wrong with the text. Any thread, any time. */
bool points_arm(const char *text, char *ret_reason, size_t reason_size);
/* A thread passes the point, and takes no step more if it shall be killed or stopped there. Returns true if it shall fail. A name that
 * points_name did not give is a bug, asserted. */
bool points_pass(const char *name);

#endif
