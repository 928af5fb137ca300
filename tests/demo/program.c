/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/demo/program.h"
#include "tests/lib/test.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Zeroed, until the test ends; from any thread. */
static void *keep(size_t size)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    void *memory;

    pthread_mutex_lock(&mutex);
    memory = test_allocate(size);
    pthread_mutex_unlock(&mutex);
    return memory;
}

const char *program_text(const char *format, ...)
{
    va_list arguments;
    char *text, *kept;
    int n;

    va_start(arguments, format);
    n = vasprintf(&text, format, arguments);
    va_end(arguments);
    CHECK(n >= 0);
    kept = keep((size_t)n + 1);
    memcpy(kept, text, (size_t)n + 1);
    free(text);
    return kept;
}

static struct program program_make(const char *name, const char *const *flags)
{
    struct program program = {.arguments = {program_text("%s/%s", TEST_BUILD_FOLDER, name)}};
    int n = 1;

    for (; *flags; flags++) {
        CHECK(n < PROGRAM_ARGUMENTS_MAX - 2); /* two are left for --listen */
        program.arguments[n++] = *flags;
    }
    return program;
}

static void program_await(struct program *program)
{
    const char *line = program_text("listening on %s", program->url);

    program->process = process_start(program->arguments, NULL, program->process.output[0] ? program->process.output : NULL);
    WAIT_UNTIL(strstr(process_output(&program->process), line) || !process_running(&program->process), 20);
    if (!process_running(&program->process))
        test_fail(__FILE__, __LINE__, "%s ended: %s", program->arguments[0], process_output(&program->process));
}

struct program program_serve(const char *name, const char *const *flags)
{
    struct program program = program_make(name, flags);
    int n = 0;

    while (program.arguments[n])
        n++;
    program.port = free_port();
    program.arguments[n] = "--listen";
    program.arguments[n + 1] = program_text("127.0.0.1:%d", program.port);
    (void)snprintf(program.url, sizeof program.url, "http://127.0.0.1:%d", program.port);
    program_await(&program);
    return program;
}

void program_restart(struct program *program)
{
    char output[sizeof program->process.output];

    CHECK(!process_running(&program->process));
    memcpy(output, program->process.output, sizeof output);
    CHECK(truncate(output, 0) == 0);
    program_await(program);
}

void program_forget(struct program *program, const char *flag)
{
    const char **argument = program->arguments;

    while (*argument && strcmp(*argument, flag) != 0)
        argument++;
    CHECK(*argument);
    do
        argument[0] = argument[2];
    while (*argument++);
}

struct program program_run(const char *name, const char *const *flags)
{
    struct program program = program_make(name, flags);

    program.process = process_start(program.arguments, NULL, NULL);
    return program;
}

const struct fetch_response *program_ask(const char *method, const char *url, const char *const *headers, const char *body)
{
    struct fetch *fetch = fetch_open();
    struct fetch_response *response = keep(sizeof *response);

    fetch_send(fetch, &(struct fetch_request){.method = method, .url = url, .headers = headers, .body = body, .timeout_ms = 60000},
               response);
    response->body = memcpy(keep(response->body_n + 1), response->body, response->body_n + 1);
    fetch_close(fetch);
    return response;
}

int64_t program_metric(const struct program *program, const char *metric)
{
    const struct fetch_response *response = program_ask("GET", program_text("%s/metrics", program->url), NULL, NULL);
    size_t metric_n = strlen(metric);

    CHECK_EQ(response->status, 200);
    for (const char *line = response->body; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, metric, metric_n) == 0 && line[metric_n] == ' ')
            return (int64_t)strtod(line + metric_n, NULL);
    }
    return -1;
}
