/* SPDX-License-Identifier: BSD-2-Clause */
/* What an administrator does to a topic under load: it is missing, deleted and made again, gets partitions, takes smaller rows only. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/crash/kafka_line.h"
#include "tests/lib/test.h"

#define APPEND_TIME "message.timestamp.type=LogAppendTime"

/* --- missing ------------------------------------------------------------------------------------------------------ */

TEST_WITHIN(crash_kafka_topic_missing, 60)
{
    struct line *l = kafka_line_begin("topic-there", NULL, "topic-there,topic-missing");

    kafka_topic_delete(l->e.kafka, "topic-missing");
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);
    WAIT_UNTIL(kafka_line_told_both(relay, "event=\"topic closed, its rows wait\"", "topic-missing") > 0, 20);
    line_strike(l);
    kafka_line_publishing(l, "topic-there");
    CHECK_EQ(kafka_topic_partitions(l->e.kafka, "topic-missing"), 0);
    CHECK_EQ(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE topic = 'topic-missing' AND sent_at IS NOT NULL"),
             0);
    CHECK(kafka_line_unmarked(l, "topic-missing") >= LINE_UNSETTLED_MIN);
    line_hit(l, "topic missing", "no partition in Kafka's metadata, %lld rows of it wait, the other topic goes on",
             (long long)kafka_line_unmarked(l, "topic-missing"));
    e2e_topic_create(&l->e, "topic-missing");
    kafka_line_publishing(l, "topic-missing");
    CHECK_EQ(kafka_line_told(relay, "event=\"session ends"), 0);
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){0});
}

/* --- deleted and made again --------------------------------------------------------------------------------------- */

/* What went with the deleted topic is nobody's to find again: events of `topic` for which `gone` (SQL, of a row h of the history) is true
 * now are taken out of the history, and the versions of what is left, and still comes, are counted anew. */
static void forget_events(const struct line *l, const char *topic, const char *gone)
{
    (void)postgres_query(
        l->e.db.conninfo,
        "BEGIN;"
        "LOCK TABLE demo.history;"
        "ALTER TABLE demo.history RENAME TO history_all;"
        "CREATE TABLE demo.history_gone AS SELECT h.event_id FROM demo.history_all h WHERE h.topic = '%s' AND (%s);"
        "CREATE VIEW demo.history AS SELECT h.event_id, h.topic, h.key, row_number() OVER (PARTITION BY h.topic, h.key ORDER BY h.version) "
        "AS version, h.payload_hash FROM demo.history_all h WHERE NOT EXISTS (SELECT 1 FROM demo.history_gone g WHERE g.event_id = "
        "h.event_id);"
        "CREATE FUNCTION demo.history_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO demo.history_all VALUES "
        "(NEW.event_id, NEW.topic, NEW.key, NEW.version, NEW.payload_hash); RETURN NEW; END $$;"
        "CREATE TRIGGER history_insert INSTEAD OF INSERT ON demo.history FOR EACH ROW EXECUTE FUNCTION demo.history_insert();"
        "COMMIT",
        topic, gone);
}

/* The relay saw that it was gone before it was made again. Then its session has ended, and everything is as with any topic that was
 * missing: each row that was not acknowledged into the old topic is in the new one, in order, once. */
TEST_WITHIN(crash_kafka_topic_recreated, 90)
{
    struct line *l = kafka_line_begin("recreated", NULL, "recreated,beside-recreated");
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);

    kafka_line_publishing(l, "recreated");
    line_strike(l);
    kafka_topic_delete(l->e.kafka, "recreated");
    WAIT_UNTIL(kafka_line_told_both(relay, "event=\"topic closed, its rows wait\"", "recreated") > 0, 20);
    line_look(l);
    line_hit(l, "topic deleted under load, made again when the relay had seen it", "no partition in Kafka's metadata, topic closed");
    kafka_line_publishing(l, "beside-recreated"); /* a mark takes 10 ms: whatever the old topic acknowledged is marked by now */
    kafka_line_pass(l, 800);
    forget_events(l, "recreated", "EXISTS (SELECT 1 FROM outbox.event e WHERE e.event_id = h.event_id AND e.sent_at IS NOT NULL)");
    CHECK(e2e_number(&l->e, "SELECT count(*) FROM demo.history_gone") > 0);
    e2e_topic_create(&l->e, "recreated");
    kafka_line_publishing(l, "recreated");
    kafka_line_check_no_attempts(l);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
}

/* Made again before anybody could notice, with rows on their way. Expected: nothing is stuck, and what is committed from then on is in the
 * new topic and in order. Not expected: anything of the rows before. Kafka knows a topic by its name here; rows that were acknowledged went
 * with it, and of those that were on their way a later batch may be taken before an earlier one (DESIGN.md 13, finding 15). */
TEST_WITHIN(crash_kafka_topic_recreated_at_once, 90)
{
    struct line *l = kafka_line_begin("at-once", NULL, "at-once,beside-at-once");

    (void)LINE_RELAY(l, KAFKA_LINE_QUICK);
    kafka_line_publishing(l, "at-once");
    line_strike(l);
    kafka_topic_delete(l->e.kafka, "at-once");
    e2e_topic_create(&l->e, "at-once");
    line_hit(l, "topic deleted under load and made again at once", "%lld records in the new one of %lld events",
             (long long)kafka_topic_records(l->e.kafka, "at-once", 0), (long long)e2e_number(&l->e, "SELECT count(*) FROM demo.history"));
    forget_events(l, "at-once", "true");
    kafka_line_publishing(l, "beside-at-once");
    kafka_line_publishing(l, "at-once");
    kafka_line_pass(l, 1600);
    line_end(l, &(struct line_expected){.windows = LINE_D(3), .phantoms_max = INT64_MAX});
}

/* --- partitions --------------------------------------------------------------------------------------------------- */

/* Keys keep the partition that they were pinned to, in the relay that saw it and in the next one. */
TEST_WITHIN(crash_kafka_partitions_added, 60)
{
    struct line *l = kafka_line_begin("extended", NULL, NULL);
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);

    line_publishing(l);
    line_strike(l);
    kafka_topic_extend(l->e.kafka, "extended", 2 * E2E_PARTITIONS);
    line_hit(l, "partitions added", "%d in Kafka's metadata, %d before", kafka_topic_partitions(l->e.kafka, "extended"), E2E_PARTITIONS);
    line_publishing(l);
    kafka_line_pass(l, 800);
    process_signal(relay, SIGTERM);
    CHECK_EQ(process_wait(relay, 12), 0);
    relay = LINE_RELAY(l, KAFKA_LINE_QUICK);
    WAIT_UNTIL(kafka_line_told(relay, "event=\"topic has more partitions than its keys are spread over\"") > 0, 20);
    line_publishing(l);
    line_end(l, &(struct line_expected){0});
    CHECK(kafka_topic_records(l->e.kafka, "extended", 0) > 0);
    CHECK_EQ(kafka_topic_records(l->e.kafka, "extended", E2E_PARTITIONS), 0);
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

static int64_t unmarked_but(const struct line *l, const char *key, int64_t upto)
{
    return postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL AND key <> '%s' AND id <= %lld", key,
                           (long long)upto);
}

static int64_t last_id(const struct line *l)
{
    return e2e_number(&l->e, "SELECT last_value FROM outbox.event_id_seq");
}

/* A row of `key` waits: every other row that exists now goes out, those of the same partition too. */
static void check_only_its_key_waits(struct line *l, const char *key, int64_t rows)
{
    int64_t upto;

    kafka_line_pass(l, 800);
    upto = last_id(l);
    WAIT_UNTIL(unmarked_but(l, key, upto) == 0, 20);
    CHECK_EQ(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL AND key = '%s'", key), rows);
    WAIT_UNTIL(e2e_number(&l->e, "SELECT count(*) FROM outbox.behind WHERE key_hash <> 0") == 1, 10); /* saved within a second */
}

/* max.message.bytes goes down to 20 000 while batches are larger. They become smaller; a row of 40 000 waits, and only its key with it. */
TEST_WITHIN(crash_kafka_limit_lowered, 90)
{
    struct line *l = kafka_line_begin("limit-lowered", NULL, NULL);
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);

    line_publishing(l);
    line_strike(l);
    kafka_topic_configure(l->e.kafka, "limit-lowered", APPEND_TIME ",max.message.bytes=20000");
    WAIT_UNTIL((line_burst(l, 6000), kafka_line_told(relay, "Message size too large") > 0), 20);
    line_look(l);
    line_hit(l, "max.message.bytes lowered to 20000", "the broker refused a batch: Message size too large");
    e2e_commit(&l->e, "limit-lowered", "large", 1, kafka_line_large_text(40000), "NULL");
    e2e_commit(&l->e, "limit-lowered", "large", 2, "{}", "NULL");
    check_only_its_key_waits(l, "large", 2);
    kafka_topic_configure(l->e.kafka, "limit-lowered", APPEND_TIME);
    WAIT_UNTIL(postgres_number(l->e.db.conninfo, "SELECT count(*) FROM outbox.event WHERE sent_at IS NULL AND key = 'large'") == 0, 30);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
    CHECK_EQ(e2e_number(&l->e, "SELECT count(*) FROM outbox.behind"), 0);
}

/* Finding 14: one row of 150 000 bytes, where 100 000 are the limit, among 20 000 on 12 warm partitions. The main session ends for it at
 * most once; the tries that follow are the probe session's, and cost nobody else anything. */
TEST_WITHIN(crash_kafka_row_too_large, 90)
{
    struct line *l = kafka_line_begin("too-large", NULL, NULL);

    kafka_topic_extend(l->e.kafka, "too-large", 12);
    kafka_topic_configure(l->e.kafka, "too-large", APPEND_TIME ",max.message.bytes=100000");
    struct process *relay = LINE_RELAY(l, KAFKA_LINE_QUICK);
    line_publishing(l);
    kafka_line_pass(l, 800);
    line_burst(l, 10000);
    e2e_commit(&l->e, "too-large", "large", 1, kafka_line_large_text(150000), "NULL");
    e2e_commit(&l->e, "too-large", "large", 2, "{}", "NULL");
    line_burst(l, 10000);
    line_look(l);
    WAIT_UNTIL(e2e_number(&l->e, "SELECT coalesce(max(attempts), 0) FROM outbox.behind WHERE key_hash <> 0") >= 3, 30);
    line_hit(l, "a row of 150000 bytes above the limit of 100000, among 20000 on 12 partitions", "its key waits after %lld attempts",
             (long long)e2e_number(&l->e, "SELECT max(attempts) FROM outbox.behind WHERE key_hash <> 0"));
    check_only_its_key_waits(l, "large", 2);
    CHECK(kafka_line_told_both(relay, "event=\"session ends", "session=main") <= 1);
    kafka_topic_configure(l->e.kafka, "too-large", APPEND_TIME);
    line_end(l, &(struct line_expected){.windows = LINE_D(3)});
}
