/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings: where they come from, which one wins, what they become. The sentences about mistakes are in test_config_refusals.c. */
#include "relay/app/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/settings.h"

static const char bootstrap[] = "--kafka.bootstrap.servers=127.0.0.1:1";

static const char *property(const struct config *c, const char *name)
{
    for (size_t i = 0; i < c->kafka_n; i++)
        if (strcmp(c->kafka[i].name, name) == 0)
            return c->kafka[i].value;
    return NULL;
}

TEST(config_defaults)
{
    struct config c = settings_good(NULL, (const char *[]){bootstrap, NULL}, NULL);
    char instance[200];

    CHECK_EQ(c.verb, CONFIG_RUN);
    CHECK(!c.drain && !c.dry_run);
    CHECK_STR(c.database, "");
    CHECK_STR(c.name, "default");
    CHECK_STR(c.table, "outbox.event");
    CHECK_STR(c.listen, "127.0.0.1:9464");
    CHECK_EQ(c.mark, CONFIG_MARK_SENT_AT);
    CHECK_EQ(c.durability, CONFIG_DURABILITY_LOCAL);
    CHECK_EQ(c.log_level, CONFIG_LOG_INFO);
    CHECK_EQ(c.poll_min_ms, 1);
    CHECK_EQ(c.poll_max_ms, 50);
    CHECK_EQ(c.fetch_rows, 2000);
    CHECK_EQ(c.window_rows, 50000);
    CHECK_EQ(c.window_bytes, 64 << 20);
    CHECK_EQ(c.lease_ttl_ms, 10000);
    CHECK_EQ(c.backoff_min_ms, 100);
    CHECK_EQ(c.backoff_max_ms, 30000);
    CHECK_EQ(c.shutdown_ms, 10000);
    CHECK(gethostname(instance, sizeof instance / 2) == 0);
    sprintf(instance + strlen(instance), ":%d", (int)getpid());
    CHECK_STR(c.instance, instance);
    config_reset(&c);
}

TEST(config_file)
{
    static const char file[] = "\xef\xbb\xbf# comment = 1\n"
                               "; comment\r\n"
                               "\n"
                               "  kafka.bootstrap.servers\t=  127.0.0.1:1  \r\n"
                               "database = host=/tmp dbname='a b # not a comment'\n"
                               "mark=delete\n"
                               "durability = off\n"
                               "log_level = debug\n"
                               "poll_min_ms = 2\npoll_max_ms = 3\nfetch_rows = 4\nwindow_rows = 5\n"
                               "window_bytes = 8 MB\nlease_ttl_ms = 1000\nbackoff_min_ms = 7\nbackoff_max_ms = 8\nshutdown_ms = 9\n"
                               "name = orders\ninstance = me\ntable = app.outbox\nlisten = [::1]:0\n"
                               "kafka.client.id = \"x\"";
    struct config c = settings_good(file, NULL, NULL);

    CHECK_STR(c.database, "host=/tmp dbname='a b # not a comment'");
    CHECK_EQ(c.mark, CONFIG_MARK_DELETE);
    CHECK_EQ(c.durability, CONFIG_DURABILITY_OFF);
    CHECK_EQ(c.log_level, CONFIG_LOG_DEBUG);
    CHECK_EQ(c.poll_min_ms, 2);
    CHECK_EQ(c.poll_max_ms, 3);
    CHECK_EQ(c.fetch_rows, 4);
    CHECK_EQ(c.window_rows, 5);
    CHECK_EQ(c.window_bytes, 8000000);
    CHECK_EQ(c.lease_ttl_ms, 1000);
    CHECK_EQ(c.backoff_min_ms, 7);
    CHECK_EQ(c.backoff_max_ms, 8);
    CHECK_EQ(c.shutdown_ms, 9);
    CHECK_STR(c.name, "orders");
    CHECK_STR(c.instance, "me");
    CHECK_STR(c.table, "app.outbox");
    CHECK_STR(c.listen, "[::1]:0");
    CHECK_STR(property(&c, "client.id"), "\"x\"");
    CHECK_STR(property(&c, "bootstrap.servers"), "127.0.0.1:1");
    config_reset(&c);
}

TEST(config_flag_over_environment_over_file)
{
    static const char file[] = "kafka.bootstrap.servers = file:1\nkafka.client.id = file\nname = file\ninstance = file\ntable = t.file\n";
    const char *const environment[] = {"OUTBOX_RELAY_KAFKA_CLIENT_ID=environment", "OUTBOX_RELAY_NAME=environment",
                                       "OUTBOX_RELAY_INSTANCE=environment", "OUTBOX_RELAY_TABLE=", NULL};
    struct config c = settings_good(file, (const char *[]){"--name", "a", "--name=flag", "--kafka.client.id", "flag", NULL}, environment);

    CHECK_STR(c.name, "flag");
    CHECK_STR(c.instance, "environment");
    CHECK_STR(c.table, "t.file");
    CHECK_STR(property(&c, "client.id"), "flag");
    CHECK_STR(property(&c, "bootstrap.servers"), "file:1");
    CHECK_EQ(c.kafka_n, 2);
    config_reset(&c);
}

TEST(config_mistake_that_is_overridden_does_not_count)
{
    struct config c = settings_good("fetch_rows = many\n", (const char *[]){bootstrap, "--fetch-rows", "7", NULL}, NULL);

    CHECK_EQ(c.fetch_rows, 7);
    config_reset(&c);
}

TEST(config_path_of_the_file)
{
    char *other = settings_file("name = other\n", 13);
    char variable[300];
    struct config c;

    snprintf(variable, sizeof variable, "OUTBOX_RELAY_CONFIG=%s", other);
    c = settings_good(NULL, (const char *[]){bootstrap, NULL}, (const char *[]){variable, NULL});
    CHECK_STR(c.name, "other");
    config_reset(&c);
    c = settings_good("name = mine\n", (const char *[]){bootstrap, NULL}, (const char *[]){variable, NULL});
    CHECK_STR(c.name, "mine");
    config_reset(&c);
}

TEST(config_names_of_kafka)
{
    const char *const environment[] = {"OUTBOX_RELAY_KAFKA_BOOTSTRAP_SERVERS=h:1", "OUTBOX_RELAY_KAFKA_SOCKET_NAGLE_DISABLE=false", NULL};
    struct config c = settings_good("kafka.socket.keepalive.enable = true\n", (const char *[]){"--kafka.linger.ms=5", NULL}, environment);

    CHECK_STR(property(&c, "bootstrap.servers"), "h:1");
    CHECK_STR(property(&c, "socket.nagle.disable"), "false");
    CHECK_STR(property(&c, "socket.keepalive.enable"), "true");
    CHECK_STR(property(&c, "linger.ms"), "5");
    config_reset(&c);
}

TEST(config_secrets_from_files)
{
    char *database = settings_file("postgres://u:pw@h/d\n", 20), *password = settings_file("a b=#c\r\n\n", 9);
    char text[400], variable[300], flag[300];
    struct config c;

    snprintf(text, sizeof text, "database_file = %s\nkafka.bootstrap.servers = h:1\nkafka.sasl.password_file = %s\n", database, password);
    c = settings_good(text, NULL, NULL);
    CHECK_STR(c.database, "postgres://u:pw@h/d");
    CHECK_STR(property(&c, "sasl.password"), "a b=#c");
    config_reset(&c);

    snprintf(variable, sizeof variable, "OUTBOX_RELAY_KAFKA_SASL_PASSWORD_FILE=%s", password);
    snprintf(flag, sizeof flag, "--database-file=%s", database);
    c = settings_good("database = lost\nkafka.sasl.password = lost\n", (const char *[]){bootstrap, flag, NULL},
                      (const char *[]){variable, NULL});
    CHECK_STR(c.database, "postgres://u:pw@h/d");
    CHECK_STR(property(&c, "sasl.password"), "a b=#c");
    config_reset(&c);
}

TEST(config_kubernetes_service_links_are_not_settings)
{
    const char *const environment[] = {"OUTBOX_RELAY_SERVICE_HOST=10.0.0.1",
                                       "OUTBOX_RELAY_SERVICE_PORT_METRICS=1",
                                       "OUTBOX_RELAY_PORT=tcp://10.0.0.1:9464",
                                       "OUTBOX_RELAY_PORT_9464_TCP_ADDR=10.0.0.1",
                                       "OUTBOX_RELAY_KAFKA_SERVICE_HOST=10.0.0.1",
                                       "OUTBOX_RELAY_METRICS_PORT=tcp://1",
                                       "OUTBOX=1",
                                       "OUTBOX_RELAY_NAME=a_SERVICE_HOST",
                                       NULL};
    struct config c = settings_good(NULL, (const char *[]){bootstrap, NULL}, environment);

    CHECK_EQ(c.kafka_n, 1);
    CHECK_STR(c.name, "a_SERVICE_HOST");
    config_reset(&c);
}

TEST(config_bytes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"65536", 65536}, {"100000B", 100000}, {"100kB", 100000},   {"100 KB", 100000},     {"64KiB", 65536},
        {"8MB", 8000000}, {"64MiB", 67108864}, {"1GB", 1000000000}, {"64GiB", 64ULL << 30},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c = settings_good(NULL, (const char *[]){bootstrap, "--window-bytes", cases[i].text, NULL}, NULL);
        CHECK_EQ(c.window_bytes, (int64_t)cases[i].bytes);
        config_reset(&c);
    }
}

TEST(config_verbs)
{
    static const struct {
        const char *arguments[4];
        enum config_verb verb;
    } cases[] = {
        {{"run"}, CONFIG_RUN},
        {{"run", "--drain"}, CONFIG_RUN},
        {{"--drain", "run"}, CONFIG_RUN},
        {{"check"}, CONFIG_CHECK},
        {{"migrate"}, CONFIG_MIGRATE},
        {{"migrate", "--dry-run"}, CONFIG_MIGRATE},
        {{"help"}, CONFIG_HELP},
        {{"run", "--help"}, CONFIG_HELP},
        {{"-h"}, CONFIG_HELP},
        {{"version"}, CONFIG_VERSION},
        {{"--version"}, CONFIG_VERSION},
        {{"-V"}, CONFIG_VERSION},
        {{"--print-settings-table"}, CONFIG_PRINT_TABLE},
        {{"--print-settings-ini"}, CONFIG_PRINT_INI},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c = settings_good(NULL, cases[i].arguments, (const char *[]){"OUTBOX_RELAY_KAFKA_BOOTSTRAP_SERVERS=h:1", NULL});
        CHECK_EQ(c.verb, cases[i].verb);
        CHECK_EQ(c.drain, cases[i].arguments[1] != NULL && strstr("--drain run", cases[i].arguments[1]) != NULL);
        CHECK_EQ(c.dry_run, cases[i].arguments[1] != NULL && strcmp(cases[i].arguments[1], "--dry-run") == 0);
        config_reset(&c);
    }
}

TEST(config_bootstrap_is_not_needed_to_migrate)
{
    struct config c = settings_good(NULL, (const char *[]){"migrate", NULL}, NULL);

    CHECK_EQ(c.verb, CONFIG_MIGRATE);
    config_reset(&c);
}

/* Broken settings must not keep anybody from the help. */
TEST(config_help_reads_no_settings)
{
    struct config c = settings_good("nonsense", (const char *[]){"--help", NULL}, (const char *[]){"OUTBOX_RELAY_NONSENSE=1", NULL});

    CHECK_EQ(c.verb, CONFIG_HELP);
    config_reset(&c);
}

TEST(config_later_settings_at_their_default)
{
    static const char file[] = "kafka.bootstrap.servers = h:1\nlayout = native\ntopic = ${topic}\nformat = plain\n"
                               "notify = off\non_reject = hold\ndead_letter_topic = ${topic}.dead\nretention_sent = off\n"
                               "retention_dead = off\nrate_max = off\nlog_keys = off\n";
    struct config c = settings_good(file, NULL, NULL);

    config_reset(&c);
}

TEST(config_pooled)
{
    struct config c = settings_good("kafka.bootstrap.servers = h:1\ndatabase = host=a,b port=6432\npooled = on\n", NULL, NULL);

    CHECK_EQ(c.pooled, CONFIG_POOLED_ON);
    config_reset(&c);
    c = settings_good("kafka.bootstrap.servers = h:1\ndatabase = options=-cjit=off\n", NULL, NULL);
    CHECK_EQ(c.pooled, CONFIG_POOLED_OFF);
    config_reset(&c);
}

TEST(config_long_lines)
{
    static char text[70000];
    struct config c;
    size_t n = (size_t)sprintf(text, "kafka.bootstrap.servers = h:1\ndatabase = dbname=");

    memset(text + n, 'x', 65536);
    strcpy(text + n + 65536, "\nname = behind\n");
    c = settings_good(text, NULL, NULL);
    CHECK_EQ(strlen(c.database), strlen("dbname=") + 65536);
    CHECK_STR(c.name, "behind");
    config_reset(&c);
}

/* --- for people --------------------------------------------------------------------------------------------------- */

TEST(config_help_fits_a_screen)
{
    char *text = settings_printed(config_print_help);

    for (char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (n > 100)
            test_fail(__FILE__, __LINE__, "longer than 100: %.*s", (int)n, line);
        CHECK(n == 0 || line[n - 1] != ' ');
        line += n + (line[n] != '\0');
    }
    CHECK(strstr(text, "\n  poll_min_ms     1              between fetches while rows come\n") != NULL);
    CHECK(strstr(text, "\n  migrate ") != NULL);
    CHECK(strstr(text, " accept-move") != NULL);
    free(text);
}

TEST(config_table_and_example)
{
    char *table = settings_printed(config_print_table), *ini = settings_printed(config_print_ini);
    struct config c;

    CHECK(strstr(table, "| `poll_min_ms` | `1` | between fetches while rows come |\n") != NULL);
    CHECK(strstr(table, "| `pooled` | `off` | on: behind a transaction-mode pooler |\n") != NULL);
    CHECK(strstr(table, "| `notify` | `off` | wake up by LISTEN as well (not in this version) |\n") != NULL);
    CHECK(strstr(ini, "\n#poll_min_ms = 1\n") != NULL);
    CHECK(strstr(ini, "notify") == NULL);
    c = settings_good(ini, NULL, NULL);
    config_reset(&c);
    /* Every line of the example is what it says to be: the default. */
    for (char *line = strstr(ini, "\n#"); line != NULL; line = strstr(line + 1, "\n#"))
        if (line[2] != ' ' && strncmp(line + 2, "instance", 8) != 0)
            line[1] = ' ';
    c = settings_good(ini, NULL, NULL);
    CHECK_EQ(c.shutdown_ms, 10000);
    config_reset(&c);
    free(table);
    free(ini);
}
