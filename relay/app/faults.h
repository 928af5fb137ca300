/* SPDX-License-Identifier: BSD-2-Clause */
/* Fault points, in builds with FAULTS=1 only: named places where the environment variable FAULT_POINT lets the process die, stop, sleep or see
 * an error, to show that no such moment loses, reorders, invents or falsely marks a row.
 *
 *     FAULT_POINT=mark.after:3:kill               at the third time that a mark has been sent
 *     FAULT_POINT=mark.before:1:error,on-lost:1:stop   one after the other; each strikes once
 *     FAULT_POINT=publish.after:100:sleep=500     the loop stands still for so many milliseconds
 *     FAULT_POINT=list                            print every point, with "error" where that is possible, and exit
 *
 * An action has two points: NAME.before (error: it is not performed, and fails) and NAME.after (error: it is performed, and its answer is
 * lost). An event has one, on-NAME, before the relay is told of it (error: it is lost, with what brought it). A point that strikes writes a
 * line to stderr first. */
#ifndef RELAY_APP_FAULTS_H
#define RELAY_APP_FAULTS_H

#include <stdbool.h>

#ifdef FAULTS
/* Read FAULT_POINT. Exits with a sentence if it makes no sense. */
void faults_start(void);
/* Count that the process is at `point`, a name of the list; returns true if it is to see an error. */
bool faults_at(const char *point);
#else
static inline void faults_start(void)
{
}
#endif

#endif
