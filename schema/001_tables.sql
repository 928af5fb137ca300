-- outbox-relay schema 1.0
-- SPDX-License-Identifier: BSD-2-Clause
-- The tables. A migration runs inside the transaction of `outbox-relay migrate`, which also records its version.

-- An administrator may have made it, for a role that may not.
CREATE SCHEMA IF NOT EXISTS outbox;
COMMENT ON SCHEMA outbox IS 'Transactional outbox: rows of outbox.event are published to Kafka by outbox-relay; the rest is the relay''s own state.';

-- The fillfactor leaves room for the second version of every row on its own page, and there is no index but the primary key: marking a
-- row is then a HOT update, a third of the price. Please add no index to this table.
CREATE TABLE outbox.event (
    id         bigint      GENERATED ALWAYS AS IDENTITY (INCREMENT 1 CACHE 1 NO CYCLE),
    event_id   uuid        NOT NULL,
    topic      text        NOT NULL,
    key        text,
    payload    bytea,
    headers    jsonb,
    partition  integer,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at    timestamptz,
    CONSTRAINT event_pkey PRIMARY KEY (id),
    CONSTRAINT event_id_positive CHECK (id > 0), -- the relay reads from 1 on
    CONSTRAINT event_topic_length CHECK (octet_length(topic) BETWEEN 1 AND 249),
    CONSTRAINT event_headers_are_strings CHECK (headers IS NULL OR (jsonb_typeof(headers) = 'object' AND NOT headers ? 'id'
        AND NOT jsonb_path_exists(headers, 'strict $.* ? (@.type() != "string")'))),
    CONSTRAINT event_partition_not_negative CHECK (partition >= 0),
    CONSTRAINT event_created_at_finite CHECK (isfinite(created_at))
) WITH (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 500000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.5,
    toast.autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 50000,
    toast.autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE outbox.event IS 'Events to publish: written by services in the transaction of the change they tell of, published and marked by the relay.';
COMMENT ON COLUMN outbox.event.id IS 'Order. Drawn by the INSERT and by nothing else, while the writer holds the lock of the key; it names a row only together with event_id.';
COMMENT ON COLUMN outbox.event.event_id IS 'Identity: made by the service, sent as header "id". Consumers recognise copies by it.';
COMMENT ON COLUMN outbox.event.topic IS 'Kafka topic.';
COMMENT ON COLUMN outbox.event.key IS 'Key of the record: rows of one topic and key are published in the order in which they were committed. NULL: no order.';
COMMENT ON COLUMN outbox.event.payload IS 'Value of the record, as it is. NULL is a tombstone.';
COMMENT ON COLUMN outbox.event.headers IS 'More headers: an object of strings without "id". PostgreSQL reorders the names.';
COMMENT ON COLUMN outbox.event.partition IS 'A fixed partition, if not NULL; else it follows from the key as in Kafka''s own clients.';
COMMENT ON COLUMN outbox.event.created_at IS 'Timestamp of the record.';
COMMENT ON COLUMN outbox.event.sent_at IS 'When the relay marked it; set only after all in-sync replicas have the record.';

-- A grant and a beat are two rows, so that a save, which locks the lease, never holds up a beat.
CREATE TABLE outbox.lease (
    one        boolean     NOT NULL DEFAULT true,
    token      uuid,
    process    uuid,
    holder     text        NOT NULL DEFAULT '',
    epoch      bigint      NOT NULL DEFAULT 0,
    granted_at timestamptz,
    CONSTRAINT lease_pkey PRIMARY KEY (one),
    CONSTRAINT lease_one CHECK (one)
);
COMMENT ON TABLE outbox.lease IS 'Which relay publishes. One row.';
COMMENT ON COLUMN outbox.lease.one IS 'Always true.';
COMMENT ON COLUMN outbox.lease.token IS 'Drawn at random for each grant; NULL: released. What the relay writes is fenced by it.';
COMMENT ON COLUMN outbox.lease.process IS 'Drawn at random when a relay starts: it need not wait for itself.';
COMMENT ON COLUMN outbox.lease.holder IS 'Name and instance of the holder, for people.';
COMMENT ON COLUMN outbox.lease.epoch IS 'Counts grants, for people. After a failover a number may come twice.';
COMMENT ON COLUMN outbox.lease.granted_at IS 'When it was granted.';

CREATE TABLE outbox.beat (
    one        boolean     NOT NULL DEFAULT true,
    token      uuid,
    beat_at    timestamptz NOT NULL DEFAULT '-infinity',
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    CONSTRAINT beat_pkey PRIMARY KEY (one),
    CONSTRAINT beat_one CHECK (one)
);
COMMENT ON TABLE outbox.beat IS 'Until when the lease runs. One row.';
COMMENT ON COLUMN outbox.beat.one IS 'Always true.';
COMMENT ON COLUMN outbox.beat.token IS 'That of the lease.';
COMMENT ON COLUMN outbox.beat.beat_at IS 'When the holder was last heard of.';
COMMENT ON COLUMN outbox.beat.expires_at IS 'Another relay may take the lease after this, by the clock of the database.';

-- Unlogged on purpose: the row survives an orderly restart and is gone after a crash or on a promoted standby, where ids may be given
-- out a second time. Every answer carries the token from here, so the relay sees it even through a connection pooler.
CREATE UNLOGGED TABLE outbox.incarnation (
    one   boolean NOT NULL DEFAULT true,
    token uuid    NOT NULL,
    CONSTRAINT incarnation_pkey PRIMARY KEY (one),
    CONSTRAINT incarnation_one CHECK (one)
);
COMMENT ON TABLE outbox.incarnation IS 'The token of the last grant, forgotten by a crash of the server. One row, or none.';
COMMENT ON COLUMN outbox.incarnation.one IS 'Always true.';
COMMENT ON COLUMN outbox.incarnation.token IS 'That of the lease, unless the server crashed or was replaced since.';

CREATE TABLE outbox.position (
    one      boolean     NOT NULL DEFAULT true,
    floor    bigint      NOT NULL DEFAULT 0,
    saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT position_pkey PRIMARY KEY (one),
    CONSTRAINT position_one CHECK (one),
    CONSTRAINT position_floor_not_negative CHECK (floor >= 0)
);
COMMENT ON TABLE outbox.position IS 'How far the relay has come. One row.';
COMMENT ON COLUMN outbox.position.one IS 'Always true.';
COMMENT ON COLUMN outbox.position.floor IS 'Every id up to it is settled, or covered by a row of outbox.behind.';
COMMENT ON COLUMN outbox.position.saved_at IS 'When it was saved.';

CREATE TABLE outbox.behind (
    topic      text        NOT NULL,
    partition  integer     NOT NULL,
    key_hash   bigint      NOT NULL DEFAULT 0,
    first_id   bigint      NOT NULL,
    attempts   integer     NOT NULL DEFAULT 0,
    next_try   timestamptz,
    held       boolean     NOT NULL DEFAULT false,
    error      text,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT behind_pkey PRIMARY KEY (topic, partition, key_hash),
    CONSTRAINT behind_first_id_positive CHECK (first_id > 0),
    CONSTRAINT behind_attempts_not_negative CHECK (attempts >= 0)
);
COMMENT ON TABLE outbox.behind IS 'What the reading passed by: a partition, a whole topic or a key that could not keep up. One row, however many events it covers.';
COMMENT ON COLUMN outbox.behind.topic IS 'Kafka topic.';
COMMENT ON COLUMN outbox.behind.partition IS 'Partition; -1: all of the topic; -2: events whose own partition does not exist.';
COMMENT ON COLUMN outbox.behind.key_hash IS 'FNV-1a of topic, a zero byte and key; 0: not one key only.';
COMMENT ON COLUMN outbox.behind.first_id IS 'The first of its events that is not settled.';
COMMENT ON COLUMN outbox.behind.attempts IS 'How often its first event failed alone.';
COMMENT ON COLUMN outbox.behind.next_try IS 'When it is tried again.';
COMMENT ON COLUMN outbox.behind.held IS 'Not tried again until somebody says so.';
COMMENT ON COLUMN outbox.behind.error IS 'Why it failed last.';
COMMENT ON COLUMN outbox.behind.changed_at IS 'When this row was written.';

CREATE TABLE outbox.topic (
    topic      text        NOT NULL,
    partitions integer     NOT NULL,
    pinned_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT topic_pkey PRIMARY KEY (topic),
    CONSTRAINT topic_partitions_positive CHECK (partitions > 0)
);
COMMENT ON TABLE outbox.topic IS 'Pinned partition counts: a key keeps its partition when partitions are added to a topic.';
COMMENT ON COLUMN outbox.topic.topic IS 'Kafka topic.';
COMMENT ON COLUMN outbox.topic.partitions IS 'The count that keys are placed by.';
COMMENT ON COLUMN outbox.topic.pinned_at IS 'When the relay first saw the topic.';

CREATE TABLE outbox.progress (
    sampled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    floor      bigint      NOT NULL,
    CONSTRAINT progress_pkey PRIMARY KEY (sampled_at)
);
COMMENT ON TABLE outbox.progress IS 'Samples of the floor, so that the age of an id is known without reading it (for retention, in a later version).';
COMMENT ON COLUMN outbox.progress.sampled_at IS 'When.';
COMMENT ON COLUMN outbox.progress.floor IS 'outbox.position.floor then.';

CREATE TABLE outbox.meta (
    one               boolean     NOT NULL DEFAULT true,
    major             integer     NOT NULL,
    minor             integer     NOT NULL,
    migrated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    system_identifier bigint,
    kafka_cluster_id  text,
    CONSTRAINT meta_pkey PRIMARY KEY (one),
    CONSTRAINT meta_one CHECK (one)
);
COMMENT ON TABLE outbox.meta IS 'What this schema is. One row.';
COMMENT ON COLUMN outbox.meta.one IS 'Always true.';
COMMENT ON COLUMN outbox.meta.major IS 'A relay works with its own major version only.';
COMMENT ON COLUMN outbox.meta.minor IS 'A relay works with its own minor version and every later one: they only add.';
COMMENT ON COLUMN outbox.meta.migrated_at IS 'When it came to this version.';
COMMENT ON COLUMN outbox.meta.system_identifier IS 'Of the PostgreSQL cluster that the relay last published from (in a later version).';
COMMENT ON COLUMN outbox.meta.kafka_cluster_id IS 'Of the Kafka cluster that the relay last published to (in a later version).';

INSERT INTO outbox.lease DEFAULT VALUES;
INSERT INTO outbox.beat DEFAULT VALUES;
INSERT INTO outbox.position DEFAULT VALUES;
