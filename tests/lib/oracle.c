/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/oracle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/oracle_read.h"

struct judge {
    struct oracle_reading reading;
    struct oracle_verdict *verdict;
    size_t duplicates_max;
};

/* The first few of a kind are told in words; of one kind no more than a quarter, so that a flood does not hide another kind. */
static void tell(struct judge *j, int64_t *count, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void tell(struct judge *j, int64_t *count, const char *format, ...)
{
    struct oracle_verdict *v = j->verdict;
    va_list arguments;

    if (++*count > ORACLE_FINDINGS_MAX / 4 || v->findings_n == ORACLE_FINDINGS_MAX)
        return;
    va_start(arguments, format);
    (void)vsnprintf(v->finding[v->findings_n++], sizeof v->finding[0], format, arguments);
    va_end(arguments);
}

static const char *event_text(const unsigned char event_id[16])
{
    static char text[37];
    char *to = text;

    for (int i = 0; i < 16; i++)
        to += snprintf(to, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", event_id[i]);
    return text;
}

static const char *event_name(const struct judge *j, const struct oracle_event *e)
{
    return j->reading.names + e->name;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_event_id(const void *a, const void *b)
{
    const struct oracle_event *x = a, *y = b;

    return memcmp(x->event_id, y->event_id, sizeof x->event_id);
}

/* Copies of one event end up side by side, in the order in which they were appended. */
static int by_event_id_and_place(const void *a, const void *b)
{
    const struct oracle_record *x = a, *y = b;
    int order = memcmp(x->event_id, y->event_id, sizeof x->event_id);

    if (order == 0)
        order = compare_numbers(x->topic, y->topic);
    if (order == 0)
        order = compare_numbers(x->partition, y->partition);
    return order != 0 ? order : compare_numbers(x->offset, y->offset);
}

static int by_key_and_version(const void *a, const void *b)
{
    const struct oracle_event *x = a, *y = b;

    return x->key_hash != y->key_hash ? (x->key_hash < y->key_hash ? -1 : 1) : compare_numbers(x->version, y->version);
}

static int by_key_and_offset(const void *a, const void *b)
{
    const struct oracle_event *x = a, *y = b;

    return x->key_hash != y->key_hash ? (x->key_hash < y->key_hash ? -1 : 1) : compare_numbers(x->first_offset, y->first_offset);
}

static void judge_phantom(struct judge *j, const struct oracle_record *r)
{
    static const unsigned char none[16] = {0};

    if (memcmp(r->event_id, none, sizeof none) == 0)
        tell(j, &j->verdict->phantoms, "phantom: %s[%d] offset %" PRId64 " has not exactly one header \"id\" that is a UUID",
             j->reading.topic[r->topic], r->partition, r->offset);
    else
        tell(j, &j->verdict->phantoms, "phantom: %s[%d] offset %" PRId64 " holds event %s, which no transaction committed",
             j->reading.topic[r->topic], r->partition, r->offset, event_text(r->event_id));
}

static void judge_first(struct judge *j, struct oracle_event *e, const struct oracle_record *r)
{
    const char *differs = e->topic != r->topic                 ? "topic"
                          : e->key_hash != r->key_hash         ? "key"
                          : e->payload_hash != r->payload_hash ? "payload"
                                                               : NULL;

    e->first_offset = r->offset;
    e->partition = r->partition;
    j->verdict->published++;
    if (differs != NULL)
        tell(j, &j->verdict->unlike, "unlike: %s version %" PRId64 " was published with another %s, in %s[%d] at offset %" PRId64,
             event_name(j, e), e->version, differs, j->reading.topic[r->topic], r->partition, r->offset);
}

static void judge_copy(struct judge *j, const struct oracle_event *e, const struct oracle_record *before, const struct oracle_record *r)
{
    struct oracle_verdict *v = j->verdict;

    v->duplicate = oracle_grow(v->duplicate, (size_t)v->duplicates, &j->duplicates_max, sizeof *v->duplicate);
    v->duplicate[v->duplicates++] = (struct oracle_duplicate){.earlier_ms = before->timestamp_ms,
                                                              .later_ms = r->timestamp_ms,
                                                              .marked_ms = e->marked_ms,
                                                              .offset = r->offset,
                                                              .topic = r->topic,
                                                              .partition = r->partition};
    if (before->topic != r->topic || before->partition != r->partition)
        tell(j, &v->unlike, "unlike: %s version %" PRId64 " has a copy in %s[%d] and one in %s[%d]", event_name(j, e), e->version,
             j->reading.topic[before->topic], before->partition, j->reading.topic[r->topic], r->partition);
    else if (before->copy_hash != r->copy_hash)
        tell(j, &v->unlike, "unlike: %s version %" PRId64 ", the copies at offsets %" PRId64 " and %" PRId64 " of %s[%d] differ",
             event_name(j, e), e->version, before->offset, r->offset, j->reading.topic[r->topic], r->partition);
}

/* Both sorted by event_id: one walk finds every record's event, or that it has none. */
static void match_records(struct judge *j)
{
    struct oracle_event *e = j->reading.event, *end = e + j->reading.events_n;

    for (size_t i = 0; i < j->reading.records_n; i++) {
        const struct oracle_record *r = &j->reading.record[i];
        int order = 1;

        while (e < end && (order = memcmp(e->event_id, r->event_id, sizeof e->event_id)) < 0)
            e++;
        if (e == end || order != 0)
            judge_phantom(j, r);
        else if (e->first_offset < 0)
            judge_first(j, e, r);
        else
            judge_copy(j, e, r - 1, r);
    }
}

static void judge_settled(struct judge *j)
{
    struct oracle_verdict *v = j->verdict;

    for (size_t i = 0; i < j->reading.events_n; i++) {
        const struct oracle_event *e = &j->reading.event[i];
        bool published = e->first_offset >= 0;

        v->marked += e->marked;
        if (!published)
            tell(j, &v->lost, "lost: %s version %" PRId64 ", event %s, is in no partition", event_name(j, e), e->version,
                 event_text(e->event_id));
        if (!published && e->marked)
            tell(j, &v->false_marks, "false mark: %s version %" PRId64 " is marked, but in no partition", event_name(j, e), e->version);
        if (published && !e->marked)
            tell(j, &v->unmarked, "unmarked: %s version %" PRId64 " is in partition %d, but not marked", event_name(j, e), e->version,
                 e->partition);
    }
}

/* Each key's versions count 1, 2, 3, ...: otherwise there is nothing to judge the order by. */
static void judge_history(struct judge *j)
{
    struct oracle_event *e = j->reading.event;
    int64_t expected = 1;

    qsort(e, j->reading.events_n, sizeof *e, by_key_and_version);
    for (size_t i = 0; i < j->reading.events_n; i++, expected++) {
        if (i == 0 || e[i].key_hash != e[i - 1].key_hash)
            expected = 1;
        if (e[i].key_hash == 0 || e[i].version == expected)
            continue;
        tell(j, &j->verdict->broken_history, "history: %s has version %" PRId64 " where %" PRId64 " should be: the writers are at fault",
             event_name(j, &e[i]), e[i].version, expected);
        expected = e[i].version;
    }
}

/* One key's published events, in the order of their first occurrences; a key has one partition. */
static void judge_key(struct judge *j, struct oracle_event *e, size_t n)
{
    const struct oracle_event *before = e;

    qsort(e, n, sizeof *e, by_key_and_offset);
    for (size_t i = 1; i < n; i++) {
        if (e[i].partition != e[0].partition) {
            tell(j, &j->verdict->unlike, "unlike: %s is in partition %d with version %" PRId64 " and in %d with version %" PRId64,
                 event_name(j, e), e[0].partition, e[0].version, e[i].partition, e[i].version);
            continue;
        }
        if (e[i].version < before->version)
            tell(j, &j->verdict->misordered,
                 "order: %s version %" PRId64 " first occurs at offset %" PRId64 ", after version %" PRId64 " at %" PRId64
                 " of partition %d",
                 event_name(j, e), e[i].version, e[i].first_offset, before->version, before->first_offset, e[i].partition);
        before = &e[i];
    }
}

/* With a whole history, "versions 1, 2, 3, ... without a gap" is "ascending" and "nothing lost"; so each defect is named once. The events
 * lie key by key here; those in no partition are put behind the others of their key. */
static void judge_order(struct judge *j)
{
    struct oracle_event *all = j->reading.event, *end = all + j->reading.events_n;

    for (struct oracle_event *e = all, *next; e < end; e = next) {
        size_t published_n = 0;

        for (next = e; next < end && next->key_hash == e->key_hash; next++)
            if (next->first_offset >= 0) {
                struct oracle_event swapped = e[published_n];
                e[published_n++] = *next;
                *next = swapped;
            }
        if (e->key_hash != 0)
            judge_key(j, e, published_n);
    }
}

bool oracle_judge(const struct oracle_question *question, struct oracle_verdict *ret_verdict, char *error, size_t error_size)
{
    struct judge j = {.verdict = ret_verdict};
    bool read;

    memset(ret_verdict, 0, sizeof *ret_verdict);
    oracle_reading_init(&j.reading, question->topics);
    /* Marks before records: a mark that is seen has its record in Kafka already, whatever happens meanwhile. */
    read = oracle_read_history(&j.reading, question, error, error_size) &&
           oracle_read_topics(&j.reading, question->bootstrap, error, error_size);
    if (read) {
        error[0] = '\0'; /* librdkafka leaves words there where all is well */
        ret_verdict->committed = (int64_t)j.reading.events_n;
        ret_verdict->records = (int64_t)j.reading.records_n;
        qsort(j.reading.event, j.reading.events_n, sizeof *j.reading.event, by_event_id);
        qsort(j.reading.record, j.reading.records_n, sizeof *j.reading.record, by_event_id_and_place);
        match_records(&j);
        judge_settled(&j);
        judge_history(&j);
        judge_order(&j);
    }
    oracle_reading_reset(&j.reading);
    return read;
}

void oracle_forget(struct oracle_verdict *verdict)
{
    free(verdict->duplicate);
    verdict->duplicate = NULL;
    verdict->duplicates = 0;
}

bool oracle_clean(const struct oracle_verdict *v)
{
    return v->lost + v->phantoms + v->misordered + v->unlike + v->false_marks + v->unmarked + v->broken_history == 0;
}
