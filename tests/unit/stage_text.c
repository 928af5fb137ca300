/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/stage_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

bool stage_row_read(const char **text, struct row *ret_row)
{
    char *end;

    *text += strspn(*text, " ");
    if (**text == '\0')
        return false;
    *ret_row = (struct row){.id = strtoll(*text, &end, 10), .bytes = 10};
    memcpy(ret_row->event_id.bytes, &ret_row->id, sizeof ret_row->id);
    while (*end != ' ' && *end != '\0') {
        char what = *end++;

        if (what == '\'')
            ret_row->event_id.bytes[15]++;
        else if (what == 's')
            ret_row->settled = true;
        else if (what == '@')
            ret_row->topic = (uint32_t)strtoul(end, &end, 10);
        else if (what == '/' && *end == '-')
            end++, ret_row->partition = -1;
        else if (what == '/')
            ret_row->partition = (int32_t)strtol(end, &end, 10);
        else if (what == '#')
            ret_row->key_hash = strtoull(end, &end, 10);
        else
            test_fail(__FILE__, __LINE__, "not a row: %s", *text);
    }
    if (ret_row->key_hash == 0)
        ret_row->key_hash = (uint64_t)(100 + (int64_t)ret_row->topic * 10 + ret_row->partition);
    *text = end;
    return true;
}

uint32_t stage_rows_read(const char *text, struct row *rows)
{
    uint32_t n = 0;

    while (n < STAGE_ROWS && stage_row_read(&text, &rows[n]))
        n++;
    return n;
}

void stage_append(char *text, const char *format, ...)
{
    size_t n = strlen(text);
    va_list args;

    if (n > 0)
        text[n++] = ' ';
    va_start(args, format);
    vsnprintf(text + n, STAGE_TEXT - n, format, args);
    va_end(args);
}

void stage_append_row(char *text, const struct row *row)
{
    char topic[20] = "";

    if (row->topic != 0)
        snprintf(topic, sizeof topic, "@%u", row->topic);
    stage_append(text, "%" PRId64 "%s%s", row->id, topic, row->event_id.bytes[15] != 0 ? "'" : "");
}

uint32_t stage_records_read(const char *text, struct relay_behind *records)
{
    uint32_t n = 0;

    for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
        char *end;

        CHECK(n < STAGE_RECORDS);
        records[n] = (struct relay_behind){.topic = (uint32_t)strtoul(text, &end, 10)};
        CHECK(*end == '/');
        if (strncmp(end, "/all", 4) == 0)
            records[n].partition = RELAY_WHOLE_TOPIC, end += 4;
        else if (end[1] == 'k')
            records[n].partition = RELAY_WHOLE_TOPIC, records[n].key_hash = strtoull(end + 2, &end, 10);
        else
            records[n].partition = (int32_t)strtol(end + 1, &end, 10);
        CHECK(*end == ':');
        records[n].first_id = strtoll(end + 1, &end, 10);
        if (*end == '+')
            records[n].attempts = (uint32_t)strtoul(end + 1, &end, 10);
        n++;
        text = end;
    }
    return n;
}

/* --- what the relay wants ----------------------------------------------------------------------------------------- */

/* Take the text away. */
static const char *text_take(char *from)
{
    static char text[STAGE_TEXT];

    memcpy(text, from, sizeof text);
    from[0] = '\0';
    return text;
}

const char *stage_published(struct stage *s)
{
    return text_take(s->published);
}

const char *stage_probed(struct stage *s)
{
    return text_take(s->probed);
}

const char *stage_dropped(struct stage *s)
{
    return text_take(s->dropped);
}

const char *stage_gaps(struct stage *s)
{
    static char text[STAGE_TEXT];
    const int64_t *firsts, *lasts;
    uint32_t n = relay_gaps(s->relay, &firsts, &lasts);

    CHECK(s->asked[RELAY_FETCH]);
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        if (firsts[i] == lasts[i])
            stage_append(text, "%" PRId64, firsts[i]);
        else
            stage_append(text, "%" PRId64 "-%" PRId64, firsts[i], lasts[i]);
    }
    return text;
}

const char *stage_marks(struct stage *s)
{
    static char text[STAGE_TEXT];
    const int64_t *ids;
    const struct row_event_id *event_ids;
    uint32_t n = relay_marks(s->relay, &ids, &event_ids);

    CHECK(s->asked[RELAY_MARK] && s->action[RELAY_MARK].rows == n);
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++)
        stage_append_row(text, &(struct row){.id = ids[i], .event_id = event_ids[i]});
    return text;
}

const char *stage_saving(struct stage *s)
{
    static char text[STAGE_TEXT];
    const struct relay_behind *changes;
    uint32_t n = relay_saving(s->relay, &changes);

    CHECK(s->asked[RELAY_SAVE] && s->action[RELAY_SAVE].rows == n);
    snprintf(text, sizeof text, "floor %" PRId64, s->action[RELAY_SAVE].from);
    for (uint32_t i = 0; i < n; i++) {
        if (changes[i].key_hash != 0)
            stage_append(text, "%u/k%" PRIu64 ":%" PRId64 "+%u", changes[i].topic, changes[i].key_hash, changes[i].first_id,
                         changes[i].attempts);
        else if (changes[i].partition == RELAY_WHOLE_TOPIC)
            stage_append(text, "%u/all:%" PRId64, changes[i].topic, changes[i].first_id);
        else
            stage_append(text, "%u/%d:%" PRId64, changes[i].topic, changes[i].partition, changes[i].first_id);
    }
    return text;
}

unsigned stage_told_n(const struct stage *s, enum relay_note note)
{
    unsigned n = 0;

    for (unsigned i = 0; i < s->noted_n; i++)
        n += s->noted[i].note == note;
    return n;
}

bool stage_told(const struct stage *s, enum relay_note note)
{
    return stage_told_n(s, note) > 0;
}

void stage_forget_notes(struct stage *s)
{
    s->noted_n = 0;
}
