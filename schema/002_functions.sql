-- outbox-relay schema 1.0
-- SPDX-License-Identifier: BSD-2-Clause
-- The functions. Each is one statement to its caller, so each works behind a transaction pooler. All that write the relay's state take
-- their row locks in one order: lease, beat, incarnation, position, behind.

-- For services that have no lock of their own to write under. The lock is taken in a statement before the INSERT: ids of one key are
-- then drawn in the order in which their transactions commit. Never draw the id (nextval) before the INSERT: the relay recognises
-- writers by the lock that the INSERT takes on the table, and would lose the event.
CREATE FUNCTION outbox.publish(topic text, key text, payload bytea, headers jsonb DEFAULT NULL, event_id uuid DEFAULT gen_random_uuid())
RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new_id bigint;
BEGIN
    IF publish.key IS NOT NULL THEN
        -- 1 024 locks at most in one transaction, however many keys it writes: the lock table is bounded.
        PERFORM pg_advisory_xact_lock(hashtext('outbox.publish'), (hashtextextended(publish.topic || ' ' || publish.key, 0) & 1023)::integer);
    END IF;
    INSERT INTO outbox.event AS e (event_id, topic, key, payload, headers)
        VALUES (publish.event_id, publish.topic, publish.key, publish.payload, publish.headers)
        RETURNING e.id INTO new_id;
    RETURN new_id;
END $$;
COMMENT ON FUNCTION outbox.publish(text, text, bytea, jsonb, uuid) IS 'Write an event, in key order without a lock of the caller''s own; returns its id.';

-- Events of a truncated table must not be taken for those that get their ids next.
CREATE FUNCTION outbox.event_truncated() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Another token, not none: none means that the server has crashed.
    UPDATE outbox.incarnation SET token = '00000000-0000-0000-0000-000000000000';
    -- Always a change of the row that every save changes: in a stricter isolation level than READ COMMITTED it fails, where the DELETE
    -- below would quietly miss what a save has just written.
    UPDATE outbox.position SET floor = 0, saved_at = clock_timestamp();
    DELETE FROM outbox.behind;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION outbox.event_truncated() IS 'TRUNCATE outbox.event: the relay starts over.';
CREATE TRIGGER event_truncated AFTER TRUNCATE ON outbox.event FOR EACH STATEMENT EXECUTE FUNCTION outbox.event_truncated();
COMMENT ON TRIGGER event_truncated ON outbox.event IS 'Ids may be given out again after a TRUNCATE: the relay starts over.';

-- Where a row belongs decides who reads it. One that waits is found again by its topic and partition only, one that is in the relay's hands
-- goes where it was to go: a change would lose it or its order. For each statement, so that a mark pays nothing for it.
CREATE FUNCTION outbox.event_moved() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'outbox: topic, key and partition of an event cannot be changed, the relay would not find it again'
        USING ERRCODE = 'integrity_constraint_violation', HINT = 'DELETE the row, and INSERT it again with the same event_id.';
END $$;
COMMENT ON FUNCTION outbox.event_moved() IS 'An event that waits is found by its topic, key and partition.';
CREATE TRIGGER event_moved BEFORE UPDATE OF topic, key, partition ON outbox.event FOR EACH STATEMENT EXECUTE FUNCTION outbox.event_moved();
COMMENT ON TRIGGER event_moved ON outbox.event IS 'DELETE the row and INSERT it again instead.';

CREATE FUNCTION outbox.require_read_committed() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'outbox: needs READ COMMITTED, this transaction is %', upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
END $$;
COMMENT ON FUNCTION outbox.require_read_committed() IS 'An older snapshot would not see what the last holder of the lease saved.';

-- The grant of the lease and the reading of the saved state in one call. What was saved is read by statements begun after the lease
-- row was locked: the last holder's save committed before, or will be refused.
-- One row, and one more for each record of outbox.behind (then topic is not NULL).
-- `silent_beat`: a beat that the caller has seen for longer than it promised, by a clock of its own; 0: none. Its sender is dead, though the
-- clock of this server, set back meanwhile, may say for long that its time is not over.
CREATE FUNCTION outbox.take(new_token uuid, new_process uuid, new_holder text, ttl_ms integer, sequence regclass, silent_beat bigint)
RETURNS TABLE (granted boolean, holder text, floor bigint, last_id bigint, floor_reset boolean,
    topic text, partition integer, key_hash bigint, first_id bigint, attempts integer, held boolean, incarnation_lost boolean, beat bigint, beat_ttl_ms bigint)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    last_process uuid;
BEGIN
    PERFORM outbox.require_read_committed();
    -- A standby that is missing must not stop publishing. Not a SET clause of the function: that would be undone before the commit.
    PERFORM set_config('synchronous_commit', 'local', true);

    -- First a look without a lock: relays that wait must not hold up the holder's saves.
    granted := false;
    SELECT l.holder, (extract(epoch FROM b.beat_at) * 1000000)::bigint, (extract(epoch FROM b.expires_at - b.beat_at) * 1000)::bigint
        INTO take.holder, take.beat, take.beat_ttl_ms FROM outbox.lease l, outbox.beat b
        WHERE l.one AND b.one AND b.token IS NOT NULL AND b.expires_at > clock_timestamp() AND l.process IS DISTINCT FROM new_process;
    IF FOUND AND take.beat <> silent_beat THEN
        RETURN NEXT;
        RETURN;
    END IF;

    SELECT l.holder, l.process INTO take.holder, last_process FROM outbox.lease l WHERE l.one FOR UPDATE;
    UPDATE outbox.beat SET token = new_token, beat_at = clock_timestamp(), expires_at = clock_timestamp() + ttl_ms * interval '1 ms'
        WHERE one AND (token IS NULL OR expires_at <= clock_timestamp() OR last_process = new_process
            OR (extract(epoch FROM beat_at) * 1000000)::bigint = silent_beat);
    IF NOT FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    UPDATE outbox.lease SET token = new_token, process = new_process, holder = new_holder, epoch = epoch + 1, granted_at = clock_timestamp()
        WHERE one;
    incarnation_lost := NOT EXISTS (SELECT FROM outbox.incarnation);
    INSERT INTO outbox.incarnation AS i (one, token) VALUES (true, new_token) ON CONFLICT (one) DO UPDATE SET token = excluded.token;
    INSERT INTO outbox.position (one) VALUES (true) ON CONFLICT (one) DO NOTHING;

    granted := true;
    take.holder := new_holder;
    SELECT p.floor INTO take.floor FROM outbox.position p WHERE p.one;
    last_id := coalesce(pg_sequence_last_value(sequence), 0);
    floor_reset := last_id < take.floor;
    IF floor_reset THEN
        take.floor := 0;
        UPDATE outbox.position SET floor = 0, saved_at = clock_timestamp() WHERE one;
        DELETE FROM outbox.behind;
    END IF;
    RETURN NEXT;
    FOR topic, partition, key_hash, first_id, attempts, held IN
        SELECT b.topic, b.partition, b.key_hash, b.first_id, b.attempts, b.held FROM outbox.behind b
    LOOP
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION outbox.take(uuid, uuid, text, integer, regclass, bigint) IS 'For the relay: take the lease if it is free, has run out or is this process''s own; and read the saved state.';

CREATE FUNCTION outbox.beat(my_token uuid, ttl_ms integer, sequence regclass)
RETURNS TABLE (held boolean, token uuid, last_id bigint)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('synchronous_commit', 'local', true);
    UPDATE outbox.beat SET beat_at = clock_timestamp(), expires_at = clock_timestamp() + ttl_ms * interval '1 ms'
        WHERE one AND token = my_token;
    held := FOUND;
    SELECT i.token INTO beat.token FROM outbox.incarnation i WHERE i.one;
    last_id := coalesce(pg_sequence_last_value(sequence), 0);
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION outbox.beat(uuid, integer, regclass) IS 'For the relay: keep the lease.';

CREATE FUNCTION outbox.release(my_token uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'local', true);
    UPDATE outbox.lease SET token = NULL, process = NULL, holder = '' WHERE one AND token = my_token;
    UPDATE outbox.beat SET token = NULL, expires_at = '-infinity' WHERE one AND token = my_token;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION outbox.release(uuid) IS 'For the relay: let the lease go.';

-- Fenced twice. The lease row is locked, so this commits before the next grant reads what was saved, or not at all. The row of
-- incarnation says that the server has not crashed since the grant (the lease row survives a crash); it is locked too, against TRUNCATE.
CREATE FUNCTION outbox.save(my_token uuid, new_floor bigint, topics text[], partitions integer[], key_hashes bigint[], first_ids bigint[],
    attempts integer[], helds boolean[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM outbox.require_read_committed();
    PERFORM set_config('synchronous_commit', 'local', true);
    PERFORM FROM outbox.lease l WHERE l.one AND l.token = my_token FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM outbox.incarnation i WHERE i.one AND i.token = my_token FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE outbox.position SET floor = new_floor, saved_at = clock_timestamp() WHERE one;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF cardinality(topics) > 0 THEN
        DELETE FROM outbox.behind b USING unnest(topics, partitions, key_hashes, first_ids) c (topic, partition, key_hash, first_id)
            WHERE c.first_id = 0 AND b.topic = c.topic AND b.partition = c.partition AND b.key_hash = c.key_hash;
        INSERT INTO outbox.behind AS b (topic, partition, key_hash, first_id, attempts, held)
            SELECT c.topic, c.partition, c.key_hash, c.first_id, c.attempts, c.held
            FROM unnest(topics, partitions, key_hashes, first_ids, save.attempts, helds) c (topic, partition, key_hash, first_id, attempts, held)
            WHERE c.first_id > 0
            ON CONFLICT (topic, partition, key_hash) DO UPDATE
            SET first_id = excluded.first_id, attempts = excluded.attempts, held = excluded.held, changed_at = clock_timestamp();
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION outbox.save(uuid, bigint, text[], integer[], bigint[], bigint[], integer[], boolean[]) IS 'For the relay: save the floor and what changed in outbox.behind (first_id 0: delete); false: fenced, nothing was saved.';
