/* SPDX-License-Identifier: BSD-2-Clause */
/* What a crash test can show for itself. A test's output is seen only if it fails, but that a fault hit must be seen where the test passes:
 * evidence goes to the program's own stdout, and, a line a test, to the file TEST_EVIDENCE, whose faults tests/crash/evidence.sh sums up. */
#ifndef TESTS_CRASH_EVIDENCE_H
#define TESTS_CRASH_EVIDENCE_H

/* In the parent, before the first test: keeps its stdout, which the tests' own children do not get. */
void evidence_open(void);
/* In a test: one line, with `faults` that hit; a newline is added. */
void evidence_tell(unsigned faults, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Should this test fail from now on, then what it leaves behind is kept in a folder below TEST_EVIDENCE_FOLDER (nothing is kept without):
 * every *.log, the test's own output, the history, the rows with their marks, and a dump of the topics. The strings are borrowed and read
 * when it fails. */
struct evidence_scene {
    const char *name;           /* of the folder */
    const char *database;       /* conninfo; what cannot be read any more is left out */
    const char *kafka, *topics; /* bootstrap servers; names separated by commas */
    const char *repeat;         /* the command that runs the same again */
};
void evidence_keep(const struct evidence_scene *scene);

#endif
