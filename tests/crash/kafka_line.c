/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/kafka_line.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"

struct line *kafka_line_begin(const char *name, const char *bootstrap, const char *topics)
{
    return line_begin(name, &(struct line_options){.e2e = {.kafka = bootstrap}, .topics = topics});
}

void kafka_line_pass(struct line *l, int64_t events)
{
    int64_t from = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");

    WAIT_UNTIL(e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq") >= from + events, 30 + events / 100);
}

int kafka_line_told(const struct process *relay, const char *words)
{
    int n = 0;

    for (const char *at = process_output(relay); (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

int kafka_line_told_both(const struct process *relay, const char *words, const char *more)
{
    const char *at = process_output(relay);
    int lines = 0;

    for (size_t n; *at != '\0'; at += n + (at[n] == '\n')) {
        n = strcspn(at, "\n");
        lines += memmem(at, n, words, strlen(words)) != NULL && memmem(at, n, more, strlen(more)) != NULL;
    }
    return lines;
}

bool kafka_line_marked(const struct line *l, const char *topic, int64_t id)
{
    return postgres_number(l->e.db.conninfo,
                           "SELECT count(*) FROM (SELECT 1 FROM outbox.event WHERE id >= %lld AND topic = '%s' AND sent_at IS NOT NULL "
                           "ORDER BY id LIMIT 1) s",
                           (long long)id, topic) > 0;
}

void kafka_line_publishing(const struct line *l, const char *topic)
{
    int64_t last_id = e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");

    WAIT_UNTIL(kafka_line_marked(l, topic, last_id + 1), 30);
}

int64_t kafka_line_unmarked(const struct line *l, const char *topic)
{
    return postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE topic = '%s' AND sent_at IS NULL", topic);
}

void kafka_line_check_no_attempts(const struct line *l)
{
    CHECK_EQ(e2e_number(&l->e, "SELECT count(*) FROM outbox.behind WHERE attempts > 0 OR held"), 0);
}

char kafka_line_state(pid_t pid)
{
    char path[64], text[400];

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");

    if (f == NULL)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] != '\0' ? name_end[2] : '\0';
}

const char *kafka_line_large_text(size_t bytes)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char *text = test_allocate(bytes + 1);
    uint64_t random = 88172645463325252u;

    for (size_t i = 0; i < bytes; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        text[i] = letters[random % (sizeof letters - 1)];
    }
    return text;
}
