/* SPDX-License-Identifier: BSD-2-Clause */
#include "relay/app/verbs.h"

#include "relay/app/broker.h"
#include "relay/app/version.h"
#include "relay/edge/outbox.h"

/* Somebody waits in front of the terminal. A migration of a large table may take its time. */
#define CONNECT_MS 10000
#define MIGRATE_MS (30 * 60 * 1000)
#define CHECK_MS   30000
#define BROKER_MS  15000

static struct outbox_settings outbox_settings_of(const struct config *c, uint32_t statement_ms)
{
    return (struct outbox_settings){
        .database = c->database,
        .pooled = c->pooled == CONFIG_POOLED_ON,
        .replicated = c->durability == CONFIG_DURABILITY_REPLICATED,
        .table = c->table,
        .name = c->name,
        .instance = c->instance,
        .mark = c->mark == CONFIG_MARK_DELETE ? OUTBOX_MARK_DELETE : OUTBOX_MARK_SENT_AT,
        .window_rows = c->window_rows,
        .topics_max = 1,
        .row_bytes_max = 1,
        .lease_ttl_ms = c->lease_ttl_ms,
        .connect_ms = CONNECT_MS,
        .statement_ms = statement_ms,
    };
}

/* What was done, or with --dry-run the SQL as it is. */
static void on_migrated(void *data, bool bad, const char *sentence)
{
    (void)bad;
    fprintf(data, "%s\n", sentence);
}

int verbs_migrate(const struct config *c, FILE *out, FILE *err)
{
    struct outbox_settings settings = outbox_settings_of(c, MIGRATE_MS);
    char error[1024];

    if (outbox_migrate(&settings, c->dry_run, &(struct outbox_report){.finding = on_migrated, .data = out}, error, sizeof error))
        return 0;
    fprintf(err, "outbox-relay: %s\n", error);
    return 1;
}

struct findings {
    FILE *out;
    unsigned bad_n;
};

static void on_finding(void *data, bool bad, const char *sentence)
{
    struct findings *f = data;

    f->bad_n += bad;
    fprintf(f->out, "%s %s\n", bad ? "bad " : "fine", sentence);
}

int verbs_check(const struct config *c, FILE *out, FILE *err)
{
    struct findings f = {.out = out};
    struct outbox_settings settings = outbox_settings_of(c, CHECK_MS);
    char sentence[1024];
    bool is_good;

    on_finding(&f, false, "the settings are in order"); /* else nobody came here */
    is_good = outbox_check(&settings, &(struct outbox_report){.finding = on_finding, .data = &f});
    /* A check that failed without a word would look fine. */
    if (!is_good && f.bad_n == 0)
        on_finding(&f, true, "the database could not be checked");
    is_good = broker_answers(c, BROKER_MS, sentence, sizeof sentence);
    on_finding(&f, !is_good, sentence);
    if (f.bad_n == 0)
        return 0;
    fprintf(err, "outbox-relay: %u finding%s\n", f.bad_n, f.bad_n == 1 ? "" : "s");
    return 1;
}

int verbs_version(FILE *out)
{
    fputs("outbox-relay " RELAY_VERSION "\n", out);
    return 0;
}
