-- outbox-relay schema 1.0
-- SPDX-License-Identifier: BSD-2-Clause
-- Three roles to grant to those who log in. They belong to the whole cluster, so they may exist already.

DO $$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['outbox_writer', 'outbox_relay', 'outbox_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- the migration of another database of this cluster was faster
            END;
        END IF;
    END LOOP;
END $$;

REVOKE ALL ON ALL TABLES IN SCHEMA outbox FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA outbox FROM PUBLIC;
GRANT USAGE ON SCHEMA outbox TO outbox_writer, outbox_relay, outbox_reader;

-- Writers: insert and publish. Not the id, not the sequence, not sent_at; SELECT of what RETURNING gives back.
GRANT INSERT (event_id, topic, key, payload, headers, partition, created_at) ON outbox.event TO outbox_writer;
GRANT SELECT (id, event_id) ON outbox.event TO outbox_writer;
GRANT EXECUTE ON FUNCTION outbox.publish(text, text, bytea, jsonb, uuid) TO outbox_writer;

-- The relay: it reads and marks events and keeps its own state; it can neither insert nor change an event.
GRANT SELECT, UPDATE (sent_at), DELETE ON outbox.event TO outbox_relay;
GRANT SELECT ON SEQUENCE outbox.event_id_seq TO outbox_relay;
GRANT SELECT, UPDATE ON outbox.lease, outbox.beat TO outbox_relay;
GRANT SELECT, INSERT, UPDATE ON outbox.incarnation, outbox.position, outbox.topic TO outbox_relay;
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox.behind TO outbox_relay;
GRANT SELECT, INSERT, DELETE ON outbox.progress TO outbox_relay;
GRANT SELECT, UPDATE (system_identifier, kafka_cluster_id) ON outbox.meta TO outbox_relay;
GRANT EXECUTE ON FUNCTION outbox.take(uuid, uuid, text, integer, regclass, bigint), outbox.beat(uuid, integer, regclass), outbox.release(uuid),
    outbox.save(uuid, bigint, text[], integer[], bigint[], bigint[], integer[], boolean[]), outbox.require_read_committed() TO outbox_relay;

-- Readers: look at everything, change nothing.
GRANT SELECT ON ALL TABLES IN SCHEMA outbox TO outbox_reader;
GRANT SELECT ON SEQUENCE outbox.event_id_seq TO outbox_reader;
