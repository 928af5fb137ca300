/* SPDX-License-Identifier: BSD-2-Clause */
/* Children of this program and their orphans. The program adopts every orphan below it, so that nothing a test started, however often it
 * forked, can outlive the test. */
#ifndef TESTS_LIB_DESCENDANTS_H
#define TESTS_LIB_DESCENDANTS_H

#include <stdbool.h>
#include <sys/types.h>

#define DESCENDANTS_MAX 256

struct descendants {
    pid_t pids[DESCENDANTS_MAX];
    unsigned n;
};

void descendants_adopt(void);                               /* become the parent of orphans */
void descendants_of(pid_t parent, struct descendants *ret); /* its direct children now, zombies left out */
void descendants_remember(struct descendants *ret);         /* our own direct children */
void descendants_reap(pid_t but);                           /* bury every ended child that is not `but` */
void descendants_kill(const struct descendants *but);       /* kill and bury all but these (NULL: all) and what they leave behind */
bool descendants_alive(pid_t pid);                          /* of anybody; a zombie is not alive */
bool descendants_contain(const struct descendants *d, pid_t pid);

#endif
