-- SPDX-License-Identifier: BSD-2-Clause
-- The tables of the order service: orders, the keys of requests, refunds. It may be run again.
CREATE SCHEMA IF NOT EXISTS shop;

CREATE TABLE IF NOT EXISTS shop.orders (
    id             uuid        NOT NULL PRIMARY KEY,
    client_id      text        NOT NULL,
    reference      text,
    customer       text        NOT NULL,
    address        text        NOT NULL,
    amount_cents   bigint      NOT NULL CHECK (amount_cents > 0),
    refunded_cents bigint      NOT NULL DEFAULT 0 CHECK (refunded_cents BETWEEN 0 AND amount_cents),
    status         text        NOT NULL DEFAULT 'placed' CHECK (status IN ('placed', 'cancelled')),
    version        bigint      NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN shop.orders.client_id IS 'Who placed it: the scope of the key.';
COMMENT ON COLUMN shop.orders.reference IS 'The client''s own name of what it wanted: two orders of one reference are one intent carried out twice.';
COMMENT ON COLUMN shop.orders.version IS '1, 2, 3...: one more with every change, and every change has one event.';

-- What a state means, and what is stored in it, is told in order_service/keys.h.
CREATE TABLE IF NOT EXISTS shop.idempotency_keys (
    scope            text        NOT NULL,
    key              text        NOT NULL,
    fingerprint      bytea       NOT NULL,
    status           text        NOT NULL CHECK (status IN ('IN_PROGRESS', 'COMPLETED', 'FAILED')),
    recovery_point   text,
    lock_token       bigint      NOT NULL DEFAULT 1,
    locked_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    locked_by        text        NOT NULL,
    refund_id        uuid,
    event_id         uuid,
    response_code    integer,
    response_headers jsonb,
    response_body    bytea,
    created_at       timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    expires_at       timestamptz NOT NULL,
    PRIMARY KEY (scope, key),
    CHECK ((status = 'IN_PROGRESS') = (response_code IS NULL))
);
CREATE INDEX IF NOT EXISTS idempotency_keys_expires_at ON shop.idempotency_keys (expires_at) WHERE status <> 'IN_PROGRESS';
CREATE INDEX IF NOT EXISTS idempotency_keys_in_progress ON shop.idempotency_keys (locked_at) WHERE status = 'IN_PROGRESS';
COMMENT ON COLUMN shop.idempotency_keys.scope IS 'Who made the key: two clients may choose the same.';
COMMENT ON COLUMN shop.idempotency_keys.fingerprint IS 'What was asked for under it (order_service/fingerprint.h).';
COMMENT ON COLUMN shop.idempotency_keys.recovery_point IS 'Of one in progress: the last step that is known to be done.';
COMMENT ON COLUMN shop.idempotency_keys.lock_token IS 'Counts who worked on it: whoever was taken over cannot write any more.';
COMMENT ON COLUMN shop.idempotency_keys.event_id IS 'Identity of the event that the request writes; derived once, read ever after.';
COMMENT ON COLUMN shop.idempotency_keys.created_at IS 'In whole milliseconds: they are a part of event_id.';

CREATE TABLE IF NOT EXISTS shop.refunds (
    id           uuid        NOT NULL PRIMARY KEY,
    order_id     uuid        NOT NULL REFERENCES shop.orders,
    amount_cents bigint      NOT NULL CHECK (amount_cents > 0),
    state        text        NOT NULL CHECK (state IN ('IN_PROGRESS', 'COMPLETED', 'FAILED')),
    card_key     uuid        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at  timestamptz
);
CREATE INDEX IF NOT EXISTS refunds_order_id ON shop.refunds (order_id, created_at);
COMMENT ON COLUMN shop.refunds.card_key IS 'The key under which the card processor is asked: derived from the client''s.';

-- What each order should have moved in sum: the ledgers of the consumers are compared with it.
CREATE OR REPLACE VIEW shop.intended AS
    SELECT id AS order_id, CASE WHEN status = 'placed' THEN amount_cents - refunded_cents ELSE 0 END AS cents FROM shop.orders;
