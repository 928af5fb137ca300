/* SPDX-License-Identifier: BSD-2-Clause */
/* Prometheus's text format: a HELP and a TYPE line, then the samples. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "relay/app/stats_state.h"
#include "relay/app/version.h"

#define PREFIX "outbox_relay_"

static void head(FILE *to, const char *name, const char *type, const char *help)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(FILE *to, const char *name, const char *help, uint64_t value)
{
    head(to, name, "counter", help);
    fprintf(to, "%s %" PRIu64 "\n", name, value);
}

static void gauge(FILE *to, const char *name, const char *help, int64_t value)
{
    head(to, name, "gauge", help);
    fprintf(to, "%s %" PRId64 "\n", name, value);
}

static void label_escaped(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            fputs("\\n", to);
        else if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
    }
}

/* `label`: the name of theirs, perhaps after other labels. */
static void samples(FILE *to, const char *name, const char *label, const struct stats_labels *labels)
{
    for (size_t i = 1; i < labels->n; i++) {
        fprintf(to, "%s{%s=\"", name, label);
        label_escaped(to, labels->list[i].text);
        fprintf(to, "\"} %" PRIu64 "\n", labels->list[i].count);
    }
    if (labels->list[0].count > 0)
        fprintf(to, "%s{%s=\"(other)\"} %" PRIu64 "\n", name, label, labels->list[0].count);
}

/* `scale`: how many of the histogram's units are one of the metric's. */
static void histogram(FILE *to, const char *name, const char *help, const struct stats_histogram *h, double scale)
{
    uint64_t total = 0;

    head(to, name, "histogram", help);
    for (unsigned i = 0; i < h->buckets_n; i++) {
        total += h->counts[i];
        fprintf(to, "%s_bucket{le=\"%.10g\"} %" PRIu64 "\n", name, (double)stats_bound(i, h->halves) / scale, total);
    }
    total += h->counts[h->buckets_n];
    fprintf(to, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, total);
    fprintf(to, "%s_sum %.10g\n%s_count %" PRIu64 "\n", name, (double)h->sum / scale, name, total);
}

static void counters_render(FILE *to, const struct stats *s, const struct stats_moment *m)
{
    head(to, PREFIX "published_total", "counter", "Rows that Kafka acknowledged with all replicas.");
    samples(to, PREFIX "published_total", "topic", &s->published);
    head(to, PREFIX "publish_errors_total", "counter", "Bad reports and rows that could not be handed, by librdkafka's error.");
    samples(to, PREFIX "publish_errors_total", "code", &s->errors);
    head(to, PREFIX "sessions_total", "counter", "Producer sessions that ended, by reason; \"probe\" is the one for suspected rows.");
    samples(to, PREFIX "sessions_total", "session=\"main\",reason", &s->sessions[RELAY_MAIN]);
    samples(to, PREFIX "sessions_total", "session=\"probe\",reason", &s->sessions[RELAY_PROBE]);
    histogram(to, PREFIX "insert_to_ack_seconds", "From created_at of a row to its acknowledgement.", &s->insert_to_ack_ms, 1000);
    histogram(to, PREFIX "mark_batch_rows", "Rows in a mark.", &s->mark_batch_rows, 1);
    counter(to, PREFIX "fetched_total", "Rows that were read to be published.", s->fetched);
    counter(to, PREFIX "marked_total", "Rows that were marked.", s->marked);
    counter(to, PREFIX "marks_superseded_total", "Rows that were marked when the lease was over.", s->superseded);
    counter(to, PREFIX "phantoms_total", "Events that were published and that the database does not have.", s->phantoms);
    counter(to, PREFIX "patrol_found_total", "Rows that were found unpublished where everything was.", s->patrol_found);
    counter(to, PREFIX "republished_total", "Rows handed again although Kafka may have them: possible duplicates.", s->republished);
    counter(to, PREFIX "reconnects_total", "Times the database was reached again after a loss.", s->reconnects);
    counter(to, PREFIX "start_overs_total", "Times the saved state was read again because ids may have been given to other events.",
            s->start_overs);
    counter(to, PREFIX "log_lines_dropped_total", "Log lines that nobody took.", m->log_lines_dropped);
}

static double age_seconds(uint64_t now_ms, uint64_t since_ms)
{
    return since_ms > 0 && now_ms > since_ms ? (double)(now_ms - since_ms) / 1000 : 0;
}

static void gauges_render(FILE *to, const struct stats_moment *m)
{
    const struct relay_view *v = &m->view;

    gauge(to, PREFIX "behind_lanes", "Topic-partitions whose rows the tail passed by.", v->behind_lanes);
    gauge(to, PREFIX "behind_topics", "Topics whose rows the tail passed by.", v->behind_topics);
    gauge(to, PREFIX "held_keys", "Keys whose rows wait each for itself.", v->behind_keys);
    head(to, PREFIX "oldest_held_age_seconds", "gauge", "How long the key waits that waits longest.");
    fprintf(to, PREFIX "oldest_held_age_seconds %.10g\n", age_seconds(m->now_ms, v->oldest_key_ms));
    gauge(to, PREFIX "open_gaps", "Ranges of ids that were drawn and not yet seen.", v->open_gaps);
    head(to, PREFIX "oldest_gap_age_seconds", "gauge", "How long the oldest of them is open; a writer holds its transaction so long.");
    fprintf(to, PREFIX "oldest_gap_age_seconds %.10g\n", age_seconds(m->now_ms, v->oldest_gap_ms));
    gauge(to, PREFIX "window_rows", "Rows between fetch and mark.", v->window_rows);
    gauge(to, PREFIX "handed_rows", "Those of them that were handed to the producer and have no report.", v->handed_rows);
    gauge(to, PREFIX "window_bytes", "Bytes of rows that are not published yet.", (int64_t)v->window_bytes);
    gauge(to, PREFIX "row_memory_bytes", "Memory of the results that hold them.", (int64_t)m->row_bytes);
    gauge(to, PREFIX "floor_id", "Every id up to it is settled or behind, and saved so.", v->floor);
    gauge(to, PREFIX "highest_id", "The highest id seen.", v->highest);
    gauge(to, PREFIX "lease_held", "1: this process may publish.", v->lease_held);
    gauge(to, PREFIX "database_up", "1: the database answers.", m->database_up);
    gauge(to, PREFIX "kafka_up", "1: some broker answers.", m->kafka_up);
}

static int64_t resident_bytes(void)
{
    FILE *statm = fopen("/proc/self/statm", "re");
    long long pages = 0;
    bool known = statm != NULL && fscanf(statm, "%*d %lld", &pages) == 1;

    if (statm != NULL)
        (void)fclose(statm);
    return known ? pages * sysconf(_SC_PAGESIZE) : 0;
}

static void process_render(FILE *to, const struct stats *s)
{
    struct timespec cpu = {.tv_sec = 0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    head(to, "process_cpu_seconds_total", "counter", "Processor time of all threads.");
    fprintf(to, "process_cpu_seconds_total %lld.%06ld\n", (long long)cpu.tv_sec, cpu.tv_nsec / 1000);
    gauge(to, "process_resident_memory_bytes", "Resident memory.", resident_bytes());
    head(to, "process_start_time_seconds", "gauge", "When the process started, in seconds since 1970.");
    fprintf(to, "process_start_time_seconds %" PRIu64 ".%03u\n", s->started_ms / 1000, (unsigned)(s->started_ms % 1000));
    head(to, PREFIX "build_info", "gauge", "1, with the version as a label.");
    fputs(PREFIX "build_info{version=\"" RELAY_VERSION "\"} 1\n", to);
}

bool stats_render(const struct stats *s, const struct stats_moment *moment, char **ret_text, size_t *ret_text_n)
{
    FILE *to = open_memstream(ret_text, ret_text_n);
    bool ok;

    if (to == NULL)
        return false;
    counters_render(to, s, moment);
    gauges_render(to, moment);
    process_render(to, s);
    ok = ferror(to) == 0;
    return (fclose(to) == 0) && ok;
}
