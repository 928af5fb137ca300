/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/demo/shop_rig.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

static void card_start(struct shop_rig *rig)
{
    const char *flags[] = {"--database", rig->postgres.conninfo, NULL};

    rig->card = program_serve("card-processor", flags);
}

/* Its leases are short, so that a test need not wait long for what a dead service left in progress. */
static void service_start(struct shop_rig *rig, const char *fault)
{
    const char *flags[] = {
        "--database", rig->postgres.conninfo,   "--migrate", "--card-url", rig->card.url, "--lease-ms", "1000", "--card-ms",
        "400",        fault ? "--fault" : NULL, fault,       NULL};

    rig->service = program_serve("order-service", flags);
}

struct shop_rig *shop_start(const char *fault)
{
    struct shop_rig *rig = test_allocate(sizeof *rig);

    rig->postgres = postgres_start("fsync = off");
    postgres_migrate(&rig->postgres);
    card_start(rig);
    service_start(rig, fault);
    return rig;
}

static void revive(struct program *program)
{
    if (process_running(&program->process)) {
        process_signal(&program->process, SIGKILL);
        (void)process_wait(&program->process, 20);
    }
    for (const char **argument = program->arguments; *argument; argument++)
        if (strcmp(*argument, "--fault") == 0) {
            program_forget(program, "--fault");
            break;
        }
    program_restart(program);
}

void shop_service_revive(struct shop_rig *rig)
{
    revive(&rig->service);
}

void shop_card_revive(struct shop_rig *rig)
{
    revive(&rig->card);
}

struct program shop_client(const struct shop_rig *rig, const char *name, int orders, const char *const *more)
{
    const char *flags[30] = {"--url",
                             rig->service.url,
                             "--journal",
                             program_text("%s/%s.journal", temp_folder(), name),
                             "--orders",
                             program_text("%d", orders),
                             "--client-id",
                             name,
                             "--refunds",
                             "50",
                             "--cancel",
                             "20",
                             "--move",
                             "30",
                             "--backoff-ms",
                             "5",
                             "--backoff-cap-ms",
                             "300",
                             "--give-up-ms",
                             "60000"};
    int n = 18;

    for (; more && *more; more++)
        flags[n++] = *more;
    return program_run("order-client", flags);
}

long shop_client_counted(const struct program *client, const char *name)
{
    const char *line = strstr(process_output(&client->process), "order-client: intents"), *found;

    CHECK(line);
    found = strstr(line, program_text(" %s ", name));
    CHECK(found);
    return strtol(found + strlen(name) + 2, NULL, 10);
}

/* --- what must be true -------------------------------------------------------------------------------------------- */

/* Names of what is wrong, and how to count it: every count must be 0. */
static const struct {
    const char *wrong, *count;
} laws[] = {
    {"orders whose reference another order has", "SELECT count(*) - count(DISTINCT reference) FROM shop.orders"},
    {"orders without exactly one order-placed",
     "SELECT count(*) FROM shop.orders o WHERE 1 <> (SELECT count(*) FROM outbox.event WHERE key = o.id::text AND headers->>'type' = "
     "'order-placed')"},
    {"orders with another number of events than their version",
     "SELECT count(*) FROM shop.orders o WHERE version <> (SELECT count(*) FROM outbox.event WHERE key = o.id::text)"},
    {"orders with a hole in the versions of their events",
     "SELECT count(*) FROM shop.orders o WHERE version <> (SELECT count(DISTINCT convert_from(payload, 'UTF8')::jsonb->>'version') FROM "
     "outbox.event WHERE key = o.id::text)"},
    {"events that are not in the order of their versions",
     "SELECT count(*) FROM (SELECT (convert_from(payload, 'UTF8')::jsonb->>'version')::bigint AS version, row_number() OVER (PARTITION BY "
     "key ORDER BY id) AS n FROM outbox.event) e WHERE version <> n"},
    {"orders whose events do not sum up to what was intended",
     "SELECT count(*) FROM shop.intended i WHERE cents <> (SELECT sum((convert_from(payload, 'UTF8')::jsonb->>'delta_cents')::bigint) "
     "FROM outbox.event WHERE key = i.order_id::text)"},
    {"events of no order", "SELECT count(*) FROM outbox.event WHERE key NOT IN (SELECT id::text FROM shop.orders)"},
    {"refunds without an end", "SELECT count(*) FROM shop.refunds WHERE state = 'IN_PROGRESS'"},
    {"keys in progress", "SELECT count(*) FROM shop.idempotency_keys WHERE status = 'IN_PROGRESS'"},
    {"movements that no refund wanted, or refunds without one", "SELECT count(*) FROM (SELECT order_id, -cents AS cents FROM card.movement "
                                                                "WHERE scope = 'order-service') m FULL JOIN (SELECT order_id, "
                                                                "amount_cents AS cents FROM shop.refunds WHERE state = 'COMPLETED') r "
                                                                "USING (order_id, cents) WHERE m.cents IS NULL OR r.cents IS NULL"},
    {"cents by which the card processor gave back more than the orders say",
     "SELECT abs((SELECT coalesce(-sum(cents), 0) FROM card.movement WHERE scope = 'order-service') - (SELECT sum(refunded_cents) FROM "
     "shop.orders))"},
};

void shop_check(const struct shop_rig *rig, int orders)
{
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        int64_t n = postgres_number(rig->postgres.conninfo, "%s", laws[i].count);

        if (n != 0)
            test_fail(__FILE__, __LINE__, "%lld %s", (long long)n, laws[i].wrong);
    }
    CHECK_EQ(postgres_number(rig->postgres.conninfo, "SELECT count(*) FROM shop.orders"), orders);
}
