/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/attribution_log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/oracle_read.h"

static const struct known_line {
    const char *event; /* how it begins */
    const char *also;  /* what else must be in the line, or NULL */
    enum attribution_fact_kind kind;
} known_lines[] = {
    {"stopped ", NULL, ATTRIBUTION_STOPPED},
    {"lease held", NULL, ATTRIBUTION_HELD},
    {"lease lost", NULL, ATTRIBUTION_LEASE_LOST},
    {"starting over", NULL, ATTRIBUTION_STARTED_OVER},
    {"database lost", NULL, ATTRIBUTION_DATABASE_LOST},
    {"database back", NULL, ATTRIBUTION_MARK_WORKS},
    {"statement works again", "statement=mark", ATTRIBUTION_MARK_WORKS},
    {"statement failed", "statement=mark", ATTRIBUTION_MARK_FAILED},
    {"stop overran", NULL, ATTRIBUTION_OVERRAN},
    {"session ends", NULL, ATTRIBUTION_SESSION_ENDED},
    {"librdkafka", "bumped epoch to", ATTRIBUTION_RENEWED},
};

bool attribution_time_read(const char *line, int64_t *ret_ms)
{
    struct tm t = {0};
    int ms, end = 0;

    if (sscanf(line, "ts=%d-%d-%dT%d:%d:%d.%3dZ %n", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec, &ms, &end) != 7 ||
        end == 0)
        return false;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    *ret_ms = (int64_t)timegm(&t) * 1000 + ms;
    return true;
}

/* Of " name=NUMBER"; -1: there is none. */
static int64_t number_read(const char *line, const char *name)
{
    const char *found = strstr(line, name);

    return found != NULL ? strtoll(found + strlen(name), NULL, 10) : -1;
}

static const struct known_line *line_know(const char *line)
{
    const char *event = strstr(line, " event=");

    if (event == NULL)
        return NULL;
    event += strlen(" event=");
    event += *event == '"';
    for (size_t i = 0; i < sizeof known_lines / sizeof *known_lines; i++) {
        const struct known_line *k = &known_lines[i];

        if (strncmp(event, k->event, strlen(k->event)) == 0 && (k->also == NULL || strstr(line, k->also) != NULL))
            return k;
    }
    return NULL;
}

static void line_read(struct attribution_facts *facts, const char *line, unsigned process)
{
    const struct known_line *known = line_know(line);
    int64_t ms, handed, unmarked, beat;

    if (!attribution_time_read(line, &ms))
        return;
    if (facts->trouble_ms == 0 && (strstr(line, " level=warning ") != NULL || strstr(line, " level=error ") != NULL))
        facts->trouble_ms = ms;
    if (known == NULL)
        return;
    handed = number_read(line, " rows_in_flight=");
    unmarked = number_read(line, " rows_unmarked=");
    beat = number_read(line, " rows_since_beat=");
    facts->list = oracle_grow(facts->list, facts->n, &facts->max, sizeof *facts->list);
    facts->list[facts->n++] = (struct attribution_fact){.kind = known->kind,
                                                        .process = process,
                                                        .ms = ms,
                                                        .beat_rows = beat > 0 ? beat : 0,
                                                        .rows = handed < 0     ? unmarked
                                                                : unmarked < 0 ? handed
                                                                               : handed + unmarked};
}

bool attribution_log_read(struct attribution_facts *facts, const char *path, unsigned process, char *error, size_t error_size)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;
    ssize_t n;

    facts->trouble_ms = 0;
    if (f == NULL) {
        (void)snprintf(error, error_size, "%s: %s", path, strerror(errno));
        return false;
    }
    while ((n = getline(&line, &size, f)) > 0)
        if (line[n - 1] == '\n')
            line_read(facts, line, process);
    free(line);
    (void)fclose(f);
    return true;
}

void attribution_facts_reset(struct attribution_facts *facts)
{
    free(facts->list);
    *facts = (struct attribution_facts){0};
}
