/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings from anything: the input is a file, then (behind a zero byte each) up to eight arguments and up to eight variables of the
 * environment. Whatever it is, it is read or refused with a sentence. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "relay/app/config.h"
#include "relay/app/config_draft.h"
#include "relay/edge/producer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* librdkafka is not what is tested here, and starting it takes a thousand times as long. */
const char *producer_refuses(const char *name, const char *value)
{
    return strcmp(name, "acks") == 0 && value[0] != '\0' ? "is refused" : NULL;
}

bool producer_accepts(const struct producer_property *properties, size_t properties_n, char *error, size_t error_size)
{
    for (size_t i = 0; i < properties_n; i++)
        if (properties[i].value[0] == '!') {
            snprintf(error, error_size, "kafka.%s has a value that is not taken (%s)", properties[i].name, properties[i].value);
            return false;
        }
    return true;
}

static void file_write(int fd, const uint8_t *data, size_t size)
{
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
}

/* A value that is a path would read whatever it names. */
static bool names_a_file(const char *text)
{
    return strstr(text, "_file") != NULL || strstr(text, "-file") != NULL || strstr(text, "_FILE") != NULL ||
           strstr(text, "onfig") != NULL || strstr(text, "CONFIG") != NULL;
}

static void sentence_check(const char *error)
{
    size_t n = strlen(error);

    assert(n > 0);
    for (size_t i = 0; i < n; i++)
        assert((unsigned char)error[i] >= ' ');
}

static void config_check(const struct config *c)
{
    if (c->verb != CONFIG_RUN && c->verb != CONFIG_CHECK && c->verb != CONFIG_MIGRATE)
        return;
    assert(c->poll_min_ms >= 1 && c->poll_min_ms <= c->poll_max_ms);
    assert(c->fetch_rows >= 1 && c->fetch_rows <= c->window_rows);
    assert(c->backoff_min_ms >= 1 && c->backoff_min_ms <= c->backoff_max_ms);
    assert(c->lease_ttl_ms >= 1000 && c->window_bytes >= 65536 && c->shutdown_ms >= 1);
    assert(c->database != NULL && c->name[0] != '\0' && c->instance[0] != '\0' && strchr(c->table, '.') != NULL &&
           strchr(c->listen, ':') != NULL);
    assert(c->mark <= CONFIG_MARK_DELETE && c->durability <= CONFIG_DURABILITY_OFF && c->log_level <= CONFIG_LOG_DEBUG);
}

/* The file alone, whatever bytes it has. */
static void ini_try(const uint8_t *data, size_t size)
{
    struct config_draft d = {.values = NULL};
    char error[200] = "", *text = malloc(size + 1);

    memcpy(text, data, size);
    text[size] = '\0';
    if (!config_read_ini(&d, "fuzz.ini", text, size, &(struct config_error){.text = error, .size = sizeof error}))
        sentence_check(error);
    config_draft_reset(&d);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[40], flag[] = "--config", program[] = "outbox-relay";
    char *text = malloc(size + 1), *argv[12] = {program, flag, path}, *environment[9] = {NULL}, error[1024] = "";
    int argc = 3, environment_n = 0;
    struct config c;
    size_t file_n;

    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    ini_try(data, size);
    memcpy(text, data, size);
    text[size] = '\0';
    file_n = strlen(text);
    file_write(fd, data, names_a_file(text) ? 0 : file_n);
    for (size_t at = file_n + 1; at < size; at += strlen(text + at) + 1) {
        if (names_a_file(text + at))
            continue;
        if (strncmp(text + at, CONFIG_ENVIRONMENT_PREFIX, 5) == 0 && environment_n < 8)
            environment[environment_n++] = text + at;
        else if (argc < 11)
            argv[argc++] = text + at;
    }
    if (config_read(&c, argc, argv, environment, error, sizeof error)) {
        config_check(&c);
        config_reset(&c);
    } else {
        sentence_check(error);
    }
    free(text);
    return 0;
}
