-- outbox-relay schema 1.1
-- SPDX-License-Identifier: BSD-2-Clause
-- The relay may see since when a transaction is idle: one that was forgotten holds up what it had drawn, and no more. Whoever migrates may not
-- have the right to grant this; then nothing is lost, and `outbox-relay check` says what a forgotten transaction costs.

DO $$
BEGIN
    IF NOT pg_catalog.pg_has_role('outbox_relay', 'pg_read_all_stats', 'MEMBER') THEN
        GRANT pg_read_all_stats TO outbox_relay;
    END IF;
EXCEPTION WHEN insufficient_privilege OR unique_violation OR internal_error THEN
    NULL; -- may not; or the migration of another database of this cluster was faster
END $$;
