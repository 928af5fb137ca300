/* SPDX-License-Identifier: BSD-2-Clause */
/* `migrate` and `check` against a real PostgreSQL and the mock cluster: what they say, and that no secret is in it. */
#include "relay/app/verbs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "relay/app/broker.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

#define SECRET "hunter2hunter2"

static bool config_try(struct config *ret_c, const char *verb, const char *more, const char *database, const char *bootstrap, char *error,
                       size_t error_size)
{
    char database_flag[600], bootstrap_flag[200];
    char program[] = "outbox-relay", words[2][20], password[] = "--kafka.sasl.password=" SECRET;
    char *argv[] = {program, words[0], database_flag, bootstrap_flag, password, more != NULL ? words[1] : NULL, NULL};
    char *nothing[] = {NULL};

    snprintf(words[0], sizeof words[0], "%s", verb);
    snprintf(words[1], sizeof words[1], "%s", more != NULL ? more : "");
    snprintf(database_flag, sizeof database_flag, "--database=%s", database);
    snprintf(bootstrap_flag, sizeof bootstrap_flag, "--kafka.bootstrap.servers=%s", bootstrap);
    return config_read(ret_c, more != NULL ? 6 : 5, argv, nothing, error, error_size);
}

static struct config config_of(const char *verb, const char *more, const char *database, const char *bootstrap)
{
    char error[1024];
    struct config c;

    if (!config_try(&c, verb, more, database, bootstrap, error, sizeof error))
        test_fail(__FILE__, __LINE__, "%s", error);
    return c;
}

/* Run a verb; what it wrote to both, lent until the next call. */
static const char *said(int (*verb)(const struct config *c, FILE *out, FILE *err), struct config c, int *ret_status)
{
    static char *text;
    size_t text_n;
    FILE *to;

    free(text);
    to = open_memstream(&text, &text_n);
    CHECK(to != NULL);
    *ret_status = verb(&c, to, to);
    CHECK(fclose(to) == 0);
    config_reset(&c);
    if (strstr(text, SECRET) != NULL)
        test_fail(__FILE__, __LINE__, "a secret is shown: %s", text);
    return text;
}

/* Else one of them would be a socket or a pipe of its own, and get the log. */
TEST_WITHIN(verbs_run_with_closed_descriptors, 20)
{
    const char *binary = getenv("TEST_RELAY_BINARY");
    struct process relay = process_start(
        (const char *[]){"sh", "-c",
                         "exec \"$0\" run --database host=/nowhere --kafka.bootstrap.servers 127.0.0.1:1 --listen 127.0.0.1:0 <&- >&- 2>&-",
                         binary != NULL ? binary : TEST_BUILD_FOLDER "/outbox-relay", NULL},
        NULL, NULL);
    char path[64], target[64];

    snprintf(path, sizeof path, "/proc/%d/fd/9", (int)relay.pid);
    WAIT_UNTIL(access(path, F_OK) == 0, 10);
    for (int fd = 0; fd < 3; fd++) {
        ssize_t n;

        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)relay.pid, fd);
        n = readlink(path, target, sizeof target - 1);
        CHECK(n > 0);
        target[n] = '\0';
        CHECK_STR(target, "/dev/null");
    }
    CHECK(process_running(&relay));
    process_signal(&relay, SIGKILL);
    (void)process_wait(&relay, 10);
}

TEST_WITHIN(verbs_against_nothing, 60)
{
    static const char database[] = "host=127.0.0.1 port=1 user=u password=" SECRET;
    int status;
    const char *text = said(verbs_check, config_of("check", NULL, database, "127.0.0.1:1"), &status);

    CHECK_EQ(status, 1);
    CHECK(strncmp(text, "fine the settings are in order\nbad  ", 36) == 0);
    CHECK(strstr(text, "\nbad  no Kafka broker answers") != NULL);
    CHECK(strstr(text, "\noutbox-relay: 2 findings\n") != NULL);

    text = said(verbs_migrate, config_of("migrate", NULL, "postgres://u:" SECRET "@127.0.0.1:1/d", "127.0.0.1:1"), &status);
    CHECK_EQ(status, 1);
    CHECK(strncmp(text, "outbox-relay: ", 14) == 0);
    CHECK(strchr(text, '\n') == text + strlen(text) - 1);
}

/* A conninfo that libpq cannot read repeats its parts in libpq's own message. */
TEST_WITHIN(verbs_with_a_broken_conninfo, 60)
{
    static const char *const databases[] = {
        "host=h password=" SECRET "' x",       "host=h password '" SECRET "'", "host=h pasword=" SECRET,
        "postgres://u:" SECRET "@h:port/d",    "postgres://u:" SECRET "@[h/d", "postgres://u:" SECRET "%zz@h/d",
        "postgres://u:p@h/d?passwort=" SECRET,
    };
    char error[1024];
    struct config c;
    int status;

    for (size_t i = 0; i < sizeof databases / sizeof databases[0]; i++)
        if (config_try(&c, "migrate", NULL, databases[i], "127.0.0.1:1", error, sizeof error)) {
            (void)said(verbs_migrate, c, &status); /* a port that is none shows only when it is used */
            CHECK_EQ(status, 1);
        } else {
            CHECK_STR(error, "--database is not a valid connection string; write name=value pairs or a postgresql:// URI");
        }
}

TEST_WITHIN(verbs_migrate_and_check, 120)
{
    struct postgres p = postgres_start(NULL);
    struct mock m = mock_start(1);
    int status;
    const char *text;

    text = said(verbs_check, config_of("check", NULL, p.conninfo, m.bootstrap), &status);
    CHECK_EQ(status, 1);
    CHECK(strstr(text, "\nbad  ") != NULL);

    text = said(verbs_migrate, config_of("migrate", "--dry-run", p.conninfo, m.bootstrap), &status);
    CHECK_EQ(status, 0);
    CHECK(strstr(text, "CREATE TABLE") != NULL);
    text = said(verbs_check, config_of("check", NULL, p.conninfo, m.bootstrap), &status);
    CHECK_EQ(status, 1);

    for (int i = 0; i < 2; i++) {
        text = said(verbs_migrate, config_of("migrate", NULL, p.conninfo, m.bootstrap), &status);
        if (status != 0)
            test_fail(__FILE__, __LINE__, "%s", text);
    }
    text = said(verbs_check, config_of("check", NULL, p.conninfo, m.bootstrap), &status);
    if (status != 0 || strstr(text, "bad ") != NULL)
        test_fail(__FILE__, __LINE__, "%s", text);
    CHECK(strstr(text, "\nfine a Kafka broker answers\n") != NULL);
    mock_stop(&m);
    postgres_stop(&p);
}

/* An address that swallows everything: no answer and no error. */
TEST_WITHIN(verbs_broker_that_is_silent, 60)
{
    struct config c = config_of("check", NULL, "", "192.0.2.1:9092");
    char sentence[600] = "";
    uint64_t began_ms = test_now_ms();

    CHECK(!broker_answers(&c, 500, sentence, sizeof sentence));
    CHECK(strncmp(sentence, "no Kafka broker answers", 23) == 0);
    CHECK(test_now_ms() - began_ms < 20000);
    config_reset(&c);
}
