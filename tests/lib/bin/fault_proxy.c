/* SPDX-License-Identifier: BSD-2-Clause */
/* The fault proxy as a program. Commands come on descriptor 0, a socket on which they are also answered; what the rules hit is written to
 * stdout, one line each. It ends with its input. tests/lib/proxy.h is the side of the tests. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "tests/lib/proxy/command.h"

struct program {
    struct command_box box;
    uv_pipe_t commands;
    struct bytes line; /* that is not whole yet */
};

static void on_hit(const struct rule *r, const char *what)
{
    /* The counters have all of them; this is for people. */
    if (r->hits <= 200)
        printf("%" PRIu64 " hit rule=%s n=%" PRIu64 " %s\n", uv_hrtime() / 1000000, r->name, r->hits, what);
}

static void answer(const char *text)
{
    char line[400];
    int n = snprintf(line, sizeof line, "%s\n", text);
    if (n > 0 && write(0, line, (size_t)n) != n)
        printf("%s", line);
}

static void line_perform(struct program *p, char *line)
{
    char text[380], said[300];
    (void)snprintf(said, sizeof said, "%s", line);
    command_perform(&p->box, line, text, sizeof text);
    printf("%" PRIu64 " command %s: %s\n", uv_hrtime() / 1000000, said, text);
    answer(text);
}

static void lines_perform(struct program *p)
{
    uint8_t *end;
    while (p->line.n > 0 && (end = memchr(p->line.list, '\n', p->line.n)) != NULL) {
        *end = 0;
        line_perform(p, (char *)p->line.list);
        bytes_consume(&p->line, (size_t)(end - p->line.list) + 1);
    }
    (void)fflush(stdout);
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char bytes[4096];
    (void)handle, (void)suggested;
    *ret = uv_buf_init(bytes, sizeof bytes);
}

static void on_command(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct program *p = stream->data;
    if (n < 0)
        uv_stop(stream->loop);
    else
        bytes_append(&p->line, buffer->base, (size_t)n);
    lines_perform(p);
}

int main(void)
{
    struct program p = {.box.rules.on_hit = on_hit};
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    p.box.loop = uv_default_loop();
    if (uv_pipe_init(p.box.loop, &p.commands, 0) != 0 || uv_pipe_open(&p.commands, 0) != 0) {
        (void)fprintf(stderr, "fault-proxy: descriptor 0 must be a socket\n");
        return 2;
    }
    p.commands.data = &p;
    (void)uv_read_start((uv_stream_t *)&p.commands, on_allocate, on_command);
    (void)uv_run(p.box.loop, UV_RUN_DEFAULT);
    /* Connections are closed by the kernel. */
    rules_reset(&p.box.rules);
    bytes_reset(&p.line);
    return 0;
}
