/* SPDX-License-Identifier: BSD-2-Clause */
/* The temp folder of a test program: one below it for what its tests share, and one for each test while it runs. Names are short, because
 * sockets lie there. */
#ifndef TESTS_LIB_FOLDER_H
#define TESTS_LIB_FOLDER_H

#include <stdbool.h>
#include <stdio.h>

void folder_create(void);            /* once, in the parent */
void folder_enter(const char *test); /* in the parent, before it forks */
void folder_leave(void);             /* remove that test's folder, unless TEST_KEEP is set */
void folder_remove_all(void);

const char *folder_shared(void); /* lives as long as the program, seen by every test */
const char *folder_output(void); /* the file for stdout and stderr of this test */
void folder_show_output(FILE *to);
void folder_show_logs(FILE *to);      /* the ends of its *.log files */
void folder_remove(const char *path); /* with everything in it */

#endif
