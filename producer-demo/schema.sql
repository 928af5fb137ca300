-- SPDX-License-Identifier: BSD-2-Clause
-- The tables of the demo's service (orders, history) and of its consumer (applied, order_totals). Both services share a database here
-- only to keep the demo small. Running this again changes nothing.

CREATE SCHEMA IF NOT EXISTS demo;

-- The service's aggregate. Its row lock is what the writer contract asks for: it is taken before the event's id is drawn.
CREATE TABLE IF NOT EXISTS demo.orders (
    id          int PRIMARY KEY,
    version     bigint NOT NULL DEFAULT 0,
    total_cents bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- What really happened: one line an event, written in the transaction of the event. Nobody needs this but the oracle and a writer that
-- lost its connection in the middle of a COMMIT and wants to know how it ended.
CREATE TABLE IF NOT EXISTS demo.history (
    event_id     uuid PRIMARY KEY,
    topic        text NOT NULL,
    key          text,
    version      bigint NOT NULL,   -- 1, 2, 3, ... for each (topic, key)
    payload_hash bigint             -- FNV-1a, 64 bits
);

-- The consumer's memory: an event whose id is here has had its effect.
CREATE TABLE IF NOT EXISTS demo.applied (
    event_id uuid PRIMARY KEY
);

-- The consumer's effect.
CREATE TABLE IF NOT EXISTS demo.order_totals (
    order_key   text PRIMARY KEY,
    events      bigint NOT NULL,
    total_cents bigint NOT NULL
) WITH (fillfactor = 50);
