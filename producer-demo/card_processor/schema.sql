-- SPDX-License-Identifier: BSD-2-Clause
-- What the card processor keeps. It lies in the demo's one database only to keep the demo small, and so that the drift is one SQL query:
-- it stands for somebody else's system, with which we share no transaction. Nothing but the card processor writes here.
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('card schema'));
CREATE SCHEMA IF NOT EXISTS card;

-- Money that moved: charges are positive, refunds negative. Nothing here forbids a second movement under one key: that is what the table
-- below is for, and what is missing with --ignore-keys.
CREATE TABLE IF NOT EXISTS card.movement (
    id uuid PRIMARY KEY,
    scope text NOT NULL, -- the caller; two callers may use the same key
    key text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('charge', 'refund')),
    order_id uuid NOT NULL,
    cents bigint NOT NULL CHECK ((kind = 'charge') = (cents > 0) AND cents <> 0),
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS movement_key ON card.movement (scope, key);

-- One row for each key that was used, and the movement it stands for. Inserted in the statement that makes the movement.
CREATE TABLE IF NOT EXISTS card.key (
    scope text NOT NULL,
    key text NOT NULL,
    movement_id uuid NOT NULL REFERENCES card.movement DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (scope, key)
);
COMMIT;
