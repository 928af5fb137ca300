/* SPDX-License-Identifier: BSD-2-Clause */
/* What /metrics tells, and that Prometheus reads it without a complaint. */
#include "relay/app/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "relay/app/stats_state.h"
#include "relay/app/version.h"
#include "tests/lib/services.h"
#include "tests/lib/test.h"

/* Rendered; lent until the next call. */
static const char *text_of(const struct stats *s, const struct stats_moment *moment)
{
    static char *text;
    size_t text_n;

    free(text);
    CHECK(stats_render(s, moment, &text, &text_n));
    CHECK_EQ(strlen(text), text_n);
    return text;
}

/* Is `line` one of the lines of `text`? */
static void check_line(const char *text, const char *line)
{
    size_t n = strlen(line);

    for (const char *at = strstr(text, line); at != NULL; at = strstr(at + 1, line))
        if ((at == text || at[-1] == '\n') && at[n] == '\n')
            return;
    test_fail(__FILE__, __LINE__, "not there: %s\nin:\n%s", line, text);
}

static const struct stats_moment nothing;

TEST(stats_counters)
{
    struct stats *s = stats_new(4);
    const char *text;

    stats_name_topic(s, 0, "orders");
    stats_name_topic(s, 3, "a\"b\\c\nd");
    for (int i = 0; i < 3; i++)
        stats_count_published(s, 0, 5);
    stats_count_published(s, 3, 5);
    stats_count_error(s, "MSG_SIZE_TOO_LARGE");
    stats_count_error(s, "MSG_SIZE_TOO_LARGE");
    stats_count_error(s, "NOT_LEADER");
    stats_count_session(s, RELAY_MAIN, "row");
    stats_count_republished(s, 7);
    stats_count_fetched(s, 8);
    stats_count_marked(s, 9);
    stats_count_superseded(s, 10);
    stats_count_reconnect(s);
    stats_count_start_over(s);
    text = text_of(s, &nothing);
    check_line(text, "outbox_relay_published_total{topic=\"orders\"} 3");
    check_line(text, "outbox_relay_published_total{topic=\"a\\\"b\\\\c\\nd\"} 1");
    check_line(text, "outbox_relay_publish_errors_total{code=\"MSG_SIZE_TOO_LARGE\"} 2");
    check_line(text, "outbox_relay_publish_errors_total{code=\"NOT_LEADER\"} 1");
    check_line(text, "outbox_relay_sessions_total{session=\"main\",reason=\"row\"} 1");
    check_line(text, "outbox_relay_republished_total 7");
    check_line(text, "outbox_relay_fetched_total 8");
    check_line(text, "outbox_relay_marked_total 9");
    check_line(text, "outbox_relay_marks_superseded_total 10");
    check_line(text, "outbox_relay_reconnects_total 1");
    check_line(text, "outbox_relay_start_overs_total 1");
    check_line(text, "outbox_relay_build_info{version=\"" RELAY_VERSION "\"} 1");
    CHECK(strstr(text, "(other)") == NULL);
    stats_free(s);
}

TEST(stats_number_that_gets_another_topic)
{
    struct stats *s = stats_new(2);
    const char *text;

    stats_count_published(s, 0, 1);
    stats_name_topic(s, 0, "a");
    stats_count_published(s, 0, 1);
    stats_name_topic(s, 0, "b");
    stats_count_published(s, 0, 1);
    stats_name_topic(s, 1, "a");
    stats_count_published(s, 1, 1);
    text = text_of(s, &nothing);
    check_line(text, "outbox_relay_published_total{topic=\"a\"} 2");
    check_line(text, "outbox_relay_published_total{topic=\"b\"} 1");
    check_line(text, "outbox_relay_published_total{topic=\"(other)\"} 1");
    stats_free(s);
}

TEST(stats_labels_are_bounded)
{
    struct stats *s = stats_new(1);
    char name[20];
    const char *text;

    for (int i = 0; i < TOPIC_LABELS + 5; i++) {
        snprintf(name, sizeof name, "t%d", i);
        stats_name_topic(s, 0, name);
        stats_count_published(s, 0, 1);
        stats_count_error(s, name);
        stats_count_session(s, RELAY_PROBE, name);
    }
    text = text_of(s, &nothing);
    check_line(text, "outbox_relay_published_total{topic=\"t999\"} 1");
    check_line(text, "outbox_relay_published_total{topic=\"(other)\"} 5");
    check_line(text, "outbox_relay_publish_errors_total{code=\"t63\"} 1");
    check_line(text, "outbox_relay_publish_errors_total{code=\"(other)\"} 941");
    check_line(text, "outbox_relay_sessions_total{session=\"probe\",reason=\"(other)\"} 941");
    stats_free(s);
}

/* The bucket that grows is the first whose bound is not below the value. */
static void check_bucket(uint64_t value)
{
    struct stats *s = stats_new(1);
    unsigned wanted = 0;

    stats_count_published(s, 0, (int64_t)value);
    while (wanted < ACK_BUCKETS && stats_bound(wanted, true) < value)
        wanted++;
    if (s->insert_to_ack_ms.counts[wanted] != 1)
        test_fail(__FILE__, __LINE__, "%llu ms is not in bucket %u", (unsigned long long)value, wanted);
    stats_count_marked(s, value);
    wanted = 0;
    while (wanted < MARK_BUCKETS && stats_bound(wanted, false) < value)
        wanted++;
    if (s->mark_batch_rows.counts[wanted] != 1)
        test_fail(__FILE__, __LINE__, "%llu rows are not in bucket %u", (unsigned long long)value, wanted);
    stats_free(s);
}

TEST(stats_buckets)
{
    for (unsigned i = 1; i < ACK_BUCKETS; i++)
        CHECK(stats_bound(i, true) > stats_bound(i - 1, true));
    for (uint64_t value = 0; value < 3000; value++)
        check_bucket(value);
    for (unsigned bit = 10; bit < 63; bit++)
        for (uint64_t three = 2; three <= 3; three++)
            for (uint64_t near = 0; near < 3; near++)
                check_bucket((three << (bit - 1)) - 1 + near);
}

TEST(stats_histograms)
{
    struct stats *s = stats_new(1);
    const char *text;

    stats_count_published(s, 0, -5);
    stats_count_published(s, 0, 1);
    stats_count_published(s, 0, 3);
    stats_count_published(s, 0, 1000000);
    stats_count_marked(s, 100);
    text = text_of(s, &nothing);
    check_line(text, "outbox_relay_insert_to_ack_seconds_bucket{le=\"0.001\"} 2");
    check_line(text, "outbox_relay_insert_to_ack_seconds_bucket{le=\"0.002\"} 2");
    check_line(text, "outbox_relay_insert_to_ack_seconds_bucket{le=\"0.003\"} 3");
    check_line(text, "outbox_relay_insert_to_ack_seconds_bucket{le=\"262.144\"} 3");
    check_line(text, "outbox_relay_insert_to_ack_seconds_bucket{le=\"+Inf\"} 4");
    check_line(text, "outbox_relay_insert_to_ack_seconds_sum 1000.004");
    check_line(text, "outbox_relay_insert_to_ack_seconds_count 4");
    check_line(text, "outbox_relay_mark_batch_rows_bucket{le=\"64\"} 0");
    check_line(text, "outbox_relay_mark_batch_rows_bucket{le=\"128\"} 1");
    check_line(text, "outbox_relay_mark_batch_rows_sum 100");
    stats_free(s);
}

static const struct stats_moment moment = {.view = {.lease_held = true,
                                                    .window_rows = 1,
                                                    .handed_rows = 2,
                                                    .window_bytes = 3,
                                                    .open_gaps = 4,
                                                    .behind_lanes = 5,
                                                    .behind_topics = 6,
                                                    .behind_keys = 11,
                                                    .oldest_key_ms = 500,
                                                    .floor = 7,
                                                    .highest = INT64_MAX,
                                                    .oldest_gap_ms = 1000},
                                           .now_ms = 3500,
                                           .database_up = true,
                                           .row_bytes = 9,
                                           .log_lines_dropped = 10};

TEST(stats_gauges)
{
    struct stats *s = stats_new(0);
    const char *text = text_of(s, &moment);

    check_line(text, "outbox_relay_lease_held 1");
    check_line(text, "outbox_relay_window_rows 1");
    check_line(text, "outbox_relay_handed_rows 2");
    check_line(text, "outbox_relay_window_bytes 3");
    check_line(text, "outbox_relay_open_gaps 4");
    check_line(text, "outbox_relay_behind_lanes 5");
    check_line(text, "outbox_relay_behind_topics 6");
    check_line(text, "outbox_relay_held_keys 11");
    check_line(text, "outbox_relay_oldest_held_age_seconds 3");
    check_line(text, "outbox_relay_floor_id 7");
    check_line(text, "outbox_relay_highest_id 9223372036854775807");
    check_line(text, "outbox_relay_oldest_gap_age_seconds 2.5");
    check_line(text, "outbox_relay_row_memory_bytes 9");
    check_line(text, "outbox_relay_log_lines_dropped_total 10");
    check_line(text, "outbox_relay_database_up 1");
    check_line(text, "outbox_relay_kafka_up 0");
    stats_free(s);
}

TEST(stats_prometheus_reads_it)
{
    struct stats *s = stats_new(2);
    char path[300], output[4000] = "";
    const char *const argv[] = {"sh", "-c", "exec promtool check metrics < \"$TEST_METRICS\"", NULL};
    char variable[350];
    const char *const environment[] = {variable, NULL};
    struct process p;
    FILE *f;

    stats_name_topic(s, 0, "a\"b\\c\nd");
    stats_count_published(s, 0, 1);
    stats_count_published(s, 1, 2);
    stats_count_error(s, "NOT_LEADER");
    stats_count_session(s, RELAY_MAIN, "row");
    snprintf(path, sizeof path, "%s/metrics", temp_folder());
    snprintf(variable, sizeof variable, "TEST_METRICS=%s", path);
    f = fopen(path, "w");
    CHECK(f != NULL && fputs(text_of(s, &moment), f) >= 0 && fclose(f) == 0);
    snprintf(output, sizeof output, "%s/promtool", temp_folder());
    p = process_start(argv, environment, output);
    /* 127 is a shell without promtool: `make deps` brings it. */
    CHECK_EQ(process_wait(&p, 15), 0);
    CHECK_STR(process_output(&p), "");
    stats_free(s);
}
