/* SPDX-License-Identifier: BSD-2-Clause */
/* What a crash test can show for itself. A test's output is seen only if it fails, but that a fault hit must be seen where the test passes:
 * evidence goes to the program's own stdout, and, a line a test, to the file TEST_EVIDENCE, whose faults tests/crash/evidence.sh sums up. */
#ifndef TESTS_CRASH_EVIDENCE_H
#define TESTS_CRASH_EVIDENCE_H

/* In the parent, before the first test: keeps its stdout, which the tests' own children do not get. */
void evidence_open(void);
/* In a test: one line, with `faults` that hit; a newline is added. */
void evidence_tell(unsigned faults, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
