/* SPDX-License-Identifier: BSD-2-Clause */
/* The order service: what each request is answered. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/demo/service_rig.h"
#include "tests/lib/test.h"

TEST(demo_service_places_an_order_and_repeats_its_response)
{
    struct service_rig rig = SERVICE_START("--threads", "2");
    struct wire_answer first = service_post(&rig, "/orders", "a-key", SERVICE_ORDER), again;

    CHECK_EQ(first.status, 201);
    CHECK(strstr(first.body, "\"customer\":\"Ada\""));
    CHECK_STR(wire_header(&first, "ETag"), "\"1\"");
    CHECK_STR(wire_header(&first, "Idempotent-Replayed"), NULL);
    /* The same request in other bytes: blanks, order, a quoted key. */
    again = service_post(&rig, "/orders", "\"a-key\"", "{ \"amount_cents\": 1000, \"address\":\"1 Main St\", \"customer\":\"\\u0041da\"}");
    CHECK_EQ(again.status, 201);
    CHECK_STR(again.body, first.body);
    CHECK_STR(wire_header(&again, "Location"), wire_header(&first, "Location"));
    CHECK_STR(wire_header(&again, "ETag"), "\"1\"");
    CHECK_STR(wire_header(&again, "Content-Type"), wire_header(&first, "Content-Type"));
    CHECK_STR(wire_header(&again, "Idempotent-Replayed"), "true");
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM shop.orders"), 1);
    CHECK_EQ(service_number(&rig, "SELECT count(*) FROM outbox.event"), 1);
    CHECK_STR(postgres_query(rig.db.conninfo, "SELECT topic, headers->>'type', headers->>'client-id', headers->>'idempotency-key', "
                                              "key = (SELECT id::text FROM shop.orders) FROM outbox.event"),
              "orders\torder-placed\tanonymous\ta-key\tt");
    service_check_keys(&rig);
    process_signal(&rig.server, SIGTERM);
    CHECK_EQ(process_wait(&rig.server, 20), 0);
}
