/* SPDX-License-Identifier: BSD-2-Clause */
/* The demo's programs as children of a test: started with a free port, found by the line that says where they listen. */
#ifndef TESTS_DEMO_PROGRAM_H
#define TESTS_DEMO_PROGRAM_H

#include "producer-demo/lib/fetch.h"
#include "tests/lib/services.h"

#define PROGRAM_ARGUMENTS_MAX 40

struct program {
    struct process process;
    const char *arguments[PROGRAM_ARGUMENTS_MAX + 1]; /* for program_restart; lent for ever */
    int port;                                         /* 0: it does not listen */
    char url[64];                                     /* "http://127.0.0.1:PORT", without a slash at its end */
};

/* Start build/VARIANT/`name` with the given flags (NULL-terminated, lent for ever) and wait for its line "listening on"; it gets --listen with a
 * free port. */
struct program program_serve(const char *name, const char *const *flags);
/* The same flags, on the same port; waits. The old one has ended. */
void program_restart(struct program *program);
/* The next restart is without this flag and its value. */
void program_forget(struct program *program, const char *flag);
/* One that does not listen: started, not waited for. */
struct program program_run(const char *name, const char *const *flags);

/* The value of a metric as it is written there ("card_replays_total", `card_movements_total{kind="charge"}`); -1: it is not there. */
int64_t program_metric(const struct program *program, const char *metric);

/* One request on a connection of its own. `headers` as in fetch.h; `body` may be NULL. What is returned lives until the test ends.
 * Any thread. */
const struct fetch_response *program_ask(const char *method, const char *url, const char *const *headers, const char *body);

/* Text as by printf that lives until the test ends. Any thread. */
const char *program_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
