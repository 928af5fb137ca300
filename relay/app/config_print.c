/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings table for people: --help, the README, the example file. */
#include "relay/app/config_setting.h"

#include <stdio.h>
#include <string.h>

static const char help_head[] = "outbox-relay publishes committed rows of a PostgreSQL outbox table to Kafka and marks them.\n"
                                "\n"
                                "usage: outbox-relay [VERB] [--config FILE] [--SETTING VALUE]...\n"
                                "\n"
                                "verbs:\n";

static const char help_middle[] = "\n"
                                  "A setting is a line of FILE (poll_min_ms = 1), a variable in the environment\n"
                                  "(OUTBOX_RELAY_POLL_MIN_MS=1) or a flag (--poll-min-ms 1). A flag wins over the environment,\n"
                                  "which wins over the file. FILE is what --config or OUTBOX_RELAY_CONFIG says; else there is none.\n"
                                  "\n"
                                  "kafka.x.y is a property of librdkafka: kafka.x.y = v, --kafka.x.y v or OUTBOX_RELAY_KAFKA_X_Y=v.\n"
                                  "database_file and kafka.x.y_file name a file that holds the value: keep secrets there.\n"
                                  "\n"
                                  "settings:\n";

static const char help_tail[] = "\n"
                                "exit status: 0 fine; 1 check found something, or rows remain; 2 a setting is wrong\n";

static void later_print(FILE *to)
{
    size_t settings_n, verbs_n;
    const struct config_setting *settings = config_settings(&settings_n);
    const struct config_verb_name *verbs = config_verbs(&verbs_n);
    size_t column = 0;

    fputs("\nnot in this version:", to);
    for (size_t i = 0; i < settings_n + verbs_n; i++) {
        const char *name = i < settings_n ? settings[i].name : verbs[i - settings_n].name;
        bool is_later = i < settings_n ? settings[i].kind == CONFIG_SETTING_LATER : verbs[i - settings_n].meaning == NULL;
        if (!is_later)
            continue;
        if (column == 0 || column + strlen(name) > 90)
            column = (size_t)fprintf(to, "\n ") - 1;
        column += (size_t)fprintf(to, " %s", name);
    }
    fputc('\n', to);
}

void config_print_help(FILE *to)
{
    size_t settings_n, verbs_n;
    const struct config_setting *settings = config_settings(&settings_n);
    const struct config_verb_name *verbs = config_verbs(&verbs_n);

    fputs(help_head, to);
    for (size_t i = 0; i < verbs_n; i++)
        if (verbs[i].meaning != NULL)
            fprintf(to, "  %-15s %s\n", verbs[i].name, verbs[i].meaning);
    fputs(help_middle, to);
    for (size_t i = 0; i < settings_n; i++)
        if (settings[i].kind != CONFIG_SETTING_LATER)
            fprintf(to, "  %-15s %-14s %s\n", settings[i].name, settings[i].initial != NULL ? settings[i].initial : "",
                    settings[i].meaning);
    later_print(to);
    fputs(help_tail, to);
}

void config_print_table(FILE *to)
{
    size_t settings_n;
    const struct config_setting *settings = config_settings(&settings_n);

    fputs("| setting | default | meaning |\n|---|---|---|\n", to);
    for (size_t i = 0; i < settings_n; i++) {
        const struct config_setting *s = &settings[i];
        const char *tick = s->initial != NULL && s->initial[0] != '\0' ? "`" : "";
        fprintf(to, "| `%s` | %s%s%s | %s%s |\n", s->name, tick, s->initial != NULL ? s->initial : "", tick, s->meaning,
                s->kind == CONFIG_SETTING_LATER ? " (not in this version)" : "");
    }
}

void config_print_ini(FILE *to)
{
    size_t settings_n;
    const struct config_setting *settings = config_settings(&settings_n);

    fputs("# outbox-relay: every setting with its default; made by outbox-relay --print-settings-ini.\n"
          "# Quotes and '#' are part of a value. Secrets belong into files: database_file = /path, kafka.x.y_file = /path.\n",
          to);
    for (size_t i = 0; i < settings_n; i++) {
        const struct config_setting *s = &settings[i];
        if (s->kind == CONFIG_SETTING_LATER)
            continue;
        fprintf(to, "\n# %s\n", s->meaning);
        if (s->kind == CONFIG_SETTING_PROPERTY)
            fputs("kafka.bootstrap.servers = localhost:9092\n", to);
        else
            fprintf(to, "#%s =%s%s\n", s->name, s->initial != NULL && s->initial[0] != '\0' ? " " : "",
                    s->initial != NULL ? s->initial : "");
    }
}
