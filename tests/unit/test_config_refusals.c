/* SPDX-License-Identifier: BSD-2-Clause */
/* Every mistake in the settings gets one sentence: where, what, what to do; and no sentence holds a secret. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/app/config.h"
#include "tests/lib/test.h"
#include "tests/unit/settings.h"

#define HEAD "kafka.bootstrap.servers = h:1\n"

struct refusal {
    const char *text; /* a line, a flag or a variable */
    const char *sentence;
};

/* settings_bad writes the first path as FILE; a sentence may hold it twice. */
static char *paths_replaced(const char *sentence)
{
    char *text = strdup(sentence), *path;
    size_t path_n = strlen(settings_path());

    while ((path = strstr(text, settings_path())) != NULL) {
        memcpy(path, "FILE", 4);
        memmove(path + 4, path + path_n, strlen(path + path_n) + 1);
    }
    return text;
}

/* Each line, as the second of a file that is right otherwise. */
static void check_lines(const struct refusal *cases, size_t cases_n)
{
    char file[400], *sentence;

    for (size_t i = 0; i < cases_n; i++) {
        snprintf(file, sizeof file, HEAD "%s\n", cases[i].text);
        sentence = paths_replaced(settings_bad(file, NULL, NULL));
        CHECK_STR(sentence, cases[i].sentence);
        free(sentence);
    }
}

TEST(config_refused_names)
{
    static const struct refusal cases[] = {
        {"pol_min_ms = 1", "FILE:2: pol_min_ms is not a setting; did you mean poll_min_ms?"},
        {"poll-min-ms = 1", "FILE:2: poll-min-ms is not a setting; did you mean poll_min_ms?"},
        {"databsae_file = /x", "FILE:2: databsae_file is not a setting; did you mean database_file?"},
        {"kafka_bootstrap_servers = h", "FILE:2: kafka_bootstrap_servers is not a setting; did you mean kafka.bootstrap.servers?"},
        {"wibble = 1", "FILE:2: wibble is not a setting; see outbox-relay --help"},
        {"poll_min_ms_file = /x", "FILE:2: poll_min_ms_file is not a setting; see outbox-relay --help"},
        {"kafka. = 1", "FILE:2: kafka. is not a setting; see outbox-relay --help"},
    };

    check_lines(cases, sizeof cases / sizeof cases[0]);
}

TEST(config_refused_values)
{
    static const struct refusal cases[] = {
        {"poll_min_ms = 1s", "FILE:2: poll_min_ms must be a whole number from 1 to 60000 (milliseconds), not \"1s\""},
        {"poll_min_ms = -1", "FILE:2: poll_min_ms must be a whole number from 1 to 60000 (milliseconds), not \"-1\""},
        {"poll_min_ms = 0", "FILE:2: poll_min_ms must be a whole number from 1 to 60000 (milliseconds), not \"0\""},
        {"poll_min_ms =", "FILE:2: poll_min_ms must be a whole number from 1 to 60000 (milliseconds), not \"\""},
        {"lease_ttl_ms = 999", "FILE:2: lease_ttl_ms must be a whole number from 1000 to 3600000 (milliseconds), not \"999\""},
        {"fetch_rows = 99999999999999999999",
         "FILE:2: fetch_rows must be a whole number from 1 to 100000 (rows), not \"99999999999999999999\""},
        {"poll_min_ms = 18446744073709551617",
         "FILE:2: poll_min_ms must be a whole number from 1 to 60000 (milliseconds), not \"18446744073709551617\""},
        {"window_bytes = 64Mib", "FILE:2: window_bytes has a unit that is not known in \"64Mib\"; use B, kB, MB, GB, KiB, MiB or GiB"},
        {"window_bytes = 1", "FILE:2: window_bytes must be from 65536 to 68719476736 bytes, as in 64MiB or 8MB, not \"1\""},
        {"window_bytes = 18446744073709551615GiB",
         "FILE:2: window_bytes must be from 65536 to 68719476736 bytes, as in 64MiB or 8MB, not \"18446744073709551615GiB\""},
        {"window_bytes = MiB", "FILE:2: window_bytes must be from 65536 to 68719476736 bytes, as in 64MiB or 8MB, not \"MiB\""},
        {"mark = sent", "FILE:2: mark cannot be \"sent\"; choose one of: sent_at delete"},
        {"mark = progress", "FILE:2: mark: \"progress\" is not in this version; choose one of: sent_at delete"},
        {"log_level = trace", "FILE:2: log_level cannot be \"trace\"; choose one of: error warning info debug"},
        {"pooled = yes", "FILE:2: pooled cannot be \"yes\"; choose one of: off on"},
        {"pooled = on\ndatabase = options=-cjit=off",
         "FILE:2: pooled: a transaction pooler refuses the parameter options of database, of PGOPTIONS or of a service; leave it out, and "
         "use ALTER ROLE ... SET instead"},
        {"notify = on", "FILE:2: notify is not in this version; leave it out, or at off"},
        {"attempts_max = 10", "FILE:2: attempts_max is not in this version; leave it out"},
        {"retention_sent = 24h", "FILE:2: retention_sent is not in this version; leave it out, or at off"},
        {"layout = debezium", "FILE:2: layout is not in this version; leave it out, or at native"},
        {"topic = a", "FILE:2: topic is not in this version; leave it out, or at ${topic}"},
        {"name =", "FILE:2: name must be 1 to 200 characters, none of them a control character"},
        {"table = event", "FILE:2: table must be a schema and a table with one dot between them, as in outbox.event"},
        {"listen = 9464", "FILE:2: listen must be an address and a port, as in 127.0.0.1:9464, [::1]:9464 or :9464"},
        {"listen = ::1:9464", "FILE:2: listen must be an address and a port, as in 127.0.0.1:9464, [::1]:9464 or :9464"},
        {"listen = h:65536", "FILE:2: listen must be an address and a port, as in 127.0.0.1:9464, [::1]:9464 or :9464"},
    };

    check_lines(cases, sizeof cases / sizeof cases[0]);
}

TEST(config_refused_lines)
{
    static const struct refusal cases[] = {
        {"[relay]", "FILE:2: sections are not known; leave this line out"},
        {"[relay=1]", "FILE:2: sections are not known; leave this line out"},
        {"poll_min_ms 1", "FILE:2: there is no '=' in this line; write name = value"},
        {"kafka.sasl.password: aGVsbG8=", "FILE:2: what is left of the '=' is not the name of a setting; write name = value"},
        {"aGVsbG8gd29ybGQ=", "FILE:2: what is left of the '=' is not the name of a setting; write name = value"},
        {"= 1", "FILE:2: what is left of the '=' is not the name of a setting; write name = value"},
        {"kafka.bootstrap.servers = i:1",
         "FILE:2: kafka.bootstrap.servers was set before, at FILE:1: kafka.bootstrap.servers; leave one of them out"},
    };

    check_lines(cases, sizeof cases / sizeof cases[0]);
}

TEST(config_refused_together)
{
    static const struct refusal cases[] = {
        {"poll_min_ms = 51", "FILE:2: poll_min_ms, 51, must not be above poll_max_ms, 50; lower it or raise poll_max_ms"},
        {"window_rows = 100", "FILE:2: window_rows, 100, must not be below fetch_rows, 2000; raise it or lower fetch_rows"},
        {"backoff_max_ms = 99", "FILE:2: backoff_max_ms, 99, must not be below backoff_min_ms, 100; raise it or lower backoff_min_ms"},
    };

    check_lines(cases, sizeof cases / sizeof cases[0]);
}

TEST(config_refused_files)
{
    static const struct refusal cases[] = {
        {"kafka.sasl.password_file = /nowhere/x",
         "FILE:2: kafka.sasl.password_file: cannot read \"/nowhere/x\": No such file or directory"},
        {"database_file = /", "FILE:2: database_file: cannot read \"/\": Is a directory"},
        {"database_file = /dev/null", "FILE:2: database_file: the file \"/dev/null\" is empty; write the value into it, as text"},
        {"database_file = /dev/zero", "FILE:2: database_file: \"/dev/zero\" is larger than 1048576 bytes; is it the right file?"},
    };

    check_lines(cases, sizeof cases / sizeof cases[0]);
}

TEST(config_refused_flags)
{
    static const struct {
        const char *arguments[4];
        const char *sentence;
    } cases[] = {
        {{"--pol-min-ms", "1"}, "--pol-min-ms is not a setting; did you mean --poll-min-ms?"},
        {{"--poll_min_ms", "1"}, "--poll_min_ms is not a flag; did you mean --poll-min-ms?"},
        {{"--kafka-bootstrap-servers=h"}, "--kafka-bootstrap-servers is not a setting; did you mean --kafka.bootstrap.servers?"},
        {{"--wibble"}, "--wibble is not a setting; see outbox-relay --help"},
        {{"--poll-min-ms"}, "--poll-min-ms needs a value; write --poll-min-ms VALUE or --poll-min-ms=VALUE"},
        {{"--poll-min-ms", "--drain"}, "--poll-min-ms needs a value; write --poll-min-ms VALUE or --poll-min-ms=VALUE"},
        {{"--config"}, "--config needs a value; write --config VALUE or --config=VALUE"},
        {{"--config", "/nowhere/x"}, "--config: cannot read \"/nowhere/x\": No such file or directory"},
        {{"--poll-min-ms=x"}, "--poll-min-ms must be a whole number from 1 to 60000 (milliseconds), not \"x\""},
        {{"--poll-min-ms=60", "--poll-max-ms=2"}, "--poll-min-ms, 60, must not be above --poll-max-ms, 2; lower it or raise poll_max_ms"},
        {{"--database=a", "--database-file=b"}, "--database-file and --database set the same; leave one of them out"},
        {{"--drain=yes"}, "--drain takes no value; write it alone"},
        {{"check", "--drain"}, "--drain goes with the verb run only; leave it out"},
        {{"--dry-run"}, "--dry-run goes with the verb migrate only; leave it out"},
        {{"--json"}, "--json is not in this version; leave it out"},
        {{"--"}, "argument 1 is not a flag; see outbox-relay --help"},
        {{"-x"}, "argument 1 is not a flag; see outbox-relay --help"},
        {{"--postgres://u:pw@h=1"}, "argument 1 is not a flag; see outbox-relay --help"},
        {{"rnu"}, "\"rnu\" is not a verb; did you mean run?"},
        {{"frobnicate"}, "\"frobnicate\" is not a verb; the verbs are run, migrate, check, help and version"},
        {{""}, "argument 1 is not a verb (run, migrate, check, help, version) and belongs to no flag"},
        {{"--drain", "frobnicate"}, "argument 2 is not a verb (run, migrate, check, help, version) and belongs to no flag"},
        {{"run", "run"}, "argument 2 is one too many after the verb run; a flag begins with --"},
        {{"status"}, "the verb status is not in this version; the verbs are run, migrate, check, help and version"},
        {{"repin", "orders"}, "the verb repin is not in this version; the verbs are run, migrate, check, help and version"},
    };
    const char *const environment[] = {"OUTBOX_RELAY_KAFKA_BOOTSTRAP_SERVERS=h:1", NULL};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(settings_bad(NULL, cases[i].arguments, environment), cases[i].sentence);
}

TEST(config_refused_verbs_of_later_versions)
{
    static const char *const verbs[] = {"status", "list",  "show",   "retry", "skip",       "prune",
                                        "replay", "pause", "resume", "repin", "accept-move"};

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        CHECK(strstr(settings_bad(NULL, (const char *[]){verbs[i], NULL}, NULL), "is not in this version") != NULL);
}

TEST(config_refused_settings_of_later_versions)
{
    static const char *const flags[] = {
        "--layout=debezium",     "--topic=a",        "--format=cloudevents", "--notify=on",         "--on-reject=dead-letter",
        "--dead-letter-topic=d", "--attempts-max=3", "--retention-sent=1h",  "--retention-dead=1h", "--rate-max=1",
        "--log-keys=on",         "--mark=progress"};

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        CHECK(strstr(settings_bad(NULL, (const char *[]){"migrate", flags[i], NULL}, NULL), "is not in this version") != NULL);
}

TEST(config_refused_in_the_environment)
{
    static const struct refusal cases[] = {
        {"OUTBOX_RELAY_POL_MIN_MS=1", "OUTBOX_RELAY_POL_MIN_MS is not a setting; did you mean OUTBOX_RELAY_POLL_MIN_MS?"},
        {"OUTBOX_RELAY_POLL_MIN_MS=x", "OUTBOX_RELAY_POLL_MIN_MS must be a whole number from 1 to 60000 (milliseconds), not \"x\""},
        {"OUTBOX_RELAY_CONFIG=/nowhere/x", "OUTBOX_RELAY_CONFIG: cannot read \"/nowhere/x\": No such file or directory"},
        {"OUTBOX_RELAY_a b=x", "a variable in the environment that begins with OUTBOX_RELAY_ has no setting's name"},
        {"OUTBOX_RELAY_NOTIFY=on", "OUTBOX_RELAY_NOTIFY is not in this version; leave it out, or at off"},
        {"OUTBOX_RELAY_POOLED=1", "OUTBOX_RELAY_POOLED cannot be \"1\"; choose one of: off on"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_STR(settings_bad(NULL, NULL, (const char *[]){cases[i].text, NULL}), cases[i].sentence);
}

TEST(config_refused_without_bootstrap)
{
    static const char sentence[] = "kafka.bootstrap.servers is required; set it in the file, as --kafka.bootstrap.servers HOST:PORT or as "
                                   "OUTBOX_RELAY_KAFKA_BOOTSTRAP_SERVERS";

    CHECK_STR(settings_bad(NULL, NULL, NULL), sentence);
    CHECK_STR(settings_bad(NULL, (const char *[]){"check", NULL}, NULL), sentence);
    CHECK_STR(settings_bad("kafka.bootstrap.servers =\n", NULL, NULL), sentence);
}

TEST(config_refused_by_the_producer)
{
    const char *sentence = settings_bad(HEAD "kafka.acks = 1\n", NULL, NULL);

    CHECK(strncmp(sentence, "FILE:2: kafka.acks is forced to all: ", 37) == 0);
    sentence = settings_bad(HEAD, (const char *[]){"--kafka.wibble=1", NULL}, NULL);
    CHECK(strncmp(sentence, "--kafka.wibble is not a property of librdkafka ", 47) == 0);
    sentence = settings_bad(HEAD "kafka.linger.ms = soon\n", NULL, NULL);
    CHECK(strncmp(sentence, "FILE:2: kafka.linger.ms ", 24) == 0);
    sentence = settings_bad(NULL, (const char *[]){"--kafka.bootstrap.server=h", NULL}, NULL);
    CHECK(strncmp(sentence, "--kafka.bootstrap.server is not a property of librdkafka ", 57) == 0);
}

/* libpq repeats what it cannot read, so its words are not used. */
TEST(config_refused_by_the_database)
{
    static const char reason[] = " is not a valid connection string; write name=value pairs or a postgresql:// URI";
    char sentence[200];

    snprintf(sentence, sizeof sentence, "FILE:2: database%s", reason);
    check_lines((const struct refusal[]){{"database = host=h pasword=hunter2", sentence}, {"database = hunter2", sentence}}, 2);
    snprintf(sentence, sizeof sentence, "--database%s", reason);
    CHECK_STR(settings_bad(NULL, (const char *[]){"migrate", "--database=postgres://u:hunter2%zz@h/d", NULL}, NULL), sentence);
}

TEST(config_refused_bytes)
{
    static char line[1100000];

    CHECK_STR(settings_bad_bytes("a = 1\0\n", 7), "FILE:1: the line contains a zero byte; is this a text file in UTF-8?");
    memset(line, 'x', sizeof line);
    CHECK_STR(settings_bad_bytes(line, sizeof line),
              "FILE:1: the line is longer than 1 MiB; put the value into a file and use the _file form");
}

/* --- secrets ------------------------------------------------------------------------------------------------------ */

#define SECRET "hunter2hunter2"

static void check_hidden(const char *sentence)
{
    if (strstr(sentence, SECRET) != NULL)
        test_fail(__FILE__, __LINE__, "a secret is shown: %s", sentence);
}

TEST(config_secrets_are_never_shown)
{
    static const char *const lines[] = {
        "kafka.sasl.password " SECRET,
        "kafka.sasl.password: " SECRET "=",
        "kafka.sasl.password:" SECRET " = 1",
        "kafka.sasl.passwort = " SECRET,
        "kafka.ssl.key.pem = " SECRET "\nmark = x",
        "kafka.security.protocol = sasl_ssl\nkafka.sasl.mechanisms = PLAIN\nkafka.sasl.password = " SECRET "\nmark = x",
        "kafka.sasl.oauthbearer.client.secret = " SECRET "\nkafka.sasl.oauthbearer.method = " SECRET,
        "kafka.enable.sasl.oauthbearer.unsecure.jwt = " SECRET "\nkafka.sasl.password = " SECRET,
        "kafka.sasl.password = " SECRET "\nkafka.security.protocol = " SECRET,
        "databse = host=h password=" SECRET,
        "database = host=h password=" SECRET "\ndatabase = host=h password=" SECRET,
        "database = host=h password=" SECRET "\nlisten = postgres://u:" SECRET "@h/d",
        "table = postgres://u:" SECRET "@h/d",
        "mark = postgres://u:longer-than-what-is-shown-in-a-sentence:" SECRET "@h/d",
    };
    const char *const *const arguments[] = {
        (const char *const[]){"--kafka.sasl.password", "my", SECRET, NULL},
        (const char *const[]){"run", SECRET, NULL},
        (const char *const[]){"postgres://u:" SECRET "@h/d", NULL},
        (const char *const[]){"--databse=" SECRET, NULL},
        (const char *const[]){"--database=" SECRET, "--database-file=/nowhere", NULL},
        (const char *const[]){"--" SECRET "@x", NULL},
    };
    char file[1000];

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        snprintf(file, sizeof file, HEAD "%s\n", lines[i]);
        check_hidden(settings_bad(file, NULL, NULL));
    }
    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++)
        check_hidden(settings_bad(HEAD, arguments[i], NULL));
    check_hidden(settings_bad(HEAD, NULL, (const char *[]){"OUTBOX_RELAY_DATABSE=" SECRET, NULL}));
}
