/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests made up from the description of the API, for `make schemathesis`: its name keeps it out of the other demo tests, which need no
 * Python. */
#include <stddef.h>

#include "tests/demo/program.h"
#include "tests/lib/test.h"

TEST_WITHIN(schemathesis_finds_nothing, 3000)
{
    struct postgres db = postgres_start(NULL);
    struct program card, service;

    postgres_migrate(&db);
    card = program_serve("card-processor", (const char *const[]){"--database", db.conninfo, NULL});
    service = program_serve("order-service", (const char *const[]){"--migrate", "--database", db.conninfo, "--card-url", card.url, NULL});
    process_run((const char *const[]){TEST_SOURCE_FOLDER "/tests/schemathesis/run.sh", service.url,
                                      TEST_SOURCE_FOLDER "/build/schemathesis/report", NULL},
                NULL, (struct process_options){0}, 2900);
    CHECK(postgres_number(db.conninfo, "SELECT count(*) FROM shop.orders") > 0);
    CHECK(postgres_number(db.conninfo, "SELECT count(*) FROM card.movement") > 0);
    CHECK_EQ(postgres_number(db.conninfo, "SELECT count(*) FROM shop.idempotency_keys WHERE status = 'COMPLETED'"),
             postgres_number(db.conninfo, "SELECT count(*) FROM outbox.event WHERE headers ? 'idempotency-key'"));
}
